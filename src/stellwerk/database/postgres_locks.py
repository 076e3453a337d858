"""Locks by name among all processes of a PostgreSQL database: advisory locks of one session.

They outlast transactions, and go with the connection. It must not be shared through a pooler
that gives it away after each transaction.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import Any

import psycopg

from stellwerk.database.locks import NamedLocks

Connection = psycopg.Connection[Any]

_FIRST, _LONGEST = 0.005, 0.25
"""Seconds between two tries."""
_TRY = "SELECT key, pg_try_advisory_lock(key) FROM unnest($1::bigint[]) AS key"
_UNLOCK = "SELECT pg_advisory_unlock(key) FROM unnest($1::bigint[]) AS key"


class PostgresLocks:
    """``connect`` opens a connection; ``key`` makes a number of a name."""

    def __init__(
        self, connect: Callable[[], Connection], key: Callable[[str], int], storage_error: Callable[[Any], Exception]
    ) -> None:
        self._connect, self._key, self._storage_error = connect, key, storage_error
        self._inside = NamedLocks()
        self._thread = ThreadPoolExecutor(1, "postgres-locks")
        self._connection: Connection | None = None

    @asynccontextmanager
    async def locked(self, *names: str) -> AsyncIterator[None]:
        keys = sorted({self._key(name) for name in names})
        async with self._inside.locked(*names):
            held = await self._held(keys)
            try:
                yield
            finally:
                await asyncio.shield(asyncio.wrap_future(self._thread.submit(self._unlock, held, keys)))

    async def _held(self, keys: Sequence[int]) -> Connection:
        pause = _FIRST
        while True:
            trying = self._thread.submit(self._try, keys)
            try:
                held = await asyncio.shield(asyncio.wrap_future(trying))
            except asyncio.CancelledError:
                trying.add_done_callback(lambda done: self._let_go(done, keys))
                raise
            if held is not None:
                return held
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST)

    def _let_go(self, trying: "Future[Connection | None]", keys: Sequence[int]) -> None:
        """What a caller that gave up was still to be given."""
        if not trying.cancelled() and trying.exception() is None and (held := trying.result()) is not None:
            self._unlock(held, keys)  # on the same thread, which has just finished the try

    def close(self) -> None:
        self._thread.shutdown()

    def _try(self, keys: Sequence[int]) -> Connection | None:
        """The session that holds all of them, or None if another process holds one."""
        was_open = self._connection is not None
        try:
            return self._taken(keys)
        except psycopg.Error as error:
            self._give_up()
            if not was_open:
                raise self._storage_error(error) from error
        try:  # it may have been lost long ago: another one decides
            return self._taken(keys)
        except psycopg.Error as error:
            self._give_up()
            raise self._storage_error(error) from error

    def _taken(self, keys: Sequence[int]) -> Connection | None:
        connection = self._connection = self._connection or self._connect()
        tried = connection.execute(_TRY, [keys]).fetchall()
        taken = [key for key, is_taken in tried if is_taken]
        if len(taken) == len(keys):
            return connection
        connection.execute(_UNLOCK, [taken])
        return None

    def _unlock(self, held: Connection, keys: Sequence[int]) -> None:
        if held is self._connection:
            try:
                held.execute(_UNLOCK, [keys])
            except psycopg.Error:  # they went with the connection
                self._give_up()

    def _give_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()
