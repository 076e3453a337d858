"""Credentials: what a request shows becomes a principal, or 401. The routes say which scope they need, and get him.

What counts is the route that was matched, never the text of an address. Whoever
embeds the server may say himself who asks.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Query
from starlette.requests import HTTPConnection

from stellwerk.api.guard import is_local
from stellwerk.api.parameters import check_known
from stellwerk.errors import Conflict, Forbidden, Unauthorized
from stellwerk.tenants.keys import Keys
from stellwerk.tenants.principals import LOCAL, LOCAL_TENANT, Principal, Scope
from stellwerk.tenants.tenants import LOCKED, Tenants
from stellwerk.tenants.tickets import Tickets
from stellwerk.tenants.tokens import Tokens

Identify = Callable[[HTTPConnection], Awaitable[Principal]]
"""An embedding app's own: says who asks, or raises what it answers."""
_BEARER = "bearer "
_NO_KEYS = (
    "this server has no keys yet and takes only requests of its own machine, without a proxy in between; "
    "create the first key there with `stellwerk keys create me --role admin`, and send it as Authorization: Bearer sw_…"
)
_NO_TENANT = "your tenant is not known here; whoever runs the server makes one by POST /tenants"


@dataclass(frozen=True, slots=True)
class Credentials:
    keys: Keys
    tenants: Tenants
    tickets: Tickets
    tokens: Tokens | None = None
    identify: Identify | None = None
    checked_before: bool = False
    """An embedding app has checks of its own before every route."""
    _revoking: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    @property
    def asked_for(self) -> bool:
        return self.identify is not None or self.tokens is not None or self.keys.asked_for

    async def principal(self, connection: HTTPConnection) -> Principal:
        """
        Raises:
            Unauthorized: nothing is shown, or nothing that is taken.
        """
        if self.identify is not None:
            who = await self.identify(connection)
            if self.tenants.find(who.tenant) is None:
                raise Unauthorized(_NO_TENANT)
            return self._unlocked(who)
        if not self.asked_for:
            return self._operator(connection)
        shown = connection.headers.get("authorization", "")
        if shown[: len(_BEARER)].lower() != _BEARER:
            raise Unauthorized("this server asks who you are; send your key as Authorization: Bearer sw_…")
        found = self._bearer(shown[len(_BEARER) :].strip())
        if found is None:
            raise Unauthorized("this key is not valid: it was revoked, has expired, or never was; ask for a new one")
        if self.tenants.find(found.tenant) is None:
            raise Unauthorized(_NO_TENANT)
        return self._unlocked(found)

    async def revoke(self, tenant: str, key_id: str, *, last: bool) -> None:
        """One key after the other, so that of two that go at the same moment the second is known to be the last.

        Raises:
            Conflict: without this key nobody of the tenant could make another, and ``last`` does not allow it.
            NotFound: this tenant has no such key.
        """
        async with self._revoking:
            if self.identify is None and not last and self.keys.is_last(tenant, key_id):
                raise last_admin_key(tenant)
            await self.keys.revoke(tenant, key_id)

    def with_ticket(self, ticket: str, session_id: str, connection: HTTPConnection) -> Principal:
        found = self.tickets.take(ticket, session_id)
        if found is None or not self.holds(found):
            raise Unauthorized("this ticket is not valid: it was used, or is too old; get another one")
        return self._operator(connection) if found is LOCAL else found

    def holds(self, who: Principal) -> bool:
        """Whether somebody whose stream is open may still read it."""
        if who is LOCAL:
            return not self.asked_for
        return self.keys.holds(who) and not self._is_locked(who.tenant)

    def must_hold(self, who: Principal) -> None:
        """
        Raises:
            Unauthorized: what he has shown is taken no longer.
        """
        if not self.holds(who):
            raise Unauthorized("this key was revoked, or has expired; ask for a new one")

    def _operator(self, connection: HTTPConnection) -> Principal:
        """
        Raises:
            Unauthorized: there are no keys, and the request may come from another machine.
        """
        if not self.checked_before and not is_local(connection.scope):
            raise Unauthorized(_NO_KEYS)
        return LOCAL

    def _unlocked(self, who: Principal) -> Principal:
        if self._is_locked(who.tenant):
            raise Unauthorized(LOCKED)
        return who

    def _is_locked(self, tenant: str) -> bool:
        found = self.tenants.find(tenant)
        return found is not None and found.locked

    def _bearer(self, token: str) -> Principal | None:
        if token.startswith("sw_") or self.tokens is None:
            return self.keys.principal(token)
        return self.tokens.principal(token)


def last_admin_key(tenant: str) -> Conflict:
    another = "stellwerk keys create NAME --role admin"
    until = f"nobody in it can make keys until whoever runs the server does, by `{another} --tenant {tenant}`"
    if tenant == LOCAL_TENANT:
        until = f"nobody can run the server until it is stopped, and `{another} --data FOLDER` makes another"
    told = f"this is the last valid key of an admin of {tenant!r}; without it {until}"
    remedy = "make another first, or say last=true (`stellwerk keys revoke --last`)"
    return Conflict(f"{told}; {remedy}", code="last_admin_key")


def needing(scope: Scope | None) -> Callable[[HTTPConnection], Awaitable[Principal]]:
    async def principal(connection: HTTPConnection) -> Principal:
        return _known(connection, await connection.app.state.credentials.principal(connection), scope)

    return principal


Ticket = Annotated[str | None, Query(description="of `POST /stream-tickets`, in place of a key")]


async def _follower(connection: HTTPConnection, ticket: Ticket = None) -> Principal:
    credentials: Credentials = connection.app.state.credentials
    if ticket is None:
        who = await credentials.principal(connection)
    else:
        who = credentials.with_ticket(ticket, connection.path_params["sid"], connection)
    return _known(connection, who, "read")


def _known(connection: HTTPConnection, who: Principal, scope: Scope | None) -> Principal:
    asked_for = connection.path_params.get("sid") or connection.path_params.get("workflow_id")
    connection.app.state.quotas.request(who.tenant, asked_for)  # first: whoever floods us writes no audit either
    connection.scope["principal"] = who  # for the audit
    if scope is not None:
        allowed(who, scope)
    check_known(connection)
    return who


def allowed(who: Principal, scope: Scope) -> Principal:
    """
    Raises:
        Forbidden: he may not.
    """
    if not who.may(scope):
        raise Forbidden(f"this needs the scope {scope!r}, which your key does not have; ask an admin of your tenant")
    return who


def on_behalf(who: Principal, user: str | None) -> str | None:
    """Whose session it becomes: anybody's, if an admin says so, or one who is known by no name; else one's own.

    Raises:
        Forbidden: he says that he is another.
    """
    if who.user is None or who.role == "admin":
        return user or who.user
    if user not in (None, who.user):
        raise Forbidden(f"you are {who.user!r}, and only an admin may do this for another; leave the user out")
    return who.user


Asking = Annotated[Principal, Depends(needing(None))]
"""Whoever is known here, whatever he may."""
Reading = Annotated[Principal, Depends(needing("read"))]
Running = Annotated[Principal, Depends(needing("run"))]
Registering = Annotated[Principal, Depends(needing("register"))]
Administering = Annotated[Principal, Depends(needing("administer"))]
Measuring = Annotated[Principal, Depends(needing("metrics"))]
Following = Annotated[Principal, Depends(_follower)]
"""As Reading, but a ticket will do."""
