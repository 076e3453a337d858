"""CORS and security headers: which origins may read a response, and what a browser may do with it.

Only origins in STELLWERK_ORIGINS may read responses. Cookies are never used, so credentials
are not allowed. Pure ASGI, because streams pass through here; outside of the guard, so that
its refusals can be read as well. The Content-Security-Policy is set on our own responses
only: a host app decides for its pages.
"""

from collections.abc import Collection, Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stellwerk.api.http.response_start import on_response_start

_ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}
_POLICY = "default-src 'none'; frame-ancestors 'none'"
_SENT = (
    "Authorization, Content-Type, Idempotency-Key, If-None-Match, Last-Event-ID, X-Api-Key, X-Auth-Scheme, "
    "X-Session-Id, X-Stellwerk-Task, X-Stellwerk-Tools, Mcp-Session-Id, Mcp-Protocol-Version, Mcp-Method, Mcp-Name, "
    # The clients of OpenAI, the AI SDK and A2A send these by themselves; not each browser lets a page set User-Agent.
    "A2A-Version, A2A-Extensions, User-Agent, OpenAI-Beta, OpenAI-Organization, OpenAI-Project, X-Stainless-Arch, "
    "X-Stainless-Custom-Poll-Interval, X-Stainless-Helper-Method, X-Stainless-Lang, X-Stainless-OS, "
    "X-Stainless-Package-Version, X-Stainless-Poll-Helper, X-Stainless-Retry-Count, X-Stainless-Runtime, "
    "X-Stainless-Runtime-Version, X-Stainless-Timeout"
)
_READ = (
    "Content-Disposition, Content-Location, ETag, Link, Location, Mcp-Session-Id, Retry-After, Stellwerk-Session, "
    "WWW-Authenticate, X-Pagination-Next, X-Pagination-Total, X-Session-Id, x-vercel-ai-ui-message-stream"
)
_PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, HEAD, POST, PUT, PATCH, DELETE",
    "Access-Control-Allow-Headers": _SENT,
    "Access-Control-Max-Age": "600",
}


def endpoints(routes: Iterable[BaseRoute]) -> frozenset[int]:
    """The identities of functions and of mounted apps, which need not be hashable."""
    found = set[int]()
    for route in routes:
        inner = getattr(route, "original_router", None)  # a router inside of a router, in newer versions of FastAPI
        if inner is None:
            found.add(id(getattr(route, "endpoint", None) or getattr(route, "app", None)))
        else:
            found |= endpoints(inner.routes)
    return frozenset(found)


class CorsMiddleware:
    def __init__(self, app: ASGIApp, *, origins: Collection[str]) -> None:
        self._app = app
        self._origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        asked = Headers(scope=scope)
        own_endpoints = scope["app"].state.own_endpoints
        before = scope.get("endpoint")  # this app, if a host has mounted it
        allowed_origin = asked["origin"] if asked.get("origin") in self._origins else None

        def add_headers(message: Message) -> None:
            answer = MutableHeaders(scope=message)
            self._set_headers(answer, allowed_origin)
            reached = scope.get("endpoint")
            if reached is before or id(reached) in own_endpoints:
                answer.setdefault("Content-Security-Policy", _POLICY)

        on_response_start(scope, add_headers)
        if allowed_origin and scope["method"] == "OPTIONS" and "access-control-request-method" in asked:
            await Response(status_code=204, headers=_PREFLIGHT)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _set_headers(self, answer: MutableHeaders, allowed_origin: str | None) -> None:
        for name, value in _ALWAYS.items():
            answer.setdefault(name, value)
        answer.setdefault("Cache-Control", "private, no-cache" if "etag" in answer else "no-store")
        if self._origins:
            answer.add_vary_header("Origin")
        if allowed_origin is not None:
            answer["Access-Control-Allow-Origin"] = allowed_origin
            answer["Access-Control-Expose-Headers"] = _READ
