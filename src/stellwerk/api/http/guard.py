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

from stellwerk.api.http.problems import problem_response
from stellwerk.errors import HeadersTooLarge, Refused, StellwerkError, TooLarge
from stellwerk.settings import LOOPBACK

_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+)(?::[0-9]{1,5})?")
_FORWARDED = (b"forwarded", b"x-forwarded", b"x-real-ip", b"via")
"""Prefixes of the headers that a proxy adds."""
_BODILESS = ("GET", "HEAD", "DELETE", "OPTIONS")
HEAD_LIMIT = 64 * 1024
"""Bytes of a request's headers, its address included."""
ANY = "*"
"""Any Host; for an embedding app with checks of its own."""


def is_local(scope: Scope) -> bool:
    """Whether a request comes from this machine, asks for it by a name of loopback, and was passed on by no proxy.

    A server may replace the address of the peer by the one that a proxy names; the proxy's header stays.
    """
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    if any(name.lower().startswith(_FORWARDED) for name, _ in headers):
        return False
    hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
    return _is_loopback(scope.get("client")) and len(hosts) == 1 and _name_of(hosts[0]) in LOOPBACK


def _is_loopback(peer: tuple[str, int] | None) -> bool:
    try:
        address = ip_address(peer[0] if peer else "")
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def _name_of(host: str) -> str | None:
    """The name in a Host header, without its port; None if it is not one."""
    found = _HOST.fullmatch(host)
    return None if found is None else found[1].strip("[]").lower()


def _check_head(scope: Scope) -> None:
    said = (scope["path"], scope["query_string"], *(part for header in scope["headers"] for part in header))
    size = sum(map(len, said))
    if size > HEAD_LIMIT:
        raise HeadersTooLarge(f"address and headers have more than {HEAD_LIMIT} bytes; send less of them")


class Guard:
    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Collection[str],
        origins: Collection[str] = (),
        body_limit: int,
        path_limits: Mapping[str, int] | None = None,
    ) -> None:
        """``path_limits`` maps paths to body limits of their own; their bodies are never held in memory."""
        self._app, self._hosts, self._origins, self._limit = app, frozenset(hosts), frozenset(origins), body_limit
        self._path_limits = path_limits or {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        try:
            _check_head(scope)
            self._check_caller(scope["headers"])
            limited = await self._limited(scope, receive) if scope["type"] == "http" else receive
        except StellwerkError as error:
            await problem_response(error)(scope, receive, send)
            return
        if limited is not None:
            await self._app(scope, limited, send)

    def _check_caller(self, headers: list[tuple[bytes, bytes]]) -> None:
        hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
        named = _name_of(hosts[0]) if len(hosts) == 1 else None
        if named is None or not {ANY, named} & self._hosts:
            raise Refused(
                "the Host header names a machine that this server is not; use 127.0.0.1 or localhost, "
                "or let its operator add the name to STELLWERK_HOSTS"
            )
        origins = {value.decode("latin-1") for name, value in headers if name == b"origin"}
        if not origins <= {f"http://{hosts[0]}", f"https://{hosts[0]}", *self._origins}:
            raise Refused(
                "this Origin may not use the server; serve the page through a proxy under the server's address, "
                "or let its operator add the origin to STELLWERK_ORIGINS"
            )

    async def _limited(self, scope: Scope, receive: Receive) -> Receive | None:
        """The channel to read the body from; None if the client left before sending it.

        Raises:
            TooLarge: the body has more bytes than it may.
        """
        headers = dict(scope["headers"])
        path_limit = self._path_limits.get(scope["path"].removeprefix(scope.get("root_path", "")))
        limit = self._limit if path_limit is None else path_limit
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > limit:
            raise self._too_large(limit)
        # HTTP/2 streams a body without a length and without a transfer encoding.
        if b"transfer-encoding" not in headers and (b"content-length" in headers or scope["method"] in _BODILESS):
            return receive
        return await self._measured(receive) if path_limit is None else self._counted(receive, limit)

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

    async def _measured(self, receive: Receive) -> Receive | None:
        """A body without a length is buffered up to the limit and passed on whole: not every route reads it."""
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > self._limit:
                raise self._too_large(self._limit)
        whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return whole.pop() if whole else await receive()

        return replay

    def _too_large(self, limit: int) -> TooLarge:
        size = f"{limit / 2**20:g} MiB" if limit >= 2**20 else f"{limit:,} bytes"
        remedy = "a long text goes in several messages or as a file" if limit == self._limit else "send it in parts"
        return TooLarge(f"the body has more than {size}; {remedy}", field="body")
