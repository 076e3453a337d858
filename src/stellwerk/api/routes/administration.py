"""/me, /tenants (locks, limits), /keys, /secrets, /usage and /audit: administration of tenants.

Secrets are written and used, never read.
"""

from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from msgspec import structs
from pydantic import Field, SecretStr

from stellwerk.api.http.audit import concerns
from stellwerk.api.http.auth import RequireAdmin, RequireAuth, RequireRead
from stellwerk.api.schema.openapi import BODY, STORED, documented_router, returns
from stellwerk.api.schema.responses import AuditPage, KeyList, Me, NewKey, SecretList, TenantList, UsagePage
from stellwerk.api.schema.shared import Json, Limit, RequestBody, address
from stellwerk.api.services import Services
from stellwerk.errors import Forbidden, InvalidField, NotFound
from stellwerk.tenants.principals import LOCAL_TENANT, SCOPES, Principal, Role, Scope, unknown_tenant
from stellwerk.tenants.quotas import Limits
from stellwerk.tenants.secrets import LONGEST, SHORTEST, SecretsRotated
from stellwerk.tenants.tenants import TenantInfo

_ANOTHER = "another tenant than yours; only for the operator"
_NEXT = "the `next` of the page before"
_SYSTEM_NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]*$"
TenantName = Annotated[str, Path(description="of the tenant", examples=["acme"])]
KeyId = Annotated[str, Path(description="its id", examples=["4fJq0aZ81xYb"])]
Last = Annotated[bool, Query(description="also the last admin key, without which no other can be created")]
Another = Annotated[str | None, Query(description=_ANOTHER)]
_User = Annotated[str | None, Field(min_length=1, max_length=128)]
_Number = Annotated[int | None, Field(ge=0, le=10**15)]
_Rate = Annotated[int | None, Field(ge=1, le=100_000)]
_System = Annotated[str, Field(min_length=1, max_length=64, pattern=_SYSTEM_NAME)]
_SecretName = Annotated[str, Path(description="its name", examples=["openai_api_key"])]


class NewTenant(RequestBody):
    name: str = Field(max_length=63, examples=["acme"])


class KeyRequest(RequestBody):
    name: str = Field(min_length=1, max_length=64, examples=["ci"])
    role: Role = "member"
    user: _User = Field(None, description="the user it belongs to", examples=["ada"])
    scopes: list[Scope] | None = Field(None, min_length=1, max_length=5, description="fewer than its role")
    expires_in: int | None = Field(None, ge=1, le=10 * 366 * 86400, description="seconds")
    tenant: str | None = Field(None, description=_ANOTHER)

    def fields(self, tenant: str) -> dict[str, Any]:
        """Arguments of ``ApiKeys.make``; the tenant is the principal's unless the body names one."""
        chosen = tenant if self.tenant is None else self.tenant
        scopes = None if self.scopes is None else tuple(sorted(set(self.scopes)))
        return {**self.model_dump(), "tenant": chosen, "scopes": scopes}


class NewSecret(RequestBody):
    value: SecretStr = Field(description=f"{SHORTEST} to {LONGEST} characters", max_length=4 * LONGEST)
    agent_system_id: _System | None = Field(
        None, description="for this agent system alone; otherwise for all of the tenant"
    )


class LimitsRequest(RequestBody):
    """All of them: what is left out is not limited."""

    requests: _Rate = Field(None, description="of the tenant, in a minute")
    runs: _Number = Field(None, description="running or waiting at the same time")
    streams: _Number = Field(None, description="open at the same time, WebSockets included")
    bytes: _Number = Field(None, description="of all files")
    steps: _Number = Field(None, description="model calls, in a day")
    tokens: _Number = Field(None, description="input and output, in a day")
    seconds: _Number = Field(None, description="of running, in a day")
    session_requests: _Rate = Field(None, description="to one session, in a minute")
    session_streams: _Number = Field(None, description="of one session")
    session_bytes: _Number = Field(None, description="of the files of one session")
    session_steps: _Number = Field(None, description="of one session, in all")
    session_tokens: _Number = Field(None, description="of one session, in all")
    session_seconds: _Number = Field(None, description="of one session, in all")


