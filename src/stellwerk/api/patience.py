"""Patience: how long somebody may take to say what he wants.

uvicorn waits for ever, and takes headers of any length. A thousand connections
that send a byte now and then would cost their owner nothing, and us a
thousand connections. Each request has so many seconds for its headers and so
many for its body, plus one for each few kilobytes that came: slow lines are
no attack.
"""

import asyncio
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from stellwerk.api.guard import HEAD_LIMIT

HEAD_SECONDS = 20.0
BODY_SECONDS = 20.0
PACE = 4096
"""Bytes of a body that buy another second."""


class Patient(HttpToolsProtocol):
    """A connection that is let go when its request does not come."""

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        self._timer: asyncio.TimerHandle | None = None
        self._in_head = True
        self._came = 0
        """Bytes of the headers, or of the body, that have come so far."""
        self._since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._begin(HEAD_SECONDS, in_head=True)

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
            self._begin(HEAD_SECONDS, in_head=True)

    def on_headers_complete(self) -> None:
        self._begin(BODY_SECONDS, in_head=False)
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
        self._in_head, self._came, self._since = in_head, 0, self.loop.time()
        self._timer = self.loop.call_later(seconds, self._look)

    def _done(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        if self.flow.read_paused:  # it is we who are slow
            self._begin(BODY_SECONDS, in_head=self._in_head)
            return
        left = 0.0 if self._in_head else self._since + BODY_SECONDS + self._came / PACE - self.loop.time()
        if left > 0:
            self._timer = self.loop.call_later(left, self._look)
        else:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT)

    def _refuse(self, status: HTTPStatus) -> None:
        """Say why, if anything was asked and is not answered yet, and let go."""
        self._done()
        begun = self._came > 0 if self._in_head else not self.cycle.response_started
        if begun:
            said = f"content-type: text/plain\r\ncontent-length: {len(status.phrase)}\r\nconnection: close\r\n\r\n"
            self.transport.write(STATUS_LINE[status] + said.encode() + status.phrase.encode())
        self.transport.close()
