"""/assistants: agent systems as LangGraph's assistants. They are made by the operator, or with POST /agent-systems."""

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request, Response
from msgspec import UNSET, Struct

from stellwerk.api.http.auth import RequireReadTolerant
from stellwerk.api.schema.shared import Json
from stellwerk.api.services import Services
from stellwerk.errors import InvalidField, NotFound
from stellwerk.protocols.langgraph import shapes
from stellwerk.protocols.langgraph.unserved import unserved
from stellwerk.protocols.requests import body_of
from stellwerk.runs.systems import SystemInfo
from stellwerk.spec.published import published

_PAGE = 500
_GRAPH_SCHEMAS = ("input_schema", "output_schema", "state_schema", "config_schema", "context_schema")


class AssistantSearch(Struct):
    graph_id: str | None = None
    name: str | None = None
    metadata: dict[str, Any] | None = None
    limit: int | None = 10
    offset: int | None = 0


async def all_systems(services: Services, tenant: str) -> list[SystemInfo]:
    found = list[SystemInfo]()
    while page := await services.systems.list(tenant, after=found[-1].id if found else "", limit=_PAGE):
        found += page
    return found


async def system_of(services: Services, tenant: str, assistant_id: str | None) -> str:
    """The agent system that an assistant is: its id, or the UUID that is made of it.

    Raises:
        InvalidField: there is no system with this id.
        NotFound: there is none with this UUID.
    """
    if not assistant_id:
        raise InvalidField("assistant_id: name an assistant; POST /assistants/search lists them", field="assistant_id")
    if shapes.is_uuid(assistant_id):
        for system in await all_systems(services, tenant):
            if shapes.assistant_id(system.id) == assistant_id.lower():
                return system.id
        raise NotFound("assistant", assistant_id, remedy="POST /assistants/search lists them")
    try:
        await services.systems.newest(tenant, assistant_id)
    except NotFound as error:
        raise InvalidField(f"assistant_id: {error.message}", field="assistant_id") from error
    return assistant_id


class Assistants:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def described(self, tenant: str, assistant_id: str) -> tuple[shapes.Json, dict[str, Any]]:
        """An assistant, and what its outermost agent publishes."""
        services = self._services
        try:
            name = await system_of(services, tenant, assistant_id)
        except InvalidField as error:
            raise NotFound("assistant", assistant_id, remedy="POST /assistants/search lists them") from error
        found = await services.systems.describe(tenant, name)
        shown: dict[str, Any] = services.log.redactors.of(tenant).redact(published(found.resolved))
        at = found.created_at or 0.0
        info = SystemInfo(name, found.version or 1, at, at, shown["description"])
        root = next(agent for agent in shown["agents"] if agent["id"] == shown["orchestrator"])
        given = {"metadata": shown.get("metadata")}
        if root["kind"] == "graph":
            given |= {part: root.get(part) for part in ("config", "context")}
        return shapes.assistant(info, given), root

    async def matching(self, tenant: str, body: AssistantSearch) -> list[shapes.Json]:
        redact = self._services.log.redactors.of(tenant).redact
        found = await all_systems(self._services, tenant)
        shown = [
            shapes.assistant(each, redact({} if each.metadata is UNSET else {"metadata": each.metadata}))
            for each in found
        ]
        return [each for each in shown if _matches(each, body)]


def routes(services: Services) -> APIRouter:
    router = APIRouter(prefix="/assistants", include_in_schema=False)
    assistants = Assistants(services)

    @router.post("/search")
    async def search(who: RequireReadTolerant, request: Request) -> Response:
        body = await body_of(request, AssistantSearch)
        found = await assistants.matching(who.tenant, body)
        start = max(0, body.offset or 0)
        page = found[start : start + max(0, body.limit or 10)]
        return Json(page, headers={"X-Pagination-Total": str(len(found))})

    @router.post("/count")
    async def count(who: RequireReadTolerant, request: Request) -> Response:
        return Json(len(await assistants.matching(who.tenant, await body_of(request, AssistantSearch))))

    @router.get("/{assistant_id}")
    async def get(who: RequireReadTolerant, assistant_id: str) -> Response:
        return Json((await assistants.described(who.tenant, assistant_id))[0])

    @router.get("/{assistant_id}/schemas")
    async def schemas(who: RequireReadTolerant, assistant_id: str) -> Response:
        found, root = await assistants.described(who.tenant, assistant_id)
        known = {name: root.get(name) for name in _GRAPH_SCHEMAS}
        if root["kind"] != "graph":
            known |= dict.fromkeys(("input_schema", "output_schema", "state_schema"), _MESSAGES)
        return Json({"graph_id": found["graph_id"], **known})

    @router.get("/{assistant_id}/graph")
    async def graph(who: RequireReadTolerant, assistant_id: str) -> Response:
        _, root = await assistants.described(who.tenant, assistant_id)
        return Json(_graph(root.get("nodes") or ["model", "tools"]))

    @router.get("/{assistant_id}/subgraphs")
    @router.get("/{assistant_id}/subgraphs/{namespace}")
    async def subgraphs(who: RequireReadTolerant, assistant_id: str, namespace: str = "") -> Response:
        await assistants.described(who.tenant, assistant_id)
        return Json({})

    return router


def writes() -> APIRouter:
    """What only LangGraph's own server does: assistants that clients make."""
    router = APIRouter(prefix="/assistants", include_in_schema=False)
    said = "assistants are agent systems, which are registered with POST /agent-systems"
    one = "/{assistant_id}"
    unserved(router, said, {"POST": ("", f"{one}/latest", f"{one}/versions"), "PATCH": (one,), "DELETE": (one,)})
    return router


_MESSAGES = {
    "type": "object",
    "properties": {"messages": {"type": "array", "items": {"type": "object"}}},
    "required": ["messages"],
}


def _matches(assistant: shapes.Json, wanted: AssistantSearch) -> bool:
    if wanted.graph_id and assistant["graph_id"] != wanted.graph_id:
        return False
    if wanted.name and wanted.name.lower() not in assistant["name"].lower():
        return False
    return all(assistant["metadata"].get(key) == value for key, value in (wanted.metadata or {}).items())


def _graph(nodes: Sequence[str]) -> shapes.Json:
    """The nodes between start and end; which edge is taken is decided in the graph."""
    names = ["__start__", *nodes, "__end__"]
    shown = [{"id": name, "type": "runnable", "data": {"id": [name], "name": name}} for name in names]
    edges = [{"source": "__start__", "target": nodes[0]}, {"source": nodes[-1], "target": "__end__"}] if nodes else []
    return {"nodes": shown, "edges": edges}
