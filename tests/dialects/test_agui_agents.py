"""Real agents, read by an AG-UI client: every one of their logs is legal, wherever it is cut off."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import TodoListMiddleware
from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolRuntime
from langgraph.types import interrupt

from stellwerk.agents.build.factory import AgentFactory
from stellwerk.agents.build.kinds import BuiltAgent, KindParts, build_deep
from stellwerk.agents.build.resources import Resources
from stellwerk.agents.middleware.build import middleware_for
from stellwerk.agents.middleware.calls import RetryPolicy
from stellwerk.agents.runtime.runnable import MESSAGES, RunnableAgent
from stellwerk.agents.scripted.model import ScriptedModel
from stellwerk.agents.tools.registry import Tools, discover, tool
from stellwerk.envelope.model import Envelope
from stellwerk.spec.model import AgentAsTool, AgentConfig, CompleteAgent, ModelSpec
from stellwerk.spec.script import ScriptRule, ScriptStep
from tests.agents.agent_runs import Conversation, agent, asks, call, calls, say
from tests.dialects.agui_rules import Client
from tests.dialects.agui_streams import check, translated
from tests.dialects.random_logs import recovered


@tool
async def climb(runtime: ToolRuntime[Any, Any], steps: int = 2) -> str:
    """Climb, and tell how far."""
    for step in range(steps):
        runtime.emit_output_delta(f"step {step + 1}")
        await asyncio.sleep(0)
    return "at the top"


@tool
async def break_down() -> str:
    """Fails."""
    raise ValueError("no bridge")


@tool(effects="external")
async def pay(to: str) -> str:
    """Send money."""
    return f"sent to {to}"


async def built(described: CompleteAgent) -> Conversation:
    tools = Tools([climb, break_down, pay, *discover().specs()])
    return Conversation(await AgentFactory(Resources(tools=tools, saver=InMemorySaver())).build(described))


def using(who: CompleteAgent, *others: CompleteAgent) -> CompleteAgent:
    return who.model_copy(update={"agents_as_tools": [AgentAsTool(agent=other) for other in others]})


def model(*steps: ScriptStep) -> ScriptedModel:
    return ScriptedModel(script=[ScriptRule(steps=list(steps))])


def leaf(name: str) -> CompleteAgent:
    return agent(name, call("climb"), say(f"{name} is done"), tools=["climb"])


def asking(name: str) -> CompleteAgent:
    return agent(name, call("ask_user", question=f"{name}?"), say("heard {result}"), tools=["ask_user"])


def middle(name: str, left: CompleteAgent, right: CompleteAgent) -> CompleteAgent:
    both = calls((left.name, {"task": "left"}), (right.name, {"task": "right"}))
    return using(agent(name, both, say(f"{name} is done")), left, right)


async def sent(described: CompleteAgent) -> list[Envelope]:
    session = await built(described)
    await session.send("go")
    return session.log


async def answered(session: Conversation, answer: Any = "yes") -> list[Envelope]:
    """Everything that is asked is answered, until nothing is asked any more."""
    told = await session.send("go")
    while found := asks(told):
        told = await session.answer({ask.payload.ask_id: answer for ask in found})
    return session.log


async def nested_with_two_questions() -> list[Envelope]:
    west, east = middle("west", leaf("w1"), asking("w2")), middle("east", asking("e1"), leaf("e2"))
    return await answered(await built(middle("boss", west, east)))


async def approval() -> list[Envelope]:
    payer = agent("boss", call("pay", to="Bob"), say("{result}"), tools=["pay"], approvals={"pay": ["approve", "edit"]})
    edited = {"type": "edit", "edited_action": {"name": "pay", "args": {"to": "Ann"}}}
    return await answered(await built(using(agent("outer", call("boss", task="x"), say("ok")), payer)), edited)


async def failing_tool() -> list[Envelope]:
    return await sent(agent("boss", call("break_down"), say("I see"), tools=["break_down"]))


async def failing_sub_agent() -> list[Envelope]:
    broken = agent("broken", ScriptStep(say="Oh ", fail="no more"), model_retries=0)
    return await sent(using(agent("boss", call("broken", task="x"), say("I see")), broken))


async def failing_run() -> list[Envelope]:
    return await sent(agent("boss", ScriptStep(say="Oh ", fail="no more"), model_retries=0))


async def validated() -> list[Envelope]:
    judged = [
        ScriptRule(when="42", steps=[say("OK")]),
        ScriptRule(when="huge", steps=[say("it has no number")]),
        ScriptRule(steps=[say("It is huge"), say("It has 42 metres")]),
    ]
    described = agent("boss", say("x"), validation_prompt="Has it a number?")
    return await sent(described.model_copy(update={"model": ModelSpec(script=judged)}))


async def files_and_tables() -> list[Envelope]:
    both = calls(("write_report", {"title": "A", "text": "b"}), ("get_weather", {"city": "Ulm"}))
    tools = ["write_report", "get_weather", "climb"]
    return await sent(agent("boss", both, call("climb"), say("done"), tools=tools))


async def checklists() -> list[Envelope]:
    def planner(name: str, *steps: ScriptStep) -> CompleteAgent:
        planned = call("plan_tasks", tasks=[{"title": f"{name} plans"}])
        return agent(name, planned, *steps, say("ok"), tools=["plan_tasks"])

    return await sent(using(planner("boss", call("docs", task="x")), planner("docs")))


async def deep() -> list[Envelope]:
    todo = call("write_todos", todos=[{"content": "the report", "status": "in_progress"}])
    write = call("write_file", file_path="/notes.md", content="found")
    task = call("task", description="find it", subagent_type="finder")
    finder = AgentAsTool(agent=CompleteAgent(name="finder", description="Finds."))
    graph = create_agent(model(say("it is here")), [], name="finder")
    described = CompleteAgent(name="boss", kind="deep", config=AgentConfig(system_prompt="You lead."))
    parts = KindParts(
        model(todo, write, task, say("done")),
        below=[(finder, BuiltAgent(graph, MESSAGES, untrusted=False))],
        middleware=[TodoListMiddleware()],
        saver=InMemorySaver(),
    )
    session = Conversation(RunnableAgent("boss", build_deep(described, parts)))
    await session.send("go")
    await session.send("again")
    return session.log


class Thinking(ScriptedModel):
    """Thinks aloud before it speaks, and breaks down the first time."""

    broken: list[int] = []

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        if not self.broken:
            self.broken.append(1)
            raise ConnectionError("gone")
        for thought in ("hm", " yes"):
            yield ChatGenerationChunk(
                message=AIMessageChunk(content="", additional_kwargs={"reasoning_content": thought})
            )
        async for chunk in super()._astream(*args, **kwargs):
            yield chunk


async def at_once(seconds: float) -> None:
    await asyncio.sleep(0)


async def retried_and_reasoning() -> list[Envelope]:
    thinking = Thinking(script=[ScriptRule(steps=[say("all is well")])])
    layers = middleware_for(AgentConfig(), agent="boss", judge=thinking, retry_policy=RetryPolicy(1, sleep=at_once))
    session = Conversation(RunnableAgent("boss", create_agent(thinking, [], middleware=layers, name="boss")))
    await session.send("go")
    return session.log


async def own_graph_that_asks() -> list[Envelope]:
    async def speak(state: MessagesState) -> Any:
        return {"messages": [await model(say("said inside")).ainvoke(state["messages"])]}

    def question(state: MessagesState) -> Any:
        return {"messages": [("ai", f"You said {interrupt('Which colour?')}.")]}

    inner: Any = StateGraph(MessagesState)
    inner.add_sequence([speak, question])
    inner.add_edge(START, "speak")
    outer: Any = StateGraph(MessagesState)
    outer.add_node("inside", inner.compile())
    outer.add_edge(START, "inside")
    return await answered(Conversation(RunnableAgent("own", outer.compile(checkpointer=InMemorySaver()))))


Scenario = Callable[[], Awaitable[list[Envelope]]]
SCENARIOS: list[Scenario] = [
    *(nested_with_two_questions, approval, failing_tool, failing_sub_agent, failing_run, validated),
    *(files_and_tables, checklists, deep, retried_and_reasoning, own_graph_that_asks),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_the_log_of_an_agent_is_legal_wherever_it_is_cut_off(scenario: Scenario) -> None:
    log = await scenario()
    for length in range(1, len(log) + 1):
        check(recovered(log[:length]))


async def screen_of(scenario: Scenario) -> tuple[Client, list[Any]]:
    told = translated(await scenario())
    return Client().read(told), told


async def test_agents_in_agents_two_at_a_time_are_drawn_with_their_progress_and_go_on_after_the_answers() -> None:
    screen, told = await screen_of(nested_with_two_questions)
    names = [chunk["name"] for chunk in told if chunk["type"] == "SUBAGENT_STARTED"]
    assert sorted(names) == sorted(["west", "east", "w1", "w2", "e1", "e2", "west", "w2", "east", "e1"])
    suspended = [chunk["outcome"] for chunk in told if chunk.get("outcome", {}).get("type") == "suspended"]
    assert sorted(len(outcome.get("interruptIds", [])) for outcome in suspended) == [0, 0, 1, 1]
    assert [progress["output"] for progress in screen.activities("TOOL_PROGRESS")] == [["step 1", "step 2"]] * 2
    spoken = {
        text
        for owner in {m.get("subagentRunId") for m in screen.messages.values()}
        for text in screen.texts(owner=owner)
    }
    assert spoken == {"heard yes", "w1 is done", "e2 is done", "west is done", "east is done", "boss is done"}


async def test_files_are_artifacts_tables_are_json_and_checklists_are_lists() -> None:
    screen, told = await screen_of(files_and_tables)
    (artifact,) = screen.activities("ARTIFACT")
    parts = [m["content"] for m in screen.messages.values() if m["role"] == "tool"]
    assert [part[0]["source"]["value"] for part in parts if isinstance(part, list)] == [artifact["url"]]
    assert [part for part in parts if isinstance(part, str) and part.startswith('{"kind":"table"')]
    screen, told = await screen_of(checklists)
    assert len(screen.activities("TODO")) == 2, "one of each agent"
    assert screen.state["checklist"]["tasks"]


async def test_a_deep_agent_shares_its_files_and_its_list_over_two_rounds() -> None:
    screen, told = await screen_of(deep)
    assert screen.state["files"]["/notes.md"]["content"]
    assert screen.state["todos"] == [{"content": "the report", "status": "in_progress"}]
    assert [chunk["type"] for chunk in told].count("STATE_SNAPSHOT") == 2


async def test_reasoning_is_separate_from_text_and_a_second_attempt_is_shown_once() -> None:
    screen, _ = await screen_of(retried_and_reasoning)
    assert (screen.texts("reasoning"), screen.texts()) == (["hm yes"], ["all is well"])


async def test_a_refused_answer_is_never_seen() -> None:
    screen, _ = await screen_of(validated)
    assert screen.texts() == ["It has 42 metres"]
