"""The state of a session's graph over HTTP: read it, list its checkpoints, change it.

A change is one transaction: checkpoint, envelopes, audit entry and idempotency key. It is prepared
by the graph outside of the transaction, and prepared again if the session has moved on meanwhile.
"""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import msgspec
from msgspec import UNSET, Struct, UnsetType

from stellwerk.agents.checkpoints import rows
from stellwerk.agents.runtime.graph_state import prepare_update, read_state, state_history
from stellwerk.agents.runtime.runnable import RunnableAgent
from stellwerk.agents.runtime.saved_states import PreparedUpdate, SavedState, StateUpdate
from stellwerk.database.port import Database, Transaction, locking, session_lock
from stellwerk.documents.store import DocumentStore
from stellwerk.envelope.frames import Stored
from stellwerk.envelope.introspection import Blob
from stellwerk.envelope.model import Envelope, SubgraphCheckpoint, decode
from stellwerk.envelope.to_json import MAX_NOTES, PAYLOAD_DEPTH, Canonical, canonical
from stellwerk.errors import Conflict, InvalidField, NotFound
from stellwerk.ids import Clock, digest_id
from stellwerk.log.durable import DurableLog
from stellwerk.log.log import Head
from stellwerk.log.transactions import Overtaken, unknown_session
from stellwerk.redaction.redactor import Redactor, without_secrets
from stellwerk.runs import transactions
from stellwerk.runs.systems import Systems
from stellwerk.stream.facts import NodeUpdated
from stellwerk.stream.states import client_change
from stellwerk.tenants.quotas import Limits, TenantQuotas, limit_locks
from stellwerk.tenants.tenants import refuse_locked
from stellwerk.threads import in_thread
from stellwerk.views.status import Status

_ATTEMPTS = 5
"""How often a change is prepared while messages and answers come in between."""
_TOO_LARGE = "$: too large, became a document"


class GraphInterrupt(Struct, frozen=True, kw_only=True):
    id: str
    value: Any


class GraphTask(Struct, frozen=True, kw_only=True):
    """A node of the next step; with interrupts if it waits for an answer."""

    id: str
    name: str
    interrupts: list[GraphInterrupt]
    error: str | UnsetType = UNSET
    """The class of the exception with which it failed."""


class GraphValues(Struct, frozen=True, kw_only=True):
    """The state of a session's graph at a checkpoint; before the first one it is empty."""

    values: Any
    """By the keys of the graph, with its reducers applied. Bytes and texts over 256 KiB are references to files."""
    next: list[str]
    """The nodes that would run next."""
    tasks: list[GraphTask]
    checkpoint_id: str | None
    parent_checkpoint_id: str | None
    created_at: float | None
    source: str | None
    step: int | None
    sanitized: list[str] | UnsetType = UNSET
    """Changes that were made to show the values as JSON."""


class CheckpointInfo(Struct, frozen=True, kw_only=True):
    """A checkpoint; where the log has it, with the nodes of its step, its run and its position."""

    checkpoint_id: str
    parent_checkpoint_id: str | None
    created_at: float
    source: str
    """input, loop (a step of the graph), update or fork."""
    step: int
    next: list[str]
    node: str | None
    run_id: str | None
    position: int | None


class CheckpointPage(Struct, frozen=True, kw_only=True):
    """Checkpoints, the newest first; ``next`` is the ``before`` of the next page."""

    checkpoints: list[CheckpointInfo]
    next: str | None


class StateUpdated(Struct, frozen=True, kw_only=True):
    """The changed state is stored, and is the one that the session continues with."""

    checkpoint_id: str
    position: int
    """Of the last envelope that records the change."""
    next: list[str] = []
    """The nodes that run when the open question is answered; a message starts at the beginning."""


