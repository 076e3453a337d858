"""Graphs that do what people's graphs do: break off, hand over, retry, call tools themselves, speak at once."""

from typing import Any, TypedDict

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import tool as langchain_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, RetryPolicy, interrupt

from stellwerk.agents.build.factory import AgentFactory
from stellwerk.agents.build.resources import Resources
from stellwerk.agents.checkpoints.saver import DurableSaver
from stellwerk.agents.graphs.input import find_input
from stellwerk.agents.runtime.runnable import RunnableAgent
from stellwerk.agents.tools.builtin import ask_user
from stellwerk.agents.tools.registry import Tools, discover
from stellwerk.envelope.model import Envelope, LlmToken, Message, State, Update
from stellwerk.errors import InvalidField, InvalidInput, SpecError
from stellwerk.spec.model import AgentAsTool, CompleteAgent, ModelSpec
from stellwerk.spec.script import ScriptRule
from tests.agents.agent_runs import (
    Conversation,
    agent,
    asks,
    call,
    calls,
    ended,
    ends,
    result,
    say,
    starts,
)


def conversation(builder: StateGraph[Any, Any, Any, Any], **options: Any) -> Conversation:
    graph = builder.compile(checkpointer=InMemorySaver(), **options)
    return Conversation(RunnableAgent("own", graph, graph_input=find_input(graph, name="own")))


def says(words: str) -> Any:
    return lambda state: {"messages": [AIMessage(words)]}


async def test_a_breakpoint_is_a_question_and_the_graph_goes_on_behind_it() -> None:
    builder = StateGraph(MessagesState).add_sequence([("a", says("first")), ("b", says("second"))])
    session = conversation(builder.add_edge(START, "a"), interrupt_before=["b"])
    told = await session.send("go")
    assert ended(told) == "awaiting_user"
    (ask,) = asks(told)
    assert ask.payload.question.startswith("The graph pauses here")
    assert result(await session.answer({ask.payload.ask_id: "yes"})) == "second"


async def test_a_graph_that_hands_over_to_the_one_around_it_has_ended() -> None:
    def leave(state: MessagesState) -> Any:
        return Command(goto="other", graph=Command.PARENT)

    inner = StateGraph(MessagesState)
    inner.add_node("leave", leave)
    inner.add_edge(START, "leave")
    outer = StateGraph(MessagesState)
    outer.add_node("inner", inner.compile(), destinations=("other",))
    outer.add_node("other", says("here"))
    outer.add_edge(START, "inner")
    told = await conversation(outer).send("go")
    assert result(told) == "here"
    assert [(end.payload.tool_name, end.payload.status) for end in ends(told)] == [("inner", "ok")]


async def test_a_tool_that_is_retried_and_then_asks_is_recorded_as_two_calls_and_continues() -> None:
    tries: list[int] = []

    @langchain_tool
    def shaky() -> str:
        "Fails once, then asks."
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError("not yet")
        return str(interrupt({"question": "Now?"}))

    def want(state: MessagesState) -> Any:
        return {"messages": [AIMessage("", tool_calls=[{"name": "shaky", "args": {}, "id": "c1"}])]}

    builder = StateGraph(MessagesState)
    builder.add_node("want", want)
    retry = RetryPolicy(initial_interval=0.001, retry_on=ConnectionError)
    builder.add_node("tools", ToolNode([shaky], handle_tool_errors=False), retry_policy=retry)
    builder.add_edge(START, "want")
    builder.add_edge("want", "tools")
    session = conversation(builder)
    first = await session.send("go")
    one, two = starts(first, "shaky")
    assert (one.payload.retry_of, two.payload.retry_of) == (None, one.call_id)
    (ask,) = asks(first)
    second = await session.answer({ask.payload.ask_id: "yes"})
    assert not starts(second)
    assert [end.call_id for end in ends(second)] == [two.call_id]


