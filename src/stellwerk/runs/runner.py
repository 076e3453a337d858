"""The runner: drives one run, and sees to it that it ends visibly in every case."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import structlog

from stellwerk.agents.journal import keeping
from stellwerk.agents.turn import Turn
from stellwerk.database.port import Operation
from stellwerk.documents.store import DocumentStore
from stellwerk.envelope.frames import Stored
from stellwerk.envelope.model import Envelope, Message, RunStart, decode
from stellwerk.envelope.payloads import Problem, TextPart
from stellwerk.envelope.shapes import Blob
from stellwerk.errors import Fenced, StellwerkError
from stellwerk.ids import Clock
from stellwerk.log.durable import DurableLog
from stellwerk.log.follow import story
from stellwerk.log.log import Lease
from stellwerk.log.tick import Tick
from stellwerk.runs.recorder import Recorder
from stellwerk.runs.systems import Systems
from stellwerk.spec.chat import ChatMessage
from stellwerk.stream.adapter import StreamAdapter
from stellwerk.stream.endings import ending
from stellwerk.stream.facts import CheckpointSaved, Fact

logger = structlog.get_logger(__name__)


class Runner:
    def __init__(
        self, log: DurableLog, systems: Systems, documents: DocumentStore, tick: Tick, clock: Clock, *, window: float
    ) -> None:
        self._log, self._systems, self._documents, self._tick, self._clock = log, systems, documents, tick, clock
        self._window = window

    async def run(self, lease: Lease, beginning: list[Stored]) -> bool:
        """Drive the run whose first envelopes are ``beginning``; False if somebody else must have ended it."""
        start, message = (decode(stored.body) for stored in beginning[-2:])
        if not isinstance(start, RunStart) or not isinstance(message, Message):
            raise TypeError(f"run {lease.run_id} does not begin with its run_start and its message")
        recorder = Recorder(self._log, self._tick, lease, window=self._window, lost=_cancelling_this_task())
        for envelope in (start, message):
            recorder.calls.feed(envelope)
        run = _Run(lease, start, recorder, self._documents, self._clock)
        try:
            await self._drive(run, message, before=beginning[-2].position)
            await recorder.finish(run.ending())
        except Fenced:
            logger.info("run_fenced", session=lease.session_id, run=lease.run_id)
            return False
        return True

    async def _drive(self, run: "_Run", message: Message, *, before: int) -> None:
        started = run.start.payload
        try:
            agent = await self._systems.agent(run.lease.tenant, started.system, started.system_version)
            run.adapter.agent = agent.name
            if agent.habits.window is not None:
                run.recorder.merge_within(agent.habits.window)
            earlier = await self._earlier(run.lease, before) if started.round == 1 else []
            turn = Turn(
                run.lease.session_id, run.lease.epoch, message.payload.message_id, _text(message), earlier=earlier
            )
            with keeping(run):
                await agent.drive(turn, run.tell, self._clock)
        except Fenced:
            raise
        except asyncio.CancelledError:
            if run.recorder.failure is None:
                raise  # the server is going down; the next start closes what is open
            run.fail(run.recorder.failure)
        except StellwerkError as error:  # foreseen: it says itself what happened
            logger.warning("run_failed", session=run.lease.session_id, run=run.lease.run_id, reason=error.message)
            run.fail(error)
        except Exception as error:
            logger.exception("run_failed", session=run.lease.session_id, run=run.lease.run_id)
            run.fail(error)

    async def _earlier(self, lease: Lease, before: int) -> list[ChatMessage]:
        """What the session began with, in front of its first run."""
        told = await story(self._log, tenant=lease.tenant, session_id=lease.session_id, before=before)
        said = [(e.payload.role, _text(e)) for e in told if isinstance(e, Message)]
        return [ChatMessage.model_validate({"role": role, "content": text}) for role, text in said]


class _Run:
    """One run under way: facts in, envelopes to the recorder, and how it stands."""

    def __init__(
        self, lease: Lease, start: RunStart, recorder: Recorder, documents: DocumentStore, clock: Clock
    ) -> None:
        self.lease, self.start, self.recorder = lease, start, recorder
        self._documents, self._clock = documents, clock
        self.adapter = StreamAdapter(trace_id=start.trace_id or "", run_id=lease.run_id, agent=start.payload.system)
        self._failure: Problem | None = None

    def tell(self, fact: Fact) -> None:
        for envelope in self.adapter.feed(fact):
            self.recorder.feed(envelope)
        if blobs := self.adapter.blobs():
            self.recorder.keep_first(partial(self.keep, blobs))

    async def keep(self, blobs: Sequence[Blob]) -> None:
        await self._documents.keep(self.lease.tenant, self.lease.session_id, blobs)

    async def commit_with(self, operation: Operation[Any, Any], item: Any, fact: CheckpointSaved | None) -> None:
        await self.recorder.commit_with(operation, item, () if fact is None else self.adapter.feed(fact))

    def fail(self, error: BaseException) -> None:
        """A foreseen error speaks for itself; any other is named, and told only to the operator."""
        if isinstance(error, StellwerkError):
            self._failure = Problem(code=error.code, message=error.message, fatal=True, class_=type(error).__name__)
        else:
            text = f"the agent raised {type(error).__name__}; the server's log has the details"
            self._failure = Problem(code="agent_failed", message=text, fatal=True, class_=type(error).__name__)

    def ending(self) -> Iterator[Envelope]:
        """The last words: the answer, ends for what is open, and the run's own end."""
        return ending(
            self.adapter,
            self.recorder.calls,
            trace_id=self.start.trace_id or "",
            run_id=self.lease.run_id,
            ts=self._clock.now(),
            failure=self._failure,
        )


def _cancelling_this_task() -> Callable[[], None]:
    task = asyncio.current_task()

    def cancel() -> None:
        if task is not None:
            task.cancel()

    return cancel


def _text(message: Message) -> str:
    return "\n".join(part.text for part in message.payload.content if isinstance(part, TextPart))
