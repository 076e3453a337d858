"""Approvals that an operator's graph asks for: LangChain's middleware and Agent Inbox, answered in words or data."""

from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from stellwerk.agents.graphs.input import find_input
from stellwerk.agents.runtime.runnable import RunnableAgent
from stellwerk.envelope.model import AskUser, UserAnswer
from stellwerk.envelope.payloads import Answered, Asked
from stellwerk.errors import InvalidField
from stellwerk.spec.review_requests import requested_actions
from stellwerk.views.questions import check_answer, resume_value
from tests.agents.agent_runs import Conversation, asks, ended, ends, result
from tests.runs import review_graphs

NEW = {"to": "Ann", "amount": 1}
MAIL = {"subject": "Dinner", "to": "Ann"}


@pytest.fixture(autouse=True)
def _ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ledger"
    path.touch()
    monkeypatch.setattr(review_graphs.Ledger, "path", path)


def done() -> str:
    """What the tools really did."""
    return review_graphs.Ledger.path.read_text()


def session_of(graph: Any) -> Conversation:
    graph = graph.copy(update={"checkpointer": InMemorySaver()})
    return Conversation(RunnableAgent("own", graph, graph_input=find_input(graph, name="own")))


def summary(ask: AskUser) -> tuple[Any, ...]:
    asked = ask.payload
    return asked.kind, asked.tool_name, asked.args, asked.options


async def test_a_call_that_langchains_middleware_holds_back_is_an_approval_like_ours() -> None:
    (ask,) = asks(await session_of(review_graphs.hitl).send("pay"))
    (ours,) = asks(await session_of(review_graphs.per_call).send("pay"))
    assert summary(ask) == ("approval", "pay", {"to": "Ann", "amount": 5}, ["approve", "edit", "reject", "respond"])
    assert summary(ask) == summary(ours)
    assert ask.payload.question == ours.payload.question
    assert ask.payload.tool_call_id == ours.payload.tool_call_id is not None
    assert ask.payload.interrupt_id is None


@pytest.mark.parametrize(
    ("given", "paid", "said"),
    [
        ({"text": "approve"}, "paid 5 to Ann\n", "Done: paid 5 to Ann"),
        ({"text": "Yes!"}, "paid 5 to Ann\n", "Done: paid 5 to Ann"),
        ({"text": "accept"}, "paid 5 to Ann\n", "Done: paid 5 to Ann"),
        ({"data": {"type": "approve"}}, "paid 5 to Ann\n", "Done: paid 5 to Ann"),
        ({"text": "no, she is rich"}, "", "with reason: she is rich"),
        ({"text": "reject: she is rich"}, "", "with reason: she is rich"),
        ({"text": "ignore"}, "", "User rejected the tool call"),
        ({"refused": True, "text": "she is rich"}, "", "with reason: she is rich"),
        ({"data": {"type": "reject", "message": "later"}}, "", "with reason: later"),
        ({"text": 'edit {"to": "Ann", "amount": 1}'}, "paid 1 to Ann\n", "paid 1 to Ann"),
        ({"data": {"type": "edit", "edited_action": {"name": "pay", "args": NEW}}}, "paid 1 to Ann\n", "paid 1 to Ann"),
        ({"text": "respond: it is paid already"}, "", "Done: it is paid already"),
    ],
)
@pytest.mark.parametrize("graph", ["hitl", "per_call"])
async def test_an_approval_of_the_middleware_is_answered_in_words_or_data(
    graph: str, given: dict[str, Any], paid: str, said: str
) -> None:
    session = session_of(getattr(review_graphs, graph))
    (ask,) = asks(await session.send("pay"))
    told = await session.reply(Answered(ask_id=ask.payload.ask_id, **given))
    assert ended(told) == "completed"
    assert (done(), said in result(told)) == (paid, True), result(told)
    assert [end.payload.tool_call_id for end in ends(told, "pay")] == [ask.payload.tool_call_id]


