"""Real agents, through both streams of LangGraph: what a client sees is the state that LangGraph itself stored."""

from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from stellwerk.agents.build.factory import AgentFactory
from stellwerk.agents.build.resources import Resources
from stellwerk.agents.graphs.registry import GraphEntry, Graphs
from stellwerk.agents.scripted.model import ScriptedModel
from stellwerk.agents.tools.builtin import ask_user
from stellwerk.agents.tools.registry import Tools, tool
from stellwerk.dialects.langgraph import runs, threads
from stellwerk.spec.model import AgentAsTool, CompleteAgent
from stellwerk.spec.script import ScriptRule
from tests.agents.agent_runs import Conversation, agent, asks, call, calls, ended, say
from tests.dialects.langgraph_clients import Hook, Thread, check, message_of, received, thread_events
from tests.dialects.random_logs import recovered


class Own(MessagesState):
    score: int


@tool(effects="read")
async def look(at: str) -> list[dict[str, Any]]:
    """Look at something."""
    return [{"at": at, "colour": "blue"}]


def own_graph() -> Any:
    """A graph with a graph in one of its nodes, a key of its own, and a message that no model spoke."""
    model = ScriptedModel(script=[ScriptRule(steps=[say("said inside")])])

    async def speak(state: MessagesState) -> Any:
        return {"messages": [await model.ainvoke(state["messages"])]}

    inner = StateGraph(MessagesState)
    inner.add_node("speak", speak)
    inner.add_edge(START, "speak")
    outer = StateGraph(Own)
    outer.add_node("inner", inner.compile())
    outer.add_node("rate", lambda state: {"score": 7, "messages": [AIMessage("rated", id="by-hand")]})
    outer.add_edge(START, "inner")
    outer.add_edge("inner", "rate")
    return outer


@pytest.fixture
def factory() -> AgentFactory:
    graphs = Graphs([GraphEntry("own", own_graph(), "here")])
    return AgentFactory(Resources(tools=Tools([look, ask_user]), graphs=graphs, saver=InMemorySaver()))


def using(who: CompleteAgent, *others: CompleteAgent) -> CompleteAgent:
    return who.model_copy(update={"agents_as_tools": [AgentAsTool(agent=other) for other in others]})


def asking(name: str) -> CompleteAgent:
    return agent(name, call("ask_user", question=f"{name}?"), say("heard {result}"), tools=["ask_user"])


def three_levels() -> CompleteAgent:
    """Two sub-agents at once, each with one of its own that asks."""
    middles = [using(agent(f"mid-{n}", call(n, task=n), say(f"{n} done")), asking(n)) for n in ("east", "west")]
    both = calls(*((middle.name, {"task": "go"}) for middle in middles))
    return using(agent("boss", both, call("look", at="sky"), say("all done"), tools=["look"]), *middles)


def essence(messages: list[BaseMessage]) -> Iterator[tuple[Any, ...]]:
    """What a client shows of messages; the ids of tool messages are ours, since LangGraph's are random."""
    for message in messages:
        shown = (message.type, message.text, getattr(message, "tool_call_id", None))
        calls_made = getattr(message, "tool_calls", None)
        yield (*shown, calls_made, message.id if isinstance(message, AIMessage | HumanMessage) else None)


async def state_of(session: Conversation) -> dict[str, Any]:
    stored = await session.agent.graph.aget_state({"configurable": {"thread_id": session.session_id}})
    return dict(stored.values)


async def test_a_client_sees_the_messages_that_langgraph_stored(factory: AgentFactory) -> None:
    session = Conversation(await factory.build(three_levels()))
    told = await session.send("go")
    assert ended(told) == "awaiting_user"
    await session.answer({ask.payload.ask_id: f"yes, {ask.payload.question}" for ask in asks(told)})
    seen = [message_of(m) for m in Hook().read(received(runs.DIALECT, session.log)).values["messages"]]
    stored = (await state_of(session))["messages"]
    assert list(essence(seen)) == list(essence(stored))
    last = Thread(thread_events(threads.DIALECT, session.log)).data("values")[-1]["messages"]
    assert [message_of(m) for m in last] == seen


