"""Clients that are gone without a word: the server notices, and keeps nothing of them."""

import socket
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from stellwerk.app import Parts
from stellwerk.log.notify import HEARTBEAT
from stellwerk.settings import Settings
from stellwerk.timings import Timings
from tests.crash import many_readers, wire
from tests.crash.inside import Inside, serving
from tests.crash.many_readers import UPGRADE, long_session
from tests.crash.waiting import eventually

QUICK = Timings(
    tcp_keepalive={"TCP_KEEPIDLE": 1, "TCP_KEEPINTVL": 1, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 1000},
    websocket_ping=0.5,
    websocket_pong=0.5,
    reader_check=0.5,
)
WAYS = {
    "SSE": ("stream", {"Accept": wire.SSE}),
    "NDJSON": ("stream", {"Accept": wire.NDJSON}),
    "WebSocket": ("ws", UPGRADE),
}
NOTICED = 30
_LOOPBACK = "0100007F"
"""As the kernel writes 127.0.0.1 in its table of connections."""
_NOBODY = "0"
"""The inode of a connection that the kernel only buries."""


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Inside]:
    (tmp_path / "data").mkdir()
    await long_session(tmp_path / "data")
    async with serving(Settings(data=tmp_path / "data"), Parts(timings=QUICK)) as found:
        yield found


async def connected(running: Inside, session_id: str, way: str) -> socket.socket:
    path, headers = WAYS[way]
    made = many_readers.connect_and_never_read(running.address, f"/sessions/{session_id}/{path}", headers, buffer=4096)
    await eventually(lambda: bool(running.wakes.watched()), within=20, what="nobody reads")
    return made


async def noticed(running: Inside, gone: socket.socket) -> None:
    """Neither a cursor nor a socket is left."""
    await eventually(
        lambda: not running.wakes.watched() and not far_end(gone),
        within=NOTICED,
        what=lambda: f"watched: {running.wakes.watched()}, socket: {far_end(gone)}",
    )


def far_end(of: socket.socket) -> list[str]:
    """The kernel's line about the other end of a connection, if somebody holds it open."""
    own, peer = (f"{_LOOPBACK}:{port:04X}" for port in (of.getsockname()[1], of.getpeername()[1]))
    lines = [line.split() for line in Path("/proc/self/net/tcp").read_text("ascii").splitlines()]
    return [" ".join(line) for line in lines if line[1:3] == [peer, own] and line[9] != _NOBODY]


@pytest.mark.requirement("trust.I18")
@pytest.mark.parametrize("way", WAYS)
async def test_a_client_whose_network_is_gone_is_noticed_though_nothing_happens(running: Inside, way: str) -> None:
    async with httpx2.AsyncClient(base_url=running.address, timeout=60) as client:
        with await connected(running, await many_readers.begin(client), way) as gone:
            many_readers.lose_the_network(gone)
            await noticed(running, gone)


@pytest.mark.requirement("trust.I18")
@pytest.mark.parametrize("way", WAYS)
async def test_a_client_whose_network_is_gone_is_noticed_by_what_it_is_sent(running: Inside, way: str) -> None:
    async with httpx2.AsyncClient(base_url=running.address, timeout=60) as client:
        session_id = await many_readers.begin(client)
        with await connected(running, session_id, way) as gone:
            many_readers.lose_the_network(gone)
            assert b'"status":"completed"' in (await many_readers.run(client, session_id))[-1]
            await noticed(running, gone)


@pytest.mark.requirement("trust.I18")
@pytest.mark.parametrize("way", WAYS)
async def test_a_client_that_is_there_and_takes_nothing_is_let_go(running: Inside, way: str) -> None:
    with await connected(running, "long", way) as stuck:
        await noticed(running, stuck)


@pytest.mark.requirement("trust.I18")
async def test_a_websocket_that_answers_no_ping_is_let_go(running: Inside) -> None:
    async with httpx2.AsyncClient(base_url=running.address, timeout=60) as client:
        with await connected(running, await many_readers.begin(client), "WebSocket") as silent:
            await noticed(running, silent)


def test_all_of_that_takes_at_most_half_a_minute() -> None:
    timings = Timings()
    unanswered = timings.tcp_keepalive["TCP_USER_TIMEOUT"] / 1000
    assert HEARTBEAT + unanswered < NOTICED, "it may be lost right before a heartbeat, which is not answered then"
    assert timings.websocket_ping + max(timings.websocket_pong, unanswered) < NOTICED
    assert 2 * timings.reader_check <= NOTICED
