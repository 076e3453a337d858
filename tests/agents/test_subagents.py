"""Agents as tools of agents: who belongs to whom, who may do what, and who is asked."""

from collections import Counter
from typing import Any

import pytest

from stellwerk.agents.build.factory import AgentFactory
from stellwerk.agents.build.resources import Resources
from stellwerk.agents.checkpoints.saver import DurableSaver
from stellwerk.agents.tools.builtin import ask_user
from stellwerk.agents.tools.registry import Tools, tool
from stellwerk.envelope.model import Envelope, LlmStart, ToolStart
from stellwerk.envelope.results import Json
from stellwerk.errors import SpecError
from stellwerk.spec.model import AgentAsTool, CompleteAgent
from stellwerk.spec.script import ScriptStep
from tests.agents.agent_runs import Conversation, agent, asks, call, calls, ended, ends, result, say, starts

done: Counter[str] = Counter()


@tool(effects="write")
async def note(text: str) -> str:
    """Write something down."""
    done[text] += 1
    return f"noted {text}"


@pytest.fixture
def factory(saver: DurableSaver) -> AgentFactory:
    done.clear()
    return AgentFactory(Resources(tools=Tools([note, ask_user]), saver=saver))


def using(who: CompleteAgent, *others: CompleteAgent, **terms: Any) -> CompleteAgent:
    return who.model_copy(update={"agents_as_tools": [AgentAsTool(agent=other, **terms) for other in others]})


def leaf(name: str) -> CompleteAgent:
    return agent(name, call("note", text=name), say(f"{name} is done"), tools=["note"])


def asking(name: str) -> CompleteAgent:
    return agent(name, call("ask_user", question=f"May {name}?"), say("they said {result}"), tools=["ask_user"])


def middle(name: str, left: CompleteAgent, right: CompleteAgent) -> CompleteAgent:
    both = calls((left.name, {"task": "left"}), (right.name, {"task": "right"}))
    return using(agent(name, both, say(f"{name} is done: {{result}}")), left, right)


def path(told: list[Envelope], call_id: str | None) -> list[str]:
    """The names of the calls around a call, from the outside in."""
    found = {e.call_id: e for e in told if isinstance(e, ToolStart)}
    names: list[str] = []
    while call_id in found:
        names.insert(0, found[call_id].payload.tool_name)
        call_id = found[call_id].parent_id
    return names


@pytest.mark.requirement("000.agents.direct-or-as-tool")
async def test_the_same_agent_runs_by_itself_and_as_a_tool(factory: AgentFactory) -> None:
    same = leaf("w1")
    alone = await Conversation(await factory.build(same)).send("go")
    assert result(alone) == "w1 is done"
    assert path(alone, starts(alone)[-1].call_id) == ["note"]
    boss = using(agent("boss", call("w1", task="x"), say("{result}")), same)
    inside = await Conversation(await factory.build(boss)).send("go")
    assert result(inside) == "w1 is done"
    assert path(inside, starts(inside)[-1].call_id) == ["w1", "note"]


@pytest.mark.requirement("fault-32", "004.answers.resumes-sub-agent", "000.factory.loads-agents-as-tools")
async def test_three_levels_two_at_a_time_one_asks_and_nothing_runs_twice(factory: AgentFactory) -> None:
    west = middle("west", leaf("w1"), leaf("w2"))
    east = middle("east", leaf("e1"), asking("e2"))
    session = Conversation(await factory.build(middle("boss", west, east)))

    first = await session.send("go")
    assert ended(first) == "awaiting_user"
    (question,) = asks(first)
    assert question.payload.question == "May e2?"
    assert path(first, question.parent_id) == ["east", "e2", "ask_user"]
    assert done == {"w1": 1, "w2": 1, "e1": 1}

    second = await session.answer({question.payload.ask_id: "yes"})
    assert ended(second) == "completed"
    assert done == {"w1": 1, "w2": 1, "e1": 1}, "what was done before the answer is not done again"
    assert "they said yes" in result(second)

    every = [tuple(path(session.log, start.call_id)) for start in starts(session.log)]
    assert sorted(every) == [
        ("east",),
        ("east", "e1"),
        ("east", "e1", "note"),
        ("east", "e2"),
        ("east", "e2", "ask_user"),
        ("west",),
        ("west", "w1"),
        ("west", "w1", "note"),
        ("west", "w2"),
        ("west", "w2", "note"),
    ]
    assert [end.payload.status for end in ends(session.log)] == ["ok"] * 10
    models = [(path(session.log, e.parent_id), e.agent) for e in session.log if isinstance(e, LlmStart)]
    assert all(names[-1:] == [who] for names, who in models if names), "a model call belongs to the agent that made it"


