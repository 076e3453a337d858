"""Placeholders of a script: the user's text, tool results, choices and failures, and how much of each is shown."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from stellwerk.agents.scripted.model import ScriptedModel, next_step
from stellwerk.agents.scripted.templates import TemplateFiller, has_word
from stellwerk.errors import ScriptedFailure
from stellwerk.spec.script import ScriptRule, ScriptStep, check_placeholders


def used(name: str, found: str, *, failed: bool = False, call_id: str = "c1") -> list[BaseMessage]:
    """A turn in which the model has called a tool."""
    call = {"name": name, "args": {}, "id": call_id, "type": "tool_call"}
    result = ToolMessage(found, name=name, tool_call_id=call_id, status="error" if failed else "success")
    return [AIMessage("", tool_calls=[call]), result]


def quoted(text: str, *said: BaseMessage, asked: str = "hi") -> Any:
    return TemplateFiller([HumanMessage(asked), *said]).fill(text)


@pytest.mark.parametrize(
    "asked, name",
    [
        ("Create a service billing-service and deploy it to staging", "billing-service"),
        ("Erzeuge ein Service 'billing-service' und deploye auf staging", "billing-service"),
        ("a SERVICE “a b”, please", "a b"),
        ("Ein Service „a b“ bitte", "a b"),
        ("service ../x", "../x"),
        ("service '../x'", "../x"),
        ("service 🚀 now", "🚀"),
        ("service: billing.", "billing"),
        ("A new service 'it", "'it"),
        ("service ..", ".."),
        ("service ''", ""),
        ("Deploy billing-service again", ""),
        ("What is a microservice", ""),
        ("a service", ""),
        ("Create a service called billing", "billing"),
    ],
)
def test_what_follows_a_word_is_quoted_as_typed(asked: str, name: str) -> None:
    assert quoted("<{message:called,service}>", asked=asked) == f"<{name}>"


@given(st.text(st.characters(exclude_characters="'", exclude_categories=["Cs"]), min_size=1, max_size=50))
def test_quoted_text_is_filled_in_unchanged(name: str) -> None:
    assert TemplateFiller([HumanMessage(f"a service '{name}' for me")]).fill({"name": ["{message:service}"]}) == {
        "name": [name[:200]]
    }


def test_a_result_is_quoted_by_its_tool_and_the_last_one_counts() -> None:
    said = [*used("ask", "red", call_id="c1"), *used("look", "sunny", call_id="c2"), *used("ask", "blue", call_id="c3")]
    assert quoted("{result:look} {result:ask} {result} {result:never}!", *said) == "sunny blue blue !"


@pytest.mark.parametrize(
    "result, field",
    [
        ('{"url":"http://127.0.0.1:1/","pid":7}', "http://127.0.0.1:1/"),
        ("see url http://h/.", "http://h/"),
        ("[1]", ""),
    ],
)
def test_a_result_is_quoted_by_its_field(result: str, field: str) -> None:
    assert quoted("{result:deploy:url}", *used("deploy", result)) == field


def test_a_word_can_be_quoted_by_the_one_behind_it() -> None:
    said = used("plan_tasks", "Done.\n- [ ] **t7** Ask them (pending)\n- [ ] **t8** Deploy (pending)")
    quotes = "{result:plan_tasks:<Ask} {result:plan_tasks:<deploy} {result:plan_tasks:<Done}{result:plan_tasks:<x}!"
    assert quoted(quotes, *said) == "t7 t8 !"


def test_a_field_that_is_no_text_is_json_and_one_that_is_not_there_is_nothing() -> None:
    said = used("deploy", '{"pid":7,"to":{"a":"ä"}}')
    assert quoted("{result:deploy:pid} {result:deploy:to} {result:deploy:url}", *said) == '7 {"a": "ä"} '


@pytest.mark.parametrize(
    "answer, language",
    [
        ("Repo soll private sein; Programmiersprache Go", "go"),
        ("Node.js", "node"),
        ("python-service", "python"),
        ("good question", "python"),
        ("", "python"),
        ("go or node", "node"),
    ],
)
def test_a_choice_is_the_first_that_the_text_has_as_a_word_or_the_first_named(answer: str, language: str) -> None:
    assert quoted("{result:ask_user|python|node|go}-service", *used("ask_user", answer)) == f"{language}-service"


@given(st.text("aB ß-", max_size=8), st.text("abß-", min_size=1, max_size=3))
def test_a_word_is_found_where_no_letter_touches_it(text: str, word: str) -> None:
    padded = f" {text.casefold()} "
    at = [n for n in range(len(padded)) if padded.startswith(word.casefold(), n)]
    ends = [(padded[n - 1], padded[n + len(word.casefold())]) for n in at]
    assert has_word(text, word) == any(not (a.isalpha() or b.isalpha()) for a, b in ends)


def test_what_is_quoted_is_only_text_and_other_braces_stay() -> None:
    said = used("ask", "{message} {result:ask}")
    assert quoted("{result:ask} {x} {messages} {}", *said) == "{message} {result:ask} {x} {messages} {}"


def test_long_parts_are_cut_like_whole_texts() -> None:
    assert quoted("{result:look}", *used("look", "r" * 5000)) == "r" * 2000 + " …"
    assert quoted("{message:service}", asked=f"service {'x' * 1000}") == "x" * 200 + " …"


@pytest.mark.parametrize(
    "text",
    [
        *("{message:}", "{message:a:b}", "{message:a b}", "{result:a:b:c}", "{failure:look}", "{message|}"),
        *("{result:look|a||b}", "{result:look", "a {message:{x}}", "{failure|a b}"),
    ],
)
def test_what_begins_like_a_quote_and_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a placeholder; write"):
        check_placeholders({"deep": [text]})


@pytest.mark.parametrize(
    "text", ["{message}", "{messages:x}", "{ message:x}", "{resulting}", "{a: 1}", "{result", "{}"]
)
def test_what_scripts_said_before_there_were_such_quotes_is_taken(text: str) -> None:
    assert check_placeholders(text) == text


RULE = ScriptRule(
    steps=[ScriptStep(call="make"), ScriptStep(call="deploy"), ScriptStep(say="All is well.")],
    failed=[ScriptStep(call="note", args={"blocker": "{failure}"}), ScriptStep(say="It did not work: {failure}")],
)


def test_steps_for_a_failure_are_played_from_there_on() -> None:
    asked, fine = HumanMessage("go"), used("make", "made")
    assert next_step([RULE], [asked, *fine]).call == "deploy"
    for before in ([], fine):
        failed = [asked, *before, *used("deploy", "no Go here", failed=True, call_id="c2")]
        assert next_step([RULE], failed).call == "note"
        told = ScriptedModel(script=[RULE]).invoke([*failed, *used("note", "noted", call_id="c3")])
        assert told.text == "It did not work: no Go here"


def test_of_a_failure_only_what_it_says_is_quoted_and_not_what_it_is_called() -> None:
    assert quoted("{failure}", *used("make", "ScriptedFailure: Refused: 'Ulm: a' is taken", failed=True)) == (
        "'Ulm: a' is taken"
    )


def test_a_failure_of_an_earlier_round_is_forgotten() -> None:
    round_before = [HumanMessage("go"), *used("make", "no", failed=True), AIMessage("It did not work")]
    assert next_step([RULE], [*round_before, HumanMessage("again")]).call == "make"
    assert TemplateFiller([*round_before, HumanMessage("again")]).fill("{failure}!") == "!"


def test_without_such_steps_a_failure_changes_nothing() -> None:
    rule = ScriptRule(steps=RULE.steps)
    assert next_step([rule], [HumanMessage("go"), *used("make", "no", failed=True)]).call == "deploy"


def test_a_failure_can_be_handed_on() -> None:
    rule = ScriptRule(steps=[ScriptStep(call="make")], failed=[ScriptStep(fail="refused: {failure}")])
    with pytest.raises(ScriptedFailure, match="refused: too long"):
        ScriptedModel(script=[rule]).invoke([HumanMessage("go"), *used("make", "too long", failed=True)])
