"""What browsers are told: which pages of others may read an answer, and what no page may do with one.

Nothing is said to a page of another origin, unless the operator named it in
STELLWERK_ORIGINS. No cookie is ever asked for, so none is allowed either. Pure
ASGI, because the streams pass through here; and outermost, so that refusals can be read, too.
The Content-Security-Policy is for our own answers. Pages that a host adds to the app decide on theirs.
"""

from collections.abc import Collection, Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}
_POLICY = "default-src 'none'; frame-ancestors 'none'"
_SENT = "Authorization, Content-Type, Idempotency-Key, If-None-Match, Last-Event-ID"
_READ = "Content-Disposition, ETag, Link, Location, Retry-After, Stellwerk-Session, WWW-Authenticate"
_PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, HEAD, POST, PUT, PATCH, DELETE",
    "Access-Control-Allow-Headers": _SENT,
    "Access-Control-Max-Age": "600",
}


def endpoints(routes: Iterable[BaseRoute]) -> frozenset[int]:
    """The identities of what answers at these routes: functions, and mounted apps, which need not be hashable."""
    return frozenset(id(getattr(route, "endpoint", None) or getattr(route, "app", None)) for route in routes)


class Browsers:
    def __init__(self, app: ASGIApp, *, origins: Collection[str]) -> None:
        self._app, self._origins = app, frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        asked = Headers(scope=scope)
        own_endpoints = scope["app"].state.own_endpoints
        before = scope.get("endpoint")  # this app, if a host has mounted it; routing writes another one
        friend = asked["origin"] if asked.get("origin") in self._origins else None

        async def telling(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                self._tell(answer, friend)
                reached = scope.get("endpoint")
                if reached is before or id(reached) in own_endpoints:
                    answer.setdefault("Content-Security-Policy", _POLICY)
            await send(message)

        if friend and scope["method"] == "OPTIONS" and "access-control-request-method" in asked:
            await Response(status_code=204, headers=_PREFLIGHT)(scope, receive, telling)
        else:
            await self._app(scope, receive, telling)

    def _tell(self, answer: MutableHeaders, friend: str | None) -> None:
        for name, value in _ALWAYS.items():
            answer.setdefault(name, value)
        answer.setdefault("Cache-Control", "private, no-cache" if "etag" in answer else "no-store")
        if self._origins:
            answer.add_vary_header("Origin")
        if friend is not None:
            answer["Access-Control-Allow-Origin"] = friend
            answer["Access-Control-Expose-Headers"] = _READ
