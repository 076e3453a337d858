"""Schema prompting: a model without functions calls tools, and nobody behind it sees a difference."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver

from stellwerk.agents.build.models import EnvironmentSecrets, chat_model
from stellwerk.agents.scripted.model import ScriptedModel
from stellwerk.agents.scripted.schema_prompting import ToolCallParser, ToolSchemas, as_plain_text
from stellwerk.envelope.model import LlmEnd, Message, ToolStart
from stellwerk.spec.model import ModelSpec
from stellwerk.spec.operator import Provider
from stellwerk.spec.script import ScriptRule, ScriptStep
from stellwerk.testing.order import order_problems
from tests.agents.agent_runs import run_graph, text, types
from tests.openai_server import OpenAiServer, Reply, openai_server

__all__ = ["openai_server"]

ACTION = '{"tool": "look_up", "args": {"city": "Ulm"}}'


@tool
def look_up(city: str, days: int = 1) -> str:
    "Look up the weather in a city."
    return f"sunny in {city} for {days}"


TOOLS = [convert_to_openai_tool(look_up)]


Saying = Callable[..., BaseChatModel]


@pytest.fixture
def saying(openai_server: OpenAiServer) -> Saying:
    """Make a model that says these texts, on a server that refuses tools and their results, as such servers do."""
    openai_server.key, openai_server.knows_tools = "none", False

    def make(*says: str) -> BaseChatModel:
        openai_server.replies = [Reply(say=say) for say in says]
        return chat_model(
            ModelSpec(provider="house", model="tiny-1", tool_calling="schema", temperature=0.5),
            providers={"house": Provider(kind="openai", base_url=openai_server.address, needs_key=False)},
            keys=EnvironmentSecrets({}),
        )

    return make


def agent(model: BaseChatModel) -> Any:
    return create_agent(model, [look_up], system_prompt="Be brief.", name="boss", checkpointer=InMemorySaver())


def calls(message: AIMessage) -> list[tuple[str, dict[str, Any]]]:
    return [(call["name"], call["args"]) for call in message.tool_calls]


@pytest.mark.requirement("004.models.schema-prompting")
async def test_a_server_that_refuses_tools_serves_an_agent_with_tools(
    saying: Saying, openai_server: OpenAiServer
) -> None:
    envelopes = await run_graph(agent(saying(f"```json\n{ACTION}\n```", "It is sunny there.")))
    assert order_problems(envelopes) == []
    assert text(envelopes) == "It is sunny there."
    first, second = (e.payload for e in envelopes if isinstance(e, LlmEnd))
    assert (first.finish_reason, second.finish_reason) == ("tool_calls", "stop")
    asked, answered = (received.body for received in openai_server.received)
    assert (asked["model"], asked["temperature"]) == ("tiny-1", 0.5)
    assert "look_up" in asked["messages"][0]["content"]
    assert "sunny in Ulm" in answered["messages"][-1]["content"]


async def test_the_envelopes_are_those_of_a_model_with_functions(saying: Saying) -> None:
    called = ScriptStep(say="Look.\n", call="look_up", args={"city": "Ulm"})
    native = ScriptedModel(script=[ScriptRule(steps=[called, ScriptStep(say="Sunny it is.")])])
    expected = await run_graph(agent(native))
    envelopes = await run_graph(agent(saying(f"Look.\n{ACTION}", "Sunny it is.")))
    assert order_problems(envelopes) == []
    assert types(envelopes) == types(expected)
    assert text(envelopes) == text(expected) == "Look.\nSunny it is."
    (start,) = [e.payload for e in envelopes if isinstance(e, ToolStart)]
    (ended, _) = [e.payload for e in envelopes if isinstance(e, LlmEnd)]
    assert ended.tool_calls is not None
    assert (start.args, start.tool_call_id) == ({"city": "Ulm"}, ended.tool_calls[0].tool_call_id)


async def test_an_ordinary_answer_streams_word_by_word(saying: Saying) -> None:
    chunks = [str(chunk.text) async for chunk in saying("one two three").bind_tools([look_up]).astream("go")]
    assert [chunk for chunk in chunks if chunk] == ["one ", "two ", "three"]


@pytest.mark.parametrize(
    "said",
    [
        ACTION,
        f"```json\n{ACTION}\n```",
        f"```\n{ACTION}\n```\nI will wait for the result.",
        f"[{ACTION}]",
        f"\n\n  {ACTION}",
        '{"name": "look_up", "arguments": {"city": "Ulm"}}',
        '{"args": {"city": "Ulm"}, "tool": "look_up"}',
    ],
    ids=["bare", "fenced", "text behind it", "a list of one", "blank lines", "OpenAI's words", "the other way round"],
)
async def test_an_action_is_read_in_every_form_that_models_give_it(saying: Saying, said: str) -> None:
    message = await saying(said).bind_tools([look_up]).ainvoke("go")
    assert calls(message) == [("look_up", {"city": "Ulm"})]
    assert message.text == ""


@pytest.mark.parametrize("between", [", ", "\n", "\n```\n```json\n"])
async def test_several_actions_are_several_calls_with_ids_of_their_own(saying: Saying, between: str) -> None:
    several = f"[{ACTION}, {ACTION}]" if between == ", " else ACTION + between + ACTION
    message = await saying(several).bind_tools([look_up]).ainvoke("go")
    assert calls(message) == [("look_up", {"city": "Ulm"})] * 2
    assert len({call["id"] for call in message.tool_calls}) == 2


@pytest.mark.parametrize(
    "said, complaint",
    [
        ('{"tool": "look_up", "args": {', "not valid JSON"),
        ('{"tool": "look_up", "args": {"city": "Ulm"}} {"tool": ', "line 1 column 55"),
        ('{"tool": "look_down", "args": {}}', "there is no tool 'look_down'; there are: look_up"),
        ('{"tool": "look_up", "args": {}}', "'city' is a required property"),
        ('{"tool": "look_up", "args": {"city": "Ulm", "days": "three"}}', "at $.days: 'three' is not of type"),
        ('{"tool": "look_up", "args": "Ulm"}', "must be an object"),
        ('{"tool": ' + "[" * 100_000, "not valid JSON"),
        ('{"tool": "look_up", "args": {"city": "Ulm", "days": NaN}}', "NaN is no JSON number"),
    ],
    ids=["cut off", "second cut off", "unknown tool", "missing", "wrong type", "no object", "too deep", "no number"],
)
async def test_an_invalid_call_is_explained_to_the_model_once_and_not_streamed(
    saying: Saying, openai_server: OpenAiServer, said: str, complaint: str
) -> None:
    chunks = [chunk async for chunk in saying(said, ACTION).bind_tools([look_up]).astream("go")]
    assert "".join(str(chunk.text) for chunk in chunks) == ""
    message: Any = sum(chunks[1:], start=chunks[0])
    assert calls(message) == [("look_up", {"city": "Ulm"})]
    assert message.response_metadata["model_name"] == "tiny-1"
    *_, wrong, envelopes = openai_server.received[1].body["messages"]
    assert (wrong["role"], wrong["content"]) == ("assistant", said)
    assert envelopes["role"] == "user" and complaint in envelopes["content"]


async def test_what_is_bad_a_second_time_is_the_answer(saying: Saying) -> None:
    envelopes = await run_graph(agent(saying('{"tool": "look_down"}', '{"tool": "look_sideways"}')))
    (answer,) = [e.payload for e in envelopes if isinstance(e, Message)]
    assert text(envelopes) == '{"tool": "look_sideways"}'
    assert answer.status == "last"


async def test_both_rounds_are_counted(saying: Saying) -> None:
    message = await saying('{"tool":"look_down"}', "three words only").bind_tools([look_up]).ainvoke("go")
    assert message.usage_metadata is not None
    # The server counts messages and words: two messages in and one word out, then four and three.
    assert (message.usage_metadata["input_tokens"], message.usage_metadata["output_tokens"]) == (2 + 4, 1 + 3)


@pytest.mark.parametrize("said", ['{"name": "Bob"}', '{"city": "Ulm"}', "[1] a source", "```python\nprint()\n```", "{"])
async def test_what_only_resembles_an_action_is_an_answer(saying: Saying, said: str) -> None:
    message = await saying(said).bind_tools([look_up]).ainvoke("go")
    assert message.tool_calls == []
    assert message.text == said


async def test_without_tools_nothing_is_read_into_the_text(saying: Saying) -> None:
    assert (await saying(ACTION).ainvoke("go")).text == ACTION


def test_the_history_is_sent_as_plain_text_only() -> None:
    call = {"name": "look_up", "args": {"city": "Ulm"}, "id": "c1", "type": "tool_call"}
    talk = [
        SystemMessage("Be brief."),
        HumanMessage("Weather?"),
        AIMessage("Look.", tool_calls=[call, {**call, "id": "c2"}]),
        ToolMessage("sunny", tool_call_id="c1"),
        ToolMessage("no such city", tool_call_id="c2", status="error"),
    ]
    system, user, assistant, results = as_plain_text(talk, ToolSchemas(TOOLS))
    assert str(system.text).startswith("Be brief.\n\n") and '"city"' in str(system.text)
    assert user.text == "Weather?"
    assert assistant.text == f"Look.\n{ACTION}\n{ACTION}"
    assert isinstance(assistant, AIMessage) and not assistant.tool_calls
    assert isinstance(results, HumanMessage)
    assert "look_up returned" in str(results.text) and "look_up failed" in str(results.text)


def test_a_schema_that_cannot_judge_lets_the_tool_decide() -> None:
    odd: list[dict[str, Any]] = [
        {"type": "function", "function": {"name": "a", "parameters": {"type": "nonsense"}}},
        {"type": "function", "function": {"name": "b", "parameters": {"$ref": "http://127.0.0.1:9/none"}}},
        {"type": "web_search"},
    ]
    tools = ToolSchemas(odd)
    assert tools.problem("a", {"x": 1}) is None
    assert tools.problem("b", {"x": 1}) is None
    assert len(list(tools.lines())) == 2


def cut(whole: str, places: Sequence[int]) -> list[str]:
    ends = sorted({place % (len(whole) + 1) for place in places})
    return [whole[start:end] for start, end in zip([0, *ends], [*ends, len(whole)], strict=True)]


PLACES = st.lists(st.integers(min_value=0), max_size=12)
LINES = st.lists(st.sampled_from(["", "plain", "{", '{"a": 1}', "`x` is", "```json", "[1]", "  {", "```"]), max_size=6)


@settings(deadline=None)
@given(LINES, PLACES)
def test_a_text_without_an_action_comes_out_whole_however_it_is_cut(lines: list[str], places: list[int]) -> None:
    whole = "\n".join(lines)
    reader = ToolCallParser(ToolSchemas(TOOLS))
    envelopes = "".join(reader.feed(piece) for piece in cut(whole, places))
    reader.finish()
    assert envelopes + reader.held == reader.said == whole
    assert (reader.calls, reader.problem) == ([], None)


@settings(deadline=None)
@given(st.sampled_from(["", "Let me see.\n", "First:\n\n"]), PLACES, st.text())
def test_no_part_of_a_call_is_streamed_however_it_is_split(before: str, places: list[int], city: str) -> None:
    reader = ToolCallParser(ToolSchemas(TOOLS))
    action = json.dumps({"tool": "look_up", "args": {"city": city}})
    envelopes = "".join(reader.feed(piece) for piece in cut(f"{before}```json\n{action}\n```", places))
    assert envelopes.strip() == before.strip()
    reader.finish()
    assert reader.calls == [("look_up", {"city": city})]
