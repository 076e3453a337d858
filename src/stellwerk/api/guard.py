"""The guard: who may talk to a server on loopback, and how much they may send.

A web page in the operator's browser can reach 127.0.0.1 and can make a host
name of its own point there. So the Host must be one of ours, and so must the
Origin, if there is one; of a WebSocket as well, which no browser asks us about
beforehand. Pure ASGI, because the streams pass through here.
"""

import re
from collections.abc import Collection, Mapping
from ipaddress import IPv6Address, ip_address

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stellwerk.api.problems import problem_of
from stellwerk.errors import HeadersTooLarge, Refused, StellwerkError, TooLarge
from stellwerk.settings import LOOPBACK

_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+)(?::[0-9]{1,5})?")
_FORWARDED = (b"forwarded", b"x-forwarded", b"x-real-ip", b"via")
"""How the names of the headers begin by which a proxy says for whom it asks."""
_BODILESS = ("GET", "HEAD", "DELETE", "OPTIONS")
HEAD_LIMIT = 64 * 1024
"""Bytes that the headers of a request may have, its address included."""
ANY = "*"
"""Whoever embeds the server behind checks of his own may leave the Host to them."""


def is_local(scope: Scope) -> bool:
    """Whether a request comes from this machine, asks for it by a name of loopback, and was passed on by no proxy.

    A server may have put the address that a proxy tells in the place of the peer's: the header is still there.
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


def _size(limit: int) -> str:
    return f"{limit / 2**20:g} MiB" if limit >= 2**20 else f"{limit:,} bytes"


class Guard:
    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Collection[str],
        origins: Collection[str] = (),
        body_limit: int,
        streamed: Mapping[str, int] | None = None,
    ) -> None:
        """``streamed`` are paths whose bodies have a limit of their own and are never held in memory."""
        self._app, self._hosts, self._origins, self._limit = app, frozenset(hosts), frozenset(origins), body_limit
        self._streamed = streamed or {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        try:
            _check_head(scope)
            self._check_caller(scope["headers"])
            admitted = await self._admitted(scope, receive) if scope["type"] == "http" else receive
        except StellwerkError as refusal:
            await problem_of(refusal)(scope, receive, send)
            return
        if admitted is not None:
            await self._app(scope, admitted, send)

    def _check_caller(self, headers: list[tuple[bytes, bytes]]) -> None:
        hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
        self._check_host(hosts)
        for name, value in headers:
            if name == b"origin":
                self._check_origin(value.decode("latin-1"), hosts[0])

    async def _admitted(self, scope: Scope, receive: Receive) -> Receive | None:
        """Where the body may be read from; None if the client left before it had sent it."""
        given = dict(scope["headers"])
        limit = self._streamed.get(scope["path"].removeprefix(scope.get("root_path", "")))
        self._check_length(given.get(b"content-length", b"0"), self._limit if limit is None else limit)
        # HTTP/2 tells no length of what it sends in pieces, and names no encoding either.
        if b"transfer-encoding" not in given and (b"content-length" in given or scope["method"] in _BODILESS):
            return receive
        return await self._measured(receive) if limit is None else self._counted(receive, limit)

    def _check_host(self, hosts: list[str]) -> None:
        named = _name_of(hosts[0]) if len(hosts) == 1 else None
        if named is None or not {ANY, named} & self._hosts:
            raise Refused(
                "the Host header names a machine that this server is not; use 127.0.0.1 or localhost, "
                "or let its operator add the name to STELLWERK_HOSTS"
            )

    def _check_origin(self, origin: str, host: str) -> None:
        if origin not in (f"http://{host}", f"https://{host}") and origin not in self._origins:
            raise Refused(
                "this Origin may not use the server; serve the page through a proxy under the server's address, "
                "or let its operator add the origin to STELLWERK_ORIGINS"
            )

    def _check_length(self, length: bytes, limit: int) -> None:
        if not length.isdigit() or int(length) > limit:
            raise self._too_large(limit)

    def _counted(self, receive: Receive, limit: int) -> Receive:
        """The same body, refused when it turns out to be too long."""
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
        """A body that does not say how long it is: take it in, up to the limit, and hand it on whole."""
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
        remedy = "a long text goes in several messages or as a file" if limit == self._limit else "send it in parts"
        return TooLarge(f"the body has more than {_size(limit)}; {remedy}", field="body")
