"""The runner: drives one run, and sees to it that it ends visibly in every case."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import structlog

from stellwerk.agents.checkpoint_reconciling import beginning, replaced_by, waiting_messages
from stellwerk.agents.data_folder import working_in
from stellwerk.agents.documents import SessionDocuments, offering
from stellwerk.agents.images import NOT_SHOWN
from stellwerk.agents.journal import keeping
from stellwerk.agents.metering import metering
from stellwerk.agents.runnable import RunnableAgent
from stellwerk.agents.tracing import traced_as
from stellwerk.agents.turn import Pause, Turn, chat_message_of, files_of, text_of
from stellwerk.agents.user_context import USER_REMEDY
from stellwerk.database.port import Operation
from stellwerk.documents.store import DocumentStore
from stellwerk.envelope.model import Envelope, Message, RunStart, Warning
from stellwerk.envelope.payloads import Problem
from stellwerk.envelope.redacted_blobs import without_secrets
from stellwerk.envelope.results import ToolResult
from stellwerk.envelope.shapes import Blob
from stellwerk.errors import Crashed, Fenced, Paused, StellwerkError
from stellwerk.ids import Clock
from stellwerk.log.follow import story
from stellwerk.log.log import Lease
from stellwerk.log.tick import Tick
from stellwerk.runs import tables
from stellwerk.runs.assignment import Assignment, assignment, message_of
from stellwerk.runs.recorder import Recorder
from stellwerk.runs.recovery import close
from stellwerk.runs.stores import Stores
from stellwerk.runs.tables import Claimed
from stellwerk.spec.chat import ChatMessage
from stellwerk.stream.adapter import StreamAdapter
from stellwerk.stream.endings import ending
from stellwerk.stream.facts import CheckpointSaved, Fact
from stellwerk.systems.registry import Systems
from stellwerk.tenants.tenants import folder_of
from stellwerk.threads import RunWork, working

logger = structlog.get_logger(__name__)


class Runner:
    def __init__(self, stores: Stores, systems: Systems, tick: Tick, *, window: float) -> None:
        self._stores, self._log, self._systems = stores, stores.log, systems
        self._tick, self._window = tick, window
        self._warned: set[str] = set()
        """Systems whose graph wants a user id, and had a session without one."""

    async def run(self, claimed: Claimed, pause: Pause, clock: Clock) -> bool:
        """Drive the run to its end, or until it was paused; False if it must have been ended elsewhere.

        All times of the run come from the ``clock``, which must not be one that can be set.
        """
        lease, this_task = claimed.lease, asyncio.current_task()
        assert this_task is not None
        recorder = Recorder(self._log, self._tick, lease, window=self._window, lost=this_task.cancel)
        work = await assignment(self._log, self._stores.database, claimed)
        if work.stop is not None:  # a crash came between the stop and its end
            await close(self._stores.database, self._log, clock, claimed)
            return True
        for envelope in work.history:
            recorder.calls.feed(envelope)
        run = _Run(lease, work.start, recorder, self._stores.documents, clock)
        try:
            if not await self._drive(run, claimed, work, pause):
                return await self._release(run)
            await recorder.finish(run.ending(), run.adapter.asks)
        except Fenced:
            logger.info("run_fenced", session=lease.session_id, run=lease.run_id)
            return False
        except asyncio.CancelledError:
            if pause.drain_requested:  # its step took too long; that is no crash, and no attempt is lost
                await self._release(run)
            raise
        return True

    async def _release(self, run: "_Run") -> bool:
        """Leave the run to the next process; everything that was told is stored.

        A run whose tool was cut off and must not be repeated keeps its owner: the next process ends it as crashed.
        """
        lease = run.lease
        await run.recorder.settle()
        if (tool := run.cut_off()) is not None:
            logger.warning("run_cut_off", session=lease.session_id, run=lease.run_id, tool=tool)
            return False
        await run.recorder.settle(run.closing())
        logger.info("run_paused", session=lease.session_id, run=lease.run_id)
        release = tables.Release(lease, run.clock.now(), paused=True)
        return await self._stores.database.submit(tables.release_many, release, urgent=True)

    async def _drive(self, run: "_Run", claimed: Claimed, work: Assignment, pause: Pause) -> bool:
        """True when the run is over, False when it was paused."""
        started = run.start.payload
        try:
            agent = await self._systems.agent(run.lease.tenant, started.system, started.system_version)
            run.adapter.agent = agent.name
            if agent.habits.window is not None:
                run.recorder.merge_within(agent.habits.window)
            await self._take_up(run, work, agent)
            turn = await self._turn(run, claimed, work, agent)
            with (
                self._in_threads(run.lease),
                keeping(run),
                metering(await self._stores.quotas.meter(run.lease.tenant, run.lease.session_id)),
                working_in(folder_of(self._stores.data, run.lease.tenant)),
                offering(self._documents(run.lease)),
                traced_as(run.lease, run.start, agent.name),
            ):
                await agent.drive(replace(turn, pause=pause), run.tell, run.clock)
        except Fenced:
            raise
        except Paused:
            return False
        except asyncio.CancelledError:
            if run.recorder.failure is None:
                raise  # stopped, or the server is going down; whoever is next closes what is open
            run.fail(run.recorder.failure)
        except StellwerkError as error:  # foreseen: it says itself what happened
            logger.warning("run_failed", session=run.lease.session_id, run=run.lease.run_id, reason=error.message)
            run.fail(error)
        except Exception as error:
            logger.exception("run_failed", session=run.lease.session_id, run=run.lease.run_id)
            run.fail(error)
        return True

    @contextmanager
    def _in_threads(self, lease: Lease) -> Iterator[None]:
        """A thread cannot be ended: the operator is told of those that a run leaves behind."""
        work = RunWork()
        try:
            with working(work):
                yield
        finally:
            if work.threads:
                logger.warning("threads_left", session=lease.session_id, run=lease.run_id, threads=work.threads)

    def _documents(self, lease: Lease) -> SessionDocuments:
        stores, whose = self._stores, {"tenant": lease.tenant, "session_id": lease.session_id}
        return SessionDocuments(stores.database, stores.documents, stores.extractor, **whose)

    async def _take_up(self, run: "_Run", work: Assignment, agent: RunnableAgent) -> None:
        """Close what a crash cut off, and let the adapter know what was told.

        Raises:
            Crashed: what was cut off must not be done again.
        """
        closing: list[Envelope] = []
        if work.begun:
            settled = await agent.settled(run.lease.session_id, work.checkpoints)
            if (reason := work.hindrance(settled)) is not None:
                raise Crashed(reason)
            if not work.paused:
                closing = list(run.recorder.calls.closing(ts=run.clock.now(), run_id=run.lease.run_id))
            logger.warning("run_goes_on", session=run.lease.session_id, run=run.lease.run_id, attempt=work.attempt)
        for envelope in closing:
            run.recorder.feed(envelope)
        if work.begun or work.start.payload.trigger == "answer":
            run.adapter.seed(
                [*work.history, *closing],
                await waiting_messages(self._stores.database, run.lease.tenant, run.lease.run_id),
            )

    async def _turn(self, run: "_Run", claimed: Claimed, work: Assignment, agent: RunnableAgent) -> Turn:
        started, lease = work.start.payload, run.lease
        head = await self._log.head(lease.tenant, lease.session_id)
        if head.user is None and agent.wants_user_id and started.system not in self._warned:
            self._warned.add(started.system)
            logger.warning(
                "session_without_user_id", system=started.system, session=lease.session_id, remedy=USER_REMEDY
            )
        turn = Turn(lease.session_id, lease.epoch, head.user, work.message_id)
        if work.is_in_state:
            return replace(turn, goes_on=True)
        if started.trigger == "answer":
            return replace(turn, answers=work.answers())
        message = await message_of(self._stores.database, claimed, work)
        turn = replace(turn, message_id=message.payload.message_id, text=text_of(message), files=files_of(message))
        turn = replace(turn, warned=any(isinstance(e, Warning) and e.payload.code == NOT_SHOWN for e in work.own))
        before, first = claimed.after + 1, started.round == 1
        if started.replaces is not None:
            place = run.lease.tenant, run.lease.session_id, started.replaces
            replaced = await self._stores.database.read(lambda tx: replaced_by(tx, *place))
            before, first = replaced.position, replaced.round == 1
            turn = replace(turn, from_checkpoint=replaced.checkpoint)
        if first:
            return replace(turn, earlier=await self._earlier(run.lease, before))
        begins = partial(beginning, tenant=lease.tenant, session_id=lease.session_id, before=before)
        found = await self._stores.database.read(begins)
        return replace(turn, from_checkpoint=turn.from_checkpoint or found.checkpoint, unheard=found.unheard)

    async def _earlier(self, lease: Lease, before: int) -> list[ChatMessage]:
        """What the session began with, in front of its first run."""
        told = await story(self._log, tenant=lease.tenant, session_id=lease.session_id, before=before)
        return [chat_message_of(e) for e in told if isinstance(e, Message)]


class _Run:
    """One run under way: facts in, envelopes to the recorder, and how it stands."""

    def __init__(
        self, lease: Lease, start: RunStart, recorder: Recorder, documents: DocumentStore, clock: Clock
    ) -> None:
        self.lease, self.start, self.recorder = lease, start, recorder
        self._keep, self.clock = partial(documents.keep, lease.tenant, lease.session_id), clock
        self._clean = partial(without_secrets, redactor=recorder.redactor)
        self.adapter = StreamAdapter(trace_id=start.trace_id or "", run_id=lease.run_id, agent=start.payload.system)
        self._failure: Problem | None = None

    def tell(self, fact: Fact) -> None:
        told, blobs = self._clean([*self.adapter.feed(fact)], self.adapter.blobs())
        for envelope in told:
            self.recorder.feed(envelope)
        if blobs:
            self.recorder.keep_first(partial(self._keep, blobs))

    async def keep(self, result: ToolResult, blobs: Sequence[Blob]) -> ToolResult:
        (result,), clean = self._clean([result], blobs)
        await self._keep(clean)
        return result

    async def commit_with(self, operation: Operation[Any, Any], item: Any, fact: CheckpointSaved | None) -> None:
        told = () if fact is None else self.adapter.feed(fact)
        is_own = fact is not None and not fact.namespace
        await self.recorder.commit_with(operation, item, told, self.adapter.waiting if is_own else None)

    async def stored(self) -> None:
        await self.recorder.stored()

    def cut_off(self) -> str | None:
        """The name of a tool that is still at work and must not be called again."""
        suspended = self.adapter.suspended
        for start in self.recorder.calls.open_tools():
            if start.payload.kind == "tool" and not start.payload.idempotent and start.call_id not in suspended:
                return start.payload.tool_name
        return None

    def closing(self) -> Iterator[Envelope]:
        """Ends for what was cut off; what is paused, or has a graph inside that goes on, stays open."""
        calls = self.recorder.calls
        graphs = {start.call_id for start in calls.open_tools() if start.payload.kind != "tool"}
        return calls.closing(ts=self.clock.now(), run_id=self.lease.run_id, but={*graphs, *self.adapter.suspended})

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
            ts=self.clock.now(),
            failure=self._failure,
        )
