"""Reading streams in tests as a plain client would: lines from the socket, JSON from the lines."""

import json
from typing import Any

import httpx2

Event = dict[str, Any]


async def sse(client: httpx2.AsyncClient, path: str, *, last: str | None = None, **params: str) -> list[Event]:
    """Read an SSE stream to its end; each event with the id it was sent under as ``id``."""
    headers = {} if last is None else {"Last-Event-ID": last}
    async with client.stream("GET", path, params=params, headers=headers) as answer:
        assert answer.status_code == 200, await answer.aread()
        text = (await answer.aread()).decode()
    return parse_sse(text)


def parse_sse(text: str) -> list[Event]:
    events = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if line and not line.startswith(":"))
        if "data" in fields:
            events.append({**json.loads(fields["data"]), "id": fields["id"]})
    return events


async def whole_round(client: httpx2.AsyncClient, sid: str, text: str) -> list[Event]:
    """Send a message and read its round until the run has ended: all that is stored of it."""
    accepted = (await client.post(f"/sessions/{sid}/messages", json={"text": text})).json()
    return await sse(client, f"/sessions/{sid}/stream", after=str(accepted["after"]), until="run_end", profile="debug")


def without_origin(events: list[Event]) -> list[Event]:
    return [{key: value for key, value in event.items() if key not in ("origin", "id")} for event in events]


async def round_with(client: httpx2.AsyncClient, system: str, text: str) -> list[dict[str, Any]]:
    sid = (await client.post("/sessions", json={"agent_system_id": system})).json()["id"]
    await client.post(f"/sessions/{sid}/messages", json={"text": text})
    whole = await client.get(
        f"/sessions/{sid}/stream?until=run_end&profile=debug", headers={"accept": "application/x-ndjson"}
    )
    return [json.loads(line) for line in whole.text.splitlines()]
