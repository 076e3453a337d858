"""Administration from the command line: tenants, keys, and who did what."""

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from stellwerk.client.client import Client
from stellwerk.client.showing import aligned
from stellwerk.ids import SystemClock
from stellwerk.terminal.outlet import Outlet
from stellwerk.terminal.plain import one_line

_KEYS = ("ID", "NAME", "USER", "ROLE", "SCOPES", "STATE", "LAST USED")
_TENANTS = ("NAME", "NUMBER", "MADE", "STATE")
_AUDIT = ("NUMBER", "WHEN", "WHO", "WHAT", "ON", "OUTCOME", "FROM")
_PAGE = 500


async def tenants(client: Client, *, as_json: bool) -> None:
    found = (await client.ask(dict[str, Any], "GET", "/tenants"))["tenants"]
    show(found, _TENANTS, [_tenant_row(tenant) for tenant in found], as_json=as_json)


async def make_tenant(client: Client, name: str) -> None:
    made = await client.ask(dict[str, Any], "POST", "/tenants", json={"name": name})
    first = f"stellwerk keys create NAME --tenant {name} --role admin"
    sys.stderr.write(f"made the tenant {made['name']}; now make a key for its admin: {first}\n")


async def lock_tenant(client: Client, name: str, *, locked: bool) -> None:
    await client.lock_tenant(name, locked=locked)
    sys.stderr.write(f"the tenant {name} is {'locked' if locked else 'not locked'}\n")


async def keys(client: Client, *, tenant: str | None, as_json: bool) -> None:
    wanted = {} if tenant is None else {"tenant": tenant}
    found = (await client.ask(dict[str, Any], "GET", "/keys", params=wanted))["keys"]
    show(found, _KEYS, [_key_row(key) for key in found], as_json=as_json)


async def make_key(client: Client, wanted: dict[str, Any]) -> None:
    """The token alone goes to standard output, for a file or a variable."""
    made = await client.ask(dict[str, Any], "POST", "/keys", json=wanted)
    told(made["token"], made["id"])


def told(token: str, key_id: str) -> None:
    Outlet(sys.stdout).write(f"{token}\n")
    sys.stderr.write(f"this is key {key_id}; nobody can tell it again. Keep it as STELLWERK_KEY\n")


async def revoke_key(client: Client, key_id: str, *, tenant: str | None, last: bool) -> None:
    await client.revoke_key(key_id, tenant=tenant, last=last)
    sys.stderr.write(f"key {key_id} is revoked\n")


async def audit(client: Client, *, after: int, as_json: bool) -> None:
    position: int | None = after
    while position is not None:
        page = await client.ask(dict[str, Any], "GET", "/audit", params={"after": position, "limit": _PAGE})
        show(page["entries"], _AUDIT, [_audit_row(entry) for entry in page["entries"]], as_json=as_json)
        position = page["next"]


def show(found: Sequence[Any], headings: Sequence[str], rows: Sequence[tuple[str, ...]], *, as_json: bool) -> None:
    lines = [msgspec.json.encode(each).decode() for each in found] if as_json else aligned([tuple(headings), *rows])
    Outlet(sys.stdout).write("".join(f"{line}\n" for line in lines))


def _tenant_row(tenant: dict[str, Any]) -> tuple[str, ...]:
    state = "locked" if tenant["locked"] else "-"
    return tenant["name"], str(tenant["number"]), when(tenant["created_at"] or None), state


def _key_row(key: dict[str, Any]) -> tuple[str, ...]:
    scopes = "all" if key["scopes"] is None else ",".join(key["scopes"])
    name, user = one_line(key["name"]), one_line(key["user"] or "-")
    return key["id"], name, user, key["role"], scopes, _state(key), when(key["last_used"])


def _state(key: dict[str, Any]) -> str:
    if key["revoked_at"] is not None:
        return f"revoked {when(key['revoked_at'])}"
    if key["expires_at"] is None:
        return "valid"
    return f"{'until' if key['expires_at'] > SystemClock().now() else 'expired'} {when(key['expires_at'])}"


def _audit_row(entry: dict[str, Any]) -> tuple[str, ...]:
    about = " ".join(f"{name}={value}" for name, value in entry.get("on", {}).items())
    who, number, outcome = one_line(entry["who"]), str(entry["number"]), str(entry["outcome"])
    return number, when(entry["at"]), who, entry["what"], one_line(about), outcome, entry.get("origin", "")


def when(at: float | None) -> str:
    return "-" if at is None else f"{datetime.fromtimestamp(at).astimezone():%Y-%m-%d %H:%M:%S}"
