"""Whether a run may go on after a crash is judged by each call, not by a name that two tools share."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool
from langchain_core.tools import tool as langchain_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from stellwerk.agents.build.factory import AgentFactory
from stellwerk.agents.build.resources import Resources
from stellwerk.agents.graphs.registry import GraphEntry, Graphs
from stellwerk.agents.tools.registry import Tools
from stellwerk.agents.tools.spec import tool
from stellwerk.envelope.model import Envelope, RunStart, ToolEnd, ToolStart
from stellwerk.runs.resume import RunHistory
from stellwerk.spec.model import AgentAsTool, CompleteAgent
from tests.agents.agent_runs import agent, call, say


@tool(idempotent=True)
async def look(where: str) -> str:
    """Look, as often as you like."""
    return where


@langchain_tool("look")
def look_once(where: str) -> str:
    """Another tool of the same name: who looks twice is seen."""
    return where


@langchain_tool("look")
def look_again(where: str) -> str:
    """The same, for those whom nobody minds."""
    return where


look_again.metadata = {"stellwerk": {"idempotent": True}}
UNKNOWN = "the tool look was at work, and it is unknown how far it came"


def attic(own: BaseTool) -> Any:
    def model(state: MessagesState) -> dict[str, Any]:
        wanted = {"name": "look", "args": {"where": "trunk"}, "id": "c1", "type": "tool_call"}
        return {"messages": [AIMessage("", tool_calls=[wanted])]}

    graph = StateGraph(MessagesState).add_node("model", model).add_node("tools", ToolNode([own]))
    return graph.add_edge(START, "model").add_edge("model", "tools")


@pytest.mark.parametrize(("own", "verdict"), [(look_once, UNKNOWN), (look_again, None)])
async def test_tools_of_the_same_name_are_told_apart(own: BaseTool, verdict: str | None) -> None:
    graphs = Graphs([GraphEntry("attic", attic(own), "here", None)])
    resources = Resources(tools=Tools([look]), graphs=graphs, saver=InMemorySaver())
    clerk = agent("clerk", call("look", where="desk"), call("attic", task="look"), say("done"), tools=["look"])
    below = [AgentAsTool(agent=CompleteAgent(name="attic", kind="graph", graph="attic"))]
    built = await AgentFactory(resources).build(clerk.model_copy(update={"agents_as_tools": below}))
    told = [envelope async for envelope in built.envelopes("go", session_id="s1")]
    assert (why_not_resumable(told, "desk"), why_not_resumable(told, "trunk")) == (None, verdict)


async def test_a_plan_that_was_made_and_not_stored_is_no_hindrance() -> None:
    reply = say('{"objWorkplan": [], "objUserResponse": "Hello."}')
    boss = agent("boss", reply).model_copy(update={"kind": "workplan"})
    built = await AgentFactory(Resources(saver=InMemorySaver())).build(boss)
    told = [envelope async for envelope in built.envelopes("go", session_id="s1")]
    (over,) = [n for n, e in enumerate(told) if isinstance(e, ToolEnd)]
    assert isinstance(start := told[0], RunStart)
    assert RunHistory(start, told[: over + 1]).why_not_resumable(()) is None


def why_not_resumable(told: list[Envelope], where: str) -> str | None:
    """If the server was killed right after this call began."""
    (begun,) = [n for n, e in enumerate(told) if isinstance(e, ToolStart) and e.payload.args.get("where") == where]
    start = told[0]
    assert isinstance(start, RunStart)
    settled = {e.payload.tool_call_id for e in told[:begun] if isinstance(e, ToolStart)}
    return RunHistory(start, told[: begun + 1]).why_not_resumable(settled)
