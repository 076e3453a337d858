"""Deep agents: files and a to-do list in their state, sub-agents behind one tool, and never the host's file system."""

import sys
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import TodoListMiddleware
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import BaseModel

from stellwerk.agents.build.kinds import BuiltAgent, KindParts, build_deep
from stellwerk.agents.checkpoints.saver import DurableSaver
from stellwerk.agents.checkpoints.serde import StrictSerializer
from stellwerk.agents.graphs.state_types import state_types
from stellwerk.agents.middleware.build import middleware_for, without_answer_settings
from stellwerk.agents.runtime.runnable import MESSAGES, RunnableAgent
from stellwerk.agents.scripted.model import ScriptedModel
from stellwerk.envelope.model import Envelope, LlmStart, LlmToken, ToolEnd, ToolStart
from stellwerk.errors import SpecError
from stellwerk.spec.model import AgentAsTool, AgentConfig, ChatMessage, CompleteAgent
from stellwerk.spec.script import ScriptRule, ScriptStep
from stellwerk.testing.order import order_problems

THREAD: Any = {"configurable": {"thread_id": "thread"}}
DEEP = CompleteAgent(name="boss", kind="deep", config=AgentConfig(system_prompt="You lead.", mission="Write a report."))


def model(*steps: ScriptStep) -> ScriptedModel:
    return ScriptedModel(script=[ScriptRule(steps=list(steps))])


def asking(subagent: str, task: str = "find it") -> ScriptStep:
    return ScriptStep(call="task", args={"description": task, "subagent_type": subagent})


def writer(path: str, text: str) -> ScriptStep:
    return ScriptStep(call="write_file", args={"file_path": path, "content": text})


def todos(status: str) -> ScriptStep:
    return ScriptStep(call="write_todos", args={"todos": [{"content": "the report", "status": status}]})


SubAgent = tuple[AgentAsTool, BuiltAgent]


def used(name: str, graph: Any) -> SubAgent:
    described = CompleteAgent(name=name, description=f"Does what {name} does.")
    return AgentAsTool(agent=described), BuiltAgent(graph, MESSAGES, untrusted=False)


def subagent(name: str, *steps: ScriptStep, **options: Any) -> SubAgent:
    return used(name, create_agent(model(*steps), [], name=name, **options))


async def say(graph: Any, text: str = "go") -> Any:
    return await graph.ainvoke({"messages": [("user", text)]}, THREAD)


async def test_files_todos_and_sub_agents_last_over_three_turns(saver: DurableSaver) -> None:
    boss = model(todos("in_progress"), writer("/notes.md", "found"), asking("finder"), ScriptStep(say="done"))
    finder = subagent("finder", ScriptStep(say="it is here"))
    graph = build_deep(DEEP, KindParts(boss, below=[finder], middleware=[TodoListMiddleware()], saver=saver))
    for turn in (1, 2, 3):
        await say(graph, f"turn {turn}")
        state = (await graph.aget_state(THREAD)).values
        assert state["files"]["/notes.md"]["content"] == "found"
        assert state["todos"] == [{"content": "the report", "status": "in_progress"}]
        assert [m.text for m in state["messages"] if m.type == "human"] == [f"turn {n + 1}" for n in range(turn)]
        assert state["messages"][-1].text == "done"
        assert sum(m.text == "it is here" for m in state["messages"] if isinstance(m, ToolMessage)) == turn


class Findings(BaseModel):
    place: str


async def test_a_sub_agent_may_answer_in_a_form_of_its_own(saver: DurableSaver) -> None:
    finder = subagent("finder", ScriptStep(call="Findings", args={"place": "here"}), response_format=Findings)
    strict = saver.with_allowlist(state_types(finder[1].graph))
    boss = model(asking("finder"), ScriptStep(say="ok"))
    graph = build_deep(DEEP, KindParts(boss, below=[finder], saver=strict))
    assert (await say(graph))["messages"][-2].text == '{"place":"here"}'


class Survey(MessagesState):
    seen: Annotated[list[str], lambda old, new: [*old, *new]]


async def look(state: Survey) -> dict[str, Any]:
    return {"seen": [state["messages"][-1].text]}


async def report(state: Survey) -> dict[str, Any]:
    heard = await model(ScriptStep(say="seen it")).ainvoke(state["messages"])
    return {"messages": [AIMessage(f"{heard.text}: {state['seen'][0]}")]}


def survey() -> SubAgent:
    builder = StateGraph(Survey)
    builder.add_sequence([look, report])
    builder.add_edge(START, "look")
    return used("survey", builder.compile())


