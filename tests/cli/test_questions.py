"""Questions at the prompt: asked one by one, with what there is to choose from, and again until the answer fits."""

from typing import Any

import pytest
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt

from stellwerk.agents.graphs.registry import GraphEntry, Graphs
from stellwerk.agents.runtime.runnable import RunnableAgent
from stellwerk.cli import questions
from stellwerk.envelope.model import UserAnswer
from stellwerk.envelope.payloads import Answered, Asked
from stellwerk.errors import InvalidField
from stellwerk.spec.model import CompleteAgent
from stellwerk.spec.script import ScriptStep
from stellwerk.testing.order import order_problems
from tests.agents.agent_runs import agent, call, calls, say
from tests.cli.conversations import Chat, built, demo, over
from tests.runs import review_graphs


async def graph_that_asks(*questions: Any) -> RunnableAgent:
    """A plain graph that interrupts itself with these, and says what it was answered."""

    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [("ai", f"answered: {[interrupt(question) for question in questions]}")]}

    graph = StateGraph(MessagesState)
    graph.add_node(ask)
    graph.add_edge(START, "ask")
    graph.add_edge("ask", END)
    entry = GraphEntry("mine", graph.compile(), "mine.py:graph")
    return await built(CompleteAgent(name="mine", kind="graph", graph="mine"), graphs=Graphs([entry]))


async def test_options_have_numbers_and_a_wrong_answer_is_asked_again() -> None:
    chat = Chat(await demo(), typed=["7", "blue"])
    assert await chat.say("ask") == "completed"
    once = "? Which colour do you like?\n  1) red\n  2) green\n  3) blue\n  (enter takes green)\n"
    assert chat.view.text() == (
        "I need to know something.  0.0 s\n"
        f"{once}> 7\n"
        "! type a number from 1 to 3, or its name\n"
        f"{once}> blue\n"
        "You answered: blue\n"
        "completed in 0.0 s · 2 model calls · 1 tool call · scripted 20 → 22 tokens\n"
    )
    assert order_problems(chat.view.envelopes) == []


async def test_enter_takes_the_default() -> None:
    chat = Chat(await demo(), typed=[""])
    await chat.say("ask")
    assert "You answered: green\n" in chat.view.text()


async def test_without_a_user_the_default_is_taken_and_printed() -> None:
    chat = Chat(await demo())
    assert await chat.say("ask") == "completed"
    assert "? Which colour do you like?  green (its default)\nYou answered: green\n" in chat.view.text()


async def test_without_a_user_or_a_default_the_run_waits_and_the_remedy_is_printed() -> None:
    chat = Chat(await graph_that_asks("Is it all right?"))
    assert await chat.say("go") == "awaiting_user"
    assert chat.view.text().startswith("? Is it all right?\nstellwerk: the run asks this, and there is no user")
    assert "run it in a terminal" in chat.view.text()


async def test_a_default_that_does_not_fit_is_none() -> None:
    chat = Chat(await graph_that_asks({"question": "How many?", "default": "x", "schema": {"type": "integer"}}))
    assert await chat.say("go") == "awaiting_user"
    assert "! its default is x, but the answer does not fit" in chat.view.text()


async def test_the_end_of_the_input_leaves_the_run_waiting() -> None:
    chat = Chat(await graph_that_asks("Is it all right?"), typed=[])
    assert await chat.say("go") == "awaiting_user"


async def test_a_schema_is_described_and_typed_text_becomes_a_value_of_its_type() -> None:
    yes = {"question": "Sure?", "schema": {"type": "boolean"}}
    number = {"question": "How many?", "schema": {"type": "integer", "minimum": 1, "maximum": 9}}
    chat = Chat(await graph_that_asks(yes, number), typed=["perhaps", "yes", "12", "3"])
    assert await chat.say("go") == "completed"
    assert "answered: [True, 3]\n" in chat.view.text()
    for hint in ("(yes or no)", "(a whole number 1…9)", "'perhaps' is not of type 'boolean'", "12 is greater than"):
        assert hint in chat.view.text()


async def test_a_form_is_asked_field_by_field() -> None:
    properties = {
        "size": {"enum": ["small", "large"], "description": "Of the cup."},
        "sugar": {"type": "integer", "default": 0},
        "name": {"type": "string"},
    }
    form = {"question": "How?", "schema": {"type": "object", "properties": properties, "required": ["size"]}}
    chat = Chat(await graph_that_asks(form), typed=["l", "", ""])
    await chat.say("coffee")
    assert chat.view.text().splitlines()[:7] == [
        "? How?",
        "  (* is needed)",
        "size* (Of the cup.; small | large): l",
        "sugar (a whole number; enter takes 0):",
        "name:",
        "· ask",
        "answered: [{'size': 'large', 'sugar': 0}]",
    ]


async def test_an_agent_below_the_outermost_one_is_named_when_it_asks() -> None:
    waiter = agent("waiter", call("ask_user", question="Still or sparkling?"), say("{result}"), tools=["ask_user"])
    chat = Chat(await built(over(agent("chef", call("waiter", task="go"), say("{result}")), waiter)), ["", "still"])
    await chat.say("go")
    assert chat.view.text() == (
        "→ waiter  task: go\n"
        "? waiter asks: Still or sparkling?\n>\n"
        "! an answer is needed\n"
        "? waiter asks: Still or sparkling?\n> still\n"
        "  waiter │ still  0.0 s\n"
        "✓ waiter  0.0 s\n"
        "still\n"
        "completed in 0.0 s · 4 model calls · 1 tool call · scripted 6 → 11 tokens\n"
    )


