"""/me, /tenants (locks, quotas), /keys, /secrets, /usage and /audit: administration of tenants.

Secrets are written and used, never read.
"""

from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from msgspec import structs
from pydantic import Field, SecretStr
from starlette.responses import Response

from stellwerk.api.http.audit import concerns
from stellwerk.api.http.auth import RequireAdmin, RequireAuth, RequireRead
from stellwerk.api.schema.openapi import BODY, STORED, documented_router, returns
from stellwerk.api.schema.requests import Limit, RequestBody
from stellwerk.api.schema.responses import (
    AuditPage,
    Json,
    KeyList,
    Me,
    NewKey,
    SecretList,
    TenantList,
    UsagePage,
    address,
)
from stellwerk.api.services import Services
from stellwerk.errors import Forbidden, InvalidField, NotFound
from stellwerk.tenants.principals import LOCAL_TENANT, SCOPES, Principal, Role, Scope
from stellwerk.tenants.quotas import Limits
from stellwerk.tenants.secrets import LONGEST, SHORTEST, SecretsRotated
from stellwerk.tenants.tenants import TenantInfo

TenantName = Annotated[str, Path(description="of the tenant", examples=["acme"])]
Another = Annotated[str | None, Query(description="another tenant than yours; only for the operator")]
_Name = Annotated[str, Field(min_length=1, max_length=64, examples=["ci"])]


class NewTenant(RequestBody):
    name: Annotated[str, Field(max_length=63, examples=["acme"])]


class KeyRequest(RequestBody):
    name: _Name
    role: Role = "member"
    user: Annotated[
        str | None, Field(min_length=1, max_length=128, description="the user it belongs to", examples=["ada"])
    ] = None
    scopes: Annotated[list[Scope] | None, Field(min_length=1, max_length=5, description="fewer than its role")] = None
    expires_in: Annotated[int | None, Field(ge=1, le=10 * 366 * 86400, description="seconds")] = None
    tenant: Annotated[str | None, Field(description="another tenant than yours; only for the operator")] = None

    def fields(self, tenant: str) -> dict[str, Any]:
        """Arguments of ``ApiKeys.make``; the tenant is the principal's unless the body names one."""
        scopes = None if self.scopes is None else tuple(sorted(set(self.scopes)))
        return {**self.model_dump(), "tenant": tenant if self.tenant is None else self.tenant, "scopes": scopes}


_Number = Annotated[int | None, Field(ge=0, le=10**15)]
_Rate = Annotated[int | None, Field(ge=1, le=100_000)]


class LimitsRequest(RequestBody):
    """All of them: what is left out is not limited."""

    requests: Annotated[_Rate, Field(description="of the tenant, in a minute")] = None
    runs: Annotated[_Number, Field(description="running or waiting at the same time")] = None
    streams: Annotated[_Number, Field(description="open at the same time, WebSockets included")] = None
    bytes: Annotated[_Number, Field(description="of all files")] = None
    steps: Annotated[_Number, Field(description="model calls, in a day")] = None
    tokens: Annotated[_Number, Field(description="input and output, in a day")] = None
    seconds: Annotated[_Number, Field(description="of running, in a day")] = None
    session_requests: Annotated[_Rate, Field(description="to one session, in a minute")] = None
    session_streams: Annotated[_Number, Field(description="of one session")] = None
    session_bytes: Annotated[_Number, Field(description="of the files of one session")] = None
    session_steps: Annotated[_Number, Field(description="of one session, in all")] = None
    session_tokens: Annotated[_Number, Field(description="of one session, in all")] = None
    session_seconds: Annotated[_Number, Field(description="of one session, in all")] = None


_System = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]
_SecretName = Annotated[str, Path(description="its name", examples=["openai_api_key"])]


class NewSecret(RequestBody):
    value: Annotated[SecretStr, Field(description=f"{SHORTEST} to {LONGEST} characters", max_length=4 * LONGEST)]
    agent_system_id: Annotated[
        _System | None, Field(description="for this agent system alone; otherwise for all of the tenant")
    ] = None