@pytest.mark.requirement("000.inner.agent-wrapped-as-tool", "002.completion.normalised-output")
async def test_what_an_agent_leaves_is_its_messages_its_files_and_what_it_used(factory: AgentFactory) -> None:
    session = Conversation(await factory.build(using(agent("boss", call("w1", task="x"), say("ok")), leaf("w1"))))
    (end,) = ends(await session.send("go"), "w1")
    outcome = end.payload.outcome
    assert outcome is not None
    assert [message["text"] for message in outcome.messages] == ["w1 is done"]
    assert outcome.usage[0].model == "scripted"
    assert outcome.usage[0].output_tokens > 0


@pytest.mark.requirement("002.completion.research-done")
async def test_a_completion_signal_brackets_the_result(factory: AgentFactory) -> None:
    researcher = agent("researcher", say("I found it"), completion_signal="research_done")
    session = Conversation(
        await factory.build(using(agent("boss", call("researcher", task="x"), say("ok")), researcher))
    )
    told = await session.send("go")
    (signal,), (end,) = starts(told, "research_done"), ends(told, "research_done")
    assert path(told, signal.call_id) == ["researcher", "research_done"]
    assert isinstance(end.payload.result, Json)
    assert end.payload.result.data["messages"][0]["text"] == "I found it"


@pytest.mark.requirement("004.sub-agents.to-tool", "004.sub-agents.whitelist")
async def test_allowed_tools_and_mission_only_narrow(factory: AgentFactory) -> None:
    inner = await factory.build(agent("helper", call("note", text="x"), say("{result}"), tools=["note"], mission="A"))
    with pytest.raises(SpecError, match="does not have the tool 'ask_user'"):
        inner.to_tool("helper", allowed_tools=["ask_user"])
    offered = inner.to_tool("narrow", allowed_tools=[], mission_override="B")
    assert offered.name == "narrow"
    outer = using(agent("boss", call("helper", task="x"), say("{result}")), leaf("helper"), allowed_tools=[])
    told = await Conversation(await factory.build(outer)).send("go")
    assert done == {}, "a tool that was taken away cannot be called"
    assert "note is not a valid tool" in str(ends(told, "helper")[0].payload.result) or ended(told) == "completed"


@pytest.mark.requirement("004.sub-agents.budget")
async def test_a_sub_agent_ends_when_its_steps_are_used_up(factory: AgentFactory) -> None:
    eager = agent("eager", *[call("note", text=f"n{n}") for n in range(9)], tools=["note"], max_steps=2)
    session = Conversation(await factory.build(using(agent("boss", call("eager", task="x"), say("{result}")), eager)))
    told = await session.send("go")
    assert sum(done.values()) == 2
    assert "used all 2 steps" in result(told)


async def test_an_agent_that_may_only_read_cannot_write_through_another(factory: AgentFactory) -> None:
    with pytest.raises(SpecError, match="may only have: read"):
        await factory.build(using(agent("boss", say("ok"), effects=["read"]), leaf("w1")))


async def test_an_agent_that_fails_is_one_tool_error(factory: AgentFactory) -> None:
    broken = agent("broken", ScriptStep(fail="no more"), model_retries=0)
    session = Conversation(await factory.build(using(agent("boss", call("broken", task="x"), say("I see")), broken)))
    told = await session.send("go")
    assert ended(told) == "completed"
    assert [end.payload.status for end in ends(told, "broken")] == ["error"]