def tenant_routes(services: Services) -> APIRouter:
    router = documented_router("administration")
    tenants = services.credentials.tenants

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
        seen = [each for each in tenants.all() if who.operates or each.name == who.tenant]
        return Json(TenantList(tenants=seen))

    @router.post("/tenants", **returns(201, TenantInfo, "Created", *BODY, "tenant_exists", *STORED))
    async def make(request: Request, who: RequireAdmin, body: NewTenant) -> Response:
        """Create a tenant.

        For the operator: an admin of the tenant `local`.
        """
        must_operate(who, "tenants are created")
        concerns(request, body.name)
        return Json(await tenants.make(body.name), 201)

    problems = ("unknown_tenant", "operator_tenant", *STORED)

    @router.put("/tenants/{name}/lock", **returns(204, None, "Locked, also after a restart", *problems))
    async def lock(request: Request, who: RequireAdmin, name: TenantName) -> None:
        """Lock a tenant, and stop its runs.

        Its keys, tokens and tickets get 401, its streams end, its runs are stopped. Nothing is deleted. For the
        operator.
        """
        await set_lock(request, who, name, locked=True)
        services.wakes.recheck()
        for (sid,) in await services.database.read(lambda tx: tx.rows("sessions_at_work", name)):
            with suppress(NotFound):  # deleted meanwhile
                await services.sessions.stop(name, sid, reason="the tenant was locked")

    @router.delete("/tenants/{name}/lock", **returns(204, None, "Unlocked", *problems))
    async def unlock(request: Request, who: RequireAdmin, name: TenantName) -> None:
        """Unlock a tenant."""
        await set_lock(request, who, name, locked=False)

    async def set_lock(request: Request, who: Principal, name: str, *, locked: bool) -> None:
        must_operate(who, "tenants are locked")
        concerns(request, name)
        await tenants.lock(name, locked=locked)

    return router


def key_routes(services: Services) -> APIRouter:
    router = documented_router("administration", "/keys")
    credentials = services.credentials
    listed = "All, including revoked and expired ones"

    @router.get("", **returns(200, KeyList, listed, "unknown_tenant"))
    async def list_keys(who: RequireAdmin, tenant: Another = None) -> Response:
        """List the keys of your tenant."""
        name = whose(services, who, tenant, "keys of another tenant are listed")
        return Json(KeyList(keys=credentials.keys.of(name)))

    made_once = "Created; the token is shown only once"
    refused = (*BODY, "unknown_tenant", "two_keys_valid", "too_many_keys", *STORED)

    @router.post("", **returns(201, NewKey, made_once, *refused))
    async def make(request: Request, who: RequireAdmin, body: KeyRequest) -> Response:
        """Create a key.

        Once a server has its first key, which must be an admin's, every request needs one.
        Two keys of one name can be valid: create the new one, use it, revoke the old one.
        """
        check_key(body, who, first=not credentials.asked_for)
        wanted = body.fields(who.tenant)
        concerns(request, wanted["tenant"])
        made, token = await credentials.keys.make(**wanted)
        created = NewKey(**structs.asdict(made), token=token)
        location = address(request, f"/keys/{made.id}")
        return Json(created, 201, {"Location": location, "Cache-Control": "no-store"})

    @router.delete("/{key_id}", **returns(204, None, "Revoked", "unknown_key", "last_admin_key", *STORED))
    async def revoke(
        request: Request,
        who: RequireAdmin,
        key_id: KeyId,
        tenant: Another = None,
        last: Last = False,
    ) -> None:
        """Revoke a key, and close its streams."""
        name = whose(services, who, tenant, "keys of another tenant are revoked")
        concerns(request, name)
        # For another tenant, the operator can make a new one at any time.
        await credentials.revoke(name, key_id, last=last or name != who.tenant)

    return router


def audit_routes(services: Services) -> APIRouter:
    router = documented_router("administration")

    @router.get("/audit", **returns(200, AuditPage, "A page, the oldest first", "invalid_limit"))
    async def read(
        who: RequireAdmin,
        after: Annotated[int, Query(ge=0, le=2**53, description=_NEXT)] = 0,
        limit: Limit = 50,
    ) -> Response:
        """Read the audit log."""
        found = await services.audit.page(who.tenant, after=after, limit=limit)
        following = found[-1].number if len(found) == limit else None
        return Json(AuditPage(entries=found, next=following))

    return router