def tenant_routes(services: Services) -> APIRouter:
    router = documented_router("administration")

    @router.get("/me", **returns(200, Me, "Of your key"))
    async def me(who: RequireAuth) -> Response:
        """Read your tenant, user, role and scopes.

        For every valid key.
        """
        return Json(Me.of(who))

    @router.get("/tenants", **returns(200, TenantList, "All that you may see"))
    async def list_tenants(who: RequireAdmin) -> Response:
        """List the tenants.

        The operator sees all of them, an admin of another tenant only that tenant.
        """
        seen = [tenant for tenant in services.credentials.tenants.all() if who.operates or tenant.name == who.tenant]
        return Json(TenantList(tenants=seen))

    @router.post("/tenants", **returns(201, TenantInfo, "Created", *BODY, "tenant_exists", *STORED))
    async def make(request: Request, who: RequireAdmin, body: NewTenant) -> Response:
        """Create a tenant.

        For the operator: an admin of the tenant `local`.
        """
        must_operate(who, "tenants are created")
        concerns(request, body.name)
        return Json(await services.credentials.tenants.make(body.name), 201)

    lock_problems = ("unknown_tenant", "operator_tenant", *STORED)

    @router.put("/tenants/{name}/lock", **returns(204, None, "Locked, also after a restart", *lock_problems))
    async def lock(request: Request, who: RequireAdmin, name: TenantName) -> Response:
        """Lock a tenant, and stop its runs.

        Its keys, tokens and tickets get 401, its streams end, its runs are stopped. Nothing is deleted. For the
        operator.
        """
        await set_lock(request, who, name, locked=True)
        services.wakes.recheck()
        for (sid,) in await services.database.read(lambda tx: tx.rows("sessions_at_work", name)):
            with suppress(NotFound):  # deleted meanwhile
                await services.sessions.stop(name, sid, reason="the tenant was locked")
        return Response(status_code=204)

    @router.delete("/tenants/{name}/lock", **returns(204, None, "Unlocked", *lock_problems))
    async def unlock(request: Request, who: RequireAdmin, name: TenantName) -> Response:
        """Unlock a tenant."""
        await set_lock(request, who, name, locked=False)
        return Response(status_code=204)

    async def set_lock(request: Request, who: Principal, name: str, *, locked: bool) -> None:
        must_operate(who, "tenants are locked")
        concerns(request, name)
        await services.credentials.tenants.lock(name, locked=locked)

    return router


def key_routes(services: Services) -> APIRouter:
    router = documented_router("administration", "/keys")

    @router.get("", **returns(200, KeyList, "All, including revoked and expired ones", "unknown_tenant"))
    async def list_keys(who: RequireAdmin, tenant: Another = None) -> Response:
        """List the keys of your tenant."""
        name = whose(services, who, tenant, "keys of another tenant are listed")
        return Json(KeyList(keys=services.credentials.keys.of(name)))

    made_once = "Created; the token is shown only once"
    refused = (*BODY, "unknown_tenant", "two_keys_valid", "too_many_keys", *STORED)

    @router.post("", **returns(201, NewKey, made_once, *refused))
    async def make(request: Request, who: RequireAdmin, body: KeyRequest) -> Response:
        """Create a key.

        Once a server has its first key, which must be an admin's, every request needs one.
        Two keys of one name can be valid: create the new one, use it, revoke the old one.
        """
        check_key(body, who, first=not services.credentials.asked_for)
        wanted = body.fields(who.tenant)
        concerns(request, wanted["tenant"])
        made, token = await services.credentials.keys.make(**wanted)
        created = NewKey(**structs.asdict(made), token=token)
        return Json(created, 201, {"Location": address(request, f"/keys/{made.id}"), "Cache-Control": "no-store"})

    @router.delete("/{key_id}", **returns(204, None, "Revoked", "unknown_key", "last_admin_key", *STORED))
    async def revoke(
        request: Request,
        who: RequireAdmin,
        key_id: Annotated[str, Path(description="its id", examples=["4fJq0aZ81xYb"])],
        tenant: Another = None,
        last: Annotated[
            bool, Query(description="also the last admin key, without which no other can be created")
        ] = False,
    ) -> Response:
        """Revoke a key, and close its streams."""
        name = whose(services, who, tenant, "keys of another tenant are revoked")
        concerns(request, name)
        # For another tenant, the operator can make a new one at any time.
        await services.credentials.revoke(name, key_id, last=last or name != who.tenant)
        return Response(status_code=204)

    return router


def audit_routes(services: Services) -> APIRouter:
    router = documented_router("administration")

    @router.get("/audit", **returns(200, AuditPage, "A page, the oldest first", "invalid_limit"))
    async def read(
        who: RequireAdmin,
        after: Annotated[int, Query(ge=0, le=2**53, description="the `next` of the page before")] = 0,
        limit: Limit = 50,
    ) -> Response:
        """Read the audit log."""
        found = await services.audit.page(who.tenant, after=after, limit=limit)
        return Json(AuditPage(entries=found, next=found[-1].number if len(found) == limit else None))

    return router


