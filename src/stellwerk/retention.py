"""Retention: compacts old sessions and deletes older ones, as configured for each tenant.

A background job that works in small pieces, with a pause after each. It depends on stored data
only, so an interruption costs nothing: the next round finds what is left. A session with a run
under way is never touched.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from functools import partial

import structlog

from stellwerk.database.port import Database, Row, Transaction
from stellwerk.documents.store import DocumentStore
from stellwerk.errors import Conflict, NotFound, StellwerkError
from stellwerk.ids import Clock
from stellwerk.log.compaction import Piece, compact_many
from stellwerk.log.durable import DurableLog
from stellwerk.log.transactions import Overtaken
from stellwerk.runs.sessions import Sessions
from stellwerk.spec.operator import RetentionOfAll, seconds
from stellwerk.tenants.audit import Action, Audit, recording
from stellwerk.tenants.principals import Principal

logger = structlog.get_logger(__name__)

_EVERY = 300.0
_ASK_AGAIN = 1.0
_PAUSE = 0.01
_PAGE = 100
EPHEMERAL = 60.0
"""Seconds from the end of its run to the deletion of a session that was made for one run."""
_WHO = "retention"
"""The name in the audit for deletions by age."""


@dataclass(frozen=True, slots=True)
class RetentionJob:
    database: Database
    log: DurableLog
    documents: DocumentStore
    sessions: Sessions
    audit: Audit
    wanted: RetentionOfAll
    clock: Clock
    ttls: Mapping[str, float] = field(default_factory=dict)
    """Seconds without activity after which a session is deleted, by system."""

    def warn_of_unknown(self, tenants: Collection[str]) -> None:
        """Log configured tenants that do not exist: they may be created later, or be misspelled."""
        for name in sorted(self.wanted.tenants.keys() - set(tenants)):
            logger.warning("retention_of_unknown_tenant", tenant=name)

    async def keep_running(self, is_due: Callable[[], bool]) -> None:
        """``is_due`` is asked before each round: of several nodes, one does this."""
        while True:
            if not is_due():
                await asyncio.sleep(_ASK_AGAIN)
                continue
            try:
                await self.run_once()
            except (StellwerkError, OSError) as error:  # such as a full disk
                logger.warning("retention_failed", error=str(error))
            await asyncio.sleep(_EVERY)

    async def run_once(self) -> None:
        """Do what is due: deletions first, because compaction may take long."""
        tenants = await self.database.read(
            lambda tx: {*tx.rows("tenants_of_sessions"), *tx.rows("tenants_of_documents")}
        )
        now = self.clock.now()
        wanted = {tenant: self.wanted.of(tenant) for (tenant,) in sorted(tenants)}
        for tenant, its in wanted.items():
            if (age := seconds(its.delete_after)) is not None:
                await self._delete(tenant, now - age)
            for system, ttl in self.ttls.items():
                await self._delete_sessions(tenant, now - ttl, system)
        for tenant, its in wanted.items():
            if (age := seconds(its.compact_after)) is not None:
                await self._compact(tenant, now - age)

    async def delete_ephemeral(self) -> None:
        """Delete sessions of one run, a while after its end: readers may still be reading it."""
        before = self.clock.now() - EPHEMERAL
        for tenant, session_id, position in await self.database.read(
            lambda tx: tx.rows("ephemeral_sessions", before, _PAGE)
        ):
            with (
                suppress(NotFound, Overtaken),
                self._recording(tenant, "DELETE /sessions/{sid}", sid=session_id),
            ):
                await self.sessions.delete(tenant, session_id, position=position)

    async def _delete(self, tenant: str, before: float) -> None:
        await self._delete_sessions(tenant, before, None)
        async for (document_id,) in self._found("uploads_to_delete", tenant, before, ("",)):
            with suppress(Conflict), self._recording(tenant, "DELETE /files/{file_id}", file_id=document_id):
                await self.documents.drop(tenant, document_id)

    async def _delete_sessions(self, tenant: str, before: float, system: str | None) -> None:
        """Of all systems, or of one."""
        async for _, session_id, position in self._found("sessions_to_delete", tenant, before, (0, ""), system):
            try:
                await self.documents.give_up_uploads(tenant, session_id)
                with self._recording(tenant, "DELETE /sessions/{sid}", sid=session_id):
                    await self.sessions.delete(tenant, session_id, position=position)
            except (NotFound, Overtaken):  # deleted or continued meanwhile
                continue
            self.log.metrics.expired.add()

    async def _compact(self, tenant: str, before: float) -> None:
        async for _, session_id in self._found("sessions_to_compact", tenant, before, (0, "")):
            piece = Piece(tenant, session_id, before)
            while (saved := await self.database.submit(compact_many, piece)) is not None:
                self.log.metrics.saved.add(by=saved)
                await asyncio.sleep(_PAUSE)

    async def _found(
        self, query: str, tenant: str, before: float, cursor: Row, *more: str | None
    ) -> AsyncIterator[Row]:
        """Read page by page, in the order of the cursor, with which each row begins."""
        while page := await self.database.read(partial(_page, query, (tenant, before, *cursor, _PAGE, *more))):
            for row in page:
                yield row
                await asyncio.sleep(_PAUSE)
            cursor = page[-1][: len(cursor)]

    def _recording(self, tenant: str, what: str, **on: str) -> AbstractContextManager[None]:
        return recording(self.audit.due(Action(Principal(tenant, "admin", _WHO), what, on), 204))


def _page(query: str, params: Row, tx: Transaction) -> list[Row]:
    return tx.rows(query, *params)
