"""/me, /tenants, /keys and /audit: who asks, who there is, what opens doors, and what was done."""

from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Query, Request
from pydantic import Field
from starlette.responses import Response

from stellwerk.api import examples, refusals
from stellwerk.api.administration_answers import AuditPage, KeyList, KeyTold, Me, NewKey, TenantList, TenantTold
from stellwerk.api.answers import Json, address
from stellwerk.api.audit_trail import concerns
from stellwerk.api.credentials import Administering, Asking
from stellwerk.api.openapi import may, says
from stellwerk.api.paging import Limit
from stellwerk.api.services import Services
from stellwerk.api.sessions import Closed
from stellwerk.errors import Forbidden, InvalidField, NotFound
from stellwerk.tenants.principals import LOCAL_TENANT, SCOPES, Principal, Role, Scope

TenantName = Annotated[str, Path(description="of the tenant", examples=["acme"])]
Another = Annotated[str | None, Query(description="another than yours, if you run the server")]
_Name = Annotated[str, Field(min_length=1, max_length=64, examples=["ci"])]


class NewTenant(Closed):
    name: Annotated[str, Field(max_length=63, examples=["acme"])]


class WantedKey(Closed):
    name: _Name
    role: Role = "member"
    user: Annotated[str | None, Field(min_length=1, max_length=128, description="whose it is", examples=["ada"])] = None
    scopes: Annotated[list[Scope] | None, Field(min_length=1, max_length=5, description="fewer than its role")] = None
    expires_in: Annotated[int | None, Field(ge=1, le=10 * 366 * 86400, description="seconds")] = None
    tenant: Annotated[str | None, Field(description="another than yours, if you run the server")] = None

    def fields(self, tenant: str) -> dict[str, Any]:
        """As ``Keys.make`` takes them, for somebody of this tenant."""
        scopes = None if self.scopes is None else tuple(sorted(set(self.scopes)))
        return {**self.model_dump(), "tenant": tenant if self.tenant is None else self.tenant, "scopes": scopes}


_TENANT = Body(openapi_examples={"acme": {"summary": "a tenant", "value": {"name": "acme"}}})
_KEY = Body(
    openapi_examples={
        "first": {"summary": "the first one", "value": {"name": "me", "role": "admin"}},
        "narrow": {
            "summary": "one that only reads, for a week",
            "value": {"name": "board", "role": "member", "scopes": ["read"], "expires_in": 604800},
        },
    }
)


def routes(services: Services) -> APIRouter:
    router = APIRouter(tags=["administration"], default_response_class=Response)
    _add_me(router)
    _add_tenants(router, services)
    _add_locks(router, services)
    _add_keys(router, services)
    _add_audit(router, services)
    return router


def _add_me(router: APIRouter) -> None:
    @router.get(
        "/me",
        summary="Learn who you are here, and what you may",
        responses={200: says(Me, examples.ME, "As your key says"), **may()},
    )
    async def me(who: Asking) -> Response:
        """For everybody with a key that is taken."""
        return Json(Me.of(who))


def _add_tenants(router: APIRouter, services: Services) -> None:
    @router.get(
        "/tenants",
        summary="List the tenants",
        responses={200: says(TenantList, examples.TENANTS, "All that you may see"), **may()},
    )
    async def list_tenants(who: Administering) -> Response:
        """Whoever runs the server sees all, everybody else his own."""
        seen = [tenant for tenant in services.credentials.tenants.all() if who.operates or tenant.name == who.tenant]
        return Json(TenantList(tenants=[TenantTold.of(tenant) for tenant in seen]))

    @router.post(
        "/tenants",
        status_code=201,
        summary="Make a tenant",
        responses={
            201: says(TenantTold, examples.TENANT, "Made"),
            **may(*refusals.BODY, refusals.TENANT_EXISTS, *refusals.STORED),
        },
    )
    async def make(request: Request, who: Administering, body: Annotated[NewTenant, _TENANT]) -> Response:
        """For whoever runs the server: an admin of the tenant `local`."""
        must_operate(who, "tenants are made")
        concerns(request, body.name)
        return Json(TenantTold.of(await services.credentials.tenants.make(body.name)), 201)


def _add_locks(router: APIRouter, services: Services) -> None:
    @router.put(
        "/tenants/{name}/lock",
        status_code=204,
        summary="Lock a tenant out, and stop what it does",
        response_description="Locked, also after a restart",
        responses=may(refusals.NO_TENANT, refusals.NOT_LOCKED, *refusals.STORED),
    )
    async def lock(request: Request, who: Administering, name: TenantName) -> Response:
        """Its keys, tokens and tickets get 401, its streams end, its runs are stopped. Nothing is deleted. For whoever
        runs the server."""
        await turn(request, who, name, locked=True)
        services.wakes.look_again()
        for (sid,) in await services.database.read(lambda tx: tx.rows("sessions_at_work", name)):
            with suppress(NotFound):  # deleted meanwhile
                await services.sessions.stop(name, sid, reason="the tenant was locked")
        return Response(status_code=204)

    @router.delete(
        "/tenants/{name}/lock",
        status_code=204,
        summary="Let a locked tenant in again",
        response_description="Not locked",
        responses=may(refusals.NO_TENANT, refusals.NOT_LOCKED, *refusals.STORED),
    )
    async def unlock(request: Request, who: Administering, name: TenantName) -> Response:
        await turn(request, who, name, locked=False)
        return Response(status_code=204)

    async def turn(request: Request, who: Principal, name: str, *, locked: bool) -> None:
        must_operate(who, "tenants are locked")
        concerns(request, name)
        await services.credentials.tenants.lock(name, locked=locked)


