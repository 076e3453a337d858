"""The audit of requests: whatever may change something is recorded before anybody sees the answer.

So is what was refused to somebody who may not, even if he only wanted to read; and
what whoever runs the server does to a tenant is in the chain of that tenant, too.
"""

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stellwerk.api.problems import FORBIDDEN
from stellwerk.tenants.audit import Audit

_ONLY_READ = frozenset({"GET", "HEAD", "OPTIONS"})
_REFUSED = 400
_CONCERNED = "stellwerk.concerned"
_NAMED = "stellwerk.named"
HANDSHAKE = "WS"
"""In the place of a method, which a WebSocket does not have."""


class AuditTrail:
    """Pure ASGI, as the answers of ``/stream-test`` pass through here. WebSockets record their frames themselves."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in _ONLY_READ:
            await self._app(scope, receive, send)
            if scope.get(FORBIDDEN):
                await _record(scope, {"status": 403})
            return

        answered = False

        async def recording(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                answered = True
                await _record(scope, message)
            await send(message)

        try:
            await self._app(scope, receive, recording)
        finally:
            if not answered:  # a bug, which others answer; what was done before it stays done
                await _record(scope, {"status": 500})


async def _record(scope: Scope, answer: Message) -> None:
    if "principal" not in scope:  # no route knows who asks
        return
    audit: Audit = scope["app"].state.audit
    what = f"{scope.get('method', HANDSHAKE)} {scope['route'].path}"
    on = {**scope["path_params"], **scope.get(_NAMED, {}), **_made(answer)}
    who, outcome, concerned = scope["principal"], answer["status"], scope.get(_CONCERNED)
    foreign = {} if concerned in (None, who.tenant) else {"tenant": concerned}
    await audit.record(who, what, outcome, on={**foreign, **on}, origin=origin_of(scope))
    if foreign and outcome < _REFUSED:
        await audit.record_for(foreign["tenant"], what, outcome, on=on)


def concerns(request: Request, tenant: str) -> None:
    """The request is about this tenant, whosever it is."""
    request.scope[_CONCERNED] = tenant


def names(request: Request, **ids: str) -> None:
    """The request is about these, which its body names and not its path."""
    request.scope[_NAMED] = ids


def origin_of(scope: Scope) -> str:
    """The address that asked, as far as we can see."""
    return str((scope.get("client") or ("",))[0])


def _made(answer: Message) -> dict[str, str]:
    """What the request has brought into being."""
    place = Headers(raw=answer.get("headers", [])).get("location")
    return {} if place is None else {"made": place.rpartition("/")[2]}
