"""/agent-systems: register one, look at it, update it, take it away."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from stellwerk.api import examples, refusals
from stellwerk.api.answers import Json, RegisteredSystem, ResolvedSystem, SystemPage, address
from stellwerk.api.openapi import may, says
from stellwerk.api.paging import Limit
from stellwerk.api.services import LOCAL_TENANT, Services
from stellwerk.errors import TooLarge, WrongMediaType
from stellwerk.spec.load import SIZE_LIMIT
from stellwerk.spec.published import PublishedSystem, published, told
from stellwerk.systems.registry import Registered

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
_BODY = {
    "required": True,
    "content": {
        **{kind: {"schema": {"type": "string"}, "example": _EXAMPLE} for kind in _YAML[:2]},
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
        request: Request, dry_run: Annotated[bool, Query(description="only check it, and store nothing")] = False
    ) -> Response:
        """A bad one is refused with everything that is wrong with it at once, each with its line."""
        text = await _text(request)
        if dry_run:
            return Json(_described(services, await services.systems.check(text, source=_SOURCE)))
        registered = await services.systems.register(LOCAL_TENANT, text, source=_SOURCE)
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
    async def withdraw(system_id: SystemId) -> Response:
        await services.systems.withdraw(LOCAL_TENANT, system_id)
        return Response(status_code=204)


def _add_reading(router: APIRouter, services: Services) -> None:
    @router.get(
        "",
        summary="List the agent systems by name",
        responses={200: says(SystemPage, examples.SYSTEMS, "A page"), **may(refusals.LIMIT, refusals.GONE)},
    )
    async def list_systems(
        after: Annotated[str, Query(max_length=64, description="the `next` of the page before")] = "",
        limit: Limit = 50,
    ) -> Response:
        found = await services.systems.list(LOCAL_TENANT, after=after, limit=limit)
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
        system_id: SystemId,
        version: Annotated[int | None, Query(ge=1, le=10**9, description="the newest, if none is named")] = None,
    ) -> Response:
        return Json(_described(services, await services.systems.describe(LOCAL_TENANT, system_id, version)))


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


def _described(services: Services, registered: Registered) -> ResolvedSystem:
    resolved, source = registered.resolved, _SOURCE if registered.version is None else registered.resolved.name
    # A key of the operator's may have found its way into a prompt; it does not find its way out.
    shown: PublishedSystem = services.log.redactor.redact(published(resolved))
    return {
        "id": resolved.name,
        "version": registered.version,
        "versions": registered.versions,
        "created_at": registered.created_at,
        **shown,
        "warnings": told(registered.warnings, source=source),
        "problems": told(registered.problems, source=source),
    }
