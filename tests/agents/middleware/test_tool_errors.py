"""tool_timeout and failing tools: a tool that goes wrong costs one tool error, and the model hears of it."""

import asyncio

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, tool

from stellwerk.agents.middleware.calls import one_line
from stellwerk.errors import Fenced
from stellwerk.spec.model import AgentConfig
from tests.agents.middleware.conversations import Conversation, call, model, say, spoken


@tool
async def hang() -> str:
    "Never ends."
    await asyncio.Event().wait()
    return "never"


@tool
async def look() -> str:
    "Look."
    return "seen"


def failing(error: Exception) -> BaseTool:
    @tool
    async def broken() -> str:
        "Always fails."
        raise error

    return broken


@pytest.mark.parametrize(
    "config",
    [
        AgentConfig(tool_timeout=0.05, tool_timeouts={"look": 60}),
        AgentConfig(tool_timeout=60, tool_timeouts={"hang": 0.05}),
    ],
    ids=["of all tools", "of one tool"],
)
async def test_a_tool_that_hangs_is_cut_off_and_its_sibling_is_not_touched(config: AgentConfig) -> None:
    said = await Conversation(config, model(call("hang", "look"), say("so be it")), [hang, look]).send("go")
    assert spoken(said)[1:] == [
        ("tool", "hang was cut off after 0.05 seconds; it may have done part of its work"),
        ("tool", "seen"),
        ("ai", "so be it"),
    ]
    assert isinstance(said[1], ToolMessage)
    assert said[1].status == "error"


async def test_a_timeout_inside_a_tool_is_an_error_of_the_tool() -> None:
    chat = model(call("broken"), say("so be it"))
    with structlog.testing.capture_logs():
        said = await Conversation(AgentConfig(tool_timeout=60), chat, [failing(TimeoutError("no route"))]).send("go")
    assert spoken(said)[1] == ("tool", "TimeoutError: no route")


async def test_an_exception_goes_to_the_model_in_one_line_and_to_the_log_whole() -> None:
    chat = model(call("broken"), say("so be it"))
    with structlog.testing.capture_logs() as lines:
        said = await Conversation(AgentConfig(), chat, [failing(ValueError("no\nsuch   city"))]).send("go")
    assert spoken(said)[1:] == [("tool", "ValueError: no such city"), ("ai", "so be it")]
    assert isinstance(said[1], ToolMessage)
    assert said[1].status == "error"
    [logged] = [line for line in lines if line["event"] == "tool_raised"]
    assert isinstance(logged["exc_info"], ValueError)
    assert (logged["agent"], logged["tool"]) == ("boss", "broken")


async def test_a_lost_lease_is_no_tool_error() -> None:
    with pytest.raises(Fenced):
        await Conversation(AgentConfig(), model(call("broken")), [failing(Fenced("session", 1))]).send("go")


@given(st.text(max_size=2000))
def test_whatever_an_exception_says_it_is_one_short_line(text: str) -> None:
    line = one_line(ValueError(text))
    assert line.startswith("ValueError")
    assert len(line) <= 500
    assert len(line.splitlines()) == 1