async def test_calls_that_want_approval_are_shown_whole_and_decided_one_after_the_other() -> None:
    two = calls(("get_weather", {"city": "Ulm"}), ("current_time", {"zone": "UTC"}))
    rules = {"get_weather": ["approve", "edit"], "current_time": ["approve", "reject"]}
    careful = agent("a", two, say("Done."), tools=["get_weather", "current_time"], approvals=rules)
    typed = ["reject", "edit", "{}x", "2", '{"city": "Bonn"}', "r", "not now"]
    chat = Chat(await built(careful), typed=typed)
    assert await chat.say("go") == "completed"
    asked = '? (1 of 2) May get_weather run?\n  {\n    "city": "Ulm"\n  }\n  1) approve\n  2) edit\n'
    assert chat.view.text().startswith(
        f"{asked}> reject\n! type a number from 1 to 2, or its name\n"
        f"{asked}> edit\nArguments to run it with, as JSON: {{}}x\n! write the arguments as a JSON object, such as "
        f'{{"city": "Berlin"}}\n{asked}> 2\nArguments to run it with, as JSON: {{"city": "Bonn"}}\n'
        '? (2 of 2) May current_time run?\n  {\n    "zone": "UTC"\n  }\n  1) approve\n  2) reject\n> r\n'
        "Why? (enter gives no reason) not now\n"
    )
    assert "  Bonn   sunny        21\n" in chat.view.text()
    answers = [e.payload for e in chat.view.envelopes if isinstance(e, UserAnswer)]
    assert [(answer.refused, answer.text) for answer in answers] == [(False, None), (True, "not now")]
    assert order_problems(chat.view.envelopes) == []


async def test_an_approval_that_is_needed_because_of_untrusted_content_gives_that_reason() -> None:
    save = ScriptStep(call="save_document", args={"name": "a.md", "content": "A"})
    steps = call("list_documents"), save, say("Done.")
    rule = {"approvals_after_reading": ["write"]}
    careful = agent("a", *steps, tools=["list_documents", "save_document"], **rule)
    chat = Chat(await built(careful), typed=["reject", ""])
    assert await chat.say("go") == "completed"
    assert (
        "? May save_document run?\n"
        "  a has read what others may have written (list_documents), so this call needs your approval\n"
    ) in chat.view.text()


async def test_an_answer_can_be_given_in_place_of_the_tool() -> None:
    careful = agent(
        "a", call("get_weather", city="Ulm"), say("{result}"), tools=["get_weather"], approvals={"get_weather": []}
    )
    chat = Chat(await built(careful), typed=["respond", "It rains."])
    await chat.say("go")
    assert "\nIt rains.\n" in chat.view.text()


MAIL = {"action": "send_mail", "args": {"subject": "Lunch", "to": "Ann"}}


@pytest.mark.parametrize(
    ("typed", "received"),
    [
        (["yes, but later", "yes"], {"type": "accept", "args": MAIL}),
        (["1"], {"type": "accept", "args": MAIL}),
        (["no, not today"], {"type": "ignore", "args": None}),
        (["reject", "not today"], {"type": "ignore", "args": None}),
        (["edit {", 'edit {"to": "Bob"}'], {"type": "edit", "args": {"action": "send_mail", "args": {"to": "Bob"}}}),
        (["respond: make it dinner"], {"type": "response", "args": "make it dinner"}),
        (["respond", "make it dinner"], {"type": "response", "args": "make it dinner"}),
    ],
    ids=lambda value: " / ".join(value) if isinstance(value, list) else "",
)
async def test_a_request_of_agent_inbox_is_shown_as_an_approval_and_decided_in_words(
    typed: list[str], received: dict[str, Any]
) -> None:
    entry = GraphEntry("mine", review_graphs.inbox, "mine.py:graph")
    mine = await built(CompleteAgent(name="mine", kind="graph", graph="mine"), graphs=Graphs([entry]))
    chat = Chat(mine, typed=typed)
    ended = await chat.say("mail")
    shown = chat.view.text()
    assert "? May send_mail run?\n  # send_mail\nA mail to Ann.\n" in shown
    assert '  {\n    "subject": "Lunch",\n    "to": "Ann"\n  }\n  1) approve\n  2) edit\n  3) reject\n' in shown
    assert (ended, repr(received) in shown) == ("completed", True), shown
    assert order_problems(chat.view.envelopes) == []


async def test_the_actions_of_one_interrupt_are_decided_one_after_the_other() -> None:
    entry = GraphEntry("mine", review_graphs.inbox, "mine.py:graph")
    mine = await built(CompleteAgent(name="mine", kind="graph", graph="mine"), graphs=Graphs([entry]))
    chat = Chat(mine, typed=["respond: later", "no, never"])
    assert await chat.say("two") == "completed"
    assert "? (1 of 2) May send_mail run?" in chat.view.text()
    assert "? (2 of 2) May book run?" in chat.view.text()
    assert repr([{"type": "response", "args": "later"}, {"type": "ignore", "args": None}]) in chat.view.text()


@pytest.mark.parametrize("typed, option", [("2", "no"), ("YES", "yes"), ("m", "maybe"), ("no", "no")])
def test_an_option_is_chosen_by_its_number_its_name_or_its_beginning(typed: str, option: str) -> None:
    assert questions.chosen(["yes", "no", "maybe", "nothing"], typed) == option


@pytest.mark.parametrize("typed", ["", "0", "5", "n", "x"])
def test_what_is_no_option_or_could_be_two_is_refused(typed: str) -> None:
    with pytest.raises(InvalidField):
        questions.chosen(["yes", "no", "maybe", "nothing"], typed)


def test_a_text_is_answered_as_text_and_anything_else_as_data() -> None:
    asked = Asked(ask_id="a", question="?")
    assert questions.answered(asked, "x") == Answered(ask_id="a", text="x")
    assert questions.answered(asked, [1]) == Answered(ask_id="a", data=[1])
