"""A PostgreSQL primary with a standby that confirms each commit; either may fail, and the other one goes on.

Unlike the server of other tests, both write to the disk.
"""

import shutil
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

from tests.postgres import ROLE, PostgresServer

DATABASE = "stellwerk"
_CONFIGURATION = {
    "fsync": "on",
    "full_page_writes": "on",
    "wal_level": "replica",
    "max_wal_senders": "4",
    "wal_keep_size": "64MB",
    "max_connections": "100",
    "autovacuum": "on",
    "checkpoint_timeout": "5min",
}
_WITHIN = 120


class ReplicatedPostgres:
    """``ports`` are those of both, in an order that does not change."""

    def __init__(self, folder: Path, *, has_standby: bool = True) -> None:
        places = ("a", "b") if has_standby else ("a",)
        self._servers = [PostgresServer(folder / place, _CONFIGURATION, port=_free_port()) for place in places]
        self._primary = 0

    @property
    def ports(self) -> list[int]:
        return [port for server in self._servers if (port := server.port) is not None]

    @property
    def primary(self) -> PostgresServer:
        return self._servers[self._primary]

    def open(self) -> None:
        self.primary.create()
        self.primary.start()
        self.primary.add_role()
        self.run(f"CREATE DATABASE {DATABASE} OWNER {ROLE}")
        self.add_standby()

    def close(self) -> None:
        for server in self._servers:
            server.stop()

    def add_standby(self) -> None:
        """Make the other one a standby of the primary, whatever it was; returns when commits wait for it."""
        for standby in self._servers:
            if standby is not self.primary:
                standby.stop()
                shutil.rmtree(standby.folder, ignore_errors=True)
                standby.create_standby(self.primary)
                standby.start()
                self.run("ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
                self._until(
                    lambda: self.rows("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'") != [],
                    "the standby does not follow",
                )

    def restart(self, seconds: float) -> None:
        """End it at once, as a crash would; it recovers from its log after a while."""
        self.primary.stop(signal.SIGQUIT)
        time.sleep(seconds)
        self.primary.start()

    def fail_over(self, seconds: float) -> None:
        """The primary is gone; after a while, the standby is promoted."""
        self.primary.stop(signal.SIGQUIT)
        time.sleep(seconds)
        self._primary = 1 - self._primary
        self.run("SELECT pg_promote()")
        self._until(lambda: self.rows("SELECT pg_is_in_recovery()") == [(False,)], "it is not promoted")

    def slow_down(self, milliseconds: int) -> None:
        """Each write of the log to the disk begins so much later; 0: it does not."""
        self.run(
            "ALTER SYSTEM SET commit_siblings = 0",
            f"ALTER SYSTEM SET commit_delay = {milliseconds * 1000}",
            "SELECT pg_reload_conf()",
        )

    def url(self) -> str:
        """Of the database on the primary, past all relays."""
        return self.primary.url(DATABASE)

    def run(self, *statements: str) -> None:
        with psycopg.connect(self.primary.url("postgres", user="postgres"), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def rows(self, statement: str, *params: object, database: str = "postgres") -> list[tuple[Any, ...]]:
        with psycopg.connect(self.primary.url(database, user="postgres"), autocommit=True) as connection:
            return connection.execute(statement.encode(), params or None).fetchall()

    def _until(self, holds: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + _WITHIN
        while not holds():
            if time.monotonic() > deadline:
                raise RuntimeError(otherwise)
            time.sleep(0.05)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port
