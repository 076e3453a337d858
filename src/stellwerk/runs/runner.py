"""The runner drives one run, and makes sure that it ends visibly in every case."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, replace
from functools import partial

from stellwerk.agents.checkpoints.reconcile import client_changes, replaced_run, start_state, waiting_messages
from stellwerk.agents.runtime.context import Pause, RunContext, ServerCalls, SessionDocuments, running_in
from stellwerk.agents.runtime.conversation import Turn, chat_message_of
from stellwerk.agents.runtime.images import NOT_SHOWN
from stellwerk.agents.runtime.runnable import USER_REMEDY, RunnableAgent
from stellwerk.agents.runtime.tracing import traced_as
from stellwerk.database.port import Transaction
from stellwerk.envelope.model import Envelope, Message, Warning
from stellwerk.errors import Crashed, Fenced, Paused, StellwerkError, WorkerLost
from stellwerk.ids import Clock
from stellwerk.log.log import Head, Lease
from stellwerk.log.tick import Tick
from stellwerk.log.transactions import unknown_session
from stellwerk.runs import transactions
from stellwerk.runs.graph_states import GraphStates
from stellwerk.runs.loopback import LoopbackCalls
from stellwerk.runs.recorder import Recorder, RunJournal
from stellwerk.runs.resume import close, load_history, message_of
from stellwerk.runs.scheduler import SessionStorage
from stellwerk.runs.sessions import Sessions
from stellwerk.runs.systems import Systems
from stellwerk.runs.transactions import ClaimedRun
from stellwerk.tenants.tenants import folder_of
from stellwerk.threads import RunWork, working


class Runner:
    def __init__(self, storage: SessionStorage, systems: Systems, tick: Tick, *, window: float) -> None:
        self._storage = storage
        self._log = storage.log
        self._systems = systems
        self._tick = tick
        self._window = window
        self._calls: Callable[[Lease, str, str | None], ServerCalls] | None = None
        """Makes what the code of a run may ask of the server, from its lease, system and user."""
        self._warned: set[str] = set()
        """Systems whose graph needs a user id, and that had a session without one."""

    def answer_calls(self, sessions: Sessions, clock: Clock) -> None:
        """From now on the code of a run may call the server."""
        storage = self._storage
        kept = (storage.database, storage.log, self._systems, storage.documents, storage.quotas)
        self._calls = partial(LoopbackCalls, sessions, GraphStates(*kept, clock), clock)

    async def run(self, claimed: ClaimedRun, pause: Pause, clock: Clock) -> bool:
        """Drive the run to its end, or until it is paused; False if it was not ended here.

        All times of the run come from the ``clock``, which must not be one that can be set.
        """
        this_task = asyncio.current_task()
        assert this_task is not None
        lease, timings = claimed.lease, self._storage.timings
        recorder = Recorder(self._log, self._tick, lease, timings, window=self._window, lost=this_task.cancel)
        history = await load_history(self._log, self._storage.database, claimed)
        if history.stop is not None:  # a crash came between the stop and its end
            await close(self._storage.database, self._log, clock, claimed)
            return True
        for envelope in history.envelopes:
            recorder.calls.feed(envelope)
        run = RunJournal(claimed, history, recorder, self._storage.documents, clock)
        try:
            if not await self._drive(run, pause):
                return await self._release(run)
            await recorder.finish(run.ending(), run.adapter.asks)
        except WorkerLost as lost:
            return await self._try_again(run, lost)
        except Fenced:
            run.logger.info("run_fenced")
            return False
        except asyncio.CancelledError:
            if pause.drain_requested:  # its step took too long: no crash, and no lost attempt
                await self._release(run)
            raise
        return True

    async def _release(self, run: RunJournal) -> bool:
        """Leave the run to the next process. All of its envelopes are stored.

        With a non-idempotent tool call cut off it keeps its owner, and is ended as crashed later.
        """
        await run.recorder.settle()
        if (tool := run.cut_off()) is not None:
            run.logger.warning("run_cut_off", tool=tool)
            return False
        await run.recorder.settle(run.closing())
        run.logger.info("run_paused")
        release = transactions.Release(run.lease, run.clock.now(), paused=True)
        return await self._storage.database.submit(transactions.release_many, release, urgent=True)

    async def _try_again(self, run: RunJournal, lost: WorkerLost) -> bool:
        """Requeue a run whose graph has lost its process. It continues by the rules of a crash."""
        run.logger.warning("run_lost_its_process", reason=lost.message)
        await run.recorder.settle()
        release = transactions.Release(run.lease, run.clock.now(), paused=False, crashed=True)
        return await self._storage.database.submit(transactions.release_many, release, urgent=True)

    async def _drive(self, run: RunJournal, pause: Pause) -> bool:
        """True when the run is over, False when it was paused."""
        lease = run.lease
        started = run.start.payload
        storage = self._storage
        try:
            agent = await self._systems.agent(lease.tenant, started.system, started.system_version)
            run.adapter.tree.agent = agent.name
            run.non_idempotent_nodes = agent.options.non_idempotent_nodes
            if agent.options.window is not None:
                run.recorder.merge_within(agent.options.window)
            run.recorder.lag = agent.lag
            await self._resume(run, agent)
            turn = await self._turn(run, agent)
            documents = SessionDocuments(storage.database, storage.documents, lease.tenant, lease.session_id)
            usage = await storage.quotas.run_usage(lease.tenant, lease.session_id)
            folder = folder_of(storage.data, lease.tenant)
            calls = None if self._calls is None else self._calls(lease, started.system, turn.user_id)
            about = (storage.timings, started.system, turn.user_id)
            context = RunContext(run, documents, usage, folder, *about, server=calls)
            with (
                _in_threads(run),
                usage.running(),
                running_in(context),
                traced_as(lease, run.start, agent.name),
            ):
                await agent.drive(replace(turn, pause=pause), run.tell, run.clock)
        except (Fenced, WorkerLost):
            raise
        except Paused:
            return False
        except asyncio.CancelledError:
            if run.recorder.failure is None:
                raise  # stopped, or the server shuts down; the next owner closes what is open
            run.fail(run.recorder.failure)
        except StellwerkError as error:  # foreseen: its message is for the user
            run.logger.warning("run_failed", reason=error.message)
            run.fail(error)
        except Exception as error:
            run.logger.exception("run_failed")
            run.fail(error)
        return True

    async def _resume(self, run: RunJournal, agent: RunnableAgent) -> None:
        """Close the calls that a crash cut off, and seed the adapter with the log.

        Raises:
            Crashed: a call that was cut off must not be repeated.
        """
        lease = run.lease
        history = run.history
        closing: list[Envelope] = []
        if history.begun:
            settled = await agent.settled(lease.session_id, history.checkpoints)
            reason = history.why_not_resumable(settled)
            if reason is None and not history.paused:
                reason = await agent.why_not_repeatable(lease.session_id)
            if reason is not None:
                raise Crashed(reason)
            if not history.paused:
                closing = list(run.recorder.calls.closing(ts=run.clock.now(), run_id=lease.run_id))
            run.logger.warning("run_goes_on", attempt=history.attempt)
        for envelope in closing:
            run.recorder.feed(envelope)
        if history.begun or history.start.payload.trigger == "answer":
            waiting = await waiting_messages(self._storage.database, lease.tenant, lease.run_id)
            run.adapter.seed([*history.envelopes, *closing], waiting)

    async def _turn(self, run: RunJournal, agent: RunnableAgent) -> Turn:
        turn, first = await self._storage.database.read(partial(_read_turn, run=run))
        system = run.start.payload.system
        if turn.user_id is None and agent.wants_user_id and system not in self._warned:
            self._warned.add(system)
            run.logger.warning("session_without_user_id", system=system, remedy=USER_REMEDY)
        if first is None:
            return turn
        earlier = await self._log.envelopes(run.lease.tenant, run.lease.session_id, before=first)
        return replace(turn, earlier=[chat_message_of(e) for e in earlier if isinstance(e, Message)])


def _read_turn(tx: Transaction, *, run: RunJournal) -> tuple[Turn, int | None]:
    """The turn; for a first one also its start, as earlier messages may come before it."""
    history = run.history
    tenant, session_id, _, epoch = astuple(run.lease)
    row = tx.row("head", session_id, tenant)
    if row is None:
        raise unknown_session(session_id)
    turn = Turn(session_id, epoch, Head(*row).user, history.message_id)
    started = history.start.payload
    message = message_of(tx, run.claimed, history)
    if message is not None:
        turn = turn.with_parameters(message)
    if history.is_in_state:
        return replace(turn, goes_on=True), None
    if started.trigger == "answer":
        return replace(turn, answers=history.answers(), state_changed=history.state_changed), None
    if message is None:
        raise TypeError(f"run {run.lease.run_id} names the message {history.message_id}, which is not in the log")
    warned = any(isinstance(e, Warning) and e.payload.code == NOT_SHOWN for e in history.own)
    turn = replace(turn.of_message(message), warned=warned)
    before = run.claimed.after + 1
    round_ = started.round
    if started.replaces is not None:
        replaced = replaced_run(tx, tenant, session_id, started.replaces)
        before = replaced.position
        round_ = replaced.round
        changes = client_changes(tx, tenant, session_id, after=before)
        turn = replace(turn, from_checkpoint=replaced.checkpoint, state_changes=changes)
    if round_ == 1:
        return turn, before
    found = start_state(tx, tenant, session_id, before=before)
    checkpoint = turn.from_checkpoint or found.checkpoint
    return replace(turn, from_checkpoint=checkpoint, unheard=found.unheard), None


@contextmanager
def _in_threads(run: RunJournal) -> Iterator[None]:
    """Log the threads that a run leaves behind: a thread cannot be ended."""
    work = RunWork()
    try:
        with working(work):
            yield
    finally:
        if work.threads:
            run.logger.warning("threads_left", threads=work.threads)
