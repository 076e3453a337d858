"""Assignment: what a run is to do, as the log tells it: begin with its input, or go on where it was cut off."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from stellwerk.database.port import Database
from stellwerk.envelope.model import (
    AskUser,
    Document,
    Envelope,
    Message,
    RunStart,
    StopRequest,
    SubgraphCheckpoint,
    ToolEnd,
    ToolStart,
    UserAnswer,
    decode,
)
from stellwerk.log.durable import DurableLog
from stellwerk.log.follow import story
from stellwerk.log.tables import unknown_session
from stellwerk.runs.tables import Claimed
from stellwerk.views.answering import resume_value

ATTEMPTS = 2
"""How often a run is begun in all."""


@dataclass(frozen=True)
class Assignment:
    start: RunStart
    history: Sequence[Envelope]
    """Everything of its trace so far."""
    attempt: int = 1
    paused: bool = False
    """Its server was asked to end, and put it back into the queue: what is open was paused, and goes on."""

    @property
    def own(self) -> Sequence[Envelope]:
        return [envelope for envelope in self.history if envelope.run_id == self.start.run_id]

    @property
    def begun(self) -> bool:
        """Whether more is told of the run than what it was given."""
        given = RunStart | Message | Document | UserAnswer | StopRequest
        return not all(isinstance(e, given) for e in self.own)

    @property
    def checkpoints(self) -> list[str]:
        """Of the trace, those of the graphs inside it too."""
        return [e.payload.checkpoint_id for e in self.history if isinstance(e, SubgraphCheckpoint)]

    @property
    def is_in_state(self) -> bool:
        """Whether the graph has taken up what the run was given: log and checkpoint are one transaction."""
        return any(isinstance(e, SubgraphCheckpoint) and e.parent_id is None for e in self.own)

    @property
    def message_id(self) -> str:
        """Of the message that the trace began with."""
        starts = (e.payload.message_id for e in self.history if isinstance(e, RunStart))
        return next((message_id for message_id in starts if message_id), "")

    @property
    def stop(self) -> StopRequest | None:
        return next((e for e in self.own if isinstance(e, StopRequest)), None)

    def answers(self) -> dict[str, Any]:
        """What the graph gets for each question of the run before."""
        wanted = self.start.payload.ask_ids or ()
        asked = {e.payload.ask_id: e.payload for e in self.history if isinstance(e, AskUser)}
        given = {e.payload.ask_id: e.payload for e in self.history if isinstance(e, UserAnswer)}
        return {ask_id: resume_value(asked[ask_id], given[ask_id]) for ask_id in wanted}

    def hindrance(self, settled: Collection[str]) -> str | None:
        """Why the run cannot go on: a tool whose call would be made a second time, and must not be.

        ``settled`` are the calls whose results are stored with the graph's state.
        """
        if self.attempt > ATTEMPTS:
            return f"it was begun {ATTEMPTS} times"
        for start, end in _unsettled(self.history):
            name = start.payload.tool_name
            if end is None and not start.payload.idempotent and not self.paused:
                return f"the tool {name} was at work, and nobody knows how far it came"
            if end is not None and start.payload.tool_call_id not in settled:
                return f"the tool {name} has done its work, and would do it again"
        return None


def _unsettled(told: Sequence[Envelope]) -> list[tuple[ToolStart, ToolEnd | None]]:
    """Tool calls behind the last checkpoint of the graph they belong to; an agent that is open is judged by its own.

    A graph in a node that is over has nothing to repeat but words if no tool was called in it.
    """
    found: dict[str, tuple[ToolStart, ToolEnd | None]] = {}
    wordy = _graphs_without_tools(told)
    runs = {envelope.run_id for envelope in told}
    for envelope in told:
        match envelope:
            case ToolStart():
                found[envelope.call_id] = (envelope, None)
            case ToolEnd(payload=ended):
                # If abandoned, it was judged when it was cut off; what repeats it is another call.
                if ended.status == "abandoned" or envelope.call_id in wordy:
                    found.pop(envelope.call_id, None)
                elif envelope.call_id in found:
                    found[envelope.call_id] = (found[envelope.call_id][0], envelope)
                found = {id_: pair for id_, pair in found.items() if pair[0].parent_id != envelope.call_id}
            case SubgraphCheckpoint():
                graph = runs if envelope.call_id in runs else {envelope.call_id}
                found = {
                    id_: (start, end)
                    for id_, (start, end) in found.items()
                    if end is None or start.parent_id not in graph
                }
    return [(start, end) for start, end in found.values() if end is not None or start.payload.kind == "tool"]


def _graphs_without_tools(told: Sequence[Envelope]) -> set[str]:
    starts = [e for e in told if isinstance(e, ToolStart)]
    return {e.call_id for e in starts if e.payload.kind == "graph"} - {e.parent_id or "" for e in starts}


async def assignment(log: DurableLog, database: Database, claimed: Claimed) -> Assignment:
    lease = claimed.lease
    if claimed.told is not None:
        told = [decode(stored.body) for stored in claimed.told]
    else:
        told = await story(log, tenant=lease.tenant, session_id=lease.session_id, after=claimed.after)
    if not told:
        raise unknown_session(lease.session_id)  # deleted meanwhile
    start = told[0]
    if not isinstance(start, RunStart):
        raise TypeError(f"run {lease.run_id} does not begin with its run_start")
    if start.trace_id != start.run_id:
        told = [*await _before(log, database, claimed), *told]
    return Assignment(start, told, claimed.attempt, paused=not claimed.cut_off)


async def _before(log: DurableLog, database: Database, claimed: Claimed) -> list[Envelope]:
    """What the earlier runs of the trace told."""
    lease, position = claimed.lease, claimed.after + 1
    row = await database.read(lambda tx: tx.row("start_of_trace", lease.session_id, lease.tenant, position))
    first = position if row is None else int(row[0])
    return await story(log, tenant=lease.tenant, session_id=lease.session_id, after=first - 1, before=position)


async def message_of(database: Database, claimed: Claimed, work: Assignment) -> Message:
    """The message that the run is to answer; it may stand in front of the run."""
    lease, wanted = claimed.lease, work.start.payload.message_id
    found = _messages(work.history, wanted)
    if not found:
        place = (lease.session_id, claimed.after, wanted, lease.tenant)
        rows = await database.read(lambda tx: tx.rows("messages_naming", *place))
        found = _messages((decode(body) for (body,) in rows), wanted)
    if not found:
        raise TypeError(f"run {lease.run_id} names the message {wanted}, which is not in the log")
    return found[0]


def _messages(told: Iterable[Envelope], message_id: str | None) -> list[Message]:
    return [e for e in told if isinstance(e, Message) and e.payload.message_id == message_id]