async def test_a_request_with_one_action_takes_langchains_own_answer_too() -> None:
    session = session_of(review_graphs.hitl)
    (ask,) = asks(await session.send("pay"))
    told = await session.answer({ask.payload.ask_id: {"decisions": [{"type": "approve"}]}})
    assert (result(told), done()) == ("Done: paid 5 to Ann", "paid 5 to Ann\n")


async def test_each_action_of_one_interrupt_is_an_approval_of_its_own() -> None:
    session = session_of(review_graphs.hitl)
    first, second = asks(await session.send("both"))
    assert [summary(first)[1], summary(second)[1]] == ["pay", "delete"]
    assert second.payload.options == ["approve", "reject"]
    assert first.payload.interrupt_id == second.payload.interrupt_id is not None
    told = await session.answer({second.payload.ask_id: "approve", first.payload.ask_id: "no: too much"})
    assert ended(told) == "completed"
    assert done() == "deleted old.txt\n"


async def test_one_interrupt_with_several_actions_can_be_answered_as_a_whole() -> None:
    session = session_of(review_graphs.hitl)
    interrupt_id = asks(await session.send("both"))[0].payload.interrupt_id
    assert interrupt_id
    with pytest.raises(InvalidField, match="1 decisions for 2 actions; send one for each, in this order: pay, delete"):
        await session.answer({interrupt_id: {"decisions": [{"type": "approve"}]}})
    decisions = [{"type": "edit", "edited_action": {"name": "pay", "args": NEW}}, {"type": "reject"}]
    assert ended(await session.answer({interrupt_id: {"decisions": decisions}})) == "completed"
    assert done() == "paid 1 to Ann\n"


async def test_the_actions_of_an_interrupt_in_a_nested_graph_are_asked_once() -> None:
    builder: Any = StateGraph(MessagesState)
    session = session_of(builder.add_node("agent", review_graphs.hitl).add_edge(START, "agent").compile())
    first, second = asks(await session.send("both"))
    assert (first.payload.tool_name, second.payload.tool_name) == ("pay", "delete")
    assert first.payload.tool_call_id and first.payload.tool_call_id != second.payload.tool_call_id
    told = await session.answer({first.payload.ask_id: "yes", second.payload.ask_id: "no"})
    assert (ended(told), done()) == ("completed", "paid 5 to Ann\n")


@pytest.mark.parametrize(
    ("given", "recorded"),
    [
        ({"text": "approve"}, {"text": "approve"}),
        ({"text": "yes"}, {"data": {"type": "approve"}}),
        ({"text": "no, not today"}, {"refused": True, "text": "not today"}),
        ({"data": {"type": "reject"}}, {"data": {"type": "reject"}}),
        ({"data": {"decisions": [{"type": "approve"}]}}, {"data": {"type": "approve"}}),
        ({"text": "respond: paid"}, {"data": {"type": "respond", "message": "paid"}}),
    ],
)
async def test_words_are_recorded_as_the_decision_that_they_mean(
    given: dict[str, Any], recorded: dict[str, Any]
) -> None:
    session = session_of(review_graphs.hitl)
    (ask,) = asks(await session.send("pay"))
    told = await session.reply(Answered(ask_id=ask.payload.ask_id, **given))
    (answer,) = [e.payload for e in told if isinstance(e, UserAnswer)]
    assert answer == Answered(ask_id=ask.payload.ask_id, **recorded)


REQUESTED = {"action": "send_mail", "args": {"subject": "Lunch", "to": "Ann"}}
ACCEPT = {"type": "accept", "args": REQUESTED}
"""As Agent Inbox does where the arguments could have been edited."""
EDIT = {"type": "edit", "args": {"action": "send_mail", "args": MAIL}}


