"""Measuring: each request by the route that answered it, how, and how soon; and who reads right now.

Outside of everything else, so that refusals at the door and bugs are seen as
well. A stream counts as answered when it begins.
"""

import asyncio
from collections import Counter as Multiset

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stellwerk.api.audit_trail import HANDSHAKE
from stellwerk.api.turned_away import STATUSES, TurnedAway
from stellwerk.meters import Counter, Histogram

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", HANDSHAKE})
_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_STREAMS = {"text/event-stream": "sse", "application/x-ndjson": "ndjson"}
_ROUTE = ("method", "route")


class Requests:
    def __init__(self) -> None:
        self.answered = Counter("stellwerk_requests_total", "Requests, by how they were answered.", *_ROUTE, "status")
        self.seconds = Histogram("stellwerk_request_seconds", "Seconds until an answer began.", *_ROUTE, bounds=_BOUNDS)
        self.readers: Multiset[str] = Multiset(dict.fromkeys((*_STREAMS.values(), "websocket"), 0))
        """Streams that are open, by their form."""


class Measuring:
    def __init__(self, app: ASGIApp, *, requests: Requests) -> None:
        self._app, self._requests, self._turned_away = app, requests, TurnedAway()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        began, reading = asyncio.get_running_loop().time(), list[str]()

        async def measured(message: Message) -> None:
            status = _status(message)
            if status is not None:
                self._answered(scope, status, asyncio.get_running_loop().time() - began)
                reading.extend(_kinds(message))
                self._requests.readers.update(reading)
            await send(message)

        try:
            await self._app(scope, receive, measured)
        finally:
            self._requests.readers.subtract(reading)

    def _answered(self, scope: Scope, status: int, seconds: float) -> None:
        method = scope["method"] if scope["type"] == "http" else HANDSHAKE
        labels = method if method in _METHODS else "other", getattr(scope.get("route"), "path", "none")
        self._requests.answered.add(*labels, str(status))
        self._requests.seconds.add(seconds, *labels)
        if status in STATUSES:
            self._turned_away.tell(scope, status)


def _status(message: Message) -> int | None:
    match message["type"]:
        case "http.response.start" | "websocket.http.response.start":
            return int(message["status"])
        case "websocket.accept":
            return 101
    return None


def _kinds(message: Message) -> list[str]:
    """Which kind of reader this answer has, if it is a stream."""
    if message["type"] == "websocket.accept":
        return ["websocket"]
    said = Headers(raw=message.get("headers", [])).get("content-type", "").partition(";")[0]
    return [_STREAMS[said]] if said in _STREAMS else []
