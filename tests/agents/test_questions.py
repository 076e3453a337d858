"""Questions to the user: asked by a tool, by an approval, by a node; told apart, answered by id, done once."""

from collections import Counter
from typing import Any

import pytest
from langgraph.graph import MessagesState, StateGraph
from langgraph.types import interrupt

from stellwerk.agents.build.factory import AgentFactory
from stellwerk.agents.build.resources import Resources
from stellwerk.agents.checkpoints.saver import DurableSaver
from stellwerk.agents.graphs.registry import GraphEntry, Graphs
from stellwerk.agents.tools.builtin import ask_user
from stellwerk.agents.tools.registry import Tools, tool
from stellwerk.envelope.payloads import Answered, Asked
from stellwerk.errors import InvalidField, InvalidInput
from stellwerk.spec.model import CompleteAgent
from stellwerk.stream.facts import Interrupted
from stellwerk.stream.states import question_of
from stellwerk.views.questions import check_answer
from tests.agents.agent_runs import Conversation, agent, asks, call, calls, ended, ends, result, say, starts

paid: Counter[str] = Counter()


@tool(effects="external")
async def pay(to: str, amount: int) -> str:
    """Send money."""
    paid[to] += amount
    return f"{amount} sent to {to}"


async def confirm(state: MessagesState) -> Any:
    answer = interrupt({"message": "Go on?", "schema": {"type": "object", "required": ["ok"]}})
    return {"messages": [("ai", f"you said {answer['ok']}")]}


def careful() -> Any:
    builder = StateGraph(MessagesState)
    builder.add_node("confirm", confirm)
    builder.set_entry_point("confirm")
    return builder


@pytest.fixture
def factory(saver: DurableSaver) -> AgentFactory:
    paid.clear()
    graphs = Graphs([GraphEntry("careful", careful(), "here")])
    return AgentFactory(Resources(tools=Tools([pay, ask_user]), graphs=graphs, saver=saver))


async def test_a_question_has_options_and_a_default_and_its_answer_reaches_the_tool(factory: AgentFactory) -> None:
    question = call("ask_user", question="Which colour?", options=["red", "blue"], default="red")
    session = Conversation(await factory.build(agent("boss", question, say("So {result}."), tools=["ask_user"])))
    first = await session.send("go")
    assert ended(first) == "awaiting_user"
    (ask,) = asks(first)
    assert (ask.payload.question, ask.payload.options, ask.payload.default) == ("Which colour?", ["red", "blue"], "red")
    assert ask.parent_id == starts(first, "ask_user")[0].call_id
    assert not ends(first, "ask_user"), "the call that asked stays open"
    second = await session.answer({ask.payload.ask_id: "blue"})
    assert result(second) == "So blue."
    assert not starts(second, "ask_user"), "it goes on, it does not start again"
    assert len(ends(second, "ask_user")) == 1


async def test_two_questions_at_once_are_separate_and_answered_together(factory: AgentFactory) -> None:
    both = calls(("ask_user", {"question": "Name?"}), ("ask_user", {"question": "Town?"}))
    session = Conversation(await factory.build(agent("boss", both, say("ok"), tools=["ask_user"])))
    first = await session.send("go")
    by_text = {ask.payload.question: ask.payload.ask_id for ask in asks(first)}
    assert set(by_text) == {"Name?", "Town?"}
    second = await session.answer({by_text["Town?"]: "Ulm", by_text["Name?"]: "Ada"})
    results = {end.call_id: end.payload.result.as_text() for end in ends(second) if end.payload.result}
    asked_in = {ask.payload.question: ask.parent_id for ask in asks(first)}
    assert results == {asked_in["Name?"]: "Ada", asked_in["Town?"]: "Ulm"}


@pytest.mark.parametrize(
    "decision, status, spent",
    [
        ({"type": "approve"}, "ok", {"Bob": 5}),
        ({"type": "edit", "edited_action": {"name": "pay", "args": {"to": "Bob", "amount": 1}}}, "ok", {"Bob": 1}),
        ({"type": "reject", "message": "too much"}, "error", {}),
        ({"type": "respond", "message": "it is paid already"}, "ok", {}),
    ],
    ids=lambda value: value.get("type") if isinstance(value, dict) else None,
)
async def test_an_approval_is_a_question_with_the_call_and_its_four_decisions(
    factory: AgentFactory, decision: dict[str, Any], status: str, spent: dict[str, int]
) -> None:
    rules = {"pay": ["approve", "edit", "reject", "respond"]}
    payer = agent("boss", call("pay", to="Bob", amount=5), say("{result}"), tools=["pay"], approvals=rules)
    session = Conversation(await factory.build(payer))
    first = await session.send("go")
    (ask,) = asks(first)
    assert (ask.payload.kind, ask.payload.tool_name, ask.payload.args) == (
        "approval",
        "pay",
        {"to": "Bob", "amount": 5},
    )
    assert ask.payload.options is not None
    assert set(ask.payload.options) == set(rules["pay"])
    assert paid == {}
    second = await session.answer({ask.payload.ask_id: decision})
    assert ended(second) == "completed"
    assert paid == spent
    (end,) = ends(second, "pay")
    assert end.payload.status == status, "also a call that did not run is told, with what the user decided"
    assert end.payload.tool_call_id == ask.payload.tool_call_id


