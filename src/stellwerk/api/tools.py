"""/tools: what an agent system may name here, with the schemas that forms can be made from."""

from fastapi import APIRouter
from starlette.responses import Response

from stellwerk.api.services import Services
from stellwerk.api.sessions import Json, may
from stellwerk.api.systems import example
from stellwerk.errors import NotFound

_TOOL = {
    "name": "get_weather",
    "description": "Tell the weather in a city.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "output": "table",
    "aliases": [],
    "timeout": 60.0,
    "idempotent": True,
    "effects": "read",
    "runs_in": "thread",
}


def routes(services: Services) -> APIRouter:
    router = APIRouter(prefix="/tools", tags=["tools"])

    @router.get("", summary="List the tools with their schemas", responses={200: example({"tools": [_TOOL]})})
    async def list_tools() -> Response:
        return Json({"tools": await services.tools()})

    @router.get("/{name}", summary="One tool, by its name or an alias", responses={200: example(_TOOL), **may(404)})
    async def find(name: str) -> Response:
        tools = await services.tools()
        for tool in tools:
            if name in (tool["name"], *tool["aliases"]):
                return Json(tool)
        raise NotFound("tool", name, remedy="GET /tools lists those that there are")

    return router
