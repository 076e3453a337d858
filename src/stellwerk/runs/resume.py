"""Resume and crash recovery: what an interrupted run did, whether it continues, how it ends.

After a restart no run has an owner, because the data folder is locked against
a second process. Each orphan is claimed, which fences its old owner, and the
runner continues it. A run whose driver ended early, which would be a bug and
must not become a hang, is closed as ``crashed``. The same function closes a
stopped run.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog

from stellwerk.agents.checkpoints.reconcile import waiting_messages
from stellwerk.database.port import Database, Transaction
from stellwerk.envelope import model as m
from stellwerk.envelope.model import Envelope, RunStart, ToolEnd, ToolStart, decode
from stellwerk.ids import Clock
from stellwerk.log.durable import DurableLog
from stellwerk.log.transactions import Append, entry, unknown_session
from stellwerk.runs.transactions import ClaimedRun, Finish, finish_many
from stellwerk.stream.endings import interrupted_ending
from stellwerk.views.questions import resume_values

logger = structlog.get_logger(__name__)

ATTEMPTS = 2
"""How often a run is started in all."""


@dataclass(frozen=True)
class RunHistory:
    """The envelopes of a run and of the earlier runs of its trace."""

    start: RunStart
    envelopes: Sequence[Envelope]
    attempt: int = 1
    paused: bool = False
    """The server shut down and requeued the run: its open calls were paused, and continue."""

    @property
    def own(self) -> Sequence[Envelope]:
        """Those of the run itself."""
        return [envelope for envelope in self.envelopes if envelope.run_id == self.start.run_id]

    @property
    def begun(self) -> bool:
        """Whether the log has more of the run than its input."""
        given = RunStart | m.Message | m.Document | m.UserAnswer | m.StopRequest
        return not all(isinstance(e, given) for e in self.own)

    @property
    def checkpoints(self) -> list[str]:
        """Of the trace, including the graphs inside it."""
        return [e.payload.checkpoint_id for e in self.envelopes if isinstance(e, m.SubgraphCheckpoint)]

    @property
    def is_in_state(self) -> bool:
        """Whether the graph's state has the run's input; log and checkpoint are one transaction."""
        return any(isinstance(e, m.SubgraphCheckpoint) and e.parent_id is None for e in self.own)

    @property
    def message_id(self) -> str:
        """Of the message that the trace began with."""
        starts = (e.payload.message_id for e in self.envelopes if isinstance(e, RunStart))
        return next((message_id for message_id in starts if message_id), "")

    @property
    def state_changed(self) -> bool:
        """Whether a client changed the graph's state while the trace waited for its user."""
        changes = (e.payload.by for e in self.envelopes if isinstance(e, m.Update) and e.run_id is None)
        return any(changes)

    @property
    def stop(self) -> m.StopRequest | None:
        return next((e for e in self.own if isinstance(e, m.StopRequest)), None)

    def answers(self) -> dict[str, Any]:
        """The resume value for each interrupt of the run before."""
        wanted = self.start.payload.ask_ids or ()
        asked = {e.payload.ask_id: e.payload for e in self.envelopes if isinstance(e, m.AskUser)}
        given = {e.payload.ask_id: e.payload for e in self.envelopes if isinstance(e, m.UserAnswer)}
        return resume_values([asked[ask_id] for ask_id in wanted], given)

    def why_not_resumable(self, settled: Collection[str]) -> str | None:
        """Why the run cannot continue: a tool would be called a second time that must not be.

        ``settled`` are the calls whose results are stored with the graph's state.
        """
        if self.attempt > ATTEMPTS:
            return f"it was begun {ATTEMPTS} times"
        for start, end in _unsettled(self.envelopes):
            name = start.payload.tool_name
            if end is None and not start.payload.idempotent and not self.paused:
                return f"the tool {name} was at work, and it is unknown how far it came"
            if end is not None and start.payload.tool_call_id not in settled:
                return f"the tool {name} has done its work, and would do it again"
        return None


