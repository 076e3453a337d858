"""``stellwerk.adapt``: live and recorded streams of LangGraph as envelopes or events of a dialect, without a server."""

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState, StateGraph
from langgraph.types import interrupt

import stellwerk
from stellwerk.agents.recorded.parts import MODES
from stellwerk.dialects.registry import DIALECTS
from stellwerk.envelope.model import (
    AskUser,
    Envelope,
    Error,
    LlmEnd,
    Message,
    RunEnd,
    RunStart,
    Warning,
    encode,
    type_of,
)
from stellwerk.errors import InvalidInput
from stellwerk.testing import MemoryLog, ScriptedModel, ScriptRule, ScriptStep, order_problems
from tests.dialects.agui_rules import problems

ROOT = Path(__file__).parents[2]
GIVEN = {"messages": [{"role": "user", "content": "What does a lamp cost?"}]}


@tool
def price_of(article: str) -> str:
    """Say what an article costs."""
    return f"A {article} costs 20 euros."


def agent() -> Any:
    steps = [ScriptStep(call="price_of", args={"article": "lamp"}), ScriptStep(say="It costs 20 euros.")]
    return create_agent(ScriptedModel(script=[ScriptRule(steps=steps)]), [price_of])


def graph(node: Any) -> Any:
    built = StateGraph(MessagesState).add_node("node", node).add_edge("__start__", "node")
    return built.compile(checkpointer=InMemorySaver())


def events_of(graph: Any) -> AsyncIterator[Any]:
    config = {"configurable": {"thread_id": "t"}}
    stream: AsyncIterator[Any] = graph.astream_events(GIVEN, config, version="v2")
    return stream


def parts_of(graph: Any) -> AsyncIterator[Any]:
    stream: AsyncIterator[Any] = graph.astream(GIVEN, version="v2", subgraphs=True, stream_mode=list(MODES))
    return stream


async def adapted(events: Any, **options: Any) -> list[Any]:
    return [envelope async for envelope in stellwerk.adapt(events, **options)]


def kinds(envelopes: list[Envelope]) -> list[str]:
    return [type_of(each) for each in envelopes if type_of(each) not in ("llm_token", "tool_update")]


@pytest.mark.parametrize("stream", [events_of, parts_of])
async def test_a_live_stream_becomes_the_envelopes_of_one_run(stream: Callable[[Any], Any]) -> None:
    found = await adapted(stream(agent()), agent="clerk")
    calls = ["llm_start", "llm_end", "tool_start", "tool_end", "llm_start", "llm_end"]
    assert [kind for kind in kinds(found) if kind != "subgraph_checkpoint"] == [
        *("run_start", "message", *calls, "message", "run_end")
    ]
    assert order_problems(found) == []
    assert {each.agent for each in found if each.agent} == {"clerk"}
    assert isinstance(found[-1], RunEnd) and found[-1].payload.result == "It costs 20 euros."
    asked = next(each for each in found if isinstance(each, Message))
    assert (asked.payload.role, asked.payload.text) == ("user", "What does a lamp cost?")


async def test_a_recorded_file_gives_the_same_envelopes_as_the_live_stream(tmp_path: Path) -> None:
    recording = tmp_path / "run.jsonl"
    times = iter(range(1000))
    lines: list[str] = []

    async def heard() -> AsyncIterator[Any]:
        async for event in events_of(agent()):
            ts = float(next(times))
            lines.append(stellwerk.event_line(event, clock=lambda ts=ts: ts))
            yield {**event, "ts": ts}

    live = await adapted(heard())
    recording.write_text("".join(lines), "utf-8")
    with recording.open(encoding="utf-8") as file:
        replayed = await adapted(file)
    assert list(map(encode, replayed)) == list(map(encode, live))
    assert {each.run_id for each in live} == {json.loads(lines[0])["run_id"]}


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_stream_can_be_had_in_every_dialect(dialect: Any) -> None:
    found = await adapted(events_of(agent()), dialect=dialect)
    assert found and all(isinstance(chunk, dict) for chunk in found)
    if dialect == "ag-ui":
        assert problems(found) == []
        assert (found[0]["type"], found[-1]["type"]) == ("RUN_STARTED", "RUN_FINISHED")


