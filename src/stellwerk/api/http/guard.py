"""The guard: checks of Host and Origin (DNS rebinding), and limits on the size of headers and bodies.

A web page in the operator's browser can reach 127.0.0.1 and can point a host name of
its own there. So the Host must be one of ours, and so must the Origin if there is
one; also for WebSockets, which have no CORS preflight. Pure ASGI, because streams
pass through here.
"""

import re
from collections.abc import Collection, Mapping
from ipaddress import IPv6Address, ip_address

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stellwerk.api.http.prefixes import by_prefix, path_below_mount
from stellwerk.api.http.problems import error_response
from stellwerk.errors import HeadersTooLarge, Refused, StellwerkError, TooLarge
from stellwerk.settings import LOOPBACK

_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+)(?::[0-9]{1,5})?")
_FORWARDED = (b"forwarded", b"x-forwarded", b"x-real-ip", b"via")
"""Prefixes of the headers that a proxy adds."""
_BODILESS = ("GET", "HEAD", "DELETE", "OPTIONS")
HEAD_LIMIT = 64 * 1024  # bytes of a request's headers, its address included
ANY = "*"  # any Host; for an embedding app with checks of its own


def is_local(scope: Scope) -> bool:
    """Whether a request comes from this machine, by a loopback name, and was passed on by no proxy.

    A server may replace the address of the peer by the one that a proxy names; the proxy's header stays.
    """
    if any(name.lower().startswith(_FORWARDED) for name, _ in scope["headers"]):
        return False
    return _is_loopback(scope.get("client")) and _host_of(scope)[1] in LOOPBACK


def _is_loopback(peer: tuple[str, int] | None) -> bool:
    try:
        address = ip_address(peer[0] if peer else "")
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def _host_of(scope: Scope) -> tuple[str, str | None]:
    """The Host header, and the name in it; no name if it is invalid or not the only one."""
    hosts = _values(scope, b"host")
    found = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
    return ("", None) if found is None else (hosts[0], found[1].strip("[]").lower())


def _values(scope: Scope, header: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in scope["headers"] if name == header]


def _check_head(scope: Scope) -> None:
    size = len(scope["path"]) + len(scope["query_string"])
    size += sum(len(name) + len(value) for name, value in scope["headers"])
    if size > HEAD_LIMIT:
        said = f"address and headers have more than {HEAD_LIMIT} bytes"
        raise HeadersTooLarge(f"{said}; send less of them")


class Guard:
    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Collection[str],
        origins: Collection[str] = (),
        body_limit: int,
        path_limits: Mapping[str, int] | None = None,
        prefix_limits: Mapping[str, int] | None = None,
    ) -> None:
        """``path_limits`` are body limits of single paths, whose bodies are never held in memory.

        ``prefix_limits`` are those below a path prefix; the longest prefix wins.
        """
        self._app = app
        self._hosts = frozenset(hosts)
        self._origins = frozenset(origins)
        self._limit = body_limit
        self._path_limits = path_limits or {}
        self._prefix_limits = prefix_limits or {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        try:
            _check_head(scope)
            self._check_caller(scope)
            limited = await self._limited(scope, receive) if scope["type"] == "http" else receive
        except StellwerkError as error:
            await error_response(scope, error)(scope, receive, send)
            return
        if limited is not None:
            await self._app(scope, limited, send)

    def _check_caller(self, scope: Scope) -> None:
        host, name = _host_of(scope)
        if name is None or not {ANY, name} & self._hosts:
            raise Refused(
                "the Host header names a machine that this server is not; use 127.0.0.1 or "
                "localhost, or let its operator add the name to STELLWERK_HOSTS"
            )
        allowed = {f"http://{host}", f"https://{host}", *self._origins}
        if not allowed.issuperset(_values(scope, b"origin")):
            raise Refused(
                "this Origin may not use the server; serve the page through a proxy under the "
                "server's address, or let its operator add the origin to STELLWERK_ORIGINS"
            )

    async def _limited(self, scope: Scope, receive: Receive) -> Receive | None:
        """The channel to read the body from; None if the client left before sending it."""
        headers = dict(scope["headers"])
        path_limit = self._path_limits.get(path_below_mount(scope))
        limit = path_limit or by_prefix(self._prefix_limits, scope) or self._limit
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > limit:
            raise self._too_large(limit)
        # HTTP/2 streams a body without a length and without a transfer encoding.
        has_length = b"content-length" in headers or scope["method"] in _BODILESS
        if has_length and b"transfer-encoding" not in headers:
            return receive
        if path_limit is None:
            return await self._measured(receive, limit)
        return self._counted(receive, limit)

    def _counted(self, receive: Receive, limit: int) -> Receive:
        """The same body, rejected once it exceeds the limit."""
        left = limit

        async def counted() -> Message:
            nonlocal left
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0:
                raise self._too_large(limit)
            return message

        return counted

    async def _measured(self, receive: Receive, limit: int) -> Receive | None:
        """A body without a length is buffered up to the limit and passed on whole: not every route reads it."""
        body, more = bytearray(), True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > limit:
                raise self._too_large(limit)
        whole: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

        async def replay() -> Message:
            return whole.pop() if whole else await receive()

        return replay

    def _too_large(self, limit: int) -> TooLarge:
        size = f"{limit / 2**20:g} MiB" if limit >= 2**20 else f"{limit:,} bytes"
        remedy = "send it in parts"
        if limit == self._limit:
            remedy = "a long text goes in several messages or as a file"
        return TooLarge(f"the body has more than {size}; {remedy}", field="body")
