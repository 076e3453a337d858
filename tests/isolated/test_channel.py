"""The channel between the server and a worker: what wakes up the server, and what waits for a window."""

import asyncio
from pathlib import Path
from typing import Any

from stellwerk.agents.isolated.channel import Bell, WorkerChannel
from stellwerk.stream.facts import Fact, MessageRemoved

NEVER = 1e9
"""A window that does not end while a test runs."""


class Peer:
    def __init__(self) -> None:
        self.seen: asyncio.Queue[Any] = asyncio.Queue()

    async def answer(self, method: str, given: list[Any]) -> Any:
        self.seen.put_nowait(method)
        return given

    def notified(self, method: str, given: list[Any]) -> None:
        self.seen.put_nowait(method)

    def fact_sent(self, scope: int, fact: Fact) -> None:
        assert isinstance(fact, MessageRemoved)
        self.seen.put_nowait(fact.message_id)

    def disconnected(self) -> None: ...


async def connected(folder: Path, peer: Peer, *, window: float) -> tuple[WorkerChannel, WorkerChannel]:
    """The server's end and that of a worker."""
    loop = asyncio.get_running_loop()
    here, there = WorkerChannel(peer, window=window), WorkerChannel(Peer())
    ends = iter([here, Bell(here)])
    listening = await loop.create_unix_server(lambda: next(ends), str(folder / "socket"))
    await loop.create_unix_connection(lambda: there, str(folder / "socket"))
    there.bell, _ = await loop.create_unix_connection(asyncio.Protocol, str(folder / "socket"))
    there.sockets.append(there.bell)
    assert await there.call("hello") == []
    assert await peer.seen.get() == "hello"  # so both are accepted
    listening.close()
    return here, there


async def test_facts_wait_for_the_end_of_a_window_and_a_request_brings_them_along_in_order(tmp_path: Path) -> None:
    peer = Peer()
    here, there = await connected(tmp_path, peer, window=NEVER)
    there.send_fact(1, MessageRemoved("first"))
    assert await peer.seen.get() == "first"
    there.send_fact(1, MessageRemoved("second"))
    there.send_fact(1, MessageRemoved("third"))
    assert await there.call("stored", 1) == [1]
    there.notify("step", 1)
    assert [await peer.seen.get() for _ in range(4)] == ["second", "third", "stored", "step"]
    assert await here.call("describe", 2) == [2]
    here.close()
    there.close()


async def test_facts_are_read_at_the_end_of_the_window_without_a_request(tmp_path: Path) -> None:
    peer = Peer()
    here, there = await connected(tmp_path, peer, window=0.01)
    for name in ("first", "second", "third"):
        there.send_fact(1, MessageRemoved(name))
        assert await peer.seen.get() == name
    here.close()
    there.close()
