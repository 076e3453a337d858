"""/tools: what an agent system may name here, with the schemas that forms can be made from."""

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from stellwerk.agents.tool_spec import DescribedTool
from stellwerk.api import examples, refusals
from stellwerk.api.answers import Json, ToolList
from stellwerk.api.credentials import Reading
from stellwerk.api.openapi import may, says
from stellwerk.api.services import Services
from stellwerk.errors import NotFound


def routes(services: Services) -> APIRouter:
    router = APIRouter(prefix="/tools", tags=["tools"], default_response_class=Response)

    @router.get(
        "",
        summary="List the tools with their schemas",
        responses={200: says(ToolList, ToolList(tools=[examples.TOOL]), "All of them"), **may()},
    )
    async def list_tools(who: Reading) -> Response:
        return Json(ToolList(tools=await services.tools(who.tenant)))

    @router.get(
        "/{name}",
        summary="One tool, by its name or an alias",
        responses={200: says(DescribedTool, examples.TOOL, "The tool"), **may(refusals.NO_TOOL)},
    )
    async def find(
        who: Reading,
        name: Annotated[str, Path(description="its name, or an alias of it", examples=["get_weather"])],
    ) -> Response:
        tools = await services.tools(who.tenant)
        for tool in tools:
            if name in (tool["name"], *tool["aliases"]):
                return Json(tool)
        raise NotFound("tool", name, remedy="GET /tools lists those that there are")

    return router
