"""One run of an agent without a server: everything the log would hold, as it happens."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stellwerk.agents.turn import Turn
from stellwerk.envelope.model import AskUser, Envelope, Message, RunStart, UserAnswer
from stellwerk.envelope.payloads import Answered, Problem, RunStarted, Said, TextPart
from stellwerk.errors import InvalidInput, StellwerkError
from stellwerk.ids import SortableIds, SystemClock, digest_id
from stellwerk.spec.chat import ChatMessage
from stellwerk.stream.adapter import StreamAdapter
from stellwerk.stream.calls import OpenCalls
from stellwerk.stream.endings import ending
from stellwerk.stream.facts import Fact
from stellwerk.views.answering import check_answer, resume_value

if TYPE_CHECKING:
    from stellwerk.agents.runnable import RunnableAgent


Answer = str | dict[str, Any] | Answered
"""To a question: text, data, or the whole form."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a run is to do: answer the last of some messages, or go on with the answers to its questions."""

    session_id: str | None
    messages: Sequence[ChatMessage] = ()
    answers: Mapping[str, Answer] = field(default_factory=dict)
    history: Sequence[Envelope] = ()
    """All that was told of the conversation so far, if it is to go on."""


async def told(agent: "RunnableAgent", request: Request) -> AsyncIterator[Envelope]:
    """The run, envelope by envelope. Whoever stops reading stops the run."""
    story = _Story(agent.name, request)
    ready: asyncio.Queue[Envelope | None] = asyncio.Queue()
    driver = asyncio.create_task(story.play(agent, ready.put_nowait))
    driver.add_done_callback(lambda _: ready.put_nowait(None))
    try:
        while (envelope := await ready.get()) is not None:
            yield envelope
        await driver
    finally:
        driver.cancel()
        await asyncio.wait([driver])
        if request.session_id is None:
            await agent.forget(story.session_id)


class _Story:
    def __init__(self, agent: str, request: Request) -> None:
        self._clock = SystemClock()
        ids = SortableIds(self._clock)
        self._request, self._run_id, self._message_id = request, ids.new(), ids.new()
        self.session_id = request.session_id or ids.new()
        self._answers = {ask_id: _answered(ask_id, answer) for ask_id, answer in request.answers.items()}
        before = [e for e in request.history if isinstance(e, RunStart)]
        self._round = 1 + len(before)
        self._trace = (before[-1].trace_id or self._run_id) if request.answers and before else self._run_id
        self._adapter = StreamAdapter(trace_id=self._trace, run_id=self._run_id, agent=agent)
        self._calls = OpenCalls()
        for envelope in request.history:
            self._calls.feed(envelope)
        if request.answers:
            self._adapter.seed(e for e in request.history if e.trace_id == self._trace)

    async def play(self, agent: "RunnableAgent", show: Any) -> None:
        def stamped(envelopes: Iterable[Envelope]) -> None:
            for envelope in envelopes:
                show(self._calls.stamp(envelope))

        def tell(fact: Fact) -> None:
            stamped(self._adapter.feed(fact))

        turn = self._turn()
        stamped(self._beginning(agent.name))
        failure: Problem | None = None
        try:
            await agent.drive(turn, tell, self._clock)
        except StellwerkError as error:
            failure = Problem(code=error.code, message=error.message, fatal=True, class_=type(error).__name__)
        finally:  # an error that was not foreseen goes on to the reader, behind the end of the run
            if failure is None and (raised := sys.exception()) is not None:
                kind = type(raised).__name__
                failure = Problem(code="agent_failed", message=f"the agent raised {kind}", fatal=True, class_=kind)
            stamped(self._ending(failure))

    def _ending(self, failure: Problem | None) -> Iterator[Envelope]:
        now, run_id = self._clock.now(), self._run_id
        return ending(self._adapter, self._calls, trace_id=self._trace, run_id=run_id, ts=now, failure=failure)

    def _turn(self) -> Turn:
        request = self._request
        if self._answers:
            asked = [e.payload.message_id for e in request.history if isinstance(e, RunStart) and e.payload.message_id]
            return Turn(self.session_id, message_id=asked[-1] if asked else "", answers=self._resumed())
        if not request.messages or request.messages[-1].role != "user":
            raise InvalidInput("the last message must be the user's: it is the one that is answered", field="messages")
        *earlier, last = request.messages
        return Turn(self.session_id, message_id=self._message_id, text=last.content, earlier=earlier)

    def _resumed(self) -> dict[str, Any]:
        """What the graph gets for each question; all that are open must be answered, and nothing else."""
        history = self._request.history
        answered = {e.payload.ask_id for e in history if isinstance(e, UserAnswer)}
        asked = {e.payload.ask_id: e.payload for e in history if isinstance(e, AskUser)}
        waiting = {ask_id: question for ask_id, question in asked.items() if ask_id not in answered}
        if self._answers.keys() != waiting.keys():
            wanted = ", ".join(waiting) or "none"
            raise InvalidInput(
                f"these questions wait for an answer: {wanted}; answer them all at once", field="answers"
            )
        for ask_id, answer in self._answers.items():
            check_answer(waiting[ask_id], answer)
        return {ask_id: resume_value(waiting[ask_id], answer) for ask_id, answer in self._answers.items()}

    def _beginning(self, agent: str) -> Iterator[Envelope]:
        answers = self._answers
        place: dict[str, Any] = {"ts": self._clock.now(), "trace_id": self._trace, "run_id": self._run_id, "seq": 0}
        started = RunStarted(
            round=self._round,
            trigger="answer" if answers else "message",
            system=agent,
            system_version=0,
            message_id=None if answers else self._message_id,
            ask_ids=list(answers) or None,
        )
        yield RunStart(**place, parent_id=None, call_id=self._run_id, payload=started)
        for ask_id, answer in answers.items():
            yield UserAnswer(**place, parent_id=self._run_id, call_id=digest_id("answer", ask_id), payload=answer)
        if not answers:
            text = TextPart(text=self._request.messages[-1].content)
            said = Said(message_id=self._message_id, role="user", content=[text], status="first")
            yield Message(**place, parent_id=self._run_id, call_id=digest_id("message", self._message_id), payload=said)


def _answered(ask_id: str, answer: Answer) -> Answered:
    if isinstance(answer, Answered):
        return answer
    return Answered(ask_id=ask_id, text=answer) if isinstance(answer, str) else Answered(ask_id=ask_id, data=answer)