def _add_keys(router: APIRouter, services: Services) -> None:
    @router.get(
        "/keys",
        summary="List the keys of your tenant",
        responses={
            200: says(KeyList, examples.KEYS, "All, those that are valid no longer as well"),
            **may(refusals.NO_TENANT),
        },
    )
    async def list_keys(who: Administering, tenant: Another = None) -> Response:
        name = whose(services, who, tenant, "keys of another tenant are listed")
        return Json(KeyList(keys=[KeyTold.of(key) for key in services.credentials.keys.of(name)]))

    @router.post(
        "/keys",
        status_code=201,
        summary="Make a key",
        responses={
            201: says(NewKey, examples.NEW_KEY, "Made; the token is told this once"),
            **may(*refusals.BODY, refusals.NO_TENANT, refusals.TWO_KEYS, refusals.TOO_MANY_KEYS, *refusals.STORED),
        },
    )
    async def make(request: Request, who: Administering, body: Annotated[WantedKey, _KEY]) -> Response:
        """The first key of a server, which must be an admin's, closes it for everybody who shows none.
        Two keys of one name can be valid: make the new one, use it, revoke the old one."""
        check_key(body, who, first=not services.credentials.asked_for)
        wanted = body.fields(who.tenant)
        concerns(request, wanted["tenant"])
        made, token = await services.credentials.keys.make(**wanted)
        told = NewKey(**KeyTold.fields_of(made), token=token)
        return Json(told, 201, {"Location": address(request, f"/keys/{made.id}"), "Cache-Control": "no-store"})

    @router.delete(
        "/keys/{key_id}",
        status_code=204,
        summary="Revoke a key; what it has opened is closed",
        response_description="Revoked",
        responses=may(refusals.NO_KEY, refusals.LAST_KEY, *refusals.STORED),
    )
    async def revoke(
        request: Request,
        who: Administering,
        key_id: Annotated[str, Path(description="its id", examples=["4fJq0aZ81xYb"])],
        tenant: Another = None,
        last: Annotated[bool, Query(description="also the last key of an admin, who then can make no other")] = False,
    ) -> Response:
        name = whose(services, who, tenant, "keys of another tenant are revoked")
        concerns(request, name)
        # For another tenant, whoever runs the server can make one at any time.
        await services.credentials.revoke(name, key_id, last=last or name != who.tenant)
        return Response(status_code=204)


def _add_audit(router: APIRouter, services: Services) -> None:
    @router.get(
        "/audit",
        summary="Read who did what",
        responses={200: says(AuditPage, examples.AUDIT, "A page, the oldest first"), **may(refusals.LIMIT)},
    )
    async def read(
        who: Administering,
        after: Annotated[int, Query(ge=0, le=2**53, description="the `next` of the page before")] = 0,
        limit: Limit = 50,
    ) -> Response:
        found = await services.audit.page(who.tenant, after=after, limit=limit)
        return Json(AuditPage(entries=found, next=found[-1].number if len(found) == limit else None))


def check_key(body: WantedKey, who: Principal, *, first: bool) -> None:
    if body.tenant not in (None, who.tenant):
        must_operate(who, "keys of another tenant are made")
    if first and (body.role != "admin" or body.scopes is not None or body.tenant not in (None, who.tenant)):
        said = "the first key must be an admin's of the tenant 'local', or nobody could make another"
        raise InvalidField(f"role: {said}", field="role")
    lacking = sorted(scope for scope in body.scopes or SCOPES[body.role] if not who.may(scope))
    if lacking:
        raise Forbidden(f"nobody can give what he lacks: your key has no {', '.join(lacking)}; name fewer scopes")
    if "metrics" in (body.scopes or ()) and body.fields(who.tenant)["tenant"] != LOCAL_TENANT:
        said = "metrics are of the whole server, and read with a key of the tenant 'local'; take it out"
        raise InvalidField(f"scopes: {said}", field="scopes")
    beyond = sorted(set(body.scopes or ()) - SCOPES[body.role])
    if beyond:
        raise InvalidField(f"scopes: a {body.role} never has {', '.join(beyond)}; take it out", field="scopes")


def whose(services: Services, who: Principal, tenant: str | None, what: str) -> str:
    """The tenant that is meant.

    Raises:
        Forbidden: it is another than his, and he does not run the server.
        NotFound: there is no such tenant.
    """
    if tenant in (None, who.tenant):
        return who.tenant
    must_operate(who, what)
    if services.credentials.tenants.find(tenant) is None:
        raise NotFound("tenant", tenant, remedy="GET /tenants lists those that there are")
    return tenant


def must_operate(who: Principal, what: str) -> None:
    if not who.operates:
        raise Forbidden(f"{what} by whoever runs the server: an admin of the tenant 'local'")
