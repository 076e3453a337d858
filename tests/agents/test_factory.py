"""From a description to a running agent: what is described is what runs."""

import sys
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, SystemMessage
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph

import stellwerk
from stellwerk.agents.build.factory import AgentFactory
from stellwerk.agents.build.models import EnvironmentSecrets
from stellwerk.agents.build.resources import Resources
from stellwerk.agents.checkpoints.saver import DurableSaver
from stellwerk.agents.graphs.registry import GraphEntry, Graphs
from stellwerk.agents.mcp.servers import McpServers
from stellwerk.agents.middleware.types import CustomStateShared
from stellwerk.agents.tools.registry import Tools, tool
from stellwerk.envelope.model import LlmStart, State
from stellwerk.envelope.results import Table
from stellwerk.errors import MissingSecret, SpecError, StellwerkError, UnknownTool
from stellwerk.spec.load import load_system
from stellwerk.spec.model import AgentAsTool, AgentConfig, ChatMessage, CompleteAgent, ModelSpec, SystemSpec, ToolSchema
from stellwerk.spec.operator import McpServer
from tests.agents.agent_runs import Conversation, agent, call, ended, ends, result, say, starts


@tool(aliases=["multiply_by_two"])
async def double(number: int) -> int:
    """Double a number."""
    return 2 * number


def factory(**resources: Any) -> AgentFactory:
    return AgentFactory(Resources(tools=Tools([double]), **resources))


@pytest.mark.requirement(
    "000.factory.complete-agent-to-runnable-agent",
    "000.factory.builds-with-create-agent",
    "000.runnable.holds-compiled-graph",
    "000.agents.built-from-configuration",
)
async def test_a_complete_agent_becomes_a_runnable_agent() -> None:
    built = await factory().build(agent("maths", call("double", number=4), say("It is {result}."), tools=["double"]))
    assert isinstance(built, stellwerk.RunnableAgent)
    assert isinstance(built.graph, CompiledStateGraph)
    assert {"model", "tools"} <= set(built.graph.nodes)
    assert await built.run([ChatMessage(content="Double four.")]) == "It is 8."


@pytest.mark.requirement("000.runnable.holds-initial-state")
async def test_a_runnable_agent_starts_its_graph_with_the_initial_state() -> None:
    def repeat(state: CustomStateShared) -> dict[str, Any]:
        return {"messages": [AIMessage(state["validated_agent_output"])]}

    graph = StateGraph(CustomStateShared).add_node(repeat).add_edge("__start__", "repeat").compile()
    initial = CustomStateShared(messages=[], validated_agent_output="known before")
    built = stellwerk.RunnableAgent("echo", graph, initial_state=initial)
    assert built.initial_state == initial
    assert await built.run([ChatMessage(content="What do you know?")]) == "known before"


@pytest.mark.requirement(
    "000.config.complete-agent-is-pure-data",
    "000.config.complete-agent-holds-agent-config",
    "000.config.complete-agent-lists-tool-schemas",
    "000.config.complete-agent-lists-agents-as-tools",
)
def test_a_complete_agent_is_data_and_survives_a_round_trip_through_json() -> None:
    inner = agent("inner", say("hi")).model_copy(update={"description": "Knows things."})
    outer = CompleteAgent(
        name="outer",
        description="Asks the inner one.",
        config=AgentConfig(system_prompt="Be brief."),
        tool_schemas=[ToolSchema(name="double")],
        agents_as_tools=[AgentAsTool(agent=inner)],
    )
    assert CompleteAgent.model_validate_json(outer.model_dump_json()) == outer


@pytest.mark.requirement("000.config.complete-agent-has-description")
async def test_an_agent_that_is_a_tool_is_described_to_the_model_by_its_description() -> None:
    inner = agent("inner", say("hi")).model_copy(update={"description": "Knows things."})
    outer = agent("outer", say("done")).model_copy(update={"agents_as_tools": [AgentAsTool(agent=inner)]})
    built = await factory().build(outer)
    tools: Any = built.graph.nodes["tools"].bound
    assert "Knows things." in tools.tools_by_name["inner"].description