def _unsettled(envelopes: Sequence[Envelope]) -> list[tuple[ToolStart, ToolEnd | None]]:
    """Tool calls after their graph's last checkpoint; an open agent is judged by its own calls.

    A graph in a node that has ended repeats nothing but text if it called no tool.
    """
    found: dict[str, tuple[ToolStart, ToolEnd | None]] = {}
    only_text = _graphs_without_tools(envelopes)
    runs = {envelope.run_id for envelope in envelopes}
    for envelope in envelopes:
        match envelope:
            case ToolStart():
                found[envelope.call_id] = (envelope, None)
            case ToolEnd(payload=ended):
                # An abandoned call was judged when it was cut off; its repetition is another call.
                if ended.status == "abandoned" or envelope.call_id in only_text:
                    found.pop(envelope.call_id, None)
                elif envelope.call_id in found:
                    found[envelope.call_id] = (found[envelope.call_id][0], envelope)
                found = {id_: pair for id_, pair in found.items() if pair[0].parent_id != envelope.call_id}
            case m.SubgraphCheckpoint():
                graph = runs if envelope.call_id in runs else {envelope.call_id}
                found = {
                    id_: (start, end)
                    for id_, (start, end) in found.items()
                    if end is None or start.parent_id not in graph
                }
    return [(start, end) for start, end in found.values() if end is not None or start.payload.kind == "tool"]


def _graphs_without_tools(envelopes: Sequence[Envelope]) -> set[str]:
    starts = [e for e in envelopes if isinstance(e, ToolStart)]
    return {e.call_id for e in starts if e.payload.kind == "graph"} - {e.parent_id or "" for e in starts}


async def load_history(log: DurableLog, database: Database, claimed: ClaimedRun) -> RunHistory:
    lease = claimed.lease
    read = partial(log.envelopes, lease.tenant, lease.session_id)
    if claimed.events is not None:
        envelopes = [decode(stored.body) for stored in claimed.events]
    else:
        envelopes = await read(after=claimed.after)
    if not envelopes:
        raise unknown_session(lease.session_id)  # deleted meanwhile
    start = envelopes[0]
    if not isinstance(start, RunStart):
        raise TypeError(f"run {lease.run_id} does not begin with its run_start")
    if start.trace_id != start.run_id:  # the trace has earlier runs
        position = claimed.after + 1
        key = (lease.session_id, lease.tenant, position)
        row = await database.read(lambda tx: tx.row("start_of_trace", *key))
        if row is not None:
            envelopes = [*await read(after=int(row[0]) - 1, before=position), *envelopes]
    return RunHistory(start, envelopes, claimed.attempt, paused=not claimed.cut_off)


def message_of(tx: Transaction, claimed: ClaimedRun, history: RunHistory) -> m.Message | None:
    """The message that the trace began with, if the log has it. An enqueued one is in the log before its run."""
    lease = claimed.lease
    wanted = history.message_id
    found = _messages(history.envelopes, wanted)
    if not found:
        rows = tx.rows("messages_naming", lease.session_id, claimed.after, wanted, lease.tenant)
        found = _messages([decode(body) for (body,) in rows], wanted)
    return found[0] if found else None


def _messages(envelopes: Sequence[Envelope], message_id: str | None) -> list[m.Message]:
    return [e for e in envelopes if isinstance(e, m.Message) and e.payload.message_id == message_id]


async def close(database: Database, log: DurableLog, clock: Clock, claimed: ClaimedRun) -> int:
    """End a run that has no driver: as stopped if there is a stop request, else as crashed.

    Returns the position of its end.
    """
    lease = claimed.lease
    history = await load_history(log, database, claimed)
    waiting = await waiting_messages(database, lease.tenant, lease.run_id)
    ending = interrupted_ending(history.envelopes, run_id=lease.run_id, ts=clock.now(), waiting=waiting)
    if history.stop is None:
        logger.warning("run_crashed", session=lease.session_id, run=lease.run_id)
    else:
        logger.info("run_stopped", session=lease.session_id, run=lease.run_id)
    append = Append(lease, 1, [entry(envelope) for envelope in ending])
    finish = Finish(append, [e for e in ending if isinstance(e, m.RunEnd)])
    done = await log.commit(finish_many, finish, lease.session_id, lambda done: done.stored, urgent=True)
    return done.position