def secret_routes(services: Services) -> APIRouter:
    router = documented_router("administration", "/secrets")

    @router.get("", **returns(200, SecretList, "All of them"))
    async def list_secrets(who: RequireAdmin) -> Response:
        """List the secrets of your tenant, without their values."""
        return Json(SecretList(secrets=await services.secrets.list(who.tenant)))

    put_problems = (*BODY, "invalid_secret_name", "too_many_secrets", *STORED)

    @router.put("/{name}", **returns(204, None, "Stored; the next run uses it", *put_problems))
    async def put(who: RequireAdmin, name: _SecretName, body: NewSecret) -> Response:
        """Store a secret, or another value of it.

        A provider's key is the secret `<provider>_api_key`. That of an agent system takes precedence over that of
        the tenant. It cannot be read again: it is used, and redacted from everything that is stored or logged.
        """
        value = body.value.get_secret_value()
        await services.secrets.put(who.tenant, name, value, system=body.agent_system_id)
        return Response(status_code=204)

    delete_problems = ("unknown_secret", "invalid_agent_system_id", *STORED)

    @router.delete("/{name}", **returns(204, None, "Deleted; the next run does not have it", *delete_problems))
    async def delete(
        who: RequireAdmin,
        name: _SecretName,
        agent_system_id: Annotated[_System | None, Query(description="that of this agent system")] = None,
    ) -> Response:
        """Delete a secret."""
        await services.secrets.delete(who.tenant, name, system=agent_system_id)
        return Response(status_code=204)

    @router.post("/rotation", **returns(200, SecretsRotated, "Done", *STORED))
    async def rotate(who: RequireAdmin) -> Response:
        """Encrypt all secrets with a new master key.

        For the operator: an admin of the tenant `local`. The values of the secrets do not change, and can be used
        meanwhile. The master key in the data folder is replaced; a command is asked for the new one.
        """
        must_operate(who, "the master key is changed")
        return Json(await services.secrets.rotate())

    return router


def usage_routes(services: Services) -> APIRouter:
    router = documented_router("administration")
    page_problems = ("invalid_limit", "unknown_tenant", "storage_gone")

    @router.get("/usage", **returns(200, UsagePage, "A page, the newest day first", *page_problems))
    async def read(
        who: RequireRead,
        tenant: Another = None,
        days: Annotated[int, Query(ge=1, le=3660, description="how many, today included")] = 30,
        after: Annotated[int, Query(ge=0, le=10**9, description="the `next` of the page before")] = 0,
        limit: Limit = 50,
    ) -> Response:
        """Read the limits and the usage of your tenant.

        By day (UTC), user, system and model. A run counts when it has ended; what was deleted still counts.
        """
        name = whose(services, who, tenant, "the usage of other tenants is shown")
        found = await services.quotas.usage_page(name, days=days, after=after, limit=limit)
        used, limits = await services.quotas.used(name), services.quotas.limits(name)
        following = after + limit if len(found) == limit else None
        return Json(UsagePage(tenant=name, limits=limits, used=used, usage=found, next=following))

    limited = "In effect from now on, also after a restart"

    @router.put("/tenants/{name}/limits", **returns(200, Limits, limited, *BODY, "unknown_tenant", *STORED))
    async def limit(request: Request, who: RequireAdmin, name: TenantName, body: LimitsRequest) -> Response:
        """Set the limits of a tenant.

        All of them at once: what is left out is not limited. For the operator.
        """
        must_operate(who, "limits are set")
        concerns(request, name)
        wanted = Limits(**body.model_dump())
        await services.quotas.limit(name, wanted)
        return Json(wanted)

    return router


def check_key(body: KeyRequest, who: Principal, *, first: bool) -> None:
    if body.tenant not in (None, who.tenant):
        must_operate(who, "keys of another tenant are created")
    if first and (body.role != "admin" or body.scopes is not None or body.tenant not in (None, who.tenant)):
        said = "the first key must be an admin's of the tenant 'local', or no other could be created"
        raise InvalidField(f"role: {said}", field="role")
    lacking = sorted(scope for scope in body.scopes or SCOPES[body.role] if not who.may(scope))
    if lacking:
        raise Forbidden(
            f"a key cannot grant scopes that it lacks: yours has no {', '.join(lacking)}; name fewer scopes"
        )
    if "metrics" in (body.scopes or ()) and body.fields(who.tenant)["tenant"] != LOCAL_TENANT:
        said = "metrics are of the whole server, and read with a key of the tenant 'local'; remove it"
        raise InvalidField(f"scopes: {said}", field="scopes")
    beyond = sorted(set(body.scopes or ()) - SCOPES[body.role])
    if beyond:
        raise InvalidField(f"scopes: a {body.role} never has {', '.join(beyond)}; remove it", field="scopes")


def whose(services: Services, who: Principal, tenant: str | None, what: str) -> str:
    """The tenant that is meant.

    Raises:
        Forbidden: it is another tenant, and the principal is not the operator.
        NotFound: there is no such tenant.
    """
    if tenant in (None, who.tenant):
        return who.tenant
    must_operate(who, what)
    if services.credentials.tenants.find(tenant) is None:
        raise NotFound("tenant", tenant, remedy="GET /tenants lists the tenants")
    return tenant


def must_operate(who: Principal, what: str) -> None:
    if not who.operates:
        raise Forbidden(f"{what} only by the operator: an admin of the tenant 'local'")
