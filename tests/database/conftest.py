"""A PostgreSQL server of these tests' own: it is restarted, and asks for passwords on loopback."""

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import psycopg
import pytest

from tests.postgres import ROLE, PostgresServer, folder_of_run

LOCKS = (Path(__file__).parent / "locks.sql").read_text("utf-8")
PASSWORD = "p@ss/word"
_HBA = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"


@dataclass(frozen=True)
class Postgresql:
    server: PostgresServer
    port: int
    numbers: Iterator[int]

    def new(self, *, owner: str = ROLE, encoding: str = "UTF8") -> str:
        """The URL of a new database."""
        name = f"d{next(self.numbers)}"
        sort = "LOCALE_PROVIDER libc LOCALE 'C'" if encoding != "UTF8" else ""
        self.run("postgres", f"CREATE DATABASE {name} OWNER {owner} ENCODING '{encoding}' TEMPLATE template0 {sort}")
        return self.server.url(name)

    def run(self, database: str, statement: str) -> None:
        with psycopg.connect(self.server.url(database, user="postgres"), autocommit=True) as connection:
            connection.execute(statement)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Postgresql]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with folder_of_run() as folder:
        server = PostgresServer(folder, port=port)
        server.create()
        (folder / "data/pg_hba.conf").write_text(_HBA)
        server.start()
        server.add_role()
        found = Postgresql(server, port, count(1))
        found.run("postgres", f"ALTER ROLE {ROLE} PASSWORD '{PASSWORD}'")
        yield found
