"""One run of an agent without a server: the envelopes that the log would hold, as they happen."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stellwerk.agents.runtime.context import Turn
from stellwerk.envelope.model import AskUser, Envelope, Message, RunStart, UserAnswer
from stellwerk.envelope.payloads import Answered, Problem, RunStarted, Said, TextPart
from stellwerk.errors import InvalidInput, StellwerkError
from stellwerk.ids import SortableIds, SystemClock, digest_id
from stellwerk.spec.model import ChatMessage
from stellwerk.stream.adapter import StreamAdapter
from stellwerk.stream.calls import OpenCalls
from stellwerk.stream.endings import ending
from stellwerk.views.questions import check_answer, resume_value

if TYPE_CHECKING:
    from stellwerk.agents.runtime.runnable import RunnableAgent


QuestionAnswer = str | dict[str, Any] | Answered
"""The answer to a question: text, data, or the whole payload."""


class LibraryRun:
    """A run of messages, of which the last is answered, or of answers to questions.

    ``history`` has all envelopes of the conversation so far, if it is to be continued.
    """

    def __init__(
        self,
        agent: "RunnableAgent",
        session_id: str | None,
        messages: Sequence[ChatMessage],
        answers: Mapping[str, QuestionAnswer],
        history: Sequence[Envelope],
    ) -> None:
        self._agent, self._messages, self._history = agent, messages, history
        self._is_kept = session_id is not None
        self._clock = SystemClock()
        ids = SortableIds(self._clock)
        self._run_id, self._message_id = ids.new(), ids.new()
        self._session_id = session_id or ids.new()
        self._answers = {ask_id: _answered(ask_id, answer) for ask_id, answer in answers.items()}
        self._starts = [e for e in history if isinstance(e, RunStart)]
        self._trace = (self._starts[-1].trace_id or self._run_id) if answers and self._starts else self._run_id
        self._adapter = StreamAdapter(trace_id=self._trace, run_id=self._run_id, agent=agent.name)
        self._calls = OpenCalls()
        for envelope in history:
            self._calls.feed(envelope)
        if answers:
            self._adapter.seed(e for e in history if e.trace_id == self._trace)

    async def envelopes(self) -> AsyncIterator[Envelope]:
        """The run, envelope by envelope. Closing the iterator stops the run."""
        ready: asyncio.Queue[Envelope | None] = asyncio.Queue()
        driver = asyncio.create_task(self._drive(ready.put_nowait))
        driver.add_done_callback(lambda _: ready.put_nowait(None))
        try:
            while (envelope := await ready.get()) is not None:
                yield envelope
            await driver
        finally:
            driver.cancel()
            await asyncio.wait([driver])
            if not self._is_kept:
                await self._agent.forget(self._session_id)

    async def _drive(self, show: Callable[[Envelope], None]) -> None:
        def stamped(envelopes: Iterable[Envelope]) -> None:
            for envelope in envelopes:
                show(self._calls.stamp(envelope))

        turn = self._turn()
        stamped(self._beginning())
        failure: Problem | None = None
        try:
            await self._agent.drive(turn, lambda fact: stamped(self._adapter.feed(fact)), self._clock)
        except StellwerkError as error:
            failure = Problem(code=error.code, message=error.message, fatal=True, class_=type(error).__name__)
        except BaseException as error:  # the reader gets it behind the end of the run
            kind = type(error).__name__
            failure = Problem(code="agent_failed", message=f"the agent raised {kind}", fatal=True, class_=kind)
            raise
        finally:
            stamped(ending(self._adapter, self._calls, ts=self._clock.now(), failure=failure))

    def _turn(self) -> Turn:
        if self._answers:
            asked = [e.payload.message_id for e in self._starts if e.payload.message_id]
            return Turn(self._session_id, message_id=asked[-1] if asked else "", answers=self._resumed())
        if not self._messages or self._messages[-1].role != "user":
            raise InvalidInput("the last message must be the user's: it is the one that is answered", field="messages")
        *earlier, last = self._messages
        return Turn(self._session_id, message_id=self._message_id, text=last.content, earlier=earlier)

    def _resumed(self) -> dict[str, Any]:
        """The resume value of each question; exactly all open questions must be answered."""
        history = self._history
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

    def _beginning(self) -> Iterator[Envelope]:
        answers = self._answers
        place: dict[str, Any] = {
            "ts": self._clock.now(),
            "trace_id": self._trace,
            "run_id": self._run_id,
            "seq": 0,
        }
        started = RunStarted(
            round=1 + len(self._starts),
            trigger="answer" if answers else "message",
            system=self._agent.name,
            system_version=0,
            message_id=None if answers else self._message_id,
            ask_ids=list(answers) or None,
        )
        yield RunStart(**place, parent_id=None, call_id=self._run_id, payload=started)
        for ask_id, answer in answers.items():
            call_id = digest_id("answer", ask_id)
            yield UserAnswer(**place, parent_id=self._run_id, call_id=call_id, payload=answer)
        if not answers:
            text = TextPart(text=self._messages[-1].content)
            said = Said(message_id=self._message_id, role="user", content=[text], status="first")
            call_id = digest_id("message", self._message_id)
            yield Message(**place, parent_id=self._run_id, call_id=call_id, payload=said)


def _answered(ask_id: str, answer: QuestionAnswer) -> Answered:
    if isinstance(answer, Answered):
        return answer
    if isinstance(answer, str):
        return Answered(ask_id=ask_id, text=answer)
    return Answered(ask_id=ask_id, data=answer)
