"""Secrets from the command line: listed, stored, deleted, sealed anew."""

import sys
from typing import Any

from stellwerk.client.administration import show, when
from stellwerk.client.client import Client
from stellwerk.terminal.plain import one_line

_HEADINGS = ("NAME", "AGENT SYSTEM", "MADE", "CHANGED", "STATE")


async def secrets(client: Client, *, as_json: bool) -> None:
    found = (await client.ask(dict[str, Any], "GET", "/secrets"))["secrets"]
    show(found, _HEADINGS, [_row(each) for each in found], as_json=as_json)


async def store(client: Client, name: str, value: str, *, system: str | None) -> None:
    await client.store_secret(name, value, system=system)
    sys.stderr.write(f"stored {name}{_of(system)}; the next run uses it\n")


async def delete(client: Client, name: str, *, system: str | None) -> None:
    await client.delete_secret(name, system=system)
    sys.stderr.write(f"deleted {name}{_of(system)}\n")


async def rotate(client: Client) -> None:
    done = await client.ask(dict[str, Any], "POST", "/secrets/rotation")
    changed = f"{done['sealed']} secrets are sealed with the master key {done['key']} now"
    same = f"nothing changed: {done['key']} is still the master key; let the command print a new one first"
    sys.stderr.write(f"{changed if done['changed'] else same}\n")
    if done["left"]:
        sys.stderr.write(f"{done['left']} could not be opened; as long as they are there, keep the old keys\n")


def _of(system: str | None) -> str:
    return "" if system is None else f" for {system}"


def _row(secret: dict[str, Any]) -> tuple[str, ...]:
    system = one_line(secret["agent_system_id"] or "all")
    state = "stored" if secret["readable"] else "UNREADABLE: store it again"
    return secret["name"], system, when(secret["created_at"]), when(secret["updated_at"]), state
