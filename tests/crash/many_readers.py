"""A many_readers: many readers of one session on plain sockets, some of whom never read."""

import asyncio
import ctypes
import resource
import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import msgspec

from stellwerk.log.log import CreateSession, Lease, LogEntry
from tests import stores
from tests.crash import disks, wire
from tests.crash.process import ServerProcess, server_process
from tests.crash.waiting import eventually
from tests.crash.wire import Frame

READING, STALLED, RESET = 950, 50, 300
UPGRADE = {
    **{"Upgrade": "websocket", "Connection": "Upgrade"},
    **{"Sec_WebSocket_Key": "MDEyMzQ1Njc4OWFiY2RlZg==", "Sec_WebSocket_Version": "13"},
}
"""Headers of whoever wants a WebSocket."""
_CONNECTING = 100
"""Connections under way at a time; the rest of them would only wait in the kernel's queue."""
_OTHERS = 500
"""Descriptors for everything else."""
_SO_ATTACH_FILTER, _BPF_RET = 26, 6
_RUN_END = b'"type":"run_end"'


@dataclass
class Scene:
    """What was seen of the server before, with and after the many_readers."""

    alone: float = 0.0
    """Seconds of a run at the same time that nobody watches."""
    watched: float = 0.0
    log: list[Frame] = field(default_factory=list)
    received: list[list[Frame]] = field(default_factory=list)
    memory_per_reader: float = 0.0
    sockets_before: int = 0
    sockets_with_crowd: int = 0
    sockets_after: list[int] = field(default_factory=list)
    """After the many_readers has left; after the resets."""


def play(folder: Path) -> Scene:
    with room_for(READING + STALLED), server_process(folder / "data", errors=folder / "stderr.txt") as server:
        return asyncio.run(_play(server))


@contextmanager
def room_for(sockets: int) -> Iterator[None]:
    """Let this process, and the server it starts, hold that many sockets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = max(soft, sockets + _OTHERS)
    assert needed <= hard or hard == resource.RLIM_INFINITY, f"ulimit -Hn says {hard}, and {needed} are needed"
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def _play(server: ServerProcess) -> Scene:
    scene, fresh = Scene(), server.sockets()
    async with _client(server) as client:
        await run(client, await begin(client))  # the first run of a process builds its agent
        session_id = await begin(client)
    # Clients are closed whenever sockets are counted: those that they keep for their next request would count, too.
    scene.sockets_before = await sockets_left(server, fresh)
    async with _client(server) as client:
        await _crowded_run(server, client, session_id, scene)
    scene.sockets_after.append(await sockets_left(server, scene.sockets_before))
    for _ in range(RESET):
        reset_at_once(server.address, f"/sessions/{session_id}/stream")
    scene.sockets_after.append(await sockets_left(server, scene.sockets_before))
    return scene


def _client(server: ServerProcess) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=server.address, timeout=60)


async def _crowded_run(server: ServerProcess, client: httpx2.AsyncClient, session_id: str, scene: Scene) -> None:
    memory = server.rss()
    path = f"/sessions/{session_id}/stream?profile=debug"
    stalled = [connect_and_never_read(server.address, path) for _ in range(STALLED)]
    turnstile = asyncio.Semaphore(_CONNECTING)
    readers = await asyncio.gather(*(enter(server.address, path, turnstile) for _ in range(READING)))
    scene.sockets_with_crowd = server.sockets()
    listening = [asyncio.create_task(_listen(reader)) for reader, _ in readers]
    lines, others = await asyncio.gather(run(client, session_id), run(client, await begin(client)))
    async with asyncio.timeout(60):
        scene.received = await asyncio.gather(*listening)
    scene.alone, scene.watched = _seconds(others), _seconds(lines)
    scene.log = [wire.frame(line) for line in lines]
    scene.memory_per_reader = (server.rss() - memory) / (READING + STALLED)
    for _, writer in readers:
        writer.close()
    for stuck in stalled:
        stuck.close()


async def enter(
    address: str, path: str, turnstile: asyncio.Semaphore
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connected when the server has begun to answer."""
    async with turnstile:
        reader, writer = await wire.connect(address, path)
        status = await reader.readuntil(b"\r\n\r\n")
        assert status.startswith(b"HTTP/1.1 200"), status
        return reader, writer