class ChangedState(NamedTuple):
    answer: StateUpdated
    stored: list[Stored]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeState:
    """A prepared change, and the position and epoch of the session for which it was prepared."""

    tenant: str
    session_id: str
    at: float
    position: int
    epoch: int
    envelopes: Sequence[Envelope]
    puts: Sequence[rows.Put | rows.PutWrites]
    checkpoint_id: str
    limits: Limits
    key: str | None = None
    request: str = ""


@locking(lambda change: [session_lock(change.session_id), *limit_locks(change.limits, change.tenant)])
def change_state_many(tx: Transaction, changes: Sequence[ChangeState]) -> list[ChangedState | Exception]:
    return transactions.each(_change, tx, changes)


def _change(tx: Transaction, change: ChangeState) -> ChangedState:
    tenant, session_id = change.tenant, change.session_id
    row = tx.row("head", session_id, tenant)
    if row is None:
        raise unknown_session(session_id)
    head = Head(*row)
    refuse_locked(tx, tenant)
    known = _recall(tx, tenant, session_id, key=change.key, request=change.request)
    if known is not None:
        return ChangedState(known, [])
    _refuse_busy(transactions.status_of(tx, tenant, session_id))
    if (head.position, head.epoch) != (change.position, change.epoch):
        raise Overtaken("something has happened in the session meanwhile")
    noted = transactions.append_input(tx, tenant, session_id, change.envelopes, change.limits)
    for outcome in rows.put(tx, change.puts):
        if outcome is not None:
            raise RuntimeError("the epoch was checked in this transaction") from outcome
    answer = StateUpdated(checkpoint_id=change.checkpoint_id, position=noted.last)
    if change.key:
        row = (tenant, session_id, f"state {change.key}", change.request)
        tx.write("remember_answer", *row, msgspec.json.encode(answer), change.at)
    return ChangedState(answer, noted.stored)


def _recall(tx: Transaction, tenant: str, session_id: str, *, key: str | None, request: str) -> StateUpdated | None:
    known = key and tx.row("recall_answer", tenant, session_id, f"state {key}")
    if not known:
        return None
    if known[0] != request:
        raise Conflict("this Idempotency-Key was used with another request; take a new key", code="key_reused")
    return msgspec.json.decode(known[1], type=StateUpdated)


def _refuse_busy(status: Status) -> None:
    if status.status == "running" and not status.awaiting_user_input:
        raise Conflict(
            f"the session is still working on round {status.round}; change its state when the round has ended, "
            "or stop it first",
            code="session_busy",
        )


class _Context(NamedTuple):
    """A session as a request finds it."""

    head: Head
    status: Status
    version: int | None
    """Of the agent system: that of an open question, or else the newest."""
    known: StateUpdated | None = None
    """The answer that the same request got before."""