async def test_an_error_of_the_graph_ends_the_run_and_is_raised() -> None:
    def node(state: MessagesState) -> Any:
        raise ArithmeticError("out of lamps")

    found: list[Any] = []
    with pytest.raises(ArithmeticError, match="out of lamps"):
        async for envelope in stellwerk.adapt(events_of(graph(node))):
            found.append(envelope)
    assert order_problems(found) == []
    end = found[-1].payload
    assert (end.status, end.code, end.reason) == ("failed", "agent_failed", "the agent raised ArithmeticError")


@pytest.mark.parametrize("ts", [None, "2026-01-01T12:00:00Z"])
async def test_a_time_that_is_no_number_counts_as_absent(ts: Any) -> None:
    start = {"event": "on_chain_start", "name": "graph", "run_id": "g", "data": {"input": GIVEN}}
    found = await adapted([{**start, "ts": ts}], clock=lambda: 7.0)
    assert {each.ts for each in found} == {7.0}


@pytest.mark.parametrize("kind", ["on_llm_error", "on_chat_model_error"])
async def test_a_failed_model_call_in_a_recording_of_callbacks_ends_as_failed(kind: str) -> None:
    place = {"name": "model", "run_id": "m", "parent_ids": ["g"]}
    found = await adapted(
        [
            {"event": "on_chain_start", "name": "graph", "run_id": "g", "data": {"input": GIVEN}},
            {"event": "on_chat_model_start", **place},
            {"event": kind, **place, "data": {"error": {"class": "RateLimited", "message": "later"}}},
            {"event": "on_chain_end", "name": "graph", "run_id": "g", "data": {"output": {}}},
        ]
    )
    (ended,) = [each.payload for each in found if isinstance(each, LlmEnd)]
    assert (ended.status, ended.synthesized) == ("error", False)
    assert [each.payload.message for each in found if isinstance(each, Error)] == ["model raised RateLimited"]
    assert order_problems(found) == []


async def test_an_interrupt_is_a_question_and_the_run_waits_for_its_user() -> None:
    def node(state: MessagesState) -> Any:
        return {"messages": [("ai", interrupt("How many lamps?"))]}

    found = await adapted(events_of(graph(node)))
    (asked,) = [each.payload.question for each in found if isinstance(each, AskUser)]
    assert asked == "How many lamps?"
    assert found[-1].payload.status == "awaiting_user"
    assert order_problems(found) == []


@pytest.mark.parametrize(
    ("events", "message"),
    [
        (7, "a int is not a stream of events; pass graph.astream_events"),
        ({"event": "on_chain_start"}, "a dict is not a stream"),
        ([("messages", 1)], "is neither an event nor a part of version 2; pass graph.astream_events"),
        ([{"model": {"messages": []}}], "is neither an event nor a part of version 2"),
        (["{"], "is not a line of JSON"),
    ],
)
async def test_other_input_is_refused_with_what_to_pass(events: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(message)) as refused:
        await adapted(events)
    assert refused.value.field == "events"


async def test_an_unknown_dialect_is_refused_with_those_that_exist() -> None:
    with pytest.raises(InvalidInput, match="there is no dialect 'agui'; take one of: chunks, "):
        stellwerk.adapt([], dialect="agui")


async def test_an_unknown_event_becomes_a_warning_and_an_empty_stream_gives_nothing() -> None:
    found = await adapted([{"event": "on_dream", "run_id": "r1", "ts": 1.0}])
    assert [type(each) for each in found] == [RunStart, Warning, RunEnd]
    assert await adapted([]) == []


async def test_the_memory_log_keeps_what_is_recorded() -> None:
    log = MemoryLog()
    found = await adapted(events_of(agent()))
    await log.record("one", found[:3])
    await log.record("one", found[3:])
    assert await log.envelopes("one") == found


@pytest.mark.parametrize("number", [0, 1])
async def test_the_programs_of_the_page_about_the_library_run(tmp_path: Path, number: int) -> None:
    page = (ROOT / "docs/howto/library.md").read_text("utf-8")
    program = tmp_path / "program.py"
    program.write_text(re.findall(r"```python\n(.*?)```", page, re.DOTALL)[number], "utf-8")
    await _ran(program)


async def test_the_example_runs_by_itself() -> None:
    output = await _ran(ROOT / "examples/library/adapt.py")
    assert output.startswith("RunStart 1 ")
    assert output.endswith("TEXT_MESSAGE_END\nRUN_FINISHED\n")


async def _ran(program: Path) -> str:
    process = await asyncio.create_subprocess_exec(sys.executable, str(program), stdout=asyncio.subprocess.PIPE)
    async with asyncio.timeout(240):
        output, _ = await process.communicate()
    assert process.returncode == 0
    return output.decode()