@pytest.mark.parametrize(
    ("given", "received"),
    [
        ({"text": "accept"}, ACCEPT),
        ({"text": "yes"}, ACCEPT),
        ({"data": {"type": "approve"}}, ACCEPT),
        ({"data": [ACCEPT]}, ACCEPT),
        ({"data": ACCEPT}, ACCEPT),
        ({"text": "ignore"}, {"type": "ignore", "args": None}),
        ({"text": "no, not today"}, {"type": "ignore", "args": None}),
        ({"refused": True, "text": "not today"}, {"type": "ignore", "args": None}),
        ({"text": "respond: make it dinner"}, {"type": "response", "args": "make it dinner"}),
        ({"data": {"type": "response", "args": "make it dinner"}}, {"type": "response", "args": "make it dinner"}),
        ({"text": 'edit {"subject": "Dinner", "to": "Ann"}'}, EDIT),
        ({"data": [EDIT]}, EDIT),
        ({"data": {"type": "edit", "edited_action": {"name": "send_mail", "args": MAIL}}}, EDIT),
    ],
)
async def test_a_request_of_agent_inbox_is_answered_in_the_form_that_its_graph_expects(
    given: dict[str, Any], received: dict[str, Any]
) -> None:
    session = session_of(review_graphs.inbox)
    (ask,) = asks(await session.send("mail"))
    kind, tool, args, options = summary(ask)
    assert (kind, tool, args) == ("approval", "send_mail", {"subject": "Lunch", "to": "Ann"})
    assert options == ["approve", "edit", "reject", "respond"]
    assert ask.payload.question == "# send_mail\nA mail to Ann."
    told = await session.reply(Answered(ask_id=ask.payload.ask_id, **given))
    assert result(told) == repr(received)


@pytest.mark.parametrize("whole", [True, False])
async def test_several_requests_of_agent_inbox_get_a_list_in_their_order(whole: bool) -> None:
    session = session_of(review_graphs.inbox)
    mail, book = asks(await session.send("two"))
    assert (mail.payload.tool_name, book.payload.tool_name) == ("send_mail", "book")
    answers: dict[str, Any] = {book.payload.ask_id: "no", mail.payload.ask_id: "respond: later"}
    if whole:
        data = [{"type": "response", "args": "later"}, {"type": "ignore", "args": None}]
        answers = {mail.payload.interrupt_id or "": data}
    told = await session.answer(answers)
    assert result(told) == repr([{"type": "response", "args": "later"}, {"type": "ignore", "args": None}])


async def test_a_request_that_is_not_in_a_list_gets_a_list_as_agent_inbox_sends_it() -> None:
    session = session_of(review_graphs.inbox)
    (ask,) = asks(await session.send("bare"))
    assert result(await session.answer({ask.payload.ask_id: "accept"})) == repr([ACCEPT])


async def test_where_only_a_response_is_allowed_any_text_is_one() -> None:
    session = session_of(review_graphs.inbox)
    (ask,) = asks(await session.send("ask"))
    assert ask.payload.options == ["respond"]
    told = await session.answer({ask.payload.ask_id: "no, on Tuesday"})
    assert result(told) == repr({"type": "response", "args": "no, on Tuesday"})


