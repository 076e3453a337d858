"""/agent-systems: register one, look at it, update it, take it away."""

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from stellwerk.api import examples, refusals
from stellwerk.api.answers import Json, RegisteredSystem, ResolvedSystem, SystemPage, address
from stellwerk.api.credentials import Reading, Registering
from stellwerk.api.openapi import may, says
from stellwerk.api.paging import Limit
from stellwerk.api.services import Services
from stellwerk.errors import TooLarge, WrongMediaType
from stellwerk.spec.load import SIZE_LIMIT
from stellwerk.spec.published import PublishedSystem, published, told
from stellwerk.systems.registry import Registered
from stellwerk.tenants.principals import Principal

_SOURCE = "body"
"""How a problem calls what was sent."""
_YAML = ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml")
_EXAMPLE = """\
version: 1
system:
  name: helpdesk
agents:
  - id: assistant
    system_prompt: You answer questions about the weather.
    tools:
      allow: [get_weather]
"""
_TEXT = {"schema": {"type": "string"}, "example": _EXAMPLE}
_BODY = {
    "required": True,
    "content": {
        **dict.fromkeys(_YAML[:2], _TEXT),
        "application/json": {
            "schema": {"type": "object"},
            "example": {"version": 1, "system": {"name": "helpdesk"}, "agents": [{"id": "assistant"}]},
        },
    },
}
_REFUSED = (
    *(refusals.TOO_LARGE, refusals.MEDIA_TYPE, refusals.BAD_SYSTEM, refusals.DRY_RUN),
    *(refusals.NO_PACKAGE, refusals.NO_MCP_SERVER, *refusals.STORED),
)
Version = Annotated[int | None, Query(ge=1, le=10**9, description="the newest, if none is named")]
SystemId = Annotated[str, Path(description="the `system.name` of its YAML", examples=["demo"])]


def routes(services: Services) -> APIRouter:
    router = APIRouter(prefix="/agent-systems", tags=["agent systems"], default_response_class=Response)
    _add_writing(router, services)
    _add_reading(router, services)
    return router


def _add_writing(router: APIRouter, services: Services) -> None:
    @router.post(
        "",
        status_code=201,
        summary="Register or update an agent system from YAML or JSON",
        responses={
            201: says(RegisteredSystem, examples.REGISTERED, "A new version, unless nothing has changed"),
            200: says(ResolvedSystem, examples.RESOLVED, "With `dry_run`: what it would be; nothing is stored"),
            **may(*_REFUSED),
        },
        openapi_extra={"requestBody": _BODY},
    )
    async def register(
        who: Registering,
        request: Request,
        dry_run: Annotated[bool, Query(description="only check it, and store nothing")] = False,
    ) -> Response:
        """A bad one is refused with everything that is wrong with it at once, each with its line."""
        text = await _text(request)
        if dry_run:
            return Json(_described(services, await services.systems.check(who.tenant, text, source=_SOURCE), who))
        registered = await services.systems.register(who.tenant, text, source=_SOURCE)
        assert registered.version is not None
        warnings = told(registered.warnings, source=_SOURCE)
        answer = RegisteredSystem(id=registered.name, version=registered.version, warnings=warnings)
        return Json(answer, 201, {"Location": address(request, f"/agent-systems/{answer.id}")})

    @router.delete(
        "/{system_id}",
        status_code=204,
        summary="Take an agent system away; what its sessions have said stays",
        response_description="Taken away",
        responses=may(refusals.NO_SYSTEM, refusals.SYSTEM_GIVEN, *refusals.STORED),
    )
    async def withdraw(who: Registering, system_id: SystemId) -> Response:
        await services.systems.withdraw(who.tenant, system_id)
        return Response(status_code=204)


def _add_reading(router: APIRouter, services: Services) -> None:
    @router.get(
        "",
        summary="List the agent systems by name",
        responses={200: says(SystemPage, examples.SYSTEMS, "A page"), **may(refusals.LIMIT, refusals.GONE)},
    )
    async def list_systems(
        who: Reading,
        after: Annotated[str, Query(max_length=64, description="the `next` of the page before")] = "",
        limit: Limit = 50,
    ) -> Response:
        listed = await services.systems.list(who.tenant, after=after, limit=limit)
        redactor = services.log.redactors.of(who.tenant)
        found = [replace(one, description=redactor.redact_text(one.description)) for one in listed]
        return Json(SystemPage(agent_systems=found, next=found[-1].id if len(found) == limit else None))

    @router.get(
        "/{system_id}",
        summary="The resolved config: agents, tools, models",
        responses={
            200: says(ResolvedSystem, examples.RESOLVED, "Defaults filled in, without secrets"),
            **may(refusals.NO_SYSTEM, refusals.NO_VERSION, refusals.VERSION, refusals.GONE),
        },
    )
    async def find(
        who: Reading,
        system_id: SystemId,
        version: Version = None,
    ) -> Response:
        return Json(_described(services, await services.systems.describe(who.tenant, system_id, version), who))

    @router.get(
        "/{system_id}/text",
        summary="Its description, as it was registered",
        responses={
            200: {"description": "YAML, or JSON if it was sent as such", "content": {_YAML[0]: _TEXT}},
            **may(refusals.NO_SYSTEM, refusals.NO_VERSION, refusals.VERSION, refusals.GONE),
        },
    )
    async def text(who: Reading, system_id: SystemId, version: Version = None) -> Response:
        """A key that found its way into it is masked."""
        written = await services.systems.text(who.tenant, system_id, version)
        return Response(services.log.redactors.of(who.tenant).redact(written), media_type=_YAML[0])


async def _text(request: Request) -> str:
    """The body as it is; what is in it, the loader finds out."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in (*_YAML, "application/json"):
        raise WrongMediaType("an agent system is sent with Content-Type: application/yaml, or application/json")
    body = await request.body()
    if len(body) > SIZE_LIMIT:
        raise TooLarge(
            f"an agent system has at most {SIZE_LIMIT // 1024} KiB; shorten it, or make two of it", field="body"
        )
    return body.decode("utf-8", "surrogateescape")  # what is not UTF-8 is refused by the loader, which says so


def _described(services: Services, registered: Registered, who: Principal) -> ResolvedSystem:
    resolved, source = registered.resolved, _SOURCE if registered.version is None else registered.resolved.name
    # A key may have found its way into a prompt; it does not find its way out.
    shown: PublishedSystem = services.log.redactors.of(who.tenant).redact(published(resolved))
    return {
        "id": resolved.name,
        "version": registered.version,
        "versions": registered.versions,
        "created_at": registered.created_at,
        **shown,
        "warnings": told(registered.warnings, source=source),
        "problems": told(registered.problems, source=source),
    }
