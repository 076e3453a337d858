"""The first connection to a PostgreSQL database: set up once, and refused with a clear text and no change."""

import asyncio
import subprocess
import sys
from urllib.parse import quote

import psycopg
import pytest

from stellwerk.database.opening import database_of
from stellwerk.database.postgres import Postgres, refuse_version
from stellwerk.errors import SettingsError
from stellwerk.settings import Settings
from tests.database.conftest import PASSWORD, Postgresql

TABLES = (
    "SELECT coalesce(string_agg(relname, ' ' ORDER BY relname), '') "
    "FROM pg_class WHERE relnamespace = 'public'::regnamespace"
)


def only(url: str, statement: str) -> object:
    with psycopg.connect(url) as connection:
        return connection.execute(statement).fetchall()[0][0]


async def refusal(url: str) -> str:
    database = Postgres(url)
    with pytest.raises(SettingsError) as refused:
        await database.open()
    await database.close()
    return str(refused.value)


async def test_five_processes_that_start_at_once_on_an_empty_database_set_it_up_once(postgresql: Postgresql) -> None:
    url = postgresql.new()
    databases = [Postgres(url) for _ in range(5)]
    await asyncio.gather(*(database.open() for database in databases))
    found = [await database.read(lambda tx: tx.rows("tenants")) for database in databases]
    for database in databases:
        await database.close()
    assert found == [[(1, "local", 0.0, 0)]] * 5
    assert only(url, "SELECT count(*) FROM schema") == 1


async def test_a_password_is_taken_from_the_url_and_a_wrong_one_is_said(postgresql: Postgresql) -> None:
    name = postgresql.new().rpartition("/")[2].partition("?")[0]
    place = f"127.0.0.1:{postgresql.port}/{name}"
    database = Postgres(f"postgresql://stellwerk:{quote(PASSWORD, safe='')}@{place}")
    await database.open()
    await database.close()
    said = await refusal(f"postgresql://stellwerk:wrong-one@{place}")
    assert f"cannot open the database {name} on 127.0.0.1" in said and "password authentication failed" in said
    assert "wrong-one" not in said


@pytest.mark.parametrize(
    "url", ["mysql://me@db/name", "sqlite.db", "postgresql://me:p/ass@db/name", "postgresql://db/name?colour=red"]
)
def test_what_is_no_url_is_said_without_it(url: str) -> None:
    with pytest.raises(SettingsError, match="is no URL of PostgreSQL; it has the form postgresql://") as refused:
        Postgres(url)
    assert url not in str(refused.value) and "p/ass" not in str(refused.value)


async def test_a_server_that_cannot_be_reached_is_named(postgresql: Postgresql) -> None:
    said = await refusal("postgresql://stellwerk@127.0.0.1:1/name")
    assert "cannot open the database name on 127.0.0.1" in said and "refused" in said
    url = postgresql.new()
    assert "does not exist" in await refusal(url.replace("/d", "/nothing"))


async def test_a_user_without_rights_is_told_which_and_nothing_is_changed(postgresql: Postgresql) -> None:
    url = postgresql.new(owner="postgres")
    name = str(only(url, "SELECT current_database()"))
    postgresql.run(name, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    assert "lacks a right: permission denied for schema public" in await refusal(url)
    assert only(url, TABLES) == ""
    postgresql.run(name, "GRANT CREATE ON SCHEMA public TO stellwerk")
    database = Postgres(url)
    await database.open()
    await database.close()
    postgresql.run(name, "ALTER TABLE run OWNER TO postgres; GRANT SELECT ON run TO stellwerk")
    assert "has not all rights on these tables: run;" in await refusal(url)


async def test_the_schema_of_a_newer_program_is_refused_and_of_one_that_this_can_use_is_taken(
    postgresql: Postgresql,
) -> None:
    url = postgresql.new()
    database = Postgres(url)
    await database.open()
    await database.close()
    name = str(only(url, "SELECT current_database()"))
    postgresql.run(name, "UPDATE schema SET version = 99, readable_by = 99")
    assert "was set up by a newer Stellwerk (schema 99, this one knows 1)" in await refusal(url)
    postgresql.run(name, "UPDATE schema SET readable_by = 1")
    again = Postgres(url)
    await again.open()
    await again.close()
    assert only(url, "SELECT version FROM schema") == 99


async def test_a_database_of_another_program_is_left_as_it_is(postgresql: Postgresql) -> None:
    url = postgresql.new()
    postgresql.run(str(only(url, "SELECT current_database()")), "CREATE TABLE session (name text)")
    assert 'has tables of another program: relation "session" already exists' in await refusal(url)
    assert only(url, TABLES) == "session"


async def test_another_encoding_is_refused(postgresql: Postgresql) -> None:
    assert "has the encoding SQL_ASCII; make one with ENCODING 'UTF8'" in await refusal(
        postgresql.new(encoding="SQL_ASCII")
    )


def test_an_old_server_is_refused() -> None:
    refuse_version(140000)
    with pytest.raises(SettingsError, match="is of PostgreSQL 13; version 14 or a newer one is needed"):
        refuse_version(130014)


def test_without_the_setting_nothing_of_postgresql_is_imported() -> None:
    code = "import sys, stellwerk.app; assert 'psycopg' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_url_is_not_shown_by_the_settings() -> None:
    settings = Settings(database="postgresql://me:secret-word@db/name")
    assert "secret-word" not in repr(settings)
    assert database_of(settings).where == "name on db"