@pytest.mark.parametrize(
    ("given", "field", "said"),
    [
        (
            "perhaps",
            "data",
            'answer {"data":{"type":"approve"}} or {"data":{"type":"edit","edited_action":{"name":"pay",',
        ),
        ({"type": ["approve"]}, "data", 'or {"data":{"type":"reject"}}'),
        ({"type": "edit"}, "data", '\'edited_action\' is a required property; for example {"data":{"type":"edit",'),
        (
            {"type": "edit", "edited_action": {"name": "rm", "args": {"to": "Bob", "amount": 1}}},
            "data.edited_action.name",
            "'pay' was expected",
        ),
        (
            {"type": "edit", "edited_action": {"name": "pay", "args": {"to": "Bob", "amount": "x"}}},
            "data.edited_action.args.amount",
            "'x' is not of type 'integer'",
        ),
        ({"type": "respond"}, "data", "not one of the decisions that are open"),
    ],
)
async def test_an_answer_that_is_no_decision_is_an_error_that_lists_the_decisions(
    factory: AgentFactory, given: Any, field: str, said: str
) -> None:
    rules = {"pay": ["approve", "edit", "reject"]}
    payer = agent("boss", call("pay", to="Bob", amount=5), tools=["pay"], approvals=rules)
    (ask,) = asks(await Conversation(await factory.build(payer)).send("go"))
    kind = "text" if isinstance(given, str) else "data"
    with pytest.raises(InvalidField) as refused:
        check_answer(ask.payload, Answered(ask_id=ask.payload.ask_id, **{kind: given}))
    assert refused.value.field == field
    assert said in refused.value.message and "respond" not in refused.value.message
    check_answer(ask.payload, Answered(ask_id=ask.payload.ask_id, text="approve"))


@pytest.mark.parametrize(
    ("only", "given", "said"),
    [
        ("approve", {"type": "reject"}, 'answer {"data":{"type":"approve"}}'),
        ("edit", {"type": "edit"}, "'edited_action' is a required property"),
    ],
)
async def test_an_approval_with_one_decision_names_it(
    factory: AgentFactory, only: str, given: dict[str, Any], said: str
) -> None:
    payer = agent("boss", call("pay", to="Bob", amount=5), tools=["pay"], approvals={"pay": [only]})
    (ask,) = asks(await Conversation(await factory.build(payer)).send("go"))
    assert ask.payload.options == [only]
    with pytest.raises(InvalidField, match=said.replace("{", "\\{")):
        check_answer(ask.payload, Answered(ask_id=ask.payload.ask_id, data=given))


async def test_two_approvals_are_decided_one_by_one_and_nothing_is_paid_twice(factory: AgentFactory) -> None:
    both = calls(("pay", {"to": "Ann", "amount": 1}), ("pay", {"to": "Bob", "amount": 2}))
    payer = agent("boss", both, say("done"), tools=["pay"], approvals={"pay": ["approve", "reject"]})
    session = Conversation(await factory.build(payer))
    by_name = {ask.payload.args["to"]: ask.payload.ask_id for ask in asks(await session.send("go"))}
    told = await session.answer({by_name["Ann"]: {"type": "approve"}, by_name["Bob"]: {"type": "reject"}})
    assert paid == {"Ann": 1}
    assert sorted(end.payload.status for end in ends(told, "pay")) == ["error", "ok"]


async def test_a_node_of_an_operators_graph_may_ask(factory: AgentFactory) -> None:
    session = Conversation(await factory.build(CompleteAgent(name="careful", kind="graph", graph="careful")))
    (ask,) = asks(await session.send("go"))
    assert ask.payload.question == "Go on?"
    with pytest.raises(InvalidField, match="'ok' is a required property"):
        await session.answer({ask.payload.ask_id: {"nonsense": 1}})
    assert result(await session.answer({ask.payload.ask_id: {"ok": True}})) == "you said True"


def test_a_form_of_which_one_field_is_fixed_is_no_choice() -> None:
    form = {"type": "object", "properties": {"type": {"const": "invoice"}, "total": {"type": "number"}}}
    question, _ = question_of(
        "a", Interrupted(ts=0, ask_id="a", value={"question": "Which invoice?"}, schema=form, namespace="")
    )
    assert question.options is None


async def test_an_answer_to_an_unknown_question_is_rejected(factory: AgentFactory) -> None:
    session = Conversation(await factory.build(agent("boss", say("hi"))))
    await session.send("go")
    with pytest.raises(InvalidInput, match="these questions wait for an answer: none"):
        await session.answer({"nowhere": "yes"})


@pytest.mark.requirement("004.answers.text-required")
def test_an_answer_needs_something_in_it_unless_it_refuses() -> None:
    question = Asked(ask_id="a", question="?")
    with pytest.raises(InvalidField, match="needs text or data"):
        check_answer(question, Answered(ask_id="a"))
    check_answer(question, Answered(ask_id="a", refused=True))
