"""The audit of requests: whatever may change something is recorded with it, in one transaction.

What stores nothing, as it is refused or was done before, is recorded before the answer is sent. So is what was
refused for want of rights, reads included; and what the operator does to a tenant is in the chain of that tenant, too.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stellwerk.api.problems import FORBIDDEN
from stellwerk.database.port import Operation
from stellwerk.documents import store as documents
from stellwerk.log import tables as log
from stellwerk.runs import forking, intake
from stellwerk.systems import rows as systems
from stellwerk.tenants import keys, limits, secrets, tenants
from stellwerk.tenants.audit import Audit, writing
from stellwerk.tenants.audited import Due, Made, Write, recording
from stellwerk.workflows import removal

_ONLY_READ = frozenset({"GET", "HEAD", "OPTIONS"})
_REFUSED = 400
_CONCERNED = "stellwerk.concerned"
_NAMED = "stellwerk.named"
_MADE = "made"
HANDSHAKE = "WS"
"""In the place of a method, which a WebSocket does not have."""
RECORDED: Mapping[Operation[Any, Any], Made | None] = {
    log.create_many: lambda session: session.session_id,
    log.delete_many: None,
    intake.accept_many: None,
    intake.reply_many: None,
    intake.regenerate_many: None,
    intake.stop_many: None,
    forking.fork_many: lambda fork: fork.new_id,
    removal.remove_many: None,
    systems.register_many: lambda registration: registration.name,
    systems.withdraw_many: None,
    documents.upload_many: lambda reference: reference.document.document_id,
    documents.drop_many: None,
    secrets.put_many: None,
    secrets.delete_many: None,
    secrets.rewrap_many: None,
    keys.insert_many: lambda key: key.id,
    keys.revoke_many: None,
    tenants.make_many: None,
    tenants.lock_many: None,
    limits.set_many: None,
}
"""The operations that take along what is recorded of the request, and how the id is told of what they make."""


class AuditTrail:
    """Pure ASGI, as the answers of ``/stream-test`` pass through here. WebSockets record their frames themselves."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in _ONLY_READ:
            await self._app(scope, receive, send)
            if scope.get(FORBIDDEN):
                await _record(scope, {"status": 403}, {})
            return

        answered, due = False, Due(partial(_with_it, scope))

        async def telling(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                answered = True
                if not due.is_written or message["status"] != _success(scope):
                    await _record(scope, message, due.ids)
            await send(message)

        try:
            with recording(due):
                await self._app(scope, receive, telling)
        finally:
            if not answered:  # a bug, which others answer; what was done before it stays done
                await _record(scope, {"status": 500}, due.ids)


async def _record(scope: Scope, answer: Message, ids: Mapping[str, str]) -> None:
    """By itself."""
    if "principal" not in scope:  # no route knows who asks
        return
    audit: Audit = scope["app"].state.audit
    who, what, outcome = scope["principal"], _what(scope), answer["status"]
    known = {name: id for name, id in ids.items() if name != _MADE or outcome < _REFUSED}
    on, tenant = {**_named(scope), **known, **_made(answer)}, _concerned(scope)
    foreign = {} if tenant == who.tenant else {"tenant": tenant}
    await audit.record(who, what, outcome, on={**foreign, **on}, origin=origin_of(scope))
    if foreign and outcome < _REFUSED:
        await audit.record_for(tenant, what, outcome, on=on)


def _with_it(scope: Scope, ids: Mapping[str, str]) -> Write:
    """In the transaction of what is done: it will be answered as the route says."""
    audit: Audit = scope["app"].state.audit
    who, what, on = scope["principal"], _what(scope), {**_named(scope), **ids}
    entries = audit.entries(who, what, _success(scope), on=on, origin=origin_of(scope), tenant=_concerned(scope))
    return writing(entries)


def _what(scope: Scope) -> str:
    return f"{scope.get('method', HANDSHAKE)} {scope['route'].path}"


def _success(scope: Scope) -> int:
    return getattr(scope.get("route"), "status_code", None) or 200


def _named(scope: Scope) -> dict[str, str]:
    return {**scope["path_params"], **scope.get(_NAMED, {})}


def _concerned(scope: Scope) -> str:
    return str(scope.get(_CONCERNED) or scope["principal"].tenant)


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
    return {} if place is None else {_MADE: place.rpartition("/")[2]}
