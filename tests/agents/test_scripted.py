import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from stellwerk.agents.scripted import ScriptedModel, next_step
from stellwerk.spec.model import ScriptRule, ScriptStep

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


async def test_a_script_without_a_word_for_it_says_so() -> None:
    assert "nothing to say" in str((await ScriptedModel(script=SCRIPT[:1]).ainvoke([HumanMessage("hi")])).text)
