"""The scripted model: what a script can say, and that it always says the same."""

import asyncio
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from pydantic import ValidationError

from stellwerk.agents.runtime.conversation import INPUT_NOTE, VALIDATOR
from stellwerk.agents.scripted.model import ScriptedModel, next_step
from stellwerk.errors import ScriptedFailure
from stellwerk.spec.script import ScriptCall, ScriptRule, ScriptStep

SCRIPT = [
    ScriptRule(
        when="weather",
        steps=[ScriptStep(say="Looking. ", call="look", args={"city": "Ulm"}), ScriptStep(say="{result}!")],
    ),
    ScriptRule(steps=[ScriptStep(say="You said {message}.")]),
]


def after_tool() -> list[BaseMessage]:
    call = {"name": "look", "args": {}, "id": "c1", "type": "tool_call"}
    return [HumanMessage("Weather?"), AIMessage("", tool_calls=[call]), ToolMessage("sunny", tool_call_id="c1")]


def playing(*steps: ScriptStep, **settings: Any) -> ScriptedModel:
    return ScriptedModel(script=[ScriptRule(steps=list(steps))], **settings)


@pytest.mark.parametrize(
    "messages, say",
    [
        ([HumanMessage("hi")], "You said {message}."),
        ([HumanMessage("the WEATHER please")], "Looking. "),
        (after_tool(), "{result}!"),
        ([*after_tool(), AIMessage("sunny!"), HumanMessage("thanks")], "You said {message}."),
    ],
    ids=["no word: the last rule", "a word in any case", "the next step after a tool", "a new round begins anew"],
)
def test_the_step_follows_from_the_conversation_alone(messages: list[BaseMessage], say: str) -> None:
    assert next_step(SCRIPT, messages).say == say


@pytest.mark.parametrize("spoken, say", [(0, "any"), (1, "second"), (2, "third"), (3, "any")])
def test_a_rule_with_a_number_begins_at_that_step_of_the_round(spoken: int, say: str) -> None:
    numbered = ScriptRule(when=2, steps=[ScriptStep(say="second"), ScriptStep(say="third")])
    script = [numbered, ScriptRule(steps=[ScriptStep(say="any")])]
    assert next_step(script, [HumanMessage("hi"), *[AIMessage("")] * spoken]).say == say


def test_of_a_task_the_prompt_is_heard_and_of_its_documents_what_they_are() -> None:
    kinds = [("d1", "txt", False), ("d2", "csv", False), ("d3", "xlsx", True)]
    given = {"wish": len("Write."), "documents": [{"id": id_, "ext": e, "made": made} for id_, e, made in kinds]}
    told = "Write.\n\nDocuments for this task:\n- fail.txt (d1): Text, 4 words: Please ask a question."
    task = HumanMessage(told, response_metadata={INPUT_NOTE: given})
    words = [ScriptRule(when=word, steps=[ScriptStep(say="obeyed")]) for word in ("ask", "fail", "documents", "text")]
    quoted = "{document:xlsx,csv} {document} / {documents} / {documents:xlsx,csv}"
    by_kind = ScriptRule(when=["read", "write"], documents=["xlsx", "csv"], steps=[ScriptStep(say=quoted)])
    script = [*words, by_kind.model_copy(update={"documents": ["pdf"]}), by_kind]
    assert ScriptedModel(script=script).invoke([task]).text == "d2 d1 / d1 d2 / d2"
    any_kind = by_kind.model_copy(update={"documents": ["*"]})
    assert [next_step([any_kind], [asked]).say == quoted for asked in (task, HumanMessage("Write."))] == [True, False]
    attached = "Write.\n[attached ask.txt, document_id d1]\n[attached fail.csv, document_id d2]"
    assert "nothing to say" in next_step(script, [HumanMessage(attached)]).say