class GraphStates:
    def __init__(
        self,
        database: Database,
        log: DurableLog,
        systems: Systems,
        documents: DocumentStore,
        quotas: TenantQuotas,
        clock: Clock,
    ) -> None:
        self._database, self._log, self._systems = database, log, systems
        self._documents, self._quotas, self._clock = documents, quotas, clock
        self._changing: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def values(self, tenant: str, session_id: str, checkpoint_id: str | None = None) -> GraphValues:
        """
        Raises:
            NotFound: there is no such session, or no such checkpoint in it.
        """
        agent = await self._agent(tenant, await self._context(tenant, session_id))
        found = await _state_at(agent, session_id, checkpoint_id)
        redactor = self._log.redactors.of(tenant)
        values, blobs = await in_thread(_readable, found, redactor)
        await self._documents.keep(tenant, session_id, blobs)
        return values

    async def history(self, tenant: str, session_id: str, *, before: str | None, limit: int) -> CheckpointPage:
        agent = await self._agent(tenant, await self._context(tenant, session_id))
        if before is not None:
            await _state_at(agent, session_id, before)
        found = [each async for each in state_history(agent, session_id, before=before, limit=limit)]
        wanted = {each.checkpoint_id or "" for each in found}
        facts = await self._database.read(partial(_saved_in_log, tenant=tenant, session_id=session_id, wanted=wanted))
        listed = [_listed(each, *facts.get(each.checkpoint_id or "", (None, None))) for each in found]
        following = listed[-1].checkpoint_id if len(listed) == limit else None
        return CheckpointPage(checkpoints=listed, next=following)

    async def change(
        self, tenant: str, session_id: str, update: StateUpdate, *, key: str | None = None
    ) -> StateUpdated:
        """Change the state, as if a node had returned the values.

        Raises:
            Conflict: a run is under way.
            InvalidField: a key or a node is unknown, or the graph does not accept the values.
            NotFound: there is no such session, or no such checkpoint in it.
        """
        checked = await self._checked(tenant, update)
        one_by_one = self._changing.setdefault((tenant, session_id), asyncio.Lock())
        async with one_by_one:
            for _ in range(_ATTEMPTS):
                try:
                    return await self._change(tenant, session_id, checked, key)
                except Overtaken:
                    continue
        said = "the session changes faster than its state can be changed; send this again"
        raise Conflict(said, code="session_busy")

    async def _checked(self, tenant: str, update: StateUpdate) -> StateUpdate:
        """The update without secrets. What an envelope could not hold as it is, is refused."""
        safe = canonical(update.values, depth=PAYLOAD_DEPTH)
        if safe.notes:
            said = f"values{safe.notes[0].removeprefix('$')}; this cannot be recorded as it is, so send something else"
            raise InvalidField(said, field="values")
        values = await self._log.redacted(tenant, safe.value)
        return StateUpdate(values, update.as_node, update.checkpoint_id)

    async def _change(self, tenant: str, session_id: str, update: StateUpdate, key: str | None) -> StateUpdated:
        sent = [update.values, update.as_node, update.checkpoint_id]
        request = digest_id(msgspec.json.encode(sent).decode())
        found = await self._context(tenant, session_id, key=key, request=request)
        if found.known is None:
            _refuse_busy(found.status)
        agent = await self._agent(tenant, found)
        answer = found.known
        if answer is None:
            if update.checkpoint_id is not None:
                await _state_at(agent, session_id, update.checkpoint_id)
            prepared = await prepare_update(agent, session_id, found.head.epoch, update)
            change = self._prepared(tenant, session_id, found, update, prepared, key=key, request=request)
            answer = (await self._log.commit(change_state_many, change, session_id, lambda done: done.stored)).answer
        state = await read_state(agent, session_id, answer.checkpoint_id)
        return msgspec.structs.replace(answer, next=list(state.next) if state else [])

    def _prepared(
        self,
        tenant: str,
        session_id: str,
        found: _Context,
        update: StateUpdate,
        prepared: PreparedUpdate,
        **request: Any,
    ) -> ChangeState:
        saved = prepared.saved
        assert saved is not None  # LangGraph stores a checkpoint for every update
        at = self._clock.now()
        trace_id = found.status.trace_id if found.status.awaiting_user_input else None
        changed = NodeUpdated(at, prepared.node, "", update.values)
        return ChangeState(
            tenant=tenant,
            session_id=session_id,
            at=at,
            position=found.head.position,
            epoch=found.head.epoch,
            envelopes=list(client_change(changed, saved, trace_id=trace_id, version=found.head.position + 1)),
            puts=prepared.puts,
            checkpoint_id=saved.checkpoint_id,
            limits=self._quotas.limits(tenant),
            **request,
        )

    async def _context(self, tenant: str, session_id: str, *, key: str | None = None, request: str = "") -> _Context:
        def read(tx: Transaction) -> _Context | None:
            row = tx.row("head", session_id, tenant)
            if row is None:
                return None
            head = Head(*row)
            status = transactions.status_of(tx, tenant, session_id)
            version = self._systems.newest_version(tx, tenant, head.system)
            if status.system_version and (status.awaiting_user_input or version is None):
                version = status.system_version
            return _Context(head, status, version, _recall(tx, tenant, session_id, key=key, request=request))

        found = await self._database.read(read)
        if found is None:
            raise unknown_session(session_id)
        return found

    async def _agent(self, tenant: str, found: _Context) -> RunnableAgent:
        version = await self._systems.usable(tenant, found.head.system, found.version)
        return await self._systems.agent(tenant, found.head.system, version)


