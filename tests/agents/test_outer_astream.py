"""The agent as a library, streamed for a front end: real agents, real tools, lines of JSON."""

import asyncio
import json
from contextlib import aclosing
from typing import Any

import pytest
from langgraph.config import get_stream_writer

from stellwerk.agents.build.factory import AgentFactory
from stellwerk.agents.build.resources import Resources
from stellwerk.agents.runtime.runnable import RunnableAgent
from stellwerk.agents.tools.registry import Tools
from stellwerk.agents.tools.spec import tool
from stellwerk.dialects.base import translate
from stellwerk.dialects.events import Events
from stellwerk.envelope.chunk import StreamChunk, StreamEvent, StreamLevel
from stellwerk.spec.model import AgentConfig, ChatMessage, CompleteAgent, ModelSpec
from stellwerk.spec.script import ScriptRule
from tests.agents.agent_runs import agent, call, say

Line = dict[str, Any]
heard, stopped = asyncio.Event(), asyncio.Event()


@tool
async def dig(depth: int) -> str:
    """Dig, and tell of it in the form of a StreamChunk."""
    level, event = StreamLevel.OUTER, StreamEvent
    write = get_stream_writer()
    write(StreamChunk(level=level, event=event.TOOL_REQUEST, agent_name="boss", tool_name="spade", toolcall_id="x"))
    write(StreamChunk(level=level, event=event.FINAL, agent_name="boss", final_answer="gold!").model_dump())
    write({"progress": 50})
    await heard.wait()  # what is written after the end of a call counts as its caller's
    return f"{depth} metres"


@tool
async def wait() -> str:
    """Wait until somebody gives up."""
    try:
        await asyncio.Event().wait()
    finally:
        stopped.set()
    return "never"


async def built(described: CompleteAgent) -> RunnableAgent:
    return await AgentFactory(Resources(tools=Tools([dig, wait]))).build(described)


@pytest.mark.requirement("000.runnable.outer-astream-yields-ndjson", "000.stream.custom-chunks-validated", "fault-43")
async def test_a_tool_may_write_chunks_but_not_choose_their_level() -> None:
    heard.clear()
    lines: list[Line] = []
    made = await built(agent("digger", call("dig", depth=3), say("We found stones."), tools=["dig"]))
    async for line in made.outer_astream("go"):
        lines.append(json.loads(line))
        if lines[-1]["data"] == "gold!":
            heard.set()
    assert [(line["level"], line["type"], line["agent_name"], line["data"]) for line in lines] == [
        ("outer_agent", "text_step", "digger", "[outer_agent] START: digger"),
        ("outer_agent", "text_step", "digger", "[outer_agent] CALLING TOOL: dig"),
        ("inner_agent", "text_step", "digger", "[inner_agent] CALLING TOOL: spade"),
        ("inner_agent", "text_final", "digger", "gold!"),
        ("outer_agent", "tool_results", "digger", {"kind": "text", "text": "3 metres"}),
        ("outer_agent", "text_final", "digger", "We found stones."),
    ]
    assert {line["toolcall_id"] for line in lines[1:5]} == {lines[1]["toolcall_id"]}


@pytest.mark.requirement("001.backend.answer-once-validated")
async def test_an_answer_is_streamed_once_it_is_validated() -> None:
    rules = [
        ScriptRule(when="judged:\n42", steps=[say("OK")]),
        ScriptRule(when="judged:", steps=[say("number missing")]),
        ScriptRule(steps=[say("it is large"), say("42 it is")]),
    ]
    config = AgentConfig(validation_prompt="A good answer has a number in it.", validation_rounds=2)
    made = await built(CompleteAgent(name="oracle", model=ModelSpec(script=rules), config=config))
    told = [(n, envelope) async for n, envelope in _numbered(made)]
    texts = [event["payload"]["text"] for _, event in translate(Events(), told) if event["type"] == "text_message"]
    assert texts == ["42 it is"]


async def _numbered(made: RunnableAgent) -> Any:
    position = 0
    async for envelope in made.envelopes("how large?"):
        position += 1
        yield position, envelope


async def test_closing_the_iterator_stops_the_run() -> None:
    stopped.clear()
    made = await built(agent("waiter", call("wait"), say("done"), tools=["wait"]))
    async with asyncio.timeout(20), aclosing(made.outer_astream([ChatMessage(content="go")])) as lines:
        async for line in lines:
            if b"CALLING TOOL: wait" in line:
                break
    assert stopped.is_set()
