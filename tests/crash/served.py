"""What a server serves after its restart, read over HTTP."""

import asyncio
from typing import Any

import httpx2
import msgspec

from tests.crash.ledger import Book, Sent
from tests.crash.process import ServerProcess
from tests.crash.wire import NDJSON

_PAGE = 1000
_ENDED = 120


def client(server: ServerProcess) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=server.address, timeout=60)


async def run_end(client: httpx2.AsyncClient, book: Book, sent: Sent) -> dict[str, Any]:
    """The end of the run that the message started, as soon as it is there."""
    path = f"/sessions/{book.session_id}/stream?profile=debug&until=run_end&after={sent.accepted()['after']}"
    async with asyncio.timeout(_ENDED):
        answer = await client.get(path, headers={"Accept": NDJSON})
    return msgspec.json.decode(answer.content.strip().split(b"\n")[-1], type=dict[str, Any])


async def standings(client: httpx2.AsyncClient) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    query: dict[str, str | int] = {"limit": 500}
    while True:
        page = (await client.get("/sessions", params=query)).json()
        found |= {session["id"]: session for session in page["sessions"]}
        if page["next"] is None:
            return found
        query["before"] = page["next"]


async def read_log(client: httpx2.AsyncClient, session_id: str) -> list[bytes]:
    """The bodies that the server serves, from the first on."""
    log: list[bytes] = []
    while True:
        query: dict[str, str | int] = {"after": len(log), "limit": _PAGE, "profile": "debug"}
        answer = await client.get(f"/sessions/{session_id}/events", params=query)
        page = msgspec.json.decode(answer.content, type=_Page).events
        log += [_body(bytes(event), session_id, len(log) + n) for n, event in enumerate(page, 1)]
        if not page:  # a short one is not the last: pages are bounded in bytes, too
            return log


class _Page(msgspec.Struct):
    events: list[msgspec.Raw]


def _body(event: bytes, session_id: str, position: int) -> bytes:
    front = f'{{"position":{position},"origin":"replay","session_id":"{session_id}",'.encode()
    if not event.startswith(front):
        raise AssertionError(f"expected {front!r}, the server sent {event[:120]!r}")
    return b"{" + event[len(front) :]