async def story(graph: Any) -> list[Envelope]:
    told = [envelope async for envelope in RunnableAgent("boss", graph).envelopes([ChatMessage(content="go")])]
    assert order_problems(told) == []
    return told


@pytest.mark.requirement("002.adapter.root-agent-with-nested-graphs")
async def test_hand_written_graphs_below_a_deep_agent_stream_as_one_run() -> None:
    boss = model(asking("survey", "the garden"), asking("finder"), ScriptStep(say="all done"))
    below = [survey(), subagent("finder", ScriptStep(say="it is here"))]
    saver = InMemorySaver(serde=StrictSerializer())
    told = await story(build_deep(DEEP, KindParts(boss, below=below, saver=saver)))
    tasks = [e for e in told if isinstance(e, ToolStart) and e.payload.tool_name == "task"]
    spoken = {e.call_id: (e.agent, e.parent_id) for e in told if isinstance(e, LlmStart)}
    texts: dict[tuple[str | None, str | None], str] = {}
    for token in told:
        if isinstance(token, LlmToken):
            speaker = spoken[token.call_id]
            texts[speaker] = texts.get(speaker, "") + token.payload.text
    assert texts == {
        ("survey", tasks[0].call_id): "seen it",
        ("finder", tasks[1].call_id): "it is here",
        ("boss", told[0].call_id): "all done",
    }
    assert all(e.payload.status == "ok" for e in told if isinstance(e, ToolEnd))


async def test_the_prompt_is_the_agents_own() -> None:
    heard: list[str] = []

    class Listening(ScriptedModel):
        async def _astream(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
            heard.append(str(messages[0].text))
            async for chunk in super()._astream(messages, *args, **kwargs):
                yield chunk

    boss = Listening(script=[ScriptRule(steps=[ScriptStep(say="ok")])])
    await story(build_deep(DEEP, KindParts(boss, saver=InMemorySaver())))
    assert heard[0].startswith("You lead.")
    assert "Write a report." in heard[0]


async def test_guards_also_bind_the_general_purpose_sub_agent(saver: DurableSaver) -> None:
    rung: list[str] = []

    @tool
    def ring() -> str:
        "Ring the bell."
        rung.append("ring")
        return "rung"

    script = [
        ScriptRule(when="quietly", steps=[ScriptStep(call="ring"), ScriptStep(call="ring"), ScriptStep(say="rung")]),
        ScriptRule(steps=[asking("general-purpose", "ring quietly"), ScriptStep(say="done")]),
    ]
    boss, limited = ScriptedModel(script=script), AgentConfig(tool_call_limits={"ring": 1})
    guards = middleware_for(without_answer_settings(limited), agent="boss", judge=boss)
    await say(build_deep(DEEP, KindParts(boss, [ring], guards=guards, saver=saver)))
    assert rung == ["ring"]


@pytest.mark.parametrize("path", ["/etc/hostname", "/../../etc/hostname"])
async def test_the_files_of_the_host_are_out_of_reach(saver: DurableSaver, tmp_path: Path, path: str) -> None:
    target = tmp_path / "never.md"
    steps = [
        ScriptStep(call="read_file", args={"file_path": path}),
        writer(str(target), "x"),
        ScriptStep(call="execute", args={"command": f"touch {target}"}),
        ScriptStep(say="done"),
    ]
    state = await say(build_deep(DEEP, KindParts(model(*steps), saver=saver)))
    answers = [m.text for m in state["messages"] if isinstance(m, ToolMessage)]
    assert "not found" in answers[0] or "not allowed" in answers[0]
    assert not target.exists()


async def test_a_sub_agent_that_cannot_answer_is_refused(saver: DurableSaver) -> None:
    class Silent(MessagesState):
        seen: str

    class Seen(BaseModel):
        seen: str = ""

    builder = StateGraph(Silent, output_schema=Seen)
    builder.add_node("look", lambda state: {"seen": "x"})
    builder.add_edge(START, "look")
    silent = used("silent", builder.compile())
    with pytest.raises(SpecError, match="'silent' does not return 'messages'.*add them to its output schema"):
        build_deep(DEEP, KindParts(model(ScriptStep(say="ok")), below=[silent], saver=saver))


async def test_without_the_extra_the_error_says_what_to_install(
    saver: DurableSaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "deepagents", None)
    with pytest.raises(SpecError, match=r"'boss' is of kind deep.*pip install 'path/to/stellwerk\[deep\]'"):
        build_deep(DEEP, KindParts(model(ScriptStep(say="ok")), saver=saver))