@pytest.mark.requirement("000.runnable.run-answers-at-once", "000.runnable.chat-messages-become-langchain-messages")
async def test_run_gives_the_answer_to_the_last_of_some_chat_messages() -> None:
    built = await factory().build(agent("echo", say("You said: {message}")))
    history = [
        ChatMessage(role="user", content="hello"),
        ChatMessage(role="assistant", content="hi"),
        ChatMessage(role="user", content="and now?"),
    ]
    assert await built.run(history) == "You said: and now?"
    assert await built.run(history) == "You said: and now?", "without a saver nothing is remembered"


async def test_run_says_why_there_is_no_answer() -> None:
    built = await factory().build(agent("maths", *[call("double", number=n) for n in range(3)], tools=["double"]))
    assert "hello" not in await built.run([ChatMessage(content="hello")])
    with pytest.raises(StellwerkError, match="the last message must be the user's"):
        await built.run([ChatMessage(role="assistant", content="hi")])


@pytest.mark.requirement("000.config.system-prompt", "000.factory.config-becomes-middleware")
async def test_the_model_gets_the_system_prompt_and_the_mission() -> None:
    described = agent("boss", say("ok"), system_prompt="Be brief.", mission="Find the number.")
    system = SystemSpec(name="s", store_prompts=True)
    told = await Conversation(await factory().build(described, system)).send("go")
    (start,) = [e for e in told if isinstance(e, LlmStart)]
    assert start.payload.messages is not None
    assert start.payload.messages[0]["role"] == SystemMessage("").type
    assert start.payload.messages[0]["content"] == "Be brief.\n\n# Mission\n\nFind the number."
    assert start.payload.messages[1]["content"] == "go"


async def test_prompts_are_stored_only_where_the_system_says_so() -> None:
    told = await Conversation(await factory().build(agent("boss", say("ok")))).send("go")
    (start,) = [e for e in told if isinstance(e, LlmStart)]
    assert start.payload.messages is None


@pytest.mark.requirement("004.tools.aliases")
async def test_a_model_may_call_a_tool_by_an_alias() -> None:
    described = agent("maths", call("multiply_by_two", number=4), say("{result}"), tools=["double"])
    told = await Conversation(await factory().build(described)).send("go")
    assert result(told) == "8"
    assert [start.payload.tool_name for start in starts(told)] == ["double"]


@pytest.mark.requirement("004.yaml.tools-allow")
async def test_a_tool_that_is_not_allowed_is_not_called() -> None:
    told = await Conversation(await factory().build(agent("maths", call("double", number=4), say("{result}")))).send(
        "go"
    )
    assert ended(told) == "completed"
    assert "double is not a valid tool" in result(told)


async def test_an_unknown_tool_is_refused_with_what_was_meant() -> None:
    with pytest.raises(UnknownTool, match="did you mean 'double'"):
        await factory().build(agent("maths", say("x"), tools=["doubl"]))


@pytest.mark.requirement("004.models.per-agent")
async def test_a_missing_key_is_named() -> None:
    described = CompleteAgent(name="a", model=ModelSpec(provider="openai", model="gpt-4.1"))
    with pytest.raises(MissingSecret, match="openai_api_key"):
        await factory(keys=EnvironmentSecrets({})).build(described)


SERVER = """
from mcp.server.mcpserver import MCPServer
from pydantic import BaseModel
app = MCPServer("lab")
class Row(BaseModel):
    city: str
    degrees: int
@app.tool()
def weather() -> list[Row]:
    "The weather."
    return [Row(city="Ulm", degrees=21)]
app.run("stdio")
"""


