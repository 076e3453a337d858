"""One run without a server: the envelopes that the log would hold, as they happen."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stellwerk.agents.runtime.conversation import NO_PARAMETERS, RunParameters, Turn
from stellwerk.envelope.model import AskUser, Envelope, Message, RunStart, UserAnswer
from stellwerk.envelope.payloads import Answered, FilePart, Problem, RunStarted, Said, TextPart
from stellwerk.envelope.to_json import canonical
from stellwerk.errors import InvalidInput, StellwerkError
from stellwerk.ids import SortableIds, SystemClock, digest_id
from stellwerk.spec.model import ChatMessage
from stellwerk.stream import adapter, calls, endings, facts
from stellwerk.views.questions import answers_to, check_answer, decided, resume_values

if TYPE_CHECKING:
    from stellwerk.agents.runtime.runnable import RunnableAgent


QuestionAnswer = str | dict[str, Any] | Answered
"""The answer to a question: text, data, or the whole payload."""


class RunEnvelopes:
    """The envelopes of one run: its start, those of its facts, and its end."""

    def __init__(self, agent: str, run_id: str, trace_id: str, history: Sequence[Envelope] = ()) -> None:
        self._agent = agent
        self._ids = {"trace_id": trace_id, "run_id": run_id}
        self.adapter = adapter.StreamAdapter(**self._ids, agent=agent)
        self._calls = calls.OpenCalls()
        for envelope in history:
            self._calls.feed(envelope)

    def start(
        self, ts: float, message: Said | None, answers: Sequence[Answered] = (), number: int = 1
    ) -> Iterator[Envelope]:
        """The start of a round with this number, and the user's message or answers."""
        started = RunStarted(
            round=number,
            trigger="answer" if answers else "message",
            system=self._agent,
            system_version=0,
            message_id=message.message_id if message else None,
            ask_ids=[each.ask_id for each in answers] or None,
        )
        run_id = self._ids["run_id"]
        place: dict[str, Any] = {"ts": ts, "seq": 0, **self._ids}
        yield self._calls.stamp(RunStart(**place, parent_id=None, call_id=run_id, payload=started))
        place["parent_id"] = run_id
        if message is not None:
            call_id = digest_id("message", message.message_id)
            yield self._calls.stamp(Message(**place, call_id=call_id, payload=message))
        for answer in answers:
            call_id = digest_id("answer", answer.ask_id)
            yield self._calls.stamp(UserAnswer(**place, call_id=call_id, payload=answer))

    def feed(self, fact: facts.Fact) -> Iterator[Envelope]:
        return map(self._calls.stamp, self.adapter.feed(fact))

    def end(self, ts: float, error: BaseException | None = None) -> Iterator[Envelope]:
        failure = None if error is None else _problem(error)
        last = endings.ending(self.adapter, self._calls, ts=ts, failure=failure)
        return map(self._calls.stamp, last)


def user_message(message_id: str, text: str, given: RunParameters = NO_PARAMETERS) -> Said:
    content: list[TextPart | FilePart] = [TextPart(text=text)] if text or given.input is None else []
    return Said(
        message_id=message_id,
        role="user",
        content=content,
        status="first",
        input=canonical(given.input).value,
        config=canonical(given.config).value,
        context=canonical(given.context).value,
    )


def _problem(error: BaseException) -> Problem:
    kind = type(error).__name__
    if isinstance(error, StellwerkError):
        return Problem(code=error.code, message=error.message, fatal=True, class_=kind)
    return Problem(code="agent_failed", message=f"the agent raised {kind}", fatal=True, class_=kind)


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
        parameters: RunParameters = NO_PARAMETERS,
    ) -> None:
        self._agent, self._messages, self._parameters = agent, messages, parameters
        self._clock = SystemClock()
        ids = SortableIds(self._clock)
        run_id = ids.new()
        self._message_id = ids.new()
        self._is_kept = session_id is not None
        self._session_id = session_id or ids.new()
        answered = {e.payload.ask_id for e in history if isinstance(e, UserAnswer)}
        asked = {e.payload.ask_id: e.payload for e in history if isinstance(e, AskUser)}
        self._asked = {ask_id: asked[ask_id] for ask_id in asked if ask_id not in answered}
        waiting = list(self._asked.values())
        self._answers = [each for given in answers.items() for each in answers_to(waiting, _answered(*given))]
        self._starts = [e for e in history if isinstance(e, RunStart)]
        self._said = [e for e in history if isinstance(e, Message) and e.payload.role == "user"]
        trace_id = self._starts[-1].trace_id if answers and self._starts else None
        self._run = RunEnvelopes(agent.name, run_id, trace_id or run_id, history)
        if answers:
            self._run.adapter.seed(e for e in history if e.trace_id == trace_id)

    async def envelopes(self) -> AsyncGenerator[Envelope, None]:
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
        def show_all(envelopes: Iterable[Envelope]) -> None:
            for envelope in envelopes:
                show(envelope)

        turn = self._turn()
        message = None
        if not self._answers:
            await self._agent.check(turn)
            message = user_message(self._message_id, turn.text, turn.parameters)
        show_all(self._run.start(self._clock.now(), message, self._answers, 1 + len(self._starts)))
        try:
            await self._agent.drive(turn, lambda fact: show_all(self._run.feed(fact)), self._clock)
        except BaseException as error:
            show_all(self._run.end(self._clock.now(), error))
            if not isinstance(error, StellwerkError):  # the reader gets it behind the end of the run
                raise
        else:
            show_all(self._run.end(self._clock.now()))

    def _turn(self) -> Turn:
        if self._answers:
            asked = [e.payload.message_id for e in self._starts if e.payload.message_id]
            turn = Turn(self._session_id, message_id=asked[-1] if asked else "", answers=self._resumed())
            if self._said and self._parameters.is_empty:
                return turn.with_parameters(self._said[-1])
            return replace(turn, parameters=self._parameters)
        turn = Turn(self._session_id, message_id=self._message_id, parameters=self._parameters)
        if not self._messages and self._parameters.input is not None:
            return turn
        if not self._messages or self._messages[-1].role != "user":
            raise InvalidInput("the last message must be the user's: it is the one that is answered", field="messages")
        *earlier, last = self._messages
        return replace(turn, text=last.content, earlier=earlier)

    def _resumed(self) -> dict[str, Any]:
        """The resume value of each interrupt; exactly all open questions must be answered."""
        given = {answer.ask_id: answer for answer in self._answers}
        if given.keys() != self._asked.keys():
            wanted = ", ".join(self._asked) or "none"
            why = f"these questions wait for an answer: {wanted}; answer them all at once"
            raise InvalidInput(why, field="answers")
        for ask_id, answer in given.items():
            check_answer(self._asked[ask_id], answer)
        self._answers = [decided(self._asked[ask_id], answer) for ask_id, answer in given.items()]
        return resume_values(self._asked.values(), given)


def _answered(ask_id: str, answer: QuestionAnswer) -> Answered:
    if isinstance(answer, Answered):
        return answer
    if isinstance(answer, str):
        return Answered(ask_id=ask_id, text=answer)
    return Answered(ask_id=ask_id, data=answer)
