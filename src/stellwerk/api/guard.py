"""The guard: who may talk to a server on loopback, and how much they may send.

A web page in the operator's browser can reach 127.0.0.1 and can make a host
name of its own point there. So the Host must be one of ours, and so must the
Origin, if there is one. Pure ASGI, because the streams pass through here.
"""

import re
from collections.abc import Collection

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stellwerk.api.problems import problem_of
from stellwerk.errors import Refused, StellwerkError, TooLarge

_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+)(?::[0-9]{1,5})?")


class Guard:
    def __init__(self, app: ASGIApp, *, hosts: Collection[str], body_limit: int) -> None:
        self._app, self._hosts, self._limit = app, frozenset(hosts), body_limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            admitted = await self._admitted(scope["headers"], receive)
        except StellwerkError as refusal:
            await problem_of(refusal)(scope, receive, send)
            return
        if admitted is not None:
            await self._app(scope, admitted, send)

    async def _admitted(self, headers: list[tuple[bytes, bytes]], receive: Receive) -> Receive | None:
        """Where the body may be read from; None if the client left before it had sent it."""
        given = dict(headers)
        hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
        self._check_host(hosts)
        self._check_origin(given.get(b"origin"), hosts[0])
        self._check_length(given.get(b"content-length", b"0"))
        return await self._measured(receive) if b"transfer-encoding" in given else receive

    def _check_host(self, hosts: list[str]) -> None:
        named = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
        if named is None or named[1].strip("[]") not in self._hosts:
            raise Refused("the Host header names a machine that this server is not; use 127.0.0.1 or localhost")

    def _check_origin(self, origin: bytes | None, host: str) -> None:
        if origin is not None and origin.decode("latin-1") not in (f"http://{host}", f"https://{host}"):
            raise Refused(
                "this Origin may not use the server; serve the page through a proxy under the server's address"
            )

    def _check_length(self, length: bytes) -> None:
        if not length.isdigit() or int(length) > self._limit:
            raise self._too_large()

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
                raise self._too_large()
        whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return whole.pop() if whole else await receive()

        return replay

    def _too_large(self) -> TooLarge:
        return TooLarge(
            f"the body has more than {self._limit} bytes; a long text goes in several messages or as a file",
            field="body",
        )