@pytest.mark.requirement("000.factory.loads-mcp-tools")
async def test_the_factory_loads_the_mcp_tools_that_an_agent_names(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    mcp = McpServers({"lab": McpServer(command=[sys.executable, str(tmp_path / "server.py")])})
    try:
        described = agent("boss", call("lab_weather"), say("{result}"), tools=["lab_weather"])
        told = await Conversation(await factory(mcp=mcp).build(described)).send("go")
        (end,) = ends(told, "lab_weather")
        assert isinstance(end.payload.result, Table)
        assert end.payload.result.rows == (("Ulm", 21),)
        with pytest.raises(UnknownTool, match="did you mean 'lab_weather'"):
            await factory(mcp=mcp).build(agent("boss", say("x"), tools=["lab_wether"]))
    finally:
        await mcp.close()


SYSTEM = """
version: 1
system:
  name: office
  coalescing_window: 0
  quotas: {steps: 4}
agents:
  - id: boss
    role: orchestrator
    tools: {allow: [multiply_by_two, clerk], agents: {clerk: {allowed_tools: [], mission_override: Only listen.}}}
    model: {provider: scripted, script: [{steps: [{call: clerk, args: {task: x}}, {say: "{result}"}]}]}
  - id: clerk
    role: sub-agent
    description: Listens.
    tools: {allow: [double]}
    model: {provider: scripted, script: [{steps: [{say: I listened}]}]}
"""


@pytest.mark.requirement("004.yaml.sub-agent-in-allow", "004.yaml.agent-id-and-role")
async def test_a_yaml_document_becomes_a_running_system() -> None:
    made = factory()
    loaded = load_system(SYSTEM, source="office.yaml")
    resolved = await made.admitted(loaded)
    built = await made.build(resolved.root, loaded.system.system)
    assert (built.options.window, built.options.quotas.steps) == (0, 4)
    told = await Conversation(built).send("go")
    assert result(told) == "I listened"
    assert starts(told, "clerk")[0].payload.kind == "agent"


async def test_a_quota_that_is_used_up_ends_the_run_visibly() -> None:
    described = agent("boss", *[call("double", number=n) for n in range(9)], tools=["double"])
    system = SystemSpec.model_validate({"name": "s", "quotas": {"steps": 2}})
    told = await Conversation(await factory().build(described, system)).send("go")
    assert ended(told) == "failed"


async def test_a_graph_of_the_operators_is_an_agent_and_can_be_another_agents_tool(saver: DurableSaver) -> None:
    from langgraph.graph import MessagesState, StateGraph

    def answer(state: MessagesState) -> Any:
        return {"messages": [AIMessage(f"graph heard {state['messages'][-1].text}")]}

    builder = StateGraph(MessagesState)
    builder.add_node("answer", answer)
    builder.set_entry_point("answer")
    made = factory(graphs=Graphs([GraphEntry("mine", builder, "here")]), saver=saver)
    alone = CompleteAgent(name="mine", kind="graph", graph="mine")
    assert result(await Conversation(await made.build(alone)).send("hello")) == "graph heard hello"
    outer = agent("boss", call("mine", task="a task"), say("{result}"))
    used = outer.model_copy(update={"agents_as_tools": [AgentAsTool(agent=alone)]})
    told = await Conversation(await made.build(used), "s2").send("go")
    assert result(told) == "graph heard a task"


async def test_effects_are_a_ceiling_for_the_agent_itself_too() -> None:
    with pytest.raises(SpecError, match="of effect 'read'"):
        await factory().build(agent("boss", say("x"), tools=["double"], effects=["write"]))


@pytest.mark.requirement("002.state.reducer-friendly-deltas")
async def test_a_deep_agent_keeps_files_and_has_its_limits_also_in_its_general_helper(saver: DurableSaver) -> None:
    steps = [call("write_file", file_path="/notes.md", content="found"), call("double", number=1), say("done")]
    described = agent("deep", *steps, tools=["double"], tool_call_limits={"double": 1})
    built = await factory(saver=saver).build(described.model_copy(update={"kind": "deep"}))
    told = await Conversation(built).send("go")
    assert ended(told) == "completed"
    assert [start.payload.tool_name for start in starts(told)] == ["write_file", "double"]
    files = [e.payload for e in told if isinstance(e, State) and e.payload.name == "files"]
    assert files[-1].patch is not None
    assert files[-1].patch[0]["path"] == "/~1notes.md"
