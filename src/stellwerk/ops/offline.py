"""Offline work on a data folder: create the first API key, verify the audit log."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from stellwerk.agents.graphs.operator_file import read_operator
from stellwerk.api.http.audit import RECORDED
from stellwerk.api.routes.administration import KeyRequest, check_key
from stellwerk.database.folder import DATABASE, locked, refuse_lost_database
from stellwerk.database.sqlite import Sqlite, SqliteTransaction
from stellwerk.database.statements import queries
from stellwerk.errors import InvalidField, SettingsError
from stellwerk.ids import SystemClock
from stellwerk.settings import Settings
from stellwerk.tenants.audit import Action, Audit, AuditedDatabase, ChainCheck, check_chain, recording
from stellwerk.tenants.keys import ApiKeys, KeyInfo
from stellwerk.tenants.principals import LOCAL, LOCAL_TENANT

_ASK_IT = "leave out --data, and it makes the key; if it has keys already, put one of an admin into STELLWERK_KEY"


def asks_who(settings: Settings) -> bool:
    """Whether a server that starts like this requires a key or a token. Changes nothing."""
    path = settings.data / DATABASE
    if read_operator(settings.config).tokens is not None:
        return True
    if not path.exists():
        return False
    with suppress(sqlite3.Error), _reading(path) as tx:  # of an older server, which has no keys
        return bool(tx.rows("keys"))
    return False


async def make_key(data: Path, wanted: dict[str, Any]) -> tuple[KeyInfo, str]:
    """Create an API key in the folder of a stopped server."""
    try:
        body = KeyRequest.model_validate(wanted)
    except ValidationError as error:
        first = error.errors()[0]
        field = str(first["loc"][0])
        raise InvalidField(f"{field}: {first['msg']}", field=field) from error
    with locked(data, remedy=_ASK_IT):
        refuse_lost_database(data)
        stored = Sqlite(data / DATABASE)
        await stored.open()
        database = AuditedDatabase(stored, RECORDED)
        try:
            audit = Audit(database, SystemClock())
            keys = ApiKeys(database, SystemClock())
            await keys.open()
            check_key(body, LOCAL, first=not keys.asked_for)
            fields = body.fields(LOCAL_TENANT)
            action = Action(LOCAL, "POST /keys", {}, tenant=fields["tenant"])
            with recording(audit.due(action, 201)):
                return await keys.make(**fields)
        finally:
            await database.close()


def verified(data: Path) -> list[ChainCheck]:
    """Verify the audit log of every tenant; a server may be running."""
    try:
        with _reading(data / DATABASE) as tx:
            return [check_chain(tx, tenant) for (tenant,) in tx.rows("audited_tenants")]
    except sqlite3.Error as error:
        raise SettingsError(f"cannot read the database in {data}: {error}; name its folder with --data") from error


@contextmanager
def _reading(path: Path) -> Iterator[SqliteTransaction]:
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        yield SqliteTransaction(connection, queries(), 0)