def test_what_a_validator_writes_is_no_new_round() -> None:
    script = [ScriptRule(when="size", steps=[ScriptStep(say="large"), ScriptStep(say="42")])]
    refused = [HumanMessage("What size?"), AIMessage("large"), HumanMessage("A number!", name=VALIDATOR)]
    assert next_step(script, refused).say == "42"


def test_used_up_words_are_said_again_but_used_up_calls_are_not_made_again() -> None:
    asked, twice = HumanMessage("go"), [AIMessage("")] * 2
    assert next_step([ScriptRule(steps=[ScriptStep(say="once more")])], [asked, *twice]).say == "once more"
    done = next_step([ScriptRule(steps=[ScriptStep(call="look")])], [asked, *twice])
    assert done.call is None and "done" in done.say


async def test_an_agent_whose_script_only_calls_comes_to_an_end() -> None:
    @tool
    def look() -> str:
        "Look."
        return "seen"

    state = await create_agent(playing(ScriptStep(call="look")), [look]).ainvoke({"messages": [HumanMessage("go")]})
    assert [message.type for message in state["messages"]] == ["human", "ai", "tool", "ai"]


async def test_tokens_joined_are_the_whole_answer() -> None:
    model = ScriptedModel(script=SCRIPT)
    chunks = [chunk async for chunk in model.astream([HumanMessage("one two  three")])]
    assert len(chunks) > 4
    assert "".join(str(chunk.text) for chunk in chunks) == "You said one two  three."
    assert (await model.ainvoke([HumanMessage("one two  three")])).text == "You said one two  three."


async def test_a_call_comes_in_pieces_like_a_providers_and_is_whole_at_the_end() -> None:
    message = await ScriptedModel(script=SCRIPT).ainvoke([HumanMessage("weather")])
    assert [(c["name"], c["args"]) for c in message.tool_calls] == [("look", {"city": "Ulm"})]
    assert message.response_metadata["finish_reason"] == "tool_calls"
    assert message.usage_metadata is not None


async def test_several_tools_are_called_at_once_each_with_its_own_id() -> None:
    step = ScriptStep(call="look", calls=[ScriptCall(call="look"), ScriptCall(call="listen", args={"to": "me"})])
    message = await playing(step).ainvoke([HumanMessage("go")])
    assert [call["name"] for call in message.tool_calls] == ["look", "look", "listen"]
    assert message.tool_calls[-1]["args"] == {"to": "me"}
    assert len({call["id"] for call in message.tool_calls}) == 3


@settings(deadline=None, max_examples=30)
@given(trims=st.lists(st.booleans(), min_size=1, max_size=8))
def test_ids_are_equal_on_a_retry_and_never_repeat_in_a_conversation(trims: list[bool]) -> None:
    model = playing(*[ScriptStep(calls=[ScriptCall(call="look"), ScriptCall(call="look")])] * 8)
    talk: list[BaseMessage] = [*[HumanMessage("long ago")] * 8, HumanMessage("go")]
    for trimmed in trims:  # a trimmed history can be as long as it was before
        message = model.invoke(talk)
        assert message.tool_calls == model.invoke(talk).tool_calls
        talk = [*talk[trimmed:], message]
    ids = [call["id"] for message in talk if isinstance(message, AIMessage) for call in message.tool_calls]
    assert len(ids) == len(set(ids)) == 2 * len(trims)


async def test_what_was_said_and_found_can_be_quoted_in_arguments_at_any_depth() -> None:
    args = {"query": "about {message}", "deep": [{"seen": "{result}"}], "count": 3}
    script = [ScriptRule(steps=[ScriptStep(call="look"), ScriptStep(call="note", args=args)])]
    message = await ScriptedModel(script=script).ainvoke(after_tool())
    (call,) = message.tool_calls
    assert call["args"] == {"query": "about Weather?", "deep": [{"seen": "sunny"}], "count": 3}


async def test_a_quoted_text_is_only_text() -> None:
    message = await playing(ScriptStep(say="You: {message}")).ainvoke([*after_tool(), HumanMessage("{result} {x}")])
    assert message.text == "You: {result} {x}"


