"""Channel: requests, answers, notifications and facts between the server and a worker, on one socket.

Facts are sent in batches: the first one after a pause at once, those that follow at the end of a
short window. Everything else takes along what waits, so the order is always kept.
"""

import asyncio
from typing import Any, Protocol, cast

import structlog

from stellwerk.agents.isolated import wire
from stellwerk.errors import WorkerLost
from stellwerk.stream.facts import Fact

logger = structlog.get_logger(__name__)

WINDOW = 0.025
"""Seconds in which facts are gathered; the log merges tokens in a longer window anyway."""


class Peer(Protocol):
    """What an end of the channel does with what it is sent."""

    async def answer(self, method: str, given: list[Any]) -> Any:
        """The answer to a request."""

    def notified(self, method: str, given: list[Any]) -> None: ...

    def fact_sent(self, scope: int, fact: Fact) -> None: ...

    def disconnected(self) -> None: ...


class WorkerChannel(asyncio.Protocol):
    def __init__(self, peer: Peer, *, largest: int | None = None) -> None:
        """``largest`` is the limit of a frame that is received; None if the other end is trusted."""
        self._peer = peer
        self._largest = largest
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._waiting: list[bytes] = []
        self._flush_at: asyncio.Handle | None = None
        self._flushed = 0.0
        self._calls: dict[int, asyncio.Future[Any]] = {}
        self._count = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.connected = asyncio.Event()

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
        self._waiting.append(wire.packed_fact(scope, fact))
        if self._flush_at is None:
            left = self._flushed + WINDOW - self._loop.time()
            if left > 0:
                self._flush_at = self._loop.call_later(left, self._flush)
            else:
                self._flush_at = self._loop.call_soon(self._flush)

    def _send_now(self, packed: bytes) -> None:
        self._waiting.append(packed)
        self._flush()

    def _flush(self) -> None:
        if self._flush_at is not None:
            self._flush_at.cancel()
            self._flush_at = None
        waiting, self._waiting = self._waiting, []
        self._flushed = self._loop.time()
        if waiting and self._transport is not None and not self._transport.is_closing():
            self._transport.write(wire.frame(waiting))

    # Receiving.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass of it
        self.connected.set()

    def connection_lost(self, error: Exception | None) -> None:
        self.close()
        self._peer.disconnected()

    def close(self) -> None:
        """Nothing more is sent or received; calls that wait for an answer get an error."""
        if self._transport is not None:
            self._transport.close()
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
