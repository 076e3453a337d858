"""What the framework says in more than one form is the same fact in each: heard live, or read from a recording."""

from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import adispatch_custom_event, dispatch_custom_event
from langchain_core.messages import AIMessageChunk
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.tools import tool
from langgraph.graph import MessagesState, StateGraph

from stellwerk.agents.runtime.callback_handler import RunCallbackHandler
from stellwerk.agents.runtime.conversation import Turn
from stellwerk.agents.runtime.runnable import RunnableAgent
from stellwerk.agents.scripted.model import ScriptedModel
from stellwerk.envelope.model import Envelope, Log, ToolStart, ToolUpdate
from stellwerk.spec.script import ScriptRule, ScriptStep
from stellwerk.stream.adapter import StreamAdapter
from stellwerk.stream.facts import Fact, ToolArgsDelta
from tests.golden.record import plain
from tests.recordings.readers import facts_of_events, facts_of_parts
from tests.samples import SteadyClock
from tests.stream.mapping_rows import MODEL_EVENTS, chunk, event, model_starts, run

Piece = tuple[str | None, str | None, str, int | str | None]
"""Name, tool_call_id, arguments and index, as a provider streams them."""

TWO: list[list[Piece]] = [
    [("look", "c1", "", 0)],
    [(None, None, '{"at": ', 0)],
    [(None, None, '"sky"}', 0), ("look", "c2", "{", 1)],
    [(None, "", "}", 1)],
]
ODD: list[list[Piece]] = [
    [(None, None, '{"lost": 1}', 7)],
    [("look", None, "{}", 8)],
    [("whole", "c3", '{"a": 1}', None), ("whole", "c4", '{"b": 2}', None)],
    [(None, None, "of nobody", None)],
    [("first", "c5", "{", 0)],
    [("second", "c6", "{", 0)],
    [(None, None, "}", 0)],
]


def spoken(pieces: list[Piece]) -> AIMessageChunk:
    calls = [tool_call_chunk(name=name, id=id_, args=args, index=index) for name, id_, args, index in pieces]  # type: ignore[arg-type]
    return AIMessageChunk(content="", tool_call_chunks=calls)


async def live(chunks: list[list[Piece]]) -> list[Fact]:
    told: list[Fact] = []
    tap = RunCallbackHandler(told.append, SteadyClock())
    model_starts(tap, None)
    for pieces in chunks:
        tap.on_llm_new_token("", chunk=ChatGenerationChunk(message=spoken(pieces)), run_id=run(5))
    return told


async def parts(chunks: list[list[Piece]]) -> list[Fact]:
    return list(facts_of_parts([chunk("", tool_call_chunks=_plain(pieces)) for pieces in chunks], agent="boss"))


async def events(chunks: list[list[Piece]]) -> list[Fact]:
    streamed = [
        event("on_chat_model_stream", 5, chunk={"content": "", "tool_call_chunks": _plain(pieces)}) for pieces in chunks
    ]
    return list(facts_of_events([MODEL_EVENTS[0], *streamed], agent="boss"))


def _plain(pieces: list[Piece]) -> Any:
    return plain(spoken(pieces))["tool_call_chunks"]


@pytest.mark.parametrize("source", [live, parts, events], ids=lambda source: source.__name__)
@pytest.mark.parametrize(
    ("chunks", "written"),
    [
        (TWO, [("look", "c1", '{"at": "sky"}'), ("look", "c2", "{}")]),
        (ODD, [("whole", "c3", '{"a": 1}'), ("whole", "c4", '{"b": 2}'), ("first", "c5", "{"), ("second", "c6", "{}")]),
    ],
    ids=["two at once", "odd ones"],
)
async def test_arguments_are_streamed_under_the_model_call(
    source: Callable[[Any], Any], chunks: list[list[Piece]], written: list[tuple[str, str, str]]
) -> None:
    facts = await source(chunks)
    assert [fact for fact in facts if isinstance(fact, ToolArgsDelta)]
    updates = [e for e in _told(facts) if isinstance(e, ToolUpdate)]
    (model,) = {update.call_id for update in updates}
    assert model.startswith("lc_run--")
    joined: dict[tuple[Any, Any], str] = {}
    for update in updates:
        said = update.payload
        assert said.phase == "args"
        joined[said.tool_name, said.tool_call_id] = joined.get((said.tool_name, said.tool_call_id), "") + str(said.text)
    assert [(*names, text) for names, text in joined.items()] == written


@tool
async def dig(place: str) -> str:
    """Dig somewhere."""
    await adispatch_custom_event("dug", {"place": place})
    return place


@tool
def dig_in_a_thread(place: str) -> str:
    """Dig somewhere else."""
    dispatch_custom_event("dug", {"place": place})
    return place


def _node(state: MessagesState) -> dict[str, Any]:
    dispatch_custom_event("looked", "around")
    return {}


def _digging() -> Any:
    both = [ScriptStep(call=name, args={"place": name}) for name in ("dig", "dig_in_a_thread")]
    model = ScriptedModel(script=[ScriptRule(steps=[*both, ScriptStep(say="Done.")])])
    return create_agent(model, [dig, dig_in_a_thread], name="boss")


def _looking() -> Any:
    graph = StateGraph(MessagesState).add_node("look", _node)
    return graph.add_edge("__start__", "look").compile()


async def _events_of(graph: Any) -> list[Fact]:
    given = {"messages": [{"role": "user", "content": "Go."}]}
    stream = graph.astream_events(given, version="v2")
    recorded = [{**said, "data": plain(said["data"]), "metadata": plain(said["metadata"])} async for said in stream]
    return list(facts_of_events(recorded, agent="boss"))


async def _live_of(graph: Any) -> list[Fact]:
    told: list[Fact] = []
    await RunnableAgent("boss", graph).drive(Turn("thread", 1, "m1", "Go."), told.append, SteadyClock())
    return told


def _told(facts: list[Fact]) -> list[Envelope]:
    adapter = StreamAdapter(trace_id="trace", run_id="run", agent="boss")
    return [envelope for fact in facts for envelope in adapter.feed(fact)]


@pytest.mark.parametrize("source", [_live_of, _events_of])
async def test_an_event_that_a_tool_dispatches_is_progress_of_that_tool(source: Callable[[Any], Any]) -> None:
    log = _told(await source(_digging()))
    names = {e.call_id: e.payload.tool_name for e in log if isinstance(e, ToolStart)}
    output = [e for e in log if isinstance(e, ToolUpdate) and e.payload.phase == "output"]
    assert sorted((names[e.call_id], e.payload.data["data"]["place"], e.payload.data["name"]) for e in output) == [
        ("dig", "dig", "dug"),
        ("dig_in_a_thread", "dig_in_a_thread", "dug"),
    ]


@pytest.mark.parametrize("source", [_live_of, _events_of])
async def test_an_event_that_a_node_dispatches_is_a_line_in_the_log(source: Callable[[Any], Any]) -> None:
    lines = [e.payload for e in _told(await source(_looking())) if isinstance(e, Log)]
    assert [line.data for line in lines] == [{"name": "looked", "data": "around"}]
