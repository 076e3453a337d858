"""Questions at the prompt: asked one by one, with what there is to choose from, and again until the answer fits."""

from typing import Any

import pytest
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt

from stellwerk.agents.graphs import GraphEntry, Graphs
from stellwerk.agents.runnable import RunnableAgent
from stellwerk.envelope.model import UserAnswer
from stellwerk.envelope.order import legal
from stellwerk.envelope.payloads import Answered, Asked
from stellwerk.errors import InvalidField
from stellwerk.spec.model import CompleteAgent
from stellwerk.spec.script import ScriptStep
from stellwerk.terminal import replies
from tests.agents.driving import agent, call, calls, say
from tests.terminal.talks import Sitting, built, demo, over


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
    sitting = Sitting(await demo(), typed=["7", "blue"])
    assert await sitting.say("ask") == "completed"
    once = "? Which colour do you like?\n  1) red\n  2) green\n  3) blue\n  (enter takes green)\n"
    assert sitting.seen.text() == (
        "I need to know something.  0.0 s\n"
        f"{once}> 7\n"
        "! type a number from 1 to 3, or what it stands for\n"
        f"{once}> blue\n"
        "You answered: blue\n"
        "completed in 0.0 s · 2 model calls · 1 tool call · scripted 20 → 22 tokens\n"
    )
    assert legal(sitting.seen.envelopes) == []


async def test_enter_takes_the_default() -> None:
    sitting = Sitting(await demo(), typed=[""])
    await sitting.say("ask")
    assert "You answered: green\n" in sitting.seen.text()


async def test_nobody_there_means_the_default_which_is_said() -> None:
    sitting = Sitting(await demo())
    assert await sitting.say("ask") == "completed"
    assert "? Which colour do you like?  green (its default)\nYou answered: green\n" in sitting.seen.text()


async def test_nobody_there_and_no_default_leaves_the_run_waiting_and_says_what_to_do() -> None:
    sitting = Sitting(await graph_that_asks("Is it all right?"))
    assert await sitting.say("go") == "awaiting_user"
    assert sitting.seen.text().startswith("? Is it all right?\nstellwerk: the run asks this, and there is nobody")
    assert "run it in a terminal" in sitting.seen.text()


async def test_a_default_that_does_not_fit_is_none() -> None:
    sitting = Sitting(await graph_that_asks({"question": "How many?", "default": "x", "schema": {"type": "integer"}}))
    assert await sitting.say("go") == "awaiting_user"
    assert "! its default is x, but the answer does not fit" in sitting.seen.text()


async def test_the_end_of_the_input_leaves_the_run_waiting() -> None:
    sitting = Sitting(await graph_that_asks("Is it all right?"), typed=[])
    assert await sitting.say("go") == "awaiting_user"


async def test_a_schema_is_told_in_words_and_what_is_typed_becomes_what_it_wants() -> None:
    yes = {"question": "Sure?", "schema": {"type": "boolean"}}
    number = {"question": "How many?", "schema": {"type": "integer", "minimum": 1, "maximum": 9}}
    sitting = Sitting(await graph_that_asks(yes, number), typed=["perhaps", "yes", "12", "3"])
    assert await sitting.say("go") == "completed"
    assert "answered: [True, 3]\n" in sitting.seen.text()
    for hint in ("(yes or no)", "(a whole number 1…9)", "'perhaps' is not of type 'boolean'", "12 is greater than"):
        assert hint in sitting.seen.text()


async def test_a_form_is_asked_field_by_field() -> None:
    properties = {
        "size": {"enum": ["small", "large"], "description": "Of the cup."},
        "sugar": {"type": "integer", "default": 0},
        "name": {"type": "string"},
    }
    form = {"question": "How?", "schema": {"type": "object", "properties": properties, "required": ["size"]}}
    sitting = Sitting(await graph_that_asks(form), typed=["l", "", ""])
    await sitting.say("coffee")
    assert sitting.seen.text().splitlines()[:6] == [
        "? How?",
        "  (* is needed)",
        "size* (Of the cup.; small | large): l",
        "sugar (a whole number; enter takes 0):",
        "name:",
        "answered: [{'size': 'large', 'sugar': 0}]",
    ]


