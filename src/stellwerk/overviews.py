"""Materialized overviews: the folds of a session, stored so that a long log is not read again.

A request reads the stored overview and folds the events behind it; it writes nothing. In the
background ``catch_up`` stores overviews that have fallen behind, and writes changed to-do lists to
files. It depends on stored data only, so a crash or dropped derived tables cost some work at the
next start and nothing else.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import structlog

from stellwerk.database.port import Database, Row, Transaction, locking, session_lock
from stellwerk.documents.todolists import Todolists
from stellwerk.envelope.model import decode
from stellwerk.errors import NotFound, StorageFull
from stellwerk.log.log import PAGE_BYTES
from stellwerk.log.transactions import unknown_session
from stellwerk.runs.systems import Systems
from stellwerk.threads import in_thread
from stellwerk.views.checklist import markdown
from stellwerk.views.overview import FORM, TYPES, Overview, folded
from stellwerk.views.transcript import TYPES as SPOKEN
from stellwerk.views.transcript import TranscriptEntry, entry

logger = structlog.get_logger(__name__)

_PAGE = 1000
_BEHIND = 400
"""Events that a stored overview may lack; to read and fold them takes a millisecond."""
_TYPES = msgspec.json.encode(TYPES).decode()
_SPOKEN = msgspec.json.encode(SPOKEN).decode()


@dataclass(frozen=True, slots=True)
class Seen:
    """A session at a position."""

    overview: Overview
    position: int
    system: str
    kept: Overview | None


class Overviews:
    def __init__(self, database: Database, systems: Systems, todolists: Todolists) -> None:
        self._database = database
        self._systems = systems
        self._todolists = todolists
        self._cursor = 0
        self._swept = False
        self._due: dict[tuple[str, str], None] = {}

    async def of(self, tenant: str, session_id: str) -> Seen:
        """The session as it is now. Raises NotFound if this tenant has no such session."""

        def look(tx: Transaction) -> tuple[Row | None, Row | None, list[Row]]:
            head = tx.row("head", session_id, tenant)
            known = tx.row("overview_of", session_id, tenant, FORM)
            return head, known, _page(tx, tenant, session_id, known[0] if known else 0, _TYPES)

        head, known, page = await self._database.read(look)
        if head is None:
            raise unknown_session(session_id)
        kept = msgspec.json.decode(known[1], type=Overview) if known else None
        overview, position = kept or Overview(), known[0] if known else 0
        while page:
            overview, position = folded(overview, (decode(body) for _, body in page)), page[-1][0]
            page = await self._events(tenant, session_id, position, _TYPES) if _is_full(page) else []
        return Seen(overview, max(head[0], position), head[2], kept)

    async def transcript(self, tenant: str, session_id: str, *, after: int, limit: int) -> list[TranscriptEntry]:
        """The first ``limit`` entries behind ``after`` that are not hidden."""
        hidden = (await self.of(tenant, session_id)).overview.hidden
        found: list[TranscriptEntry] = []
        while len(found) < limit:
            page = await self._events(tenant, session_id, after, _SPOKEN)
            if not page:
                break
            entries = (entry(hidden, position, decode(body)) for position, body in page)
            found += [each for each in entries if each is not None]
            after = page[-1][0]
        return found[:limit]

    async def catch_up(self) -> None:
        """Store overviews that have fallen behind. A full disk is tried again the next time."""
        if not self._swept:
            await self._sweep()
            self._swept = True
        behind, cursor = await self._database.read(
            lambda tx: (tx.rows("overviews_behind", self._cursor, FORM, _BEHIND), tx.row("last_touched"))
        )
        self._due |= dict.fromkeys((tenant, session_id) for tenant, session_id in behind)
        self._cursor = cursor[0] if cursor else 0
        while self._due:
            tenant, session_id = next(iter(self._due))
            try:
                await self._keep(tenant, session_id)
            except StorageFull:
                return
            except (NotFound, msgspec.DecodeError) as error:  # deleted meanwhile, or unreadable
                logger.info("overview_not_kept", session=session_id, error=str(error))
            del self._due[tenant, session_id]

    async def _sweep(self) -> None:
        """Remove to-do lists of deleted sessions, which a crash may leave."""
        for folder in await self._systems.all_checklist_folders():
            for session_id in await in_thread(self._todolists.sessions, folder):
                await self._remove_if_gone(session_id, folder)

    async def _keep(self, tenant: str, session_id: str) -> None:
        seen = await self.of(tenant, session_id)
        listed = seen.overview.checklist
        if listed.version and (seen.kept is None or seen.kept.checklist != listed):
            folder = await self._systems.checklist_folder(tenant, seen.system)
            await in_thread(self._todolists.write, folder, session_id, markdown(listed))
            await self._remove_if_gone(session_id, folder)
        # Behind the file: if this fails, the file is written again.
        row = (session_id, tenant, seen.position, FORM, msgspec.json.encode(seen.overview))
        await self._database.submit(_keep_many, row)

    async def _remove_if_gone(self, session_id: str, folder: str) -> None:
        """Remove the list of a session that was deleted while the list was written."""
        if await self._database.read(lambda tx: tx.row("is_taken", session_id)) is None:
            await in_thread(self._todolists.remove, [folder], session_id)

    async def _events(self, tenant: str, session_id: str, after: int, types: str) -> list[Row]:
        return await self._database.read(lambda tx: _page(tx, tenant, session_id, after, types))


def _page(tx: Transaction, tenant: str, session_id: str, after: int, types: str) -> list[Row]:
    return tx.rows_within(PAGE_BYTES, "events_of_types", session_id, after, types, tenant, _PAGE)


def _is_full(page: Sequence[Row]) -> bool:
    return len(page) == _PAGE or sum(len(body) for _, body in page) >= PAGE_BYTES


@locking(lambda row: [session_lock(row[0])])
def _keep_many(tx: Transaction, rows: Sequence[Row]) -> list[None | Exception]:
    tx.run_many("keep_overview", rows)
    return [None] * len(rows)
