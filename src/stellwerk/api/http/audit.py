"""The audit log of requests: a change is recorded in the transaction that makes it.

A request that stores nothing, because it was rejected or done before, is recorded before its
response is sent. So is a request without the right for it, reads included. What the operator
does to a tenant is also in the chain of that tenant.
"""

from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stellwerk.api.http.problems import FORBIDDEN
from stellwerk.database.port import Operation
from stellwerk.documents import store as documents
from stellwerk.errors import StellwerkError
from stellwerk.log import transactions as log
from stellwerk.runs import accept, graph_states, inbox, session_defaults, systems
from stellwerk.runs import fork as forking
from stellwerk.runs.jobs import crons, webhooks
from stellwerk.tenants import keys, quotas, secrets, store_writes, tenants
from stellwerk.tenants.audit import Action, Audit, Made, PendingEntry, recording

_ONLY_READ = frozenset({"GET", "HEAD", "OPTIONS"})
_CONCERNED = "stellwerk.concerned"
_READS = "stellwerk.reads"
T = TypeVar("T")
FRAME_ACCEPTED = 202
"""The status in the entry of a command that came over a WebSocket."""
HANDSHAKE = "WS"  # in the place of a method, which a WebSocket does not have
RECORDED: Mapping[Operation[Any, Any], Made | None] = {
    log.create_many: lambda session: session.session_id,
    log.delete_many: None,
    accept.accept_many: None,
    accept.stop_many: None,
    inbox.withdraw_many: None,
    graph_states.change_state_many: None,
    session_defaults.change_defaults_many: None,
    forking.fork_many: lambda fork: fork.new_id,
    systems.register_many: lambda registration: registration.name,
    systems.withdraw_many: None,
    documents.upload_many: lambda reference: reference.document.document_id,
    documents.drop_many: None,
    secrets.put_many: None,
    secrets.delete_many: None,
    secrets.rewrap_many: None,
    keys.insert_many: lambda item: item[0].id,
    keys.revoke_many: None,
    tenants.make_many: None,
    tenants.lock_many: None,
    quotas.set_many: None,
    store_writes.admit_many: None,
    crons.create_many: lambda new: new.cron_id,
    crons.change_many: None,
    crons.delete_many: None,
    webhooks.retry_many: None,
    webhooks.set_default_many: None,
}
"""Operations that store the audit entry of their request, with how the id of a created object is read."""


class AuditMiddleware:
    """Pure ASGI, because streams pass through here. WebSockets record their own frames."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in _ONLY_READ:
            await self._app(scope, receive, send)
            if scope.get(FORBIDDEN):
                await _record(scope, {"status": 403}, {})
            return

        answered = False
        due = PendingEntry(lambda ids: _audit(scope).entries(_action(scope, ids), _success(scope)))

        async def record_first(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                answered = True
                failed = message["status"] >= 400  # a route may have several kinds of success
                if failed or not (due.is_written or scope.get(_READS)):
                    await _record(scope, message, due.ids)
            await send(message)

        try:
            with recording(due):
                await self._app(scope, receive, record_first)
        finally:
            if not answered:  # a bug, which an outer layer answers; earlier changes stay
                await _record(scope, {"status": 500}, due.ids)


async def audited_frame(audit: Audit, action: Action, command: Awaitable[T]) -> T:
    """Execute a command of a WebSocket, with its audit entry in the same transaction."""
    due = audit.due(action, FRAME_ACCEPTED)
    outcome = 500
    try:
        with recording(due):
            result = await command
        outcome = FRAME_ACCEPTED
    except StellwerkError as error:
        outcome = error.status
        raise
    finally:
        if not due.is_written or outcome != FRAME_ACCEPTED:
            await audit.record(action, outcome)
    return result


async def _record(scope: Scope, answer: Message, ids: Mapping[str, str]) -> None:
    """In a transaction of its own."""
    if "principal" not in scope:  # not authenticated
        return
    known = dict(ids)
    if answer["status"] >= 400:
        known.pop("made", None)
    place = Headers(raw=answer.get("headers", [])).get("location")
    if place is not None:
        known["made"] = place.rpartition("/")[2]
    await _audit(scope).record(_action(scope, known), answer["status"])


def _audit(scope: Scope) -> Audit:
    audit: Audit = scope["app"].state.audit
    return audit


def _action(scope: Scope, ids: Mapping[str, str]) -> Action:
    what = f"{scope.get('method', HANDSHAKE)} {scope['route'].path}"
    on = {**scope["path_params"], **ids}
    return Action(scope["principal"], what, on, origin_of(scope), tenant=scope.get(_CONCERNED))


def _success(scope: Scope) -> int:
    return getattr(scope.get("route"), "status_code", None) or 200


def concerns(request: Request, tenant: str) -> None:
    """The request affects this tenant, which may be another than the principal's."""
    request.scope[_CONCERNED] = tenant


def only_reads(request: Request) -> None:
    """The request changes nothing, although its method may: it is recorded only if it fails."""
    request.scope[_READS] = True


def origin_of(scope: Scope) -> str:
    """The address of the peer, as far as it is known."""
    return str((scope.get("client") or ("",))[0])
