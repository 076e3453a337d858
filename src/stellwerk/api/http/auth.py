"""Authentication: an API key, JWT or ticket becomes a principal, or 401. Each route declares its scope.

The matched route decides, never the text of the address. An embedding app may identify its
users itself. Unknown query parameters are rejected here, too.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Annotated

from fastapi import Depends, Query, params
from fastapi.dependencies.models import Dependant
from fastapi.dependencies.utils import get_parameterless_sub_dependant
from fastapi.security import APIKeyQuery
from pydantic import BaseModel
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection

from stellwerk.api.http.guard import is_local
from stellwerk.errors import Conflict, Forbidden, InvalidField, Unauthorized
from stellwerk.tenants.jwt import Tokens
from stellwerk.tenants.keys import ApiKeys
from stellwerk.tenants.principals import LOCAL, LOCAL_TENANT, Principal, Scope
from stellwerk.tenants.tenants import LOCKED, Tenants
from stellwerk.tenants.tickets import Tickets

Identify = Callable[[HTTPConnection], Awaitable[Principal]]
"""Given by an embedding app: returns the principal of a request, or raises the error to answer with."""
_NO_KEYS = (
    "this server has no keys yet and takes only requests of its own machine, without a proxy in "
    "between; create the first key there with `stellwerk keys create me --role admin`, and send "
    "it as Authorization: Bearer sw_…"
)
_NO_TENANT = "there is no such tenant on this server; its operator creates one with POST /tenants"


@dataclass(frozen=True, slots=True)
class Credentials:
    keys: ApiKeys
    tenants: Tenants
    tickets: Tickets
    tokens: Tokens | None = None
    identify: Identify | None = None
    checked_before: bool = False  # an embedding app has its own checks in front of every route
    _revoking: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    @property
    def asked_for(self) -> bool:
        return self.identify is not None or self.tokens is not None or self.keys.asked_for

    async def principal(self, connection: HTTPConnection) -> Principal:
        """Raises ``Unauthorized`` without a valid credential."""
        if self.identify is not None:
            who = await self.identify(connection)
        elif self.asked_for:
            who = self._holder(presented_key(connection.headers))
        else:
            return self._operator(connection)
        tenant = self.tenants.find(who.tenant)
        if tenant is None:
            raise Unauthorized(_NO_TENANT)
        if tenant.locked:
            raise Unauthorized(LOCKED)
        return who

    async def revoke(self, tenant: str, key_id: str, *, last: bool) -> None:
        """One at a time, so that of two concurrent revocations the second knows that it is the last.

        Without ``last``, the last key by which the tenant can create keys is not revoked.
        """
        async with self._revoking:
            if self.identify is None and not last and self.keys.is_last(tenant, key_id):
                raise last_admin_key(tenant)
            await self.keys.revoke(tenant, key_id)

    def with_ticket(self, ticket: str, session_id: str, connection: HTTPConnection) -> Principal:
        found = self.tickets.redeem(ticket, session_id)
        if found is None or not self.is_valid(found):
            said = "this ticket is not valid: it was used, or is too old; get another one"
            raise Unauthorized(said)
        return self._operator(connection) if found is LOCAL else found

    def is_valid(self, who: Principal) -> bool:
        """Whether the credential behind an open stream is still valid."""
        if who is LOCAL:
            return not self.asked_for
        tenant = self.tenants.find(who.tenant)
        return self.keys.holds(who) and not (tenant is not None and tenant.locked)

    def check_valid(self, who: Principal) -> None:
        if not self.is_valid(who):
            raise Unauthorized("this key was revoked, or has expired; ask for a new one")

    def _operator(self, connection: HTTPConnection) -> Principal:
        """Without keys, only requests that cannot come from another machine are the operator's."""
        if not self.checked_before and not is_local(connection.scope):
            raise Unauthorized(_NO_KEYS)
        return LOCAL

    def _holder(self, token: str) -> Principal:
        if not token:
            said = "this server asks who you are; send your key as Authorization: Bearer sw_…"
            raise Unauthorized(said)
        tokens = self.keys if token.startswith("sw_") or self.tokens is None else self.tokens
        found = tokens.principal(token)
        if found is None:
            said = "this key is not valid: it was revoked, has expired, or never was; ask for a new one"
            raise Unauthorized(said)
        return found


