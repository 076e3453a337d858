"""The guard: who may talk to a server on loopback, and how much they may send.

A web page in the operator's browser can reach 127.0.0.1 and can make a host
name of its own point there. So the Host must be one of ours, and so must the
Origin, if there is one. Pure ASGI, because the streams pass through here.
"""

from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stellwerk.api.problems import problem_of
from stellwerk.errors import Refused, StellwerkError, TooLarge


class Guard:
    def __init__(self, app: ASGIApp, *, hosts: Collection[str], body_limit: int) -> None:
        self._app, self._hosts, self._limit = app, frozenset(hosts), body_limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        try:
            self._check_host(headers.get(b"host", b""))
            self._check_origin(headers.get(b"origin"))
            self._check_length(headers.get(b"content-length", b"0"))
            if b"transfer-encoding" in headers:
                receive = await self._measured(receive)
        except StellwerkError as refusal:
            await problem_of(refusal)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _check_host(self, host: bytes) -> None:
        if _hostname(f"//{host.decode('latin-1')}") not in self._hosts:
            raise Refused("the Host header names a machine that this server is not; use 127.0.0.1 or localhost")

    def _check_origin(self, origin: bytes | None) -> None:
        if origin is not None and _hostname(origin.decode("latin-1")) not in self._hosts:
            raise Refused("this Origin may not use the server; it answers pages of its own only")

    def _check_length(self, length: bytes) -> None:
        if not length.isdigit() or int(length) > self._limit:
            raise self._too_large()

    async def _measured(self, receive: Receive) -> Receive:
        """A body that does not say how long it is: take it in, up to the limit, and hand it on whole."""
        body, more = b"", True
        while more:
            message = await receive()
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


def _hostname(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None
