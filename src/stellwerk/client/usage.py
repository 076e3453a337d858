"""What a tenant uses, and may use, in the terminal."""

import sys
from typing import Any

import msgspec

from stellwerk.client.client import Client, part
from stellwerk.client.showing import aligned
from stellwerk.terminal.outlet import Outlet
from stellwerk.terminal.plain import one_line

_HEADINGS = ("DAY", "USER", "SYSTEM", "MODEL", "RUNS", "SECONDS", "MODEL CALLS", "TOKENS IN", "OUT", "TOOL CALLS")
_NUMBERS = ("model_calls", "input_tokens", "output_tokens", "tool_calls")
_PAGE = 500


async def usage(client: Client, *, tenant: str | None, days: int, as_json: bool) -> None:
    rows: list[dict[str, Any]] = []
    asked: dict[str, Any] = {"days": days, "limit": _PAGE} | ({} if tenant is None else {"tenant": tenant})
    page = await client.ask(dict[str, Any], "GET", "/usage", params=asked)
    rows += page["usage"]
    while page["next"] is not None:
        page = await client.ask(dict[str, Any], "GET", "/usage", params={**asked, "after": page["next"]})
        rows += page["usage"]
    if as_json:
        lines = [msgspec.json.encode(row).decode() for row in rows]
    else:
        lines = [*aligned([_HEADINGS, *map(_row, rows)]), *_limited(page)]
    Outlet(sys.stdout).write("".join(f"{line}\n" for line in lines))


async def limit(client: Client, tenant: str, limits: dict[str, int]) -> None:
    await client.ask(dict[str, Any], "PUT", f"/tenants/{part(tenant)}/limits", json=limits)
    told = ", ".join(f"{name} {number}" for name, number in limits.items()) or "nothing is limited"
    sys.stderr.write(f"from now on, of {tenant}: {told}\n")


async def limits(client: Client, tenant: str) -> None:
    page = await client.ask(dict[str, Any], "GET", "/usage", params={"tenant": tenant, "limit": 1})
    lines = _limited(page)[1:] or ["nothing is limited"]
    Outlet(sys.stdout).write("".join(f"{line}\n" for line in lines))


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    user, model = one_line(row["user"] or "-"), one_line(row["model"] or "-")
    about = row["day"], user, row["system"], model, str(row["runs"]), f"{row['seconds']:.1f}"
    return *about, *(str(row[name]) for name in _NUMBERS)


def _limited(page: dict[str, Any]) -> list[str]:
    """Each limit, with what is used of it where that is known for the tenant as a whole."""
    found = [(name, most, page["used"].get(name)) for name, most in page["limits"].items() if most is not None]
    said = [f"{name}: {'at most' if used is None else f'{used:g} of'} {most}" for name, most, used in found]
    return ["", *said] if said else []
