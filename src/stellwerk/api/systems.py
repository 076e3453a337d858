"""/agent-systems: register one, look at it, update it, take it away."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from stellwerk.api.services import LOCAL_TENANT, Services
from stellwerk.api.sessions import Json, may
from stellwerk.errors import TooLarge, WrongMediaType
from stellwerk.spec.load import SIZE_LIMIT
from stellwerk.spec.published import published, told
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
_REGISTERED = {"id": "helpdesk", "version": 1, "warnings": []}
_RESOLVED = {
    **_REGISTERED,
    "orchestrator": "assistant",
    "agents": [{"id": "assistant", "role": "orchestrator", "tools": ["get_weather"]}],
    "tools": ["get_weather"],
    "models": ["scripted:scripted"],
    "versions": [1],
}
_LISTED = {"id": "demo", "version": 1, "created_at": 1763251200.0, "updated_at": 1763251200.0}


def example(value: object, description: str = "Successful Response") -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"example": value}}}


def routes(services: Services) -> APIRouter:
    router = APIRouter(prefix="/agent-systems", tags=["agent systems"])
    _add_writing(router, services)
    _add_reading(router, services)
    return router


def _add_writing(router: APIRouter, services: Services) -> None:
    @router.post(
        "",
        status_code=201,
        summary="Register or update an agent system from YAML or JSON",
        responses={
            201: example(_REGISTERED, "registered; a new version, unless it was registered like this before"),
            200: example(_RESOLVED, "with dry_run: what it would be"),
            **may(400, 413, 415, 422, 501, 507),
        },
        openapi_extra={"requestBody": _BODY},
    )
    async def register(request: Request, dry_run: bool = False) -> Response:
        text = await _text(request)
        if dry_run:
            return Json(_described(services, await services.systems.check(text, source=_SOURCE)))
        registered = await services.systems.register(LOCAL_TENANT, text, source=_SOURCE)
        answer = {"id": registered.name, "version": registered.version}
        place = {"Location": f"{request.scope.get('root_path', '')}/agent-systems/{registered.name}"}
        return Json({**answer, "warnings": told(registered.warnings, source=_SOURCE)}, 201, place)

    @router.delete(
        "/{system_id}",
        status_code=204,
        summary="Take an agent system away; what its sessions have said stays",
        responses=may(404, 409, 507),
    )
    async def withdraw(system_id: str) -> Response:
        await services.systems.withdraw(LOCAL_TENANT, system_id)
        return Response(status_code=204)


def _add_reading(router: APIRouter, services: Services) -> None:
    @router.get(
        "",
        summary="List the agent systems by name",
        responses={200: example({"agent_systems": [_LISTED], "next": None}), **may(422)},
    )
    async def list_systems(
        after: Annotated[str, Query(max_length=64)] = "", limit: Annotated[int, Query(ge=1, le=500)] = 50
    ) -> Response:
        found = await services.systems.list(LOCAL_TENANT, after=after, limit=limit)
        return Json({"agent_systems": found, "next": found[-1].id if len(found) == limit else None})

    @router.get(
        "/{system_id}",
        summary="The resolved config: agents, tools, models",
        responses={200: example(_RESOLVED), **may(404, 422)},
    )
    async def find(system_id: str, version: Annotated[int | None, Query(ge=1, le=10**9)] = None) -> Response:
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


def _described(services: Services, registered: Registered) -> dict[str, Any]:
    resolved, source = registered.resolved, _SOURCE if registered.version is None else registered.resolved.name
    # A key of the operator's may have found its way into a prompt; it does not find its way out.
    shown: dict[str, Any] = services.log.redactor.redact(published(resolved))
    return {
        "id": resolved.name,
        "version": registered.version,
        "versions": registered.versions,
        "created_at": registered.created_at,
        **shown,
        "warnings": told(registered.warnings, source=source),
        "problems": told(registered.problems, source=source),
    }
