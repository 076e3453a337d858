"""Sessions that have a log to look at, and the log as the server tells it."""

from typing import Any

import httpx2

from tests.runs.talking import begin, rest_of_run, send


async def spoken(client: httpx2.AsyncClient, *texts: str, system: str = "demo") -> str:
    """A session in which each of these was said, and answered."""
    sid = await begin(client, system)
    for text in texts:
        await say(client, sid, text)
    return sid


async def say(client: httpx2.AsyncClient, sid: str, text: str) -> None:
    accepted = await send(client, sid, text)
    await rest_of_run(client, sid, accepted["position"])


async def whole(client: httpx2.AsyncClient, sid: str, profile: str = "user") -> list[dict[str, Any]]:
    answer = await client.get(f"/sessions/{sid}/events", params={"limit": 1000, "profile": profile})
    found: list[dict[str, Any]] = answer.json()["events"]
    return found
