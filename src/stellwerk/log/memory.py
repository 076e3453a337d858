"""The log in a dictionary, for tests and trials: the same promises, none of the durability."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from stellwerk.envelope.frames import Stored
from stellwerk.errors import Conflict, Fenced
from stellwerk.log.log import PAGE_BYTES, Entry, Head, Lease, NewSession, Touched, placed
from stellwerk.log.tables import unknown_session
from stellwerk.log.wake import Wakes


@dataclass
class _Session:
    new: NewSession
    touched: int
    epoch: int = 0
    batch_no: int = 0
    batch_end: int = 0
    events: list[Stored] = field(default_factory=list)


class MemoryLog:
    def __init__(self, wakes: Wakes) -> None:
        self._wakes = wakes
        self._sessions: dict[str, _Session] = {}
        self._buried: set[str] = set()
        self._flush = 0

    async def create(self, session: NewSession) -> None:
        if session.session_id in self._buried or session.session_id in self._sessions:
            raise Conflict(f"the session id {session.session_id!r} is in use or was deleted", code="id_taken")
        self._sessions[session.session_id] = _Session(session, self._next_flush())

    def append(self, lease: Lease, batch_no: int, entries: Sequence[Entry]) -> "asyncio.Future[int]":
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        session = self._sessions.get(lease.session_id)
        if session is None or session.new.tenant != lease.tenant or session.epoch != lease.epoch:
            future.set_exception(Fenced(lease.session_id, lease.epoch))
        elif batch_no == session.batch_no:
            future.set_result(session.batch_end)
        elif batch_no == session.batch_no + 1:
            session.batch_no = batch_no
            session.batch_end = self._store(lease.session_id, session, entries)
            future.set_result(session.batch_end)
        else:
            future.set_exception(Fenced(lease.session_id, lease.epoch))
        return future

    async def read(self, tenant: str, session_id: str, *, after: int, limit: int) -> list[Stored]:
        session = self._sessions.get(session_id)
        if session is None or session.new.tenant != tenant:
            return []
        page = session.events[after : after + limit]
        sizes = accumulate((len(stored.body) for stored in page), initial=0)
        return [stored for stored, before in zip(page, sizes, strict=False) if before < PAGE_BYTES]

    async def head(self, tenant: str, session_id: str) -> Head:
        session = self._find(tenant, session_id)
        new = session.new
        return Head(len(session.events), session.epoch, new.system, new.created_at, new.user)

    async def touched(self, tenant: str, *, since: int, limit: int) -> list[Touched]:
        found = [
            Touched(name, s.touched, len(s.events))
            for name, s in self._sessions.items()
            if s.new.tenant == tenant and s.touched > since
        ]
        found.sort(key=lambda t: (t.touched, t.session_id))
        return [t for t in found if t.touched <= found[:limit][-1].touched]

    async def delete(self, tenant: str, session_id: str, *, at: float) -> None:
        self._find(tenant, session_id)
        del self._sessions[session_id]
        self._buried.add(session_id)
        self._wakes.bury(session_id)

    async def raise_epoch(self, tenant: str, session_id: str) -> int:
        """What a claim does to the session's row."""
        session = self._find(tenant, session_id)
        session.epoch, session.batch_no = session.epoch + 1, 0
        return session.epoch

    def _store(self, session_id: str, session: _Session, entries: Sequence[Entry]) -> int:
        stored = placed(len(session.events) + len(entries), entries)
        session.events += stored
        session.touched = self._next_flush()
        self._wakes.show(session_id, stored)
        return len(session.events)

    def _find(self, tenant: str, session_id: str) -> _Session:
        session = self._sessions.get(session_id)
        if session is None or session.new.tenant != tenant:
            raise unknown_session(session_id)
        return session

    def _next_flush(self) -> int:
        self._flush += 1
        return self._flush
