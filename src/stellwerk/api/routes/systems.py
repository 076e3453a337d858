"""/agent-systems: register, list, read and withdraw agent systems; /tools lists what they may name."""

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response
from msgspec import UNSET

from stellwerk.agents.tools.spec import DescribedTool
from stellwerk.api.http.auth import RequireRead, RequireRegister
from stellwerk.api.schema.openapi import STORED, documented_router, example_of, ok, returns, returns_text
from stellwerk.api.schema.responses import RegisteredSystem, ResolvedSystem, SystemPage, ToolList
from stellwerk.api.schema.shared import Json, Limit, address
from stellwerk.api.services import Services
from stellwerk.errors import NotFound, TooLarge, WrongMediaType
from stellwerk.runs.systems import Registered
from stellwerk.spec.published import PublishedSystem, published, spec_problems
from stellwerk.spec.yaml import SIZE_LIMIT
from stellwerk.tenants.principals import Principal

_SOURCE = "body"  # the name of the request body in problems
_YAML = ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml")
_REFUSED = (
    *("too_large", "not_yaml", "invalid_system", "invalid_dry_run"),
    *("missing_package", "mcp_unreachable", *STORED),
)
_NOT_FOUND = ("unknown_agent_system", "unknown_version", "invalid_version", "storage_gone")
Version = Annotated[int | None, Query(ge=1, le=10**9, description="the newest, if none is named")]
SystemId = Annotated[str, Path(description="the `system.name` of its YAML", examples=["demo"])]
ToolName = Annotated[str, Path(description="its name, or an alias of it", examples=["get_weather"])]


def routes(services: Services) -> APIRouter:
    router = documented_router("agent systems", "/agent-systems")
    systems = services.systems
    registered_as = returns(201, RegisteredSystem, "A new version, unless nothing has changed", *_REFUSED)
    dry_run_as = "With `dry_run`: what it would be; nothing is stored"
    registered_as["responses"][200] = ok(ResolvedSystem, example_of(ResolvedSystem), dry_run_as)

    @router.post("", **registered_as)
    async def register(
        who: RequireRegister,
        request: Request,
        dry_run: Annotated[bool, Query(description="only check it, and store nothing")] = False,
    ) -> Response:
        """Register or update an agent system from YAML or JSON.

        An invalid one is rejected with all of its problems at once, each with its line.
        """
        text = await _text(request)
        if dry_run:
            checked = await systems.check(who.tenant, text, source=_SOURCE)
            return Json(_described(services, checked, who))
        registered = await systems.register(who.tenant, text, source=_SOURCE)
        assert registered.version is not None
        warnings = spec_problems(registered.warnings, source=_SOURCE)
        answer = RegisteredSystem(id=registered.name, version=registered.version, warnings=warnings)
        return Json(answer, 201, {"Location": address(request, f"/agent-systems/{answer.id}")})

    undeletable = ("unknown_agent_system", "system_given", *STORED)

    @router.delete("/{system_id}", **returns(204, None, "Deleted", *undeletable))
    async def withdraw(who: RequireRegister, system_id: SystemId) -> None:
        """Delete an agent system; its sessions stay."""
        await systems.withdraw(who.tenant, system_id)

    @router.get("", **returns(200, SystemPage, "A page", "invalid_limit", "storage_gone"))
    async def list_systems(
        who: RequireRead,
        after: Annotated[str, Query(max_length=64, description="the `next` of the page before")] = "",
        limit: Limit = 50,
    ) -> Response:
        """List the agent systems by name."""
        listed = await systems.list(who.tenant, after=after, limit=limit)
        redactor = services.log.redactors.of(who.tenant)
        redacted = redactor.redact_text
        found = [
            replace(
                one,
                description=redacted(one.description),
                unusable=UNSET if one.unusable is UNSET else redacted(one.unusable),
                metadata=redactor.redact(one.metadata),
            )
            for one in listed
        ]
        following = found[-1].id if len(found) == limit else None
        return Json(SystemPage(agent_systems=found, next=following))

    resolved = "Defaults filled in, without secrets"

    @router.get("/{system_id}", **returns(200, ResolvedSystem, resolved, *_NOT_FOUND))
    async def find(who: RequireRead, system_id: SystemId, version: Version = None) -> Response:
        """The resolved config: agents, tools, models."""
        found = await systems.describe(who.tenant, system_id, version)
        return Json(_described(services, found, who))

    as_sent = "YAML, or JSON if it was sent as such"

    @router.get("/{system_id}/text", **returns_text(_YAML[0], "system", as_sent, *_NOT_FOUND))
    async def text(who: RequireRead, system_id: SystemId, version: Version = None) -> Response:
        """Its description, as it was registered.

        Secrets in it are redacted.
        """
        written = await systems.text(who.tenant, system_id, version)
        redacted = services.log.redactors.of(who.tenant).redact(written)
        return Response(redacted, media_type=_YAML[0])

    return router


def tool_routes(services: Services) -> APIRouter:
    router = documented_router("tools", "/tools")

    @router.get("", **returns(200, ToolList, "All of them"))
    async def list_tools(who: RequireRead) -> Response:
        """List the tools with their schemas."""
        return Json(ToolList(tools=await services.tools(who.tenant)))

    @router.get("/{name}", **returns(200, DescribedTool, "The tool", "unknown_tool"))
    async def find(who: RequireRead, name: ToolName) -> Response:
        """One tool, by its name or an alias."""
        for tool in await services.tools(who.tenant):
            if name in (tool["name"], *tool["aliases"]):
                return Json(tool)
        raise NotFound("tool", name, remedy="GET /tools lists the tools")

    return router


async def _text(request: Request) -> str:
    """The body as it is; the loader finds out what is in it."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in (*_YAML, "application/json"):
        allowed = "application/yaml, or application/json"
        raise WrongMediaType(f"an agent system is sent with Content-Type: {allowed}")
    body = await request.body()
    if len(body) > SIZE_LIMIT:
        limit = f"an agent system has at most {SIZE_LIMIT // 1024} KiB"
        raise TooLarge(f"{limit}; shorten it, or split it", field="body")
    return body.decode("utf-8", "surrogateescape")  # the loader rejects what is not UTF-8


def _described(services: Services, registered: Registered, who: Principal) -> ResolvedSystem:
    resolved = registered.resolved
    source = _SOURCE if registered.version is None else resolved.name
    # A key may have found its way into a prompt; it does not find its way out.
    shown: PublishedSystem = services.log.redactors.of(who.tenant).redact(published(resolved))
    return {
        "id": resolved.name,
        "version": registered.version,
        "versions": registered.versions,
        "created_at": registered.created_at,
        **shown,
        "warnings": spec_problems(registered.warnings, source=source),
        "problems": services.log.redactors.of(who.tenant).redact(spec_problems(registered.problems, source=source)),
    }
