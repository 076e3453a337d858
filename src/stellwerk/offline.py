"""What is done with a data folder while no server runs in it, or beside one that does."""

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from stellwerk.agents.operator_file import read_operator
from stellwerk.api.administration import WantedKey, check_key
from stellwerk.api.audit_trail import RECORDED
from stellwerk.client.administration import told
from stellwerk.client.showing import concluded, ended
from stellwerk.database.folder import DATABASE, locked, refuse_lost_database
from stellwerk.database.sqlite import Sqlite, SqliteTransaction
from stellwerk.database.statements import queries
from stellwerk.errors import InvalidField, SettingsError
from stellwerk.ids import SystemClock
from stellwerk.settings import Settings
from stellwerk.tenants.audit import Audit, Verdict, verdict
from stellwerk.tenants.audited import AuditedDatabase, recording
from stellwerk.tenants.keys import ApiKey, Keys
from stellwerk.tenants.principals import LOCAL, LOCAL_TENANT
from stellwerk.terminal.outlet import Outlet

_ASK_IT = "leave out --data, and it makes the key; if it has keys already, put one of an admin into STELLWERK_KEY"


def asks_who(settings: Settings) -> bool:
    """Whether a server that starts like this would let in nobody without a key or a token. Changes nothing."""
    path = settings.data / DATABASE
    if read_operator(settings.config).tokens is not None:
        return True
    if not path.exists():
        return False
    with suppress(sqlite3.Error), _reading(path) as tx:  # of an older server, which has no keys
        return bool(tx.rows("keys"))
    return False


def tell_key(data: Path, wanted: dict[str, Any]) -> int:
    """Make a key and print it; returns the exit code."""

    async def work() -> None:
        key, token = await make_key(data, wanted)
        told(token, key.id)

    return ended(work)


def tell_verdicts(data: Path) -> int:
    """Print what can be said of the audit; returns the exit code."""
    found = list[Verdict]()

    def work() -> None:
        found.extend(verified(data))
        out = Outlet(sys.stdout)
        for each in found:
            state = "whole" if each.whole else f"BROKEN at entry {each.entries + 1}"
            out.write(f"{each.tenant}: {state}; {each.entries} entries hold, the last with hash {each.hash.hex()}\n")

    return concluded(work) or (0 if all(each.whole for each in found) else 1)


async def make_key(data: Path, wanted: dict[str, Any]) -> tuple[ApiKey, str]:
    """A key like those that a server makes, for whoever can write into its folder.

    Raises:
        SettingsError: the folder cannot be used, or a server runs in it.
        StellwerkError: there cannot be such a key.
    """
    try:
        body = WantedKey.model_validate(wanted)
    except ValidationError as error:
        first = error.errors()[0]
        raise InvalidField(f"{first['loc'][0]}: {first['msg']}", field=str(first["loc"][0])) from error
    with locked(data, remedy=_ASK_IT):
        refuse_lost_database(data)
        stored = Sqlite(data / DATABASE)
        await stored.open()
        database = AuditedDatabase(stored, RECORDED)
        try:
            keys, audit = Keys(database, SystemClock()), Audit(database, SystemClock())
            await keys.open()
            check_key(body, LOCAL, first=not keys.asked_for)
            fields = body.fields(LOCAL_TENANT)
            with recording(audit.due_of_operator(LOCAL, "POST /keys", 201, tenant=fields["tenant"])):
                return await keys.make(**fields)
        finally:
            await database.close()


def verified(data: Path) -> list[Verdict]:
    """What can be said of the audit of every tenant; a server may be running.

    Raises:
        SettingsError: there is no database in this folder, or it cannot be read.
    """
    try:
        with _reading(data / DATABASE) as tx:
            return [verdict(tx, tenant) for (tenant,) in tx.rows("audited_tenants")]
    except sqlite3.Error as error:
        raise SettingsError(f"cannot read the database in {data}: {error}; name its folder with --data") from error


@contextmanager
def _reading(path: Path) -> Iterator[SqliteTransaction]:
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        yield SqliteTransaction(connection, queries(), 0)