async def test_agents_three_levels_deep_are_found_and_both_questions_come_with_their_place(
    factory: AgentFactory,
) -> None:
    session = Conversation(await factory.build(three_levels()))
    told = await session.send("go")
    events = thread_events(threads.DIALECT, told)
    asked = [e["params"] for e in events if e["method"] == "input.requested"]
    assert sorted(a["data"]["payload"]["question"] for a in asked) == ["east?", "west?"]
    assert [len(a["namespace"]) for a in asked] == [2, 2]
    for child in Thread(events).children:
        (grandchild,) = Thread(events, list(child.path)).children
        assert list(grandchild.path) in [a["namespace"] for a in asked]


@pytest.mark.parametrize("answered", [False, True], ids=["awaiting", "answered"])
async def test_every_prefix_of_a_real_log_can_be_digested(factory: AgentFactory, answered: bool) -> None:
    session = Conversation(await factory.build(three_levels()))
    told = await session.send("go")
    if answered:
        await session.answer({ask.payload.ask_id: "yes" for ask in asks(told)})
    for length in range(1 + answered * len(told), len(session.log) + 1):
        check(recovered(session.log[:length]))


async def test_a_graph_in_a_graph_and_a_key_of_its_own_are_as_langgraph_has_them(factory: AgentFactory) -> None:
    session = Conversation(await factory.build(CompleteAgent(name="own", kind="graph", graph="own")))
    await session.send("go")
    parts = received(runs.DIALECT, session.log)
    values = Hook().read(parts).values
    stored = await state_of(session)
    assert values["score"] == stored["score"] == 7
    assert list(essence([message_of(m) for m in values["messages"]])) == list(essence(stored["messages"]))
    spoken = [part.event for part in parts if part.event.startswith("messages|") and part.data[0]["content"]]
    assert len(spoken) == 2, "two words, in the graph inside; they are not said again outside"
    check(session.log)


async def test_an_approval_is_an_interrupt_that_says_what_it_takes_and_shows_the_call(factory: AgentFactory) -> None:
    rules = {"look": ["approve", "reject"]}
    spec = agent("boss", call("look", at="sky"), say("ok"), tools=["look"], approvals=rules)
    session = Conversation(await factory.build(spec))
    (ask,) = asks(await session.send("go"))
    (interrupt,) = Hook().read(received(runs.DIALECT, session.log)).values["__interrupt__"]
    assert interrupt["id"] == ask.payload.ask_id
    (wanted,) = interrupt["value"]["action_requests"]
    assert (wanted["name"], wanted["args"]) == ("look", {"at": "sky"})
    config = {"action_name": "look", "allowed_decisions": ["approve", "reject"]}
    assert interrupt["value"]["review_configs"] == [config]
    assert interrupt["response_schema"]["discriminator"]["mapping"].keys() == {"approve", "reject"}
    await session.answer({ask.payload.ask_id: {"type": "reject", "message": "no"}})
    (tool,) = [m for m in Hook().read(received(runs.DIALECT, session.log)).values["messages"] if m["type"] == "tool"]
    assert (tool["status"], tool["tool_call_id"]) == ("error", ask.payload.tool_call_id)
    check(session.log)


async def test_a_table_is_text_for_the_model_and_an_artifact_for_the_client(factory: AgentFactory) -> None:
    session = Conversation(await factory.build(agent("boss", call("look", at="sky"), say("ok"), tools=["look"])))
    assert ended(await session.send("go")) == "completed"
    (tool,) = [m for m in Hook().read(received(runs.DIALECT, session.log)).values["messages"] if m["type"] == "tool"]
    assert tool["artifact"]["rows"] == [["sky", "blue"]]
    assert [tool["content"]] == [m.text for m in (await state_of(session))["messages"] if m.type == "tool"]