async def _state_at(agent: RunnableAgent, session_id: str, checkpoint_id: str | None) -> SavedState:
    found = await read_state(agent, session_id, checkpoint_id)
    if found is None:
        remedy = f"GET /sessions/{session_id}/state/history lists those that there are"
        raise NotFound("checkpoint", checkpoint_id or "", remedy=remedy)
    return found


def _saved_in_log(
    tx: Transaction, *, tenant: str, session_id: str, wanted: set[str]
) -> dict[str, tuple[int, SubgraphCheckpoint]]:
    found: dict[str, tuple[int, SubgraphCheckpoint]] = {}
    for position, body in tx.rows("checkpoint_events", session_id, 0, sys.maxsize, tenant):
        envelope = decode(bytes(body))
        if isinstance(envelope, SubgraphCheckpoint) and envelope.payload.checkpoint_id in wanted:
            found.setdefault(envelope.payload.checkpoint_id, (position, envelope))
            if len(found) == len(wanted):
                break
    return found


def _listed(state: SavedState, position: int | None, saved: SubgraphCheckpoint | None) -> CheckpointInfo:
    return CheckpointInfo(
        checkpoint_id=state.checkpoint_id or "",
        parent_checkpoint_id=state.parent_id,
        created_at=state.created_at or 0.0,
        source=state.source or "loop",
        step=-1 if state.step is None else state.step,
        next=list(state.next),
        node=None if saved is None else saved.payload.node,
        run_id=None if saved is None else saved.run_id,
        position=position,
    )


def _readable(state: SavedState, redactor: Redactor) -> tuple[GraphValues, Sequence[Blob]]:
    """The state as JSON without secrets, and the files that it refers to."""
    values = _whole(state.values)
    blobs = list(values.blobs)
    tasks: list[GraphTask] = []
    for task in state.tasks:
        asked: list[GraphInterrupt] = []
        for interrupt in task.interrupts:
            value = canonical(interrupt.value)
            blobs += value.blobs
            asked.append(GraphInterrupt(id=interrupt.id, value=value.value))
        error = UNSET if task.error is None else task.error
        tasks.append(GraphTask(id=task.id, name=task.name, interrupts=asked, error=error))
    shown = GraphValues(
        values=values.value,
        next=list(state.next),
        tasks=tasks,
        checkpoint_id=state.checkpoint_id,
        parent_checkpoint_id=state.parent_id,
        created_at=state.created_at,
        source=state.source,
        step=state.step,
        sanitized=list(values.notes[:MAX_NOTES]) or UNSET,
    )
    (clean,), files = without_secrets([shown], blobs, redactor)
    return redactor.redact(clean), files


def _whole(value: Any) -> Canonical:
    """The value as JSON; a long list or dict stays one, and only what is too large in it becomes a file."""
    safe = canonical(value)
    if _TOO_LARGE not in safe.notes or not isinstance(value, dict | list):
        return safe
    members = value.items() if isinstance(value, dict) else enumerate(value)
    parts = {str(key): _whole(member) for key, member in members}
    whole: Any = {key: part.value for key, part in parts.items()}
    return Canonical(
        value=whole if isinstance(value, dict) else list(whole.values()),
        notes=tuple(f"$.{key}{note.removeprefix('$')}" for key, part in parts.items() for note in part.notes),
        blobs=tuple(blob for part in parts.values() for blob in part.blobs),
    )
