"""Talking to a session over HTTP, and reading its whole log."""

import asyncio
from collections.abc import Sequence
from typing import Any

import httpx2
import msgspec

from stellwerk.envelope.model import Envelope, decode
from tests.api.reading import Event, parse_sse, sse

_ADDED = ("position", "origin", "session_id", "id")


async def begin(client: httpx2.AsyncClient, system: str = "demo") -> str:
    answer = await client.post("/sessions", json={"agent_system_id": system})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def send(client: httpx2.AsyncClient, sid: str, text: str = "hello", **more: Any) -> Event:
    answer = await client.post(f"/sessions/{sid}/messages", json={"text": text, **more})
    assert answer.status_code == 202, answer.text
    return dict(answer.json())


async def answer(client: httpx2.AsyncClient, sid: str, **body: Any) -> Event:
    given = await client.post(f"/sessions/{sid}/answers", json=body)
    assert given.status_code == 202, given.text
    return dict(given.json())


async def stop(client: httpx2.AsyncClient, sid: str, **body: str) -> Event:
    stopped = await client.post(f"/sessions/{sid}/stop", json=body or None)
    assert stopped.status_code == 200, stopped.text
    return dict(stopped.json())


async def events(client: httpx2.AsyncClient, sid: str) -> list[Event]:
    """All that is in the log now."""
    found: list[Event] = []
    while page := (
        await client.get(f"/sessions/{sid}/events", params={"after": len(found), "profile": "debug"})
    ).json()["events"]:
        found += page
    return found


def log_of(told: Sequence[Event]) -> list[Envelope]:
    """The envelopes, as they are stored."""
    plain = [{key: value for key, value in event.items() if key not in _ADDED} for event in told]
    return [decode(msgspec.json.encode(event)) for event in plain]


async def rest_of_run(client: httpx2.AsyncClient, sid: str, after: int = 0) -> list[Event]:
    async with asyncio.timeout(60):
        return await sse(client, f"/sessions/{sid}/stream", after=str(after), until="run_end", profile="debug")


async def seen(client: httpx2.AsyncClient, sid: str, kind: str, *, count: int = 1) -> None:
    """Wait until the log has envelopes of a type."""
    text, path = "", f"/sessions/{sid}/stream?profile=debug"
    async with asyncio.timeout(60), client.stream("GET", path) as stream:
        async for piece in stream.aiter_text():
            text += piece
            if [event["type"] for event in parse_sse(text[: text.rfind("\n\n") + 2])].count(kind) >= count:
                return
