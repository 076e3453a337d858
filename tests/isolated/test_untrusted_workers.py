"""The server takes from a worker only what the worker may send."""

import asyncio
from typing import Any

from stellwerk.agents.isolated import wire
from stellwerk.agents.isolated.channel import WorkerChannel


class Server:
    """The server's end, which keeps what it is sent."""

    def __init__(self) -> None:
        self.notes: list[Any] = []

    async def answer(self, method: str, given: list[Any]) -> Any: ...

    def notified(self, method: str, given: list[Any]) -> None:
        self.notes.append((method, given))

    def fact_sent(self, scope: int, fact: Any) -> None: ...

    def disconnected(self) -> None: ...


class Socket(asyncio.Transport):
    is_open = True

    def close(self) -> None:
        self.is_open = False


async def test_a_frame_that_is_too_large_closes_the_connection_before_it_is_held_in_memory() -> None:
    server, socket = Server(), Socket()
    channel = WorkerChannel(server, largest=wire.LARGEST)
    channel.connection_made(socket)
    channel.data_received(wire.frame([wire.pack(["note", "step", [1]])]))
    assert (server.notes, socket.is_open) == ([("step", [1])], True)
    channel.data_received(wire.HEADER.pack(wire.LARGEST + 1) + b"x" * 1000)
    assert not socket.is_open
