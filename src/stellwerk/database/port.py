"""What a database must promise: one writer that commits in groups, and many readers.

A write is an *operation* over a list of items. All items that wait when the writer comes round share
one transaction and one fsync; items of the same operation are handed over together, so that a database
which is good at sets can work on the set. Each item has its own outcome: an operation returns an
exception in the place of an item that is refused, and its neighbours go on.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from math import inf
from typing import Any, NamedTuple, Protocol, TypeVar

from stellwerk.errors import StorageClosed, StorageFull, StorageGone
from stellwerk.metrics import Histogram

Row = tuple[Any, ...]
SESSION = "session"
P = TypeVar("P")
R = TypeVar("R")


class Transaction(Protocol):
    """Statements by name in the SQL files; parameters are bound, never written into the text."""

    flush: int
    """The number of this commit; rises with every one."""

    def rows(self, query: str, *params: object) -> list[Row]:
        """All rows."""

    def rows_within(self, budget: int, query: str, *params: object) -> list[Row]:
        """The first rows whose last columns have ``budget`` bytes together; at least one."""

    def row(self, query: str, *params: object) -> Row | None:
        """The first row, or None."""

    def run(self, query: str, *params: object) -> int:
        """Execute and return how many rows it touched."""

    def write(self, query: str, *params: object) -> None:
        """Execute, where it is not asked how many rows that touched: it may go with the next statement."""

    def run_many(self, query: str, rows: Iterable[Sequence[object]]) -> None:
        """Execute once per row of parameters."""

    def lock_free(self, sessions: Iterable[str]) -> set[str]:
        """Lock those sessions that no other process has locked, and return their ids."""


Operation = Callable[[Transaction, Sequence[P]], Sequence[R | Exception]]


class Lock(NamedTuple):
    """What a write holds from its first statement to its commit, where several processes write."""

    what: str
    name: str = ""


F = TypeVar("F", bound=Callable[..., Any])
_LOCKS: dict[Operation[Any, Any], Callable[[Any], Iterable[Lock]]] = {}


def session_lock(session_id: str) -> Lock:
    """Its row; whatever is stored for a session is written under this lock."""
    return Lock(SESSION, session_id)


def id_lock(session_id: str) -> Lock:
    """For a session that is not there yet, or no more."""
    return Lock("session id", session_id)


def usage_lock(tenant: str) -> Lock:
    """What was used is added to rows of the tenant."""
    return Lock("usage", tenant)


DOCUMENTS = Lock("documents")
"""Between a look at a document's file, or at who else refers to it, and the change of its rows."""


def locking(locks: Callable[[Any], Iterable[Lock]]) -> Callable[[F], F]:
    """Decorate an operation with the locks that each of its items needs, taken before it begins.

    A database takes the locks of a whole batch, each kind in one order, so no two batches wait for each other.
    """

    def decorate(operation: F) -> F:
        _LOCKS[operation] = locks
        return operation

    return decorate


def locks_of(operation: Operation[Any, Any], item: Any) -> Iterable[Lock]:
    """The locks that an operation needs for an item; none if it only reads, or writes in single statements."""
    locks = _LOCKS.get(operation)
    return () if locks is None else locks(item)


class Database(Protocol):
    """``open`` it on the loop that uses it; ``close`` it there, too."""

    commit_seconds: Histogram

    def submit(self, operation: Operation[P, R], item: P, *, urgent: bool = False) -> "asyncio.Future[R]":
        """Hand over one write. The future resolves after the commit, or fails with nothing written.

        Urgent writes (stop, delete, the end of a run) may use the last space on the disk.

        Raises (through the future):
            StorageFull: the disk is full.
            StorageGone: the database was closed or cannot be reached.
        """

    def when_free(self, call: Callable[[], None]) -> None:
        """Call it once no commit is under way: what it submits shares the next commit."""

    async def read(self, query: Callable[[Transaction], R]) -> R:
        """Run a query beside the writer, on a snapshot of what is committed.

        Raises:
            StorageGone: the database cannot be read.
        """

    def locked(self, *names: str) -> AbstractAsyncContextManager[None]:
        """Hold names alone, among all processes that use this database, for as long as the block lasts.

        For what must not overlap and takes longer than a transaction may; none is under way meanwhile.

        Raises:
            StorageGone: the database cannot be reached.
        """

    async def truncate(self) -> bool:
        """Make deleted content disappear from the files, too; False if that must be tried again."""

    async def close(self) -> None:
        """Finish what was submitted, then let go of files and connections."""


class OpenableDatabase(Database, Protocol):
    where: str
    """For the operator: its file, or its name and host."""

    async def open(self) -> None:
        """
        Raises:
            SettingsError: it cannot be opened, and was not changed.
        """

    async def check(self) -> None:
        """
        Raises:
            StorageGone: the database cannot be reached, or was deleted or replaced.
        """


async def retry_storage(submit: Callable[[], Awaitable[R]], *, every: float, patience: float = inf) -> R:
    """Retry while the disk is full or gone, for as many seconds as ``patience``."""
    clock = asyncio.get_running_loop().time
    began = clock()
    while True:
        try:
            return await submit()
        except StorageClosed:
            raise
        except (StorageFull, StorageGone):
            if clock() - began >= patience:
                raise
        await asyncio.sleep(every)


class ReadBatcher:
    """Reads of one turn of the event loop share one trip to a reader thread.

    Under load a trip costs more than the query: two threads compete for the interpreter. A read
    never waits for an earlier batch, and one that fails does not fail the others of its batch.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._pending: list[Callable[[Transaction], Any]] = []
        self._batch: asyncio.Task[list[Any]] | None = None

    async def read(self, query: Callable[[Transaction], R]) -> R:
        batch = self._batch
        if batch is None:
            batch = self._batch = asyncio.create_task(self._read_pending())
            batch.add_done_callback(lambda done: done.cancelled() or done.exception())  # all callers may be gone
        place = len(self._pending)
        self._pending.append(query)
        await asyncio.wait([batch])
        if batch.exception() is not None:
            return await self._database.read(query)
        found: R = batch.result()[place]
        return found

    async def _read_pending(self) -> list[Any]:
        queries, self._pending = self._pending, []
        self._batch = None  # its results are not held beyond its callers
        return await self._database.read(lambda tx: [query(tx) for query in queries])