async def _listen(reader: asyncio.StreamReader) -> list[Frame]:
    data = b""
    while _RUN_END not in data or not data.endswith(b"\n\n\r\n"):  # the end of an event, and of a chunk
        news = await reader.read(65536)
        assert news, "the server left before the run had ended"
        data += news
    return wire.sse(wire.unchunked(data))


async def sockets_left(server: ServerProcess, expected: int) -> int:
    """How many are open when the server has let go of those that left; more than expected if it never does."""
    await _accepted_all(server)
    left: list[int] = []

    def none_is_left() -> bool:
        left.append(server.sockets())
        return left[-1] <= expected

    try:
        await eventually(none_is_left, within=180, what="sockets are left")
    except AssertionError:
        pass
    return left[-1]  # what was seen; at a second look there may be others


async def _accepted_all(server: ServerProcess) -> None:
    """Wait until the server has answered a new client: connections are accepted in their order, so none is behind."""
    reader, writer = await wire.connect(server.address, "/readyz")
    async with asyncio.timeout(60):
        await reader.readuntil(b"\r\n\r\n")
    writer.close()


def connect_and_never_read(
    address: str, path: str, headers: Mapping[str, str] | None = None, *, buffer: int | None = None
) -> socket.socket:
    return say_and_never_read(address, wire.request(address, path, **headers or {}), buffer=buffer)


def say_and_never_read(address: str, words: bytes, *, buffer: int | None = None) -> socket.socket:
    where = urlsplit(address)
    made = socket.socket()
    if buffer is not None:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    made.connect((where.hostname, where.port))
    made.sendall(words)
    return made


def lose_the_network(of: socket.socket) -> None:
    """From now on nothing reaches the socket, and nobody is told: no FIN, no RST, not even an ACK."""
    drop_all = ctypes.create_string_buffer(struct.pack("HBBI", _BPF_RET, 0, 0, 0))
    of.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HP", 1, ctypes.addressof(drop_all)))


def reset_at_once(address: str, path: str, headers: Mapping[str, str] | None = None) -> None:
    """Ask, and leave with a RST before the first byte of the answer."""
    asking = connect_and_never_read(address, path, headers)
    asking.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    asking.close()


async def begin(client: httpx2.AsyncClient) -> str:
    answer = await client.post("/sessions", json={"agent_system_id": "demo"})
    return str(answer.json()["id"])


async def run(client: httpx2.AsyncClient, session_id: str, text: str = "weather") -> list[bytes]:
    """Send a message and return the lines of the whole run."""
    accepted = await client.post(f"/sessions/{session_id}/messages", json={"text": text})
    assert accepted.status_code == 202, accepted.text
    path = f"/sessions/{session_id}/stream?profile=debug&until=run_end&after={accepted.json()['after']}"
    answer = await client.get(path, headers={"Accept": wire.NDJSON})
    return answer.content.splitlines()


def _seconds(lines: list[bytes]) -> float:
    """How long the run took by the server's own clock."""
    first, last = (msgspec.json.decode(line, type=dict[str, Any])["ts"] for line in (lines[0], lines[-1]))
    return float(last - first)


async def long_session(data: Path) -> str:
    """With more than the kernel takes on behalf of a reader who does not read."""
    place = b'"ts":0.0,"parent_id":null,"call_id":"x","seq":1'
    entry = LogEntry("log", 0.0, b'{"type":"log",%b,"payload":{"message":"%b"}}' % (place, b"x" * 250_000))
    async with disks.opened(stores.database(data)) as (log, _):
        await log.create(CreateSession(disks.TENANT, "long", "demo", 0.0))
        for number in range(1, 41):
            await log.append(Lease(disks.TENANT, "long", "run", 0), number, [entry])
    return "long"
