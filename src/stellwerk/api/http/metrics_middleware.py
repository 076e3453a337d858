"""Request metrics (by route, status and duration; open streams) and the log of authentication failures.

The outermost middleware, so that it sees refusals and bugs as well. A stream counts as answered
when it begins. Authentication failures are logged up to a bound per minute, so that they
cannot fill a disk; the metrics count all of them.
"""

import asyncio
import re
from collections import Counter as Multiset
from ipaddress import ip_address

import structlog
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stellwerk.api.http.audit import HANDSHAKE, origin_of
from stellwerk.api.http.auth import presented_key
from stellwerk.api.http.response_start import on_response_start
from stellwerk.logs import NotSecret
from stellwerk.metrics import Counter, Histogram

logger = structlog.get_logger(__name__)

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", HANDSHAKE})
_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_STREAMS = {"text/event-stream": "sse", "application/x-ndjson": "ndjson"}
_KEY = re.compile(r"sw_([0-9A-Za-z]{12})_")
LOGGED_PER_MINUTE = 60


class RequestMetrics:
    def __init__(self) -> None:
        about = "Requests, by how they were answered."
        self.answered = Counter("stellwerk_requests_total", about, "method", "route", "status")
        about = "Seconds until an answer began."
        self.seconds = Histogram("stellwerk_request_seconds", about, "method", "route", bounds=_BOUNDS)
        self.readers: Multiset[str] = Multiset(dict.fromkeys((*_STREAMS.values(), "websocket"), 0))
        """Open streams, by their form."""


class MetricsMiddleware:
    def __init__(self, app: ASGIApp, *, requests: RequestMetrics) -> None:
        self._app = app
        self._requests = requests
        self._failures = AuthFailureLog()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        now = asyncio.get_running_loop().time
        began = now()
        reading: list[str] = []

        def measure(message: Message) -> None:
            self._answered(scope, message.get("status", 101), now() - began)
            reading.extend(_kinds(message))
            self._requests.readers.update(reading)

        on_response_start(scope, measure)
        try:
            await self._app(scope, receive, send)
        finally:
            self._requests.readers.subtract(reading)

    def _answered(self, scope: Scope, status: int, seconds: float) -> None:
        method = scope["method"] if scope["type"] == "http" else HANDSHAKE
        path = getattr(scope.get("route"), "path", "none")
        labels = (method if method in _METHODS else "other", path)
        self._requests.answered.add(*labels, str(status))
        self._requests.seconds.add(seconds, *labels)
        if status in (401, 403):
            self._failures.record(scope, status)


def _kinds(message: Message) -> list[str]:
    """Which kind of reader this answer has, if it is a stream."""
    if message["type"] == "websocket.accept":
        return ["websocket"]
    said = Headers(raw=message.get("headers", [])).get("content-type", "").partition(";")[0]
    return [_STREAMS[said]] if said in _STREAMS else []


class AuthFailureLog:
    """Rejected requests in the operator's log, up to a bound per minute."""

    def __init__(self) -> None:
        self._since = 0.0
        self._logged = 0
        self._left_out = 0

    def record(self, scope: Scope, status: int) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._since >= 60:
            self._since = now
            self._logged = 0
        if self._logged >= LOGGED_PER_MINUTE:
            self._left_out += 1
            return
        shown = _KEY.match(presented_key(Headers(scope=scope)))
        route = getattr(scope.get("route"), "path", None)
        logger.warning(
            "request_refused",
            status=status,
            not_told_before=self._left_out,
            key=shown and NotSecret(shown[1]),
            route=route and NotSecret(route),
            origin=_address(origin_of(scope)),
        )
        self._logged += 1
        self._left_out = 0


def _address(origin: str) -> str:
    """A proxy may send any text, and an IPv6 address may have one after ``%``."""
    try:
        return origin if "%" in origin else NotSecret(ip_address(origin))
    except ValueError:
        return origin
