"""What a server does on a full disk, looked at over HTTP and in the file it leaves."""

import asyncio
from pathlib import Path

import httpx2
import pytest

from stellwerk.envelope.model import RunEnd, RunStart, decode
from stellwerk.testing.order import order_problems
from tests.crash import snapshot, wire
from tests.crash.disks import can_mount
from tests.crash.waiting import eventually

mounted = pytest.mark.skipif(not can_mount(), reason="no file system of our own can be mounted here")

MEGABYTES = 32
SOON = 30
"""Seconds for what takes one or two where nothing else happens."""


async def send(client: httpx2.AsyncClient, session_id: str, text: str = "Tell me something.") -> httpx2.Response:
    return await client.post(f"/sessions/{session_id}/messages", json={"text": text})


async def seen(client: httpx2.AsyncClient, session_id: str, kind: str) -> None:
    async def is_there() -> bool:
        return f'"type":"{kind}"' in (await client.get(f"/sessions/{session_id}/events?profile=debug")).text

    await eventually(is_there, within=SOON, what=f"no {kind}")


async def work_until_refused(client: httpx2.AsyncClient) -> None:
    """New work until the first that finds no room: some may have been left in files that are there already."""
    async with asyncio.timeout(SOON):
        while True:
            answer = await client.post("/sessions", json={"agent_system_id": "demo"})
            if answer.status_code == 201:
                answer = await send(client, answer.json()["id"], "x" * 60_000)
            if answer.status_code not in (201, 202):
                return is_refusal(answer)


def is_refusal(answer: httpx2.Response) -> None:
    assert answer.status_code == 507, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "storage_full"
    assert int(answer.headers["retry-after"]) > 0


async def reading_goes_on(client: httpx2.AsyncClient, session_id: str, history: list[bytes]) -> None:
    assert (await client.get(f"/sessions/{session_id}")).status_code == 200
    assert (await client.get("/sessions")).status_code == 200
    frames = [wire.frame(line) for line in history]
    for media_type, parse in wire.PARSERS.items():
        path = f"/sessions/{session_id}/stream?until=run_end&profile=debug"
        answer = await client.get(path, headers={"Accept": media_type})
        assert parse(answer.content) == frames
    page = (await client.get(f"/sessions/{session_id}/events?profile=debug")).json()["events"]
    assert [event["position"] for event in page[: len(frames)]] == [frame.position for frame in frames]


async def not_ready_for(client: httpx2.AsyncClient, *, seconds: float) -> None:
    """Nor at any moment between, as long as there is no room."""

    async def ready() -> bool:
        answer = await client.get("/readyz")
        assert answer.status_code in (200, 503, 507)
        return answer.status_code == 200

    with pytest.raises(AssertionError, match="it is not ready"):
        await eventually(ready, within=seconds, what="it is not ready")


async def accepted_again(client: httpx2.AsyncClient, session_id: str) -> None:
    async def takes_work() -> bool:
        return (await send(client, session_id, "weather")).status_code == 202

    await eventually(takes_work, within=SOON, what="there is room, and no work is accepted")
    assert (await client.get("/readyz")).status_code == 200


async def ended(client: httpx2.AsyncClient, session_id: str) -> None:
    async def is_over() -> bool:
        return (await client.get(f"/sessions/{session_id}")).json()["status"] in ("completed", "failed")

    await eventually(is_over, within=2 * SOON, what=f"the run of {session_id} does not end")


async def delete_others(client: httpx2.AsyncClient, kept: set[str]) -> None:
    for session in (await client.get("/sessions")).json()["sessions"]:
        if session["id"] not in kept:
            assert (await client.delete(f"/sessions/{session['id']}")).status_code == 204


def nothing_is_half_written(data: Path, folder: Path) -> None:
    found = snapshot.read(data, folder / "copy")
    assert found.integrity == ["ok"]
    for session_id, log in found.logs.items():
        assert [position for position, _ in log] == list(range(1, found.heads[session_id] + 1))
        story = [decode(body) for _, body in log]
        assert order_problems(story) == []
        assert sum(isinstance(e, RunStart) for e in story) == sum(isinstance(e, RunEnd) for e in story)