@pytest.mark.parametrize(
    ("graph", "message", "given", "said"),
    [
        ("hitl", "pay", {"text": "hmm, what does that do?"}, "in words: approve; edit {new arguments as JSON}; reject"),
        ("hitl", "pay", {"text": "yes, if she is poor"}, 'answer {"data":{"type":"approve"}} or'),
        ("hitl", "pay", {"text": "edit the amount"}, "is not of type 'object'"),
        ("hitl", "pay", {"text": "edit [1]"}, "is not of type 'object'"),
        ("hitl", "pay", {"text": "edit"}, "'edited_action' is a required property"),
        ("hitl", "pay", {"data": {"type": "edit", "edited_action": {"name": "pay"}}}, "'args' is a required property"),
        ("hitl", "pay", {"text": "respond"}, "'message' is a required property"),
        ("hitl", "pay", {"data": {"decisions": []}}, "not one of the decisions that are open"),
        ("hitl", "pay", {"data": {"decisions": [{"type": "approve"}] * 2}}, "not one of the decisions that are open"),
        ("hitl", "pay", {"data": True}, "not one of the decisions that are open"),
        ("hitl", "delete", {"text": 'edit {"path": "/"}'}, "in words: approve; reject: why"),
        ("hitl", "delete", {"data": {"type": "respond", "message": "x"}}, "in words: approve; reject: why"),
        ("per_call", "delete", {"text": "respond: x"}, "in words: approve; reject: why"),
        ("inbox", "mail", {"data": [{"type": "response", "args": None}]}, "None is not of type 'string'"),
        (
            "inbox",
            "mail",
            {"data": [{"type": "edit", "args": {"action": "send_mail", "args": "x"}}]},
            "of type 'object'",
        ),
        ("inbox", "mail", {"data": {"type": "edit", "args": MAIL}}, "'edited_action' is a required property"),
        ("inbox", "ask", {"refused": True}, 'answer {"data":{"type":"respond","message"'),
    ],
)
async def test_an_answer_that_does_not_fit_is_an_error_that_names_what_is_allowed(
    graph: str, message: str, given: dict[str, Any], said: str
) -> None:
    (ask,) = asks(await session_of(getattr(review_graphs, graph)).send(message))
    with pytest.raises(InvalidField) as wrong:
        check_answer(ask.payload, Answered(ask_id=ask.payload.ask_id, **given))
    assert said in wrong.value.message


ACTION = {"name": "a", "args": {}}


@pytest.mark.parametrize(
    "value",
    [
        {"action_requests": [], "review_configs": []},
        {"action_requests": [{"name": "pay", "args": {}}], "review_configs": []},
        {"action_requests": [{"name": "a"}], "review_configs": [{"action_name": "a", "allowed_decisions": ["edit"]}]},
        {"action_requests": [ACTION], "review_configs": [{"action_name": "a", "allowed_decisions": []}]},
        {"action_requests": ["pay"], "review_configs": ["pay"]},
        [],
        ["send_mail"],
        [{"action_request": {"action": "a", "args": {}}}],
        [{"action_request": {"action": "a", "args": {}}, "config": {"allow_accept": False}}],
        [{"action_request": {"action": "a", "args": {}}, "config": {"allow_accept": True}}, "more"],
        {"action_request": "send_mail"},
        "send_mail",
        None,
    ],
)
def test_a_value_of_another_form_stays_a_question_of_its_own(value: Any) -> None:
    assert requested_actions(value) == []


def test_a_question_that_an_earlier_version_asked_is_answered_as_it_was() -> None:
    old = Asked(ask_id="a", question="{…}", data={"action_requests": [], "review_configs": []})
    check_answer(old, Answered(ask_id="a", data={"decisions": [{"type": "approve"}]}))


@pytest.mark.parametrize("given", [{"decisions": [{"type": "approve"}]}, [{"type": "accept"}], {"type": "approve"}])
def test_an_approval_of_ours_takes_the_answer_to_a_request_for_review(given: Any) -> None:
    ours = Asked(ask_id="q1", question="ok?", kind="approval", tool_name="pay", data={"type": "tool_approval"})
    assert resume_value(ours, Answered(ask_id="q1", data=given)) == {"type": "approve"}


def test_an_edited_action_may_be_named_in_camel_case() -> None:
    ours = Asked(ask_id="q1", question="ok?", kind="approval", tool_name="pay")
    edited = {"name": "pay", "args": {"to": "Bob"}}
    given = {"decisions": [{"type": "edit", "editedAction": edited}]}
    assert resume_value(ours, Answered(ask_id="q1", data=given)) == {"type": "edit", "edited_action": edited}