async def test_a_tool_that_a_node_calls_itself_keeps_its_id_and_its_input() -> None:
    @langchain_tool
    def confirm(text: str) -> str:
        "Ask."
        return str(interrupt({"question": text}))

    async def node(state: MessagesState) -> Any:
        return {"messages": [AIMessage(await confirm.ainvoke("sure?"))]}

    builder = StateGraph(MessagesState)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    session = conversation(builder)
    first = await session.send("go")
    assert starts(first)[0].payload.args in ({"input": "sure?"}, {"text": "sure?"})
    (ask,) = asks(first)
    second = await session.answer({ask.payload.ask_id: "yes"})
    assert (result(second), starts(second)) == ("yes", [])
    assert [end.payload.status for end in ends(session.log)] == ["ok"]


class Sum(TypedDict, total=False):
    question: str
    a: int
    files: dict[str, int]


async def test_a_graph_without_messages_answers_with_its_output() -> None:
    builder = StateGraph(Sum)
    builder.add_node("count", lambda state: {"a": len(state["question"])})
    builder.add_edge(START, "count")
    told = await conversation(builder).send("four")
    assert result(told) == '{"question":"four","a":4}'
    assert [e.payload.status for e in told if isinstance(e, Message)] == ["first", "last"]


async def test_two_tools_of_one_node_that_each_run_a_graph_are_separate_calls() -> None:
    def graph(name: str) -> Any:
        builder = StateGraph(Sum)
        builder.add_node(name, lambda state: {"a": 1})
        builder.add_edge(START, name)
        return builder.compile()

    @langchain_tool
    async def left() -> str:
        "Left."
        await graph("in_left").ainvoke({"question": "x"})
        return "l"

    @langchain_tool
    async def right() -> str:
        "Right."
        await graph("in_right").ainvoke({"question": "x"})
        return "r"

    def want(state: MessagesState) -> Any:
        both: list[Any] = [{"name": name, "args": {}, "id": name} for name in ("left", "right")]
        return {"messages": [AIMessage("", tool_calls=both)]}

    builder = StateGraph(MessagesState)
    builder.add_node("want", want)
    builder.add_node("tools", ToolNode([left, right]))
    builder.add_edge(START, "want")
    builder.add_edge("want", "tools")
    told = await conversation(builder).send("go")
    owners = {start.payload.tool_name: start.call_id for start in starts(told)}
    placed = {e.payload.node: e.call_id for e in told if isinstance(e, Update) and e.payload.namespace}
    assert set(owners) == {"left", "right"}
    assert placed == {"in_left": owners["left"], "in_right": owners["right"]}


async def test_a_state_key_named_files_of_another_graph_is_recorded_whole() -> None:
    builder = StateGraph(Sum).add_sequence(
        [("one", lambda state: {"files": {"a": 1}}), ("two", lambda state: {"files": {"c": 1}})]
    )
    told = await conversation(builder.add_edge(START, "one")).send("go")
    states = [e.payload.snapshot for e in told if isinstance(e, State)]
    assert states == [{"a": 1}, {"c": 1}]


@pytest.fixture
def factory(saver: DurableSaver) -> AgentFactory:
    return AgentFactory(Resources(tools=Tools(discover().specs()), saver=saver))


def judged(name: str, answer: str) -> CompleteAgent:
    rules = [ScriptRule(when=answer, steps=[say("OK")]), ScriptRule(steps=[say(answer)])]
    return agent(name, say("x"), validation_prompt="Fine?").model_copy(update={"model": ModelSpec(script=rules)})


async def test_validated_agents_side_by_side_do_not_lose_each_others_answers(factory: AgentFactory) -> None:
    one, two = judged("one", "apples"), judged("two", "pears")
    boss = agent("boss", calls(("one", {"task": "a"}), ("two", {"task": "b"})), say("done"))
    both = boss.model_copy(update={"agents_as_tools": [AgentAsTool(agent=one), AgentAsTool(agent=two)]})
    told = await Conversation(await factory.build(both)).send("go")
    outcomes = {end.payload.tool_name: end.payload.outcome for end in ends(told)}
    said = {name: [m["text"] for m in outcome.messages] for name, outcome in outcomes.items() if outcome}
    assert said == {"one": ["apples"], "two": ["pears"]}
    assert {"apples", "pears"} <= {e.payload.text for e in told if isinstance(e, LlmToken)}


