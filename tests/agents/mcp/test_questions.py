"""A server asks during a call: the graph stops with a question, and the answer goes back to the server."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from langchain.agents import create_agent
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, Interrupt

from stellwerk.agents.mcp.servers import McpServers
from stellwerk.agents.mcp.tools import MAX_QUESTIONS
from stellwerk.agents.scripted.model import ScriptedModel
from stellwerk.errors import ToolFailed
from stellwerk.spec.operator import McpServer
from stellwerk.spec.script import ScriptRule, ScriptStep
from tests.agents.mcp.conftest import RAW
from tests.agents.mcp.shared import called, tool_named

pytestmark = pytest.mark.asyncio(loop_scope="session")

THREAD: RunnableConfig = {"configurable": {"thread_id": "t"}}
both = pytest.mark.parametrize("server", ["pipe", "web"])


@pytest_asyncio.fixture(loop_scope="session")
async def older() -> AsyncIterator[McpServers]:
    """A server of an older revision, which asks while the call is open."""
    held = McpServers({"old": McpServer(command=RAW)})
    yield held
    await held.close()


async def agent(servers: McpServers, name: str, **arguments: Any) -> Any:
    steps = [ScriptStep(call=name, args=arguments), ScriptStep(say="{result}")]
    tools = [await tool_named(servers, name)]
    return create_agent(ScriptedModel(script=[ScriptRule(steps=steps)]), tools, checkpointer=InMemorySaver())


async def asked(graph: Any, given: Any) -> Interrupt:
    """The one question at which the graph stops."""
    (question,) = (await graph.ainvoke(given, THREAD))["__interrupt__"]
    assert isinstance(question, Interrupt)
    return question


async def answered(graph: Any, question: Interrupt, answer: Any) -> str:
    """What the agent says in the end."""
    done = await graph.ainvoke(Command(resume={question.id: answer}), THREAD)
    assert "__interrupt__" not in done
    return str(done["messages"][-1].text)


START = {"messages": [("user", "hungry")]}


@both
async def test_a_question_stops_the_graph_and_its_answer_finishes_the_call(servers: McpServers, server: str) -> None:
    graph = await agent(servers, f"{server}_order", dish="soup")
    question = await asked(graph, START)
    assert (
        question.value.items()
        >= {
            "type": "mcp_elicitation",
            "server": server,
            "name": "order",
            "question": "Which size for soup?",
        }.items()
    )
    assert question.value["schema"]["properties"].keys() == {"size"}
    assert await answered(graph, question, {"size": "large"}) == "large soup"


@both
async def test_what_the_tool_does_is_done_once_however_often_it_is_called(servers: McpServers, server: str) -> None:
    graph = await agent(servers, f"{server}_order", dish=f"{server} pie")
    await answered(graph, await asked(graph, START), {"size": "small"})
    seen = (await called(servers, f"{server}_visit", guest="judge")).artifact["result"]["data"]["result"]
    assert seen.count(f"ordered {server} pie") == 1


@both
async def test_several_questions_are_asked_one_by_one_and_none_of_them_twice(servers: McpServers, server: str) -> None:
    graph = await agent(servers, f"{server}_buy", dish="cake")
    first = await asked(graph, START)
    second = await asked(graph, Command(resume={first.id: {"size": "small"}}))
    assert (first.value["question"], second.value["question"]) == ("Which size for cake?", "How do you pay?")
    said = await answered(graph, second, {"card": 7, "gift": True})
    assert said == "small cake, card 7, gift True"


@both
@pytest.mark.parametrize("answer", [{"refused": True}, {}], ids=["declined", "empty"])
async def test_a_refusal_ends_the_call_in_the_words_of_the_server(
    servers: McpServers, server: str, answer: dict[str, Any]
) -> None:
    graph = await agent(servers, f"{server}_order", dish="fish")
    question = await asked(graph, START)
    with pytest.raises(ToolFailed, match=f"the tool 'order' of the MCP server '{server}' says"):
        await answered(graph, question, answer)
    assert (await called(servers, f"{server}_say", text="still here")).content == "still here"


@both
@pytest.mark.parametrize("answer", ["large", {"size": {"nested": 1}}], ids=["no object", "nested"])
async def test_an_answer_of_the_wrong_shape_costs_this_call_only(servers: McpServers, server: str, answer: Any) -> None:
    graph = await agent(servers, f"{server}_buy", dish="cake")
    question = await asked(graph, START)
    with pytest.raises(ToolFailed, match="needs as its answer an object with plain values for size"):
        await answered(graph, question, answer)


async def test_a_server_of_an_older_revision_asks_while_the_call_is_open(older: McpServers) -> None:
    graph = await agent(older, "old_ask")
    question = await asked(graph, START)
    assert question.value["question"] == "Which size?"
    assert await answered(graph, question, {"size": "xl"}) == "accept {'size': 'xl'}"


@pytest.mark.parametrize(("answer", "heard"), [({"refused": True}, "decline None"), (None, "cancel None")])
async def test_a_server_of_an_older_revision_receives_a_refusal(older: McpServers, answer: Any, heard: str) -> None:
    graph = await agent(older, "old_ask")
    assert await answered(graph, await asked(graph, START), answer) == heard


async def test_a_question_may_be_to_visit_an_address(older: McpServers) -> None:
    graph = await agent(older, "old_ask_to_visit")
    question = await asked(graph, START)
    assert question.value["question"] == "Please log in. https://example.org/login"
    assert await answered(graph, question, {"done": True}) == "accept None"


async def test_a_server_that_asks_for_ever_is_cut_short(older: McpServers) -> None:
    graph = await agent(older, "old_ask_for_ever")
    question = await asked(graph, START)
    for _ in range(MAX_QUESTIONS - 1):
        question = await asked(graph, Command(resume={question.id: {"size": "m"}}))
    with pytest.raises(ToolFailed, match="'ask_for_ever' of the MCP server 'old' asked more than 10 times"):
        await answered(graph, question, {"size": "m"})


async def test_an_older_server_cannot_ask_while_another_call_is_open(older: McpServers) -> None:
    silent = asyncio.create_task((await tool_named(older, "old_no_answer_but_garbage")).ainvoke({}))
    with pytest.raises(ToolFailed, match="says: several calls are open; which of them asks is not known"):
        await called(older, "old_ask")
    silent.cancel()
    await asyncio.wait({silent})


async def test_a_question_outside_of_a_graph_fails_the_call(older: McpServers) -> None:
    with pytest.raises(
        ToolFailed, match="'ask' of the MCP server 'old' asks a question, which only a graph can answer"
    ):
        await called(older, "old_ask")
