"""What a session and a tenant hold is kept in tallies; whatever is done, they are what a recount would find."""

from io import BytesIO
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stellwerk.database.port import Database, Transaction, locking, session_lock
from stellwerk.documents.files import FolderFiles
from stellwerk.documents.store import DocumentStore
from stellwerk.envelope.frames import Stored
from stellwerk.envelope.introspection import make_blob
from stellwerk.envelope.model import Envelope
from stellwerk.errors import Conflict, NotFound
from stellwerk.ids import SortableIds, SystemClock
from stellwerk.log import transactions
from stellwerk.log.compaction import Piece, compact_many
from stellwerk.log.durable import DurableLog
from stellwerk.log.log import CreateSession, Lease
from stellwerk.log.notify import WakeUps
from stellwerk.log.transactions import entry
from stellwerk.runs.fork import Fork, fork_many
from tests import stores
from tests.samples import TENANT, llm_end, llm_start, run_end, run_start, token

STORY: list[Envelope] = [
    run_start(),
    llm_start(),
    *(token(f"word {n} ", n) for n in range(2, 9)),
    llm_end(9),
    run_end(),
]
DOINGS = ("tell", "tell", "keep", "keep", "upload", "drop", "give_up", "compact", "remove", "fork", "delete")
_RECOUNT = """
SELECT id, told - coalesce((SELECT sum(length(body)) FROM event WHERE session_id = session.id), 0),
    filed - coalesce((SELECT sum(size) FROM document WHERE session_id = session.id), 0) FROM session
UNION ALL
SELECT name, held - coalesce((SELECT sum(length(body)) FROM event JOIN session ON session.id = session_id
        WHERE tenant = name), 0),
    coalesce((SELECT sum(size) FROM (SELECT DISTINCT document_id, size FROM document WHERE tenant = name)), 0)
FROM tenant
"""


class Desk:
    """One of everything that changes what is stored, with sessions that share three documents."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.database, self.log = database, DurableLog(database, WakeUps())
        self.documents = DocumentStore(database, FolderFiles(folder), SystemClock())
        self.ids, self.sessions = SortableIds(SystemClock()), list[str]()
        self.batches: dict[str, int] = {}

    async def begin(self) -> None:
        self.sessions.append(self.ids.new())
        await self.log.create(CreateSession(TENANT, self.sessions[-1], "demo", 1.0))

    async def tell(self, sid: str, _: int) -> None:
        self.batches[sid] = self.batches.get(sid, 0) + 1
        entries = [entry(envelope) for envelope in STORY]
        await self.log.append(Lease(TENANT, sid, "run", 0), self.batches[sid], entries)

    async def keep(self, sid: str, number: int) -> None:
        await self.documents.keep(TENANT, sid, [_blob(number)])

    async def upload(self, _: str, number: int) -> None:
        await self.documents.take(TENANT, BytesIO(_blob(number).data), filename="a.txt", mime="text/plain")

    async def drop(self, _: str, number: int) -> None:
        await self.documents.drop(TENANT, _blob(number).document_id)

    async def give_up(self, sid: str, _: int) -> None:
        await self.documents.give_up_uploads(TENANT, sid)

    async def compact(self, sid: str, _: int) -> None:
        while await self.database.submit(compact_many, Piece(TENANT, sid, 1e12)) is not None:
            pass

    async def remove(self, sid: str, number: int) -> None:
        told = await self.log.read(TENANT, sid, after=number, limit=4)
        stubs = [Stored(position, body[:-1] + b" }") for position, body in told]

        @locking(lambda _: [session_lock(sid)])
        def rewrite(tx: Transaction, items: Any) -> list[None | Exception]:
            for each in items:
                transactions.rewrite(tx, TENANT, sid, each)
            return [None] * len(items)

        await self.database.submit(rewrite, stubs)

    async def fork(self, sid: str, _: int) -> None:
        new = self.ids.new()
        await self.database.submit(fork_many, Fork(TENANT, sid, new, None, 2.0))
        self.sessions.append(new)

    async def delete(self, sid: str, _: int) -> None:
        self.sessions.remove(sid)
        await self.log.delete(TENANT, sid, at=3.0)
        await self.begin()


def _blob(number: int) -> Any:
    return make_blob(b"x" * (number + 1), mime="text/plain", filename="a.txt")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=10, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(DOINGS), st.integers(0, 2), st.integers(0, 2)), min_size=10, max_size=25))
async def test_tallies_are_what_a_recount_finds(
    database: Database, tmp_path: Path, doings: list[tuple[str, int, int]]
) -> None:
    desk = Desk(database, tmp_path / "documents")
    for _ in range(2):
        await desk.begin()
    for name, which, number in doings:
        try:
            await getattr(desk, name)(desk.sessions[-1 - which % len(desk.sessions)], number)
        except (Conflict, NotFound):  # nothing to fork, or to drop
            continue
    agrees(tmp_path)
    for sid in tuple(desk.sessions):
        await desk.log.delete(TENANT, sid, at=3.0)
    agrees(tmp_path)


def agrees(folder: Path) -> None:
    with stores.beside(folder / "test.db") as stored:
        *sessions, (_, of_tenant, documents) = stored.rows(_RECOUNT)
    assert [row for row in sessions if row[1:] != (0, 0)] == []
    assert of_tenant == documents