@pytest.mark.requirement("002.completion.normalised-output")
async def test_what_an_agent_did_before_its_question_counts_for_its_outcome(factory: AgentFactory) -> None:
    steps = [call("write_report", title="A", text="b"), call("ask_user", question="More?"), say("that is all")]
    clerk = agent("clerk", *steps, tools=["write_report", "ask_user"])
    boss = agent("boss", call("clerk", task="x"), say("ok")).model_copy(
        update={"agents_as_tools": [AgentAsTool(agent=clerk)]}
    )
    session = Conversation(await factory.build(boss))
    (ask,) = asks(await session.send("go"))
    assert ask.agent == "clerk"
    (end,) = ends(await session.answer({ask.payload.ask_id: "no"}), "clerk")
    assert end.payload.outcome is not None
    assert set(end.payload.outcome.files) == {"a.md"}
    assert end.payload.outcome.usage[0].output_tokens > 10


async def test_an_agent_cut_off_by_a_timeout_takes_everything_inside_with_it(factory: AgentFactory) -> None:
    slow = agent("slow", call("wait_a_while", seconds=60), say("x"), tools=["wait_a_while"])
    told: list[Envelope] = []
    for seconds in (0.2, 5, 60):  # on a busy machine it may take some time until there is something inside
        boss = agent("boss", call("slow", task="x"), say("too late"), tool_timeouts={"slow": seconds}).model_copy(
            update={"agents_as_tools": [AgentAsTool(agent=slow)]}
        )
        told = await Conversation(await factory.build(boss)).send("go")
        if ends(told, "wait_a_while"):
            break
    assert [(end.payload.tool_name, end.payload.status) for end in ends(told)] == [
        ("wait_a_while", "abandoned"),
        ("slow", "error"),
    ]


async def test_a_rule_for_a_tool_that_the_agent_does_not_have_is_refused(factory: AgentFactory) -> None:
    with pytest.raises(SpecError, match="names 'nota', which is no tool of it"):
        await factory.build(agent("boss", say("x"), tools=["ask_user"], approvals={"nota": []}))


async def test_questions_are_answered_once_all_at_once_and_from_their_options() -> None:
    both = calls(("ask_user", {"question": "Colour?", "options": ["red", "blue"]}), ("ask_user", {"question": "Size?"}))
    made = AgentFactory(Resources(tools=Tools([ask_user]), saver=InMemorySaver()))
    session = Conversation(await made.build(agent("boss", both, say("ok"), tools=["ask_user"])))
    ids = {ask.payload.question: ask.payload.ask_id for ask in asks(await session.send("go"))}
    with pytest.raises(InvalidInput, match="answer them all at once"):
        await session.answer({ids["Size?"]: "large"})
    with pytest.raises(InvalidField, match="choose one of: red, blue"):
        await session.answer({ids["Size?"]: "large", ids["Colour?"]: "green"})
    await session.answer({ids["Size?"]: "large", ids["Colour?"]: "red"})
    with pytest.raises(InvalidInput, match="wait for an answer: none"):
        await session.answer({ids["Size?"]: "large", ids["Colour?"]: "red"})


async def test_the_library_keeps_an_open_question_by_default() -> None:
    built = await AgentFactory().build(
        agent("boss", call("ask_user", question="Why?"), say("{result}"), tools=["ask_user"])
    )
    told = [e async for e in built.envelopes("go", session_id="mine")]
    (ask,) = asks(told)
    more = [e async for e in built.envelopes(session_id="mine", answers={ask.payload.ask_id: "so"}, history=told)]
    assert result(more) == "so"


async def test_an_error_of_an_operators_graph_reaches_the_caller() -> None:
    def broken(state: MessagesState) -> Any:
        raise ValueError("details here")

    builder = StateGraph(MessagesState)
    builder.add_node("broken", broken)
    builder.add_edge(START, "broken")
    with pytest.raises(ValueError, match="details here"):
        await RunnableAgent("own", builder.compile()).run("go")
