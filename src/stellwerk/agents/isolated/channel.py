"""Channel: requests, answers, notifications and facts between the server and a worker, on one socket.

A process that wakes up costs more than what it is sent, so facts wake up the server only once in a
window: it reads, stops reading until the windows of all recorders end, and then reads what all workers
have sent. The worker sends facts as they come and wakes up for none. Everything else is announced on a
second socket, the bell, which the server always reads: so it waits for no window, and the order is kept.
"""

import asyncio
from math import floor
from typing import Any, Protocol, cast

import structlog

from stellwerk.agents.isolated import wire
from stellwerk.errors import WorkerLost
from stellwerk.stream.facts import Fact

logger = structlog.get_logger(__name__)


class Peer(Protocol):
    """What an end of the channel does with what it is sent."""

    async def answer(self, method: str, given: list[Any]) -> Any:
        """The answer to a request."""

    def notified(self, method: str, given: list[Any]) -> None: ...

    def fact_sent(self, scope: int, fact: Fact) -> None: ...

    def disconnected(self) -> None: ...


class WorkerChannel(asyncio.Protocol):
    def __init__(self, peer: Peer, *, largest: int | None = None, window: float = 0) -> None:
        """``largest`` is the limit of a frame that is received; None if the other end is trusted.

        With a ``window`` this end reads at the ends of windows, and when the other end rings.
        """
        self._peer = peer
        self._largest = largest
        self._window = window
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._waiting: list[bytes] = []
        self._read_at: asyncio.Handle | None = None
        """Set while nothing is read."""
        self._calls: dict[int, asyncio.Future[Any]] = {}
        self._count = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.bell: asyncio.WriteTransport | None = None
        """Rung at the other end with all that is not a fact."""
        self.sockets: list[asyncio.BaseTransport] = []
        """Closed with this one."""

    # Sending.

    async def call(self, method: str, *given: Any) -> Any:
        """Send a request and wait for its answer; its error is raised here.

        Raises:
            WorkerLost: the other process has ended.
        """
        if self._transport is None or self._transport.is_closing():
            raise WorkerLost("it has ended")
        self._count += 1
        number = self._count
        answer = self._calls[number] = self._loop.create_future()
        self._send_now(wire.pack(["call", number, method, given]))
        try:
            return await answer
        finally:
            self._calls.pop(number, None)

    def notify(self, method: str, *given: Any) -> None:
        self._send_now(wire.pack(["note", method, given]))

    def send_fact(self, scope: int, fact: Fact) -> None:
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting.append(wire.packed_fact(scope, fact))

    def _send_now(self, packed: bytes) -> None:
        self._waiting.append(packed)
        self._flush()
        if self.bell is not None and not self.bell.is_closing():
            self.bell.write(b"!")

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting and self._transport is not None and not self._transport.is_closing():
            self._transport.write(wire.frame(waiting))

    # Receiving.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass of it

    def connection_lost(self, error: Exception | None) -> None:
        self.close()
        self._peer.disconnected()

    def close(self) -> None:
        """Nothing more is sent or received; calls that wait for an answer get an error."""
        if self._transport is not None:
            self._transport.close()
        for each in self.sockets:
            each.close()
        if self._read_at is not None:
            self._read_at.cancel()
        for answer in self._calls.values():
            if not answer.done():
                answer.set_exception(WorkerLost("it has ended"))

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        begin = 0
        while len(received) - begin >= wire.HEADER.size:
            (length,) = wire.HEADER.unpack_from(received, begin)
            if self._largest is not None and length > self._largest:
                logger.error("worker_sent_too_much", bytes=length, limit=self._largest)
                received.clear()
                self.close()
                return
            end = begin + wire.HEADER.size + length
            if len(received) < end:
                break
            try:
                messages = wire.unpack(bytes(received[begin + wire.HEADER.size : end]))
            except ValueError:  # another process has written into the socket
                self.close()
                return
            for message in messages:
                self._take(message)
            begin = end
        if begin:
            del received[:begin]
        if self._window and not received:
            self._stop_reading()

    def _stop_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing() and self._read_at is None:
            self._transport.pause_reading()
            end = (floor(self._loop.time() / self._window) + 1) * self._window
            self._read_at = self._loop.call_at(end, self.read_now)

    def read_now(self) -> None:
        """Read what the other end has sent, and what it sends next."""
        if self._read_at is not None and self._transport is not None and not self._transport.is_closing():
            self._read_at.cancel()
            self._read_at = None
            self._transport.resume_reading()

    def _take(self, message: list[Any]) -> None:
        match message:
            case ["fact", scope, name, fields]:
                self._peer.fact_sent(scope, wire.fact_of(name, fields))
            case ["note", method, given]:
                self._peer.notified(method, given)
            case ["call", number, method, given]:
                task = asyncio.create_task(self._answered(number, method, given))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            case ["answer", number, value]:
                if (answer := self._calls.get(number)) is not None and not answer.done():
                    answer.set_result(value)
            case ["error", number, packed]:
                if (answer := self._calls.get(number)) is not None and not answer.done():
                    answer.set_exception(wire.error_of(packed))

    async def _answered(self, number: int, method: str, given: list[Any]) -> None:
        try:
            value = await self._peer.answer(method, given)
        except asyncio.CancelledError as error:
            self._send_now(wire.pack(["error", number, wire.packed_error(error)]))
            raise
        except Exception as error:  # noqa: BLE001 - it is the answer
            self._send_now(wire.pack(["error", number, wire.packed_error(error)]))
        else:
            self._send_now(wire.pack(["answer", number, value]))


class Bell(asyncio.Protocol):
    """The server's end of the second socket."""

    def __init__(self, channel: WorkerChannel) -> None:
        self._channel = channel

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._channel.sockets.append(transport)

    def data_received(self, data: bytes) -> None:
        self._channel.read_now()
