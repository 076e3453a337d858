"""The HTTP server: uvicorn with read timeouts, pings, TCP keepalive and a shutdown that ends streams."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from stellwerk.api.http.guard import HEAD_LIMIT
from stellwerk.errors import SettingsError
from stellwerk.log.notify import WakeUps
from stellwerk.timings import Timings

_SEND_BUFFER = 128 * 1024  # the kernel's send buffer per connection, which it doubles
_FAREWELL = 0.5
_LAST_BYTES = 1.5  # seconds that slow readers get beyond that at a shutdown


class ReadTimeoutProtocol(HttpToolsProtocol):
    """A connection that is closed if its request does not arrive in time (slowloris).

    uvicorn has neither a timeout nor a limit for headers. Each request has a number of seconds
    for its headers and for its body, plus one for every few kilobytes received, because a slow
    line is not an attack.
    """

    # Instances with more than 30 attributes outside of slots take 1.3 KB more in CPython.
    __slots__ = ("_came", "_in_head", "_since", "_timer", "_timings")

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        self._timings: Timings = self.config.app.state.timings  # type: ignore[union-attr]
        self._timer: asyncio.TimerHandle | None = None
        self._in_head = True
        self._came = 0  # bytes of the headers, or of the body, that have come so far
        self._since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._begin(self._timings.request_headers, in_head=True)

    def connection_lost(self, exc: Exception | None) -> None:
        self._done()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_head and self._timer is not None:
            self._came += len(data)
            if self._came > HEAD_LIMIT:
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._timer is None:  # the first request has had its time since the connection was made
            self._begin(self._timings.request_headers, in_head=True)

    def on_headers_complete(self) -> None:
        self._begin(self._timings.request_body, in_head=False)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._came += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._done()
        super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        self._done()
        super().handle_websocket_upgrade()

    def _begin(self, seconds: float, *, in_head: bool) -> None:
        self._done()
        self._in_head = in_head
        self._came = 0
        self._since = self.loop.time()
        self._timer = self.loop.call_later(seconds, self._check)

    def _done(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        if self.flow.read_paused:  # the server is slow, not the client
            self._begin(self._timings.request_body, in_head=self._in_head)
            return
        granted = self._timings.request_body + self._came / self._timings.body_pace
        left = 0.0 if self._in_head else self._since + granted - self.loop.time()
        if left > 0:
            self._timer = self.loop.call_later(left, self._check)
        else:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT)

    def _refuse(self, status: HTTPStatus) -> None:
        """Respond with the reason if a request has begun and has no response yet, then close."""
        self._done()
        begun = self._came > 0 if self._in_head else not self.cycle.response_started
        if begun:
            head = f"content-type: text/plain\r\ncontent-length: {len(status.phrase)}\r\n"
            rest = f"{head}connection: close\r\n\r\n{status.phrase}"
            self.transport.write(STATUS_LINE[status] + rest.encode())
        self.transport.close()


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """A rejected handshake counts as complete; uvicorn would log each as an error of the server."""

    async def send(self, message: Any) -> None:
        if message["type"] == "websocket.http.response.start":
            self._reject_with_own_headers_only({name.decode() for name, _ in message["headers"]})
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            self.handshake_complete = True

    def _reject_with_own_headers_only(self, own: set[str]) -> None:
        """uvicorn before 0.52 sends our headers beside those of the library, and clients reject two of a kind."""
        reject = self.conn.reject

        def rejected(status: Any, text: str) -> Any:
            response = reject(status, text)
            for name in own.intersection(map(str.lower, list(response.headers))):
                del response.headers[name]
            return response

        self.conn.reject = rejected  # type: ignore[method-assign]


class Server(uvicorn.Server):
    """uvicorn with streams that end at the shutdown, and a callback when it is ready."""

    def __init__(self, app: FastAPI, ready: Callable[[], None], *, body_limit: int) -> None:
        timings: Timings = app.state.timings
        # The lifespan is entered by `serving`: what prevents a start is raised, not only logged.
        super().__init__(
            uvicorn.Config(
                app,
                http=ReadTimeoutProtocol,
                ws=WebSocketProtocol,
                ws_max_size=2 * body_limit,  # one that is only a little too large gets an answer
                ws_ping_interval=timings.websocket_ping,
                ws_ping_timeout=timings.websocket_pong,
                ws_per_message_deflate=False,
                lifespan="off",
                access_log=False,  # addresses may hold tickets
                server_header=False,
                log_config=None,
                timeout_keep_alive=timings.keep_alive,
                timeout_graceful_shutdown=2,
            )
        )
        self.app = app
        self._wakes: WakeUps = app.state.wakes
        self._ready = ready

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # the owner of the process decides about its signals

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._wakes.close()
        # Readers end by themselves; uvicorn would close sockets in the middle of a frame.
        if self.server_state.tasks:
            await asyncio.wait(self.server_state.tasks, timeout=_FAREWELL)
        cut = asyncio.get_running_loop().call_later(_LAST_BYTES, self._abort_slow_readers)
        await super().shutdown(sockets)
        cut.cancel()

    def _abort_slow_readers(self) -> None:
        """Before uvicorn cancels their requests and logs each as an error."""
        for connection in list(self.server_state.connections):
            if connection.transport.get_write_buffer_size():
                connection.transport.abort()


def listener(host: str, port: int, timings: Timings = Timings()) -> socket.socket:
    """A listening socket with keepalive options, which its connections inherit."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # named, or asyncio leaves Nagle on
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
    for name, value in timings.tcp_keepalive.items():
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    try:
        made.bind((host, port))
    except OSError as error:
        made.close()
        raise SettingsError(f"cannot listen on {host}:{port}: {error.strerror}; choose another with --port") from error
    return made