async def test_an_agent_below_the_outermost_one_is_named_when_it_asks() -> None:
    waiter = agent("waiter", call("ask_user", question="Still or sparkling?"), say("{result}"), tools=["ask_user"])
    sitting = Sitting(
        await built(over(agent("chef", call("waiter", task="go"), say("{result}")), waiter)), ["", "still"]
    )
    await sitting.say("go")
    assert sitting.seen.text() == (
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
    sitting = Sitting(await built(careful), typed=typed)
    assert await sitting.say("go") == "completed"
    asked = '? (1 of 2) May get_weather run?\n  {\n    "city": "Ulm"\n  }\n  1) approve\n  2) edit\n'
    assert sitting.seen.text().startswith(
        f"{asked}> reject\n! type a number from 1 to 2, or what it stands for\n"
        f"{asked}> edit\nArguments to run it with, as JSON: {{}}x\n! write the arguments as a JSON object, such as "
        f'{{"city": "Berlin"}}\n{asked}> 2\nArguments to run it with, as JSON: {{"city": "Bonn"}}\n'
        '? (2 of 2) May current_time run?\n  {\n    "zone": "UTC"\n  }\n  1) approve\n  2) reject\n> r\n'
        "Why? (enter gives no reason) not now\n"
    )
    assert "  Bonn   sunny        21\n" in sitting.seen.text()
    answers = [e.payload for e in sitting.seen.envelopes if isinstance(e, UserAnswer)]
    assert [(answer.refused, answer.text) for answer in answers] == [(False, None), (True, "not now")]
    assert legal(sitting.seen.envelopes) == []


async def test_whoever_is_asked_because_of_what_was_read_is_told_so() -> None:
    save = ScriptStep(call="save_document", args={"name": "a.md", "content": "A"})
    steps = call("list_documents"), save, say("Done.")
    rule = {"approvals_after_reading": ["write"]}
    careful = agent("a", *steps, tools=["list_documents", "save_document"], **rule)
    sitting = Sitting(await built(careful), typed=["reject", ""])
    assert await sitting.say("go") == "completed"
    assert (
        "? May save_document run?\n"
        "  a has read what others may have written (list_documents), so this call needs your approval\n"
    ) in sitting.seen.text()


async def test_an_answer_can_be_given_in_place_of_the_tool() -> None:
    careful = agent(
        "a", call("get_weather", city="Ulm"), say("{result}"), tools=["get_weather"], approvals={"get_weather": []}
    )
    sitting = Sitting(await built(careful), typed=["respond", "It rains."])
    await sitting.say("go")
    assert "\nIt rains.\n" in sitting.seen.text()


@pytest.mark.parametrize("typed, option", [("2", "no"), ("YES", "yes"), ("m", "maybe"), ("no", "no")])
def test_an_option_is_chosen_by_its_number_its_name_or_its_beginning(typed: str, option: str) -> None:
    assert replies.chosen(["yes", "no", "maybe", "nothing"], typed) == option


@pytest.mark.parametrize("typed", ["", "0", "5", "n", "x"])
def test_what_is_no_option_or_could_be_two_is_refused(typed: str) -> None:
    with pytest.raises(InvalidField):
        replies.chosen(["yes", "no", "maybe", "nothing"], typed)


def test_a_text_is_answered_as_text_and_anything_else_as_data() -> None:
    asked = Asked(ask_id="a", question="?")
    assert replies.answered(asked, "x") == Answered(ask_id="a", text="x")
    assert replies.answered(asked, [1]) == Answered(ask_id="a", data=[1])
