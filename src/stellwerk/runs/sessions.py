"""Sessions: begun, listed, looked at, sent to, deleted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from stellwerk.database.port import Database
from stellwerk.documents.store import DocumentStore
from stellwerk.envelope.canonical import clean_text
from stellwerk.ids import Clock, IdSource
from stellwerk.log.durable import DurableLog
from stellwerk.log.log import NewSession
from stellwerk.log.tables import unknown_session
from stellwerk.runs.commands import Accepted, Send
from stellwerk.runs.dispatch import Dispatch
from stellwerk.runs.systems import Systems
from stellwerk.spec.chat import ChatMessage
from stellwerk.views.status import State, Status

_AFTER_ALL = "~"
"""Sorts behind every id."""


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A session as a list shows it: what it is, and where it stands."""

    id: str
    sid: str
    agent_system_id: str
    user_id: str | msgspec.UnsetType = msgspec.UNSET
    created_at: float
    position: int
    status: State = "idle"
    round: int = 0
    awaiting_user_input: bool = False


@dataclass(frozen=True, slots=True)
class Stores:
    """Where everything lies that belongs to a session."""

    database: Database
    log: DurableLog
    documents: DocumentStore


class Sessions:
    def __init__(self, stores: Stores, systems: Systems, dispatch: Dispatch, clock: Clock, ids: IdSource) -> None:
        self._database, self._log, self._documents = stores.database, stores.log, stores.documents
        self._systems, self._dispatch, self._clock, self._ids = systems, dispatch, clock, ids

    async def begin(self, tenant: str, system: str, user: str | None) -> Session:
        await self._systems.newest(tenant, system)
        new = NewSession(tenant, self._ids.new(), system, self._clock.now(), user)
        await self._log.create(new)
        return _session((new.session_id, system, user, new.created_at, 0, None))

    async def send(
        self, tenant: str, session_id: str, text: str, *, key: str | None = None, earlier: Sequence[ChatMessage] = ()
    ) -> Accepted:
        """``earlier`` is for a session that has only begun: what was said before, elsewhere."""
        head = await self._log.head(tenant, session_id)
        run_id = self._ids.new()
        send = Send(
            tenant=tenant,
            session_id=session_id,
            text=clean_text(text),
            system=head.system,
            system_version=await self._systems.newest(tenant, head.system),
            run_id=run_id,
            trace_id=run_id,
            message_id=self._ids.new(),
            at=self._clock.now(),
            key=key,
            earlier=[ChatMessage(role=said.role, content=clean_text(said.content)) for said in earlier],
        )
        return await self._dispatch.send(send)

    async def find(self, tenant: str, session_id: str) -> Session:
        row = await self._database.read(lambda tx: tx.row("session_standing", session_id, tenant))
        if row is None:
            raise unknown_session(session_id)
        return _session(row)

    async def list(self, tenant: str, *, before: str | None, limit: int) -> list[Session]:
        """Newest first; ``before`` is the id of the last one seen."""
        rows = await self._database.read(lambda tx: tx.rows("standings", tenant, before or _AFTER_ALL, limit))
        return [_session(row) for row in rows]

    async def delete(self, tenant: str, session_id: str) -> None:
        # First the rows: that fences off the driver by itself, and a delete that is refused harms no run.
        documents = self._documents.of(tenant, session_id)  # on the writer, right before: none comes in between
        try:
            await self._log.delete(tenant, session_id, at=self._clock.now())
        finally:
            left = await documents
        await self._dispatch.abandon(session_id)
        await self._documents.release(tenant, left)


def _session(row: tuple[Any, ...]) -> Session:
    session_id, system, user, created_at, position, state = row
    standing = Status() if state is None else msgspec.json.decode(state, type=Status)
    return Session(
        id=session_id,
        sid=session_id,
        agent_system_id=system,
        user_id=msgspec.UNSET if user is None else user,
        created_at=created_at,
        position=position,
        status=standing.status,
        round=standing.round,
        awaiting_user_input=standing.awaiting_user_input,
    )
