"""The server: uvicorn and a listening socket, as our streams need them."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from stellwerk.api.patience import Patient
from stellwerk.errors import SettingsError
from stellwerk.log.wake import Wakes

_SEND_BUFFER = 128 * 1024
"""What the kernel may hold for a reader that does not read; it takes twice as much."""
_PING, _PONG = 15.0, 13.0
"""Seconds between two looks at a WebSocket, and seconds that it may take to answer."""
_FAREWELL = 0.5
_LAST_BYTES = 1.5
"""Seconds that whoever reads slowly has beyond that, when the server goes down."""
_KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 13_000}
"""A peer that is gone is noticed within 30 seconds: at the latest, 13 after a heartbeat, which comes within 15."""


class Socket(WebSocketsSansIOProtocol):
    """A handshake that was refused is over, too; uvicorn would tell of each as of an error of ours."""

    async def send(self, message: Any) -> None:
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            self.handshake_complete = True


class Server(uvicorn.Server):
    """uvicorn, with streams that end when the server does, and a word when it is ready."""

    def __init__(self, app: FastAPI, ready: Callable[[], None], *, body_limit: int) -> None:
        # The lifespan is entered by `serving`, so that what prevents a start is raised and not only logged.
        super().__init__(
            uvicorn.Config(
                app,
                http=Patient,
                ws=Socket,
                ws_max_size=2 * body_limit,  # so that one which is only a little too large gets an answer
                ws_ping_interval=_PING,
                ws_ping_timeout=_PONG,
                ws_per_message_deflate=False,
                lifespan="off",
                access_log=False,  # addresses may hold tickets
                server_header=False,
                log_config=None,
                timeout_graceful_shutdown=2,
            )
        )
        self._wakes: Wakes = app.state.wakes
        self._ready = ready

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # whoever owns the process decides about its signals

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._wakes.close()
        if self.server_state.tasks:  # readers say goodbye by themselves; uvicorn would cut sockets off in mid-sentence
            await asyncio.wait(self.server_state.tasks, timeout=_FAREWELL)
        cut = asyncio.get_running_loop().call_later(_LAST_BYTES, self._cut_off_who_does_not_read)
        await super().shutdown(sockets)
        cut.cancel()

    def _cut_off_who_does_not_read(self) -> None:
        """Before uvicorn cancels their requests, and tells of each as of an error."""
        for connection in list(self.server_state.connections):
            if connection.transport.get_write_buffer_size():
                connection.transport.abort()


def listener(host: str, port: int) -> socket.socket:
    """A listening socket whose connections notice a dead peer: they inherit these options."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    try:
        made.bind((host, port))
    except OSError as error:
        made.close()
        raise SettingsError(f"cannot listen on {host}:{port}: {error.strerror}; choose another with --port") from error
    return made
