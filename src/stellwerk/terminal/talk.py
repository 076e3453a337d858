"""A talk: one conversation with one agent, run by run. It drives, asks and stops; how it looks is the view's."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from typing import Any

from stellwerk.agents.runnable import RunnableAgent
from stellwerk.envelope.model import AskUser, Envelope, LlmEnd, RunEnd, RunStart, StopRequest
from stellwerk.envelope.payloads import RunEnded, StopAsked, Usage
from stellwerk.ids import Clock, digest_id
from stellwerk.spec.chat import ChatMessage
from stellwerk.stream.calls import OpenCalls
from stellwerk.terminal.asking import Asker
from stellwerk.terminal.views import View


class Talk:
    def __init__(self, agent: RunnableAgent, session_id: str, view: View, asker: Asker, clock: Clock) -> None:
        self._agent, self._session_id, self._view, self._asker, self._clock = agent, session_id, view, asker, clock
        self._history: list[Envelope] = []
        self._reading: asyncio.Task[None] | None = None

    async def turn(self, text: str) -> RunEnded:
        """A message and, after every question, the answers to it; until there is an end, or nobody answers.

        An error that the agent did not foresee is raised behind the end of its run.
        """
        ended = await self._run(messages=[ChatMessage(content=text)])
        while ended.status == "awaiting_user":
            answers = await self._asker.answers(self._asked())
            if answers is None:
                break
            ended = await self._run(answers=answers)
        return ended

    def stop(self) -> bool:
        """Stop the run that is under way; False if there is none."""
        if self._reading is None or self._reading.done():
            return False
        self._reading.cancel()
        return True

    async def _run(self, **request: Any) -> RunEnded:
        before = len(self._history)
        run = self._agent.envelopes(**request, session_id=self._session_id, history=list(self._history))
        self._reading = asyncio.create_task(self._read(run))
        await asyncio.wait([self._reading])
        if not self._reading.cancelled():
            self._reading.result()
        elif len(self._history) == before:
            return RunEnded(status="stopped")
        elif not isinstance(self._history[-1], RunEnd):  # else it had just ended by itself
            for envelope in stopping(self._history, self._clock.now()):
                self._take(envelope)
        end = self._history[-1]
        assert isinstance(end, RunEnd)  # it is always a run's last word
        return end.payload

    async def _read(self, run: Any) -> None:
        async with aclosing(run):  # if nobody can be shown anything any more, it ends here and not some time later
            async for envelope in run:
                self._take(envelope)

    def _take(self, envelope: Envelope) -> None:
        self._history.append(envelope)
        self._view.feed(len(self._history), envelope)

    def _asked(self) -> list[AskUser]:
        """The questions of the last run."""
        run_id = self._history[-1].run_id
        return [e for e in self._history if isinstance(e, AskUser) and e.run_id == run_id]


def stopping(history: Sequence[Envelope], now: float) -> Iterator[Envelope]:
    """The last envelopes of a run that the user stops: that he did, ends for what is open, and the run's own."""
    calls = OpenCalls()
    for envelope in history:
        calls.feed(envelope)
    start = next(e for e in reversed(history) if isinstance(e, RunStart))
    run_id = start.call_id
    place: dict[str, Any] = {"ts": now, "trace_id": start.trace_id, "run_id": run_id, "seq": 0}
    asked = StopRequest(
        **place, parent_id=run_id, call_id=digest_id("stop", run_id), payload=StopAsked(by="user", reason="Ctrl-C")
    )
    ended = RunEnded(status="stopped", usage=_used(history, run_id))
    end = RunEnd(**place, parent_id=None, call_id=run_id, payload=ended)
    for envelope in (asked, *calls.closing(ts=now, run_id=run_id), end):
        yield calls.stamp(envelope)


def _used(history: Sequence[Envelope], run_id: str) -> list[Usage]:
    totals: dict[str, tuple[int, int]] = {}
    for envelope in history:
        if isinstance(envelope, LlmEnd) and envelope.run_id == run_id and (used := envelope.payload.usage):
            read, written = totals.get(used.model, (0, 0))
            totals[used.model] = (read + used.input_tokens, written + used.output_tokens)
    return [Usage(model=model, input_tokens=read, output_tokens=out) for model, (read, out) in totals.items()]