def secret_routes(services: Services) -> APIRouter:
    router = documented_router("administration", "/secrets")

    @router.get("", **returns(200, SecretList, "All of them"))
    async def list_secrets(who: RequireAdmin) -> Response:
        """List the secrets of your tenant, without their values."""
        return Json(SecretList(secrets=await services.secrets.list(who.tenant)))

    unstorable = (*BODY, "invalid_secret_name", "too_many_secrets", *STORED)

    @router.put("/{name}", **returns(204, None, "Stored; the next run uses it", *unstorable))
    async def put(who: RequireAdmin, name: _SecretName, body: NewSecret) -> None:
        """Store a secret, or another value of it.

        A provider's key is the secret `<provider>_api_key`. That of an agent system takes precedence over that of
        the tenant. It cannot be read again: it is used, and redacted from everything that is stored or logged.
        """
        value = body.value.get_secret_value()
        await services.secrets.put(who.tenant, name, value, system=body.agent_system_id)

    deleted = "Deleted; the next run does not have it"
    problems = ("unknown_secret", "invalid_agent_system_id", *STORED)

    @router.delete("/{name}", **returns(204, None, deleted, *problems))
    async def delete(
        who: RequireAdmin,
        name: _SecretName,
        agent_system_id: Annotated[_System | None, Query(description="that of this agent system")] = None,
    ) -> None:
        """Delete a secret."""
        await services.secrets.delete(who.tenant, name, system=agent_system_id)

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
    problems = ("invalid_limit", "unknown_tenant", "storage_gone")

    @router.get("/usage", **returns(200, UsagePage, "A page, the newest day first", *problems))
    async def read(
        who: RequireRead,
        tenant: Another = None,
        days: Annotated[int, Query(ge=1, le=3660, description="how many, today included")] = 30,
        after: Annotated[int, Query(ge=0, le=10**9, description=_NEXT)] = 0,
        limit: Limit = 50,
    ) -> Response:
        """Read the limits and the usage of your tenant.

        By day (UTC), user, system and model. A run counts when it has ended; what was deleted still counts.
        """
        name = whose(services, who, tenant, "the usage of other tenants is shown")
        found = await services.quotas.usage_page(name, days=days, after=after, limit=limit)
        page = UsagePage(
            tenant=name,
            limits=services.quotas.limits(name),
            used=await services.quotas.used(name),
            usage=found,
            next=after + limit if len(found) == limit else None,
        )
        return Json(page)

    limited = "In effect from now on, also after a restart"
    unlimited = (*BODY, "unknown_tenant", *STORED)

    @router.put("/tenants/{name}/limits", **returns(200, Limits, limited, *unlimited))
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
    """Whether this principal may create this key; the first one opens the server to all others."""
    is_own = body.tenant in (None, who.tenant)
    scopes = body.scopes or ()
    if not is_own:
        must_operate(who, "keys of another tenant are created")
    if first and (body.role != "admin" or body.scopes is not None or not is_own):
        said = "the first key must be an admin's of the tenant 'local', or no other could be created"
        raise InvalidField(f"role: {said}", field="role")
    lacking = sorted(scope for scope in scopes or SCOPES[body.role] if not who.may(scope))
    if lacking:
        said = f"yours has no {', '.join(lacking)}; name fewer scopes"
        raise Forbidden(f"a key cannot grant scopes that it lacks: {said}")
    if "metrics" in scopes and body.fields(who.tenant)["tenant"] != LOCAL_TENANT:
        said = "metrics are of the whole server, and read with a key of the tenant 'local'; remove it"
        raise InvalidField(f"scopes: {said}", field="scopes")
    beyond = ", ".join(sorted(set(scopes) - SCOPES[body.role]))
    if beyond:
        raise InvalidField(f"scopes: a {body.role} never has {beyond}; remove it", field="scopes")


def whose(services: Services, who: Principal, tenant: str | None, what: str) -> str:
    """The tenant that is meant: another than the principal's only for the operator."""
    if tenant in (None, who.tenant):
        return who.tenant
    must_operate(who, what)
    if services.credentials.tenants.find(tenant) is None:
        raise unknown_tenant(tenant)
    return tenant


def must_operate(who: Principal, what: str) -> None:
    if not who.operates:
        raise Forbidden(f"{what} only by the operator: an admin of the tenant 'local'")