async def test_a_step_that_fails_first_says_what_it_has_to_say() -> None:
    model, heard = playing(ScriptStep(say="I am about to ", fail="the provider is down")), []
    with pytest.raises(ScriptedFailure, match="the provider is down"):
        async for chunk in model.astream([HumanMessage("go")]):
            heard.append(str(chunk.text))
    assert "".join(heard) == "I am about to "
    with pytest.raises(ScriptedFailure):
        model.invoke([HumanMessage("go")])


@pytest.mark.parametrize("how", ["ainvoke", "astream"])
async def test_a_step_that_waits_is_silent_until_it_is_stopped(how: str) -> None:
    model, heard = playing(ScriptStep(say="too late", wait=600)), list[str]()

    async def listen() -> None:
        if how == "ainvoke":
            heard.append(str((await model.ainvoke([HumanMessage("go")])).text))
        async for chunk in model.astream([HumanMessage("go")]):
            heard.append(str(chunk.text))

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await listen()
    assert heard == []


def test_a_step_that_waited_says_all_of_it() -> None:
    assert playing(ScriptStep(say="at last", wait=0.01)).invoke([HumanMessage("go")]).text == "at last"


async def test_a_script_without_a_word_for_it_says_so() -> None:
    assert "nothing to say" in str((await ScriptedModel(script=SCRIPT[:1]).ainvoke([HumanMessage("hi")])).text)


@settings(deadline=None)
@given(st.text(max_size=200))
def test_whatever_the_user_says_a_call_quotes_it_unchanged(asked: str) -> None:
    step = ScriptStep(call="look", args={"value": ["{message}", 1], "other": "y"})
    (call,) = playing(step).invoke([HumanMessage(asked)]).tool_calls
    assert call["args"] == {"value": [asked, 1], "other": "y"}


async def test_of_long_texts_only_the_beginning_is_quoted() -> None:
    call = {"name": "look", "args": {}, "id": "c1", "type": "tool_call"}
    asked, found = HumanMessage("m" * 5000), ToolMessage("r" * 5000, tool_call_id="c1")
    step = ScriptStep(say="{message}|{result}")
    said = await playing(ScriptStep(call="look"), step).ainvoke([asked, AIMessage("", tool_calls=[call]), found])
    assert str(said.text).split("|") == ["m" * 200 + " …", "r" * 2000 + " …"]


async def test_a_step_that_quotes_ten_thousand_times_says_no_more_than_64_kib() -> None:
    many = ["{message}" * 1000] * 10
    step = ScriptStep(say="{message}" * 5000, call="look", args={"many": many})
    message = await playing(step).ainvoke([HumanMessage("x" * 200)])
    assert len(str(message.text)) == 64 * 1024
    assert message.tool_calls[0]["args"] == {"many": [""] * 10}  # nothing was left for it


def test_a_word_is_looked_for_in_the_beginning_of_the_text() -> None:
    script = [ScriptRule(when="late", steps=[ScriptStep(say="found")])]
    assert next_step(script, [HumanMessage("x " * 990 + "late")]).say == "found"
    assert next_step(script, [HumanMessage("x " * 1000 + "late")]).say != "found"


def test_a_word_has_at_most_a_hundred_characters() -> None:
    ScriptRule(when="x" * 100, steps=[ScriptStep(say="y")])
    with pytest.raises(ValidationError, match="at most 100 characters"):
        ScriptRule(when="x" * 101, steps=[ScriptStep(say="y")])


@given(st.text("ab !é_1", max_size=12), st.text("ab !é_1", max_size=3))
def test_a_rule_fits_where_a_word_of_the_text_begins_like_it(asked: str, word: str) -> None:
    script = [ScriptRule(when=word, steps=[ScriptStep(say="fits")])]
    fits = re.search(rf"(?<!\w){re.escape(word.casefold())}", asked.casefold()) is not None
    assert (next_step(script, [HumanMessage(asked)]).say == "fits") == fits
