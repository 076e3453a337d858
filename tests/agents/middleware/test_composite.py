"""A chain: several layers in one middleware, in their order, with nothing lost."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ExtendedModelResponse, ToolCallRequest
from langchain_core.messages import AIMessage
from langchain_core.tools import tool

from stellwerk.agents.middleware.types import Answer, AskModel, CompositeMiddleware, Middleware, Request, ToolOutcome
from tests.agents.middleware.conversations import call, model, say, spoken


@tool
async def look() -> str:
    "Look."
    return "seen"


class Noting(AgentMiddleware[Any, Any, Any]):
    """Writes down when a call passes it, on the way in and on the way out."""

    def __init__(self, letter: str, notes: list[str]) -> None:
        super().__init__()
        self._letter, self._notes = letter, notes

    async def awrap_model_call(self, request: Request, handler: AskModel) -> Answer:
        self._notes.append(f"{self._letter}(")
        response = await handler(request)
        self._notes.append(f"){self._letter}")
        return response

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolOutcome]]
    ) -> ToolOutcome:
        self._notes.append(f"{self._letter}[")
        outcome = await handler(request)
        self._notes.append(f"]{self._letter}")
        return outcome


class Answering(AgentMiddleware[Any, Any, Any]):
    """Speaks in the model's place."""

    async def awrap_model_call(self, request: Request, handler: AskModel) -> Answer:
        return AIMessage("mine")


class Commanding(AgentMiddleware[Any, Any, Any]):
    """Has a command for the graph beside the answer."""

    async def awrap_model_call(self, request: Request, handler: AskModel) -> Answer:
        return ExtendedModelResponse(await handler(request))


async def run(*layers: Middleware) -> list[tuple[str, str]]:
    graph: Any = create_agent(
        model(call("look"), say("done")), [look], middleware=[CompositeMiddleware(layers, name="CompositeMiddleware")]
    )
    return spoken((await graph.ainvoke({"messages": [("user", "go")]}))["messages"])[1:]


async def test_the_first_layer_is_the_outermost() -> None:
    notes: list[str] = []
    assert (await run(Noting("a", notes), Noting("b", notes)))[-1] == ("ai", "done")
    assert "".join(notes) == "a(b()b)a" + "a[b[]b]a" + "a(b()b)a"


async def test_a_layer_may_answer_in_the_models_place_and_those_around_it_see_a_response() -> None:
    notes: list[str] = []
    assert await run(Noting("a", notes), Answering()) == [("ai", "mine")]
    assert notes == ["a(", ")a"]


async def test_a_layer_with_a_command_is_refused_rather_than_its_command_lost() -> None:
    with pytest.raises(TypeError, match="Commanding changes the state, so it cannot be part of a chain"):
        await run(Commanding())