def presented_key(headers: Headers) -> str:
    """The key or token of a request: its bearer token, else its X-Api-Key; empty means none."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    bearer = token.strip() if scheme.lower() == "bearer" else ""
    return bearer or headers.get("x-api-key", "").strip()


def last_admin_key(tenant: str) -> Conflict:
    another = "stellwerk keys create NAME --role admin"
    loss = f"no key can create keys for it until the operator runs `{another} --tenant {tenant}`"
    if tenant == LOCAL_TENANT:
        stopped = f"it is stopped and `{another} --data FOLDER` creates one"
        loss = f"no key can administer the server until {stopped}"
    problem = f"this is the last valid admin key of {tenant!r}; without it {loss}"
    remedy = "create another first, or send last=true (`stellwerk keys revoke --last`)"
    return Conflict(f"{problem}; {remedy}", code="last_admin_key")


def require(scope: Scope | None, *, tolerant: bool = False) -> Callable[[HTTPConnection], Awaitable[Principal]]:
    """``tolerant`` routes, of clients that send what they like, ignore unknown query parameters."""

    async def principal(connection: HTTPConnection) -> Principal:
        credentials: Credentials = connection.app.state.credentials
        who = _known(connection, await credentials.principal(connection), scope)
        if not tolerant:
            reject_unknown(connection)
        return who

    return principal


Ticket = Annotated[str | None, Query(description="of `POST /stream-tickets`, in place of a key")]


async def _follower(connection: HTTPConnection, ticket: Ticket = None) -> Principal:
    credentials: Credentials = connection.app.state.credentials
    if ticket is None:
        who = await credentials.principal(connection)
    else:
        who = credentials.with_ticket(ticket, connection.path_params["sid"], connection)
    _known(connection, who, "read")
    reject_unknown(connection)
    return who


def _known(connection: HTTPConnection, who: Principal, scope: Scope | None) -> Principal:
    session_id = connection.path_params.get("sid") or connection.path_params.get("workflow_id")
    # First, so that a flood writes no audit entries.
    connection.app.state.quotas.request(who.tenant, session_id)
    connection.scope["principal"] = who  # for the audit
    if scope is not None:
        require_scope(who, scope)
    return who


def require_scope(who: Principal, scope: Scope) -> Principal:
    if not who.may(scope):
        said = f"this needs the scope {scope!r}, which your key does not have"
        raise Forbidden(f"{said}; ask an admin of your tenant")
    return who


def on_behalf(who: Principal, user: str | None) -> str | None:
    """The owner of a new session. Admins and principals without a name may choose any user."""
    if who.user is None or who.role == "admin":
        return user or who.user
    if user not in (None, who.user):
        said = f"you are {who.user!r}, and only an admin may do this for another"
        raise Forbidden(f"{said}; leave the user out")
    return who.user


def reject_unknown(connection: HTTPConnection) -> None:
    """Unknown query parameters are errors, so that no filter is lost to a typo.

    Known are those that the route, its authentication and the dependencies of a host app declare.
    """
    if not connection.query_params:
        return
    known = list(_parameters(connection.scope["route"].dependant))
    for name in connection.query_params:
        if name not in known and name not in connection.app.state.parameters:
            raise _unknown_parameter(name[:60], known)


def _unknown_parameter(name: str, known: Sequence[str]) -> InvalidField:
    near = get_close_matches(name, known, n=1)
    meant = f", did you mean {near[0]!r}?" if near else ";"
    listed = ", ".join(known) or "none"
    said = f"{name}: there is no such parameter here{meant} known: {listed}"
    return InvalidField(said, field=name)


def parameters_of(dependencies: Sequence[params.Depends]) -> frozenset[str]:
    """The query parameters that the dependencies of a host app read."""
    read = (get_parameterless_sub_dependant(depends=each, path="") for each in dependencies)
    return frozenset(name for each in read for name in _parameters(each))


def _parameters(dependant: Dependant) -> Iterator[str]:
    for parameter in dependant.query_params:
        kind = parameter.field_info.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from (field.alias or name for name, field in kind.model_fields.items())
        else:
            yield parameter.alias
    if isinstance(dependant.call, APIKeyQuery):  # a security scheme reads the address itself
        yield dependant.call.model.name
    for each in dependant.dependencies:
        yield from _parameters(each)


RequireAuth = Annotated[Principal, Depends(require(None))]
"""Any valid credential, whatever its scopes."""
RequireRead = Annotated[Principal, Depends(require("read"))]
RequireRun = Annotated[Principal, Depends(require("run"))]
RequireReadTolerant = Annotated[Principal, Depends(require("read", tolerant=True))]
RequireRunTolerant = Annotated[Principal, Depends(require("run", tolerant=True))]
RequireRegister = Annotated[Principal, Depends(require("register"))]
RequireAdmin = Annotated[Principal, Depends(require("administer"))]
RequireMetrics = Annotated[Principal, Depends(require("metrics"))]
StreamReader = Annotated[Principal, Depends(_follower)]
"""The scope read; a ticket is accepted as well."""
