"""Offline work on a database: create the first API key, verify the audit log."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import SecretStr, ValidationError

from stellwerk.agents.graphs.operator_file import read_operator
from stellwerk.api.http.audit import RECORDED
from stellwerk.api.routes.administration import KeyRequest, check_key
from stellwerk.database.folder import locked
from stellwerk.database.opening import database_of, reading
from stellwerk.errors import InvalidField, SettingsError
from stellwerk.ids import SystemClock
from stellwerk.settings import Settings
from stellwerk.tenants.audit import Action, Audit, AuditedDatabase, ChainCheck, check_chain, recording
from stellwerk.tenants.keys import ApiKeys, KeyInfo
from stellwerk.tenants.principals import LOCAL, LOCAL_TENANT

_ASK_IT = "leave out --data, and it makes the key; if it has keys already, put one of an admin into STELLWERK_KEY"


def asks_who(settings: Settings) -> bool:
    """Whether a server that starts like this requires a key or a token. Changes nothing."""
    if read_operator(settings.config).tokens is not None:
        return True
    if settings.database is not None:
        with reading(settings) as tx:
            return tx is not None and bool(tx.rows("keys"))
    with suppress(SettingsError), reading(settings) as tx:  # of an older server, which has no keys
        return tx is not None and bool(tx.rows("keys"))
    return False


async def make_key(data: Path, wanted: dict[str, Any], database: SecretStr | None = None) -> tuple[KeyInfo, str]:
    """Create an API key in the database of a stopped server."""
    try:
        body = KeyRequest.model_validate(wanted)
    except ValidationError as error:
        first = error.errors()[0]
        field = str(first["loc"][0])
        raise InvalidField(f"{field}: {first['msg']}", field=field) from error
    settings = Settings(data=data, database=database)
    with locked(data, remedy=_ASK_IT):
        stored = database_of(settings)
        await stored.open()
        audited = AuditedDatabase(stored, RECORDED)
        try:
            audit = Audit(audited, SystemClock())
            keys = ApiKeys(audited, SystemClock())
            await keys.open()
            check_key(body, LOCAL, first=not keys.asked_for)
            fields = body.fields(LOCAL_TENANT)
            action = Action(LOCAL, "POST /keys", {}, tenant=fields["tenant"])
            with recording(audit.due(action, 201)):
                return await keys.make(**fields)
        finally:
            await audited.close()


def verified(data: Path, database: SecretStr | None = None) -> list[ChainCheck]:
    """Verify the audit log of every tenant; a server may be running."""
    with reading(Settings(data=data, database=database)) as tx:
        if tx is None:
            problem = f"cannot read the database in {data}: there is none yet"
            raise SettingsError(f"{problem}; name its folder with --data")
        return [check_chain(tx, tenant) for (tenant,) in tx.rows("audited_tenants")]
