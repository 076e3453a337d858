"""Repair: after a stop the next message finds a conversation that a provider accepts."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    InvalidToolCall,
    ToolCall,
    ToolMessage,
)
from langchain_core.tools import tool

from stellwerk.agents.checkpoints.saver import DurableSaver
from stellwerk.agents.runtime.conversation import with_missing_results
from stellwerk.spec.model import AgentConfig
from tests.agents.middleware.conversations import Conversation, call, model, say, spoken


def objections(messages: Sequence[BaseMessage]) -> list[str]:
    """What a provider would say: each call answered once, right behind the message that asked for it."""
    found, waiting = list[str](), set[str | None]()
    for message in messages:
        if isinstance(message, ToolMessage):
            found += [] if message.tool_call_id in waiting else [f"nobody asked for {message.tool_call_id}"]
            waiting.discard(message.tool_call_id)
            continue
        found += [f"{call_id} has no result" for call_id in waiting]
        asked = [*message.tool_calls, *message.invalid_tool_calls] if isinstance(message, AIMessage) else []
        waiting = {each["id"] for each in asked}
    return found + [f"{call_id} has no result" for call_id in waiting]


async def test_after_a_stop_inside_a_tool_the_next_message_works(saver: DurableSaver) -> None:
    inside = asyncio.Event()

    @tool
    async def hang() -> str:
        "Never ends."
        inside.set()
        await asyncio.Event().wait()
        return "never"

    @tool
    async def look() -> str:
        "Look."
        return "seen"

    chat = model(call("look", "hang"), again=[say("here I am")])
    talk = Conversation(AgentConfig(), chat, [hang, look], saver=saver)
    run = asyncio.create_task(talk.send("go"))
    async with asyncio.timeout(20):
        await inside.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run

    assert spoken(await talk.send("again")) == [("ai", "here I am")]
    assert objections(chat.asked[-1]) == []
    assert ("tool", "hang did not complete: the run was stopped.") in spoken(chat.asked[-1])


def ask(*ids: str, broken: Sequence[str] = ()) -> AIMessage:
    return AIMessage(
        "",
        tool_calls=[ToolCall(name="look", args={}, id=call_id) for call_id in ids],
        invalid_tool_calls=[
            InvalidToolCall(type="invalid_tool_call", name="look", args="{", id=call_id, error=None)
            for call_id in broken
        ],
    )


def test_a_call_whose_arguments_could_not_be_read_has_a_result_too() -> None:
    assert objections(list(with_missing_results([ask("a", broken=["b"]), HumanMessage("go")], "{} was stopped"))) == []


def test_a_result_in_an_earlier_round_is_none_for_a_later_call_of_the_same_id() -> None:
    result = ToolMessage("seen", tool_call_id="a")
    assert (
        objections(
            list(
                with_missing_results(
                    [ask("a"), result, HumanMessage("go"), ask("a"), HumanMessage("on")], "{} was stopped"
                )
            )
        )
        == []
    )


def test_a_whole_conversation_is_left_as_it_is() -> None:
    whole: list[AnyMessage] = [HumanMessage("go"), ask("a"), ToolMessage("seen", tool_call_id="a"), AIMessage("done")]
    assert list(with_missing_results(whole, "{} was stopped")) == whole


@st.composite
def cut_conversations(draw: st.DrawFn) -> list[AnyMessage]:
    """Rounds of which some tool calls were never answered; ids repeat over rounds."""
    messages: list[AnyMessage] = []
    for _ in range(draw(st.integers(0, 4))):
        ids = draw(st.lists(st.sampled_from("abcd"), unique=True))
        good = draw(st.integers(0, len(ids)))
        answered = draw(st.lists(st.sampled_from(ids), unique=True)) if ids else []
        messages += [HumanMessage("go"), ask(*ids[:good], broken=ids[good:])]
        messages += [ToolMessage("seen", tool_call_id=call_id) for call_id in answered]
    return messages


@given(cut_conversations())
@pytest.mark.requirement("fault-28")
def test_no_provider_objects_to_a_repaired_conversation_and_nothing_is_lost(messages: list[AnyMessage]) -> None:
    after = list(with_missing_results(messages, "{} was stopped"))
    assert objections(after) == []
    assert [message for message in after if message in messages] == messages
    assert list(with_missing_results(after, "{} was stopped")) == after
