"""What is stored once: state grows by what is new, comes back byte for byte, and leaves nothing behind."""

import math
import operator
import random
from base64 import b64encode
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph, add_messages

from stellwerk.agents.checkpoints.chunking import Item, cut, join
from stellwerk.agents.checkpoints.saver import DurableSaver
from stellwerk.agents.checkpoints.serde import StrictSerializer
from stellwerk.agents.scripted.model import ScriptedModel
from stellwerk.database.port import Database
from stellwerk.spec.script import ScriptRule, ScriptStep

CONFIG: RunnableConfig = {"configurable": {"thread_id": "0123456789ABCDEFGHIJKL", "checkpoint_ns": ""}}
TURNS, BUDGET = 40, 1_200_000
CHANCE = random.Random(1)
"""Not the same in each place, but the same in each run of the tests."""


async def size(database: Database, folder: Path) -> int:
    await database.truncate()
    return (folder / "test.db").stat().st_size


def text(length: int = 540) -> str:
    """Not compressible, so that the figures flatter nobody."""
    return b64encode(CHANCE.randbytes(length)).decode()[:length]


def agent(saver: DurableSaver) -> Any:
    @tool
    async def look() -> str:
        """Look."""
        return text()

    steps = [ScriptStep(call="look"), ScriptStep(say=text())]
    return create_agent(ScriptedModel(script=[ScriptRule(steps=steps)]), [look], checkpointer=saver)


class Notes(TypedDict):
    messages: Annotated[list[dict[str, str]], operator.add]
    about: dict[str, str]


def hand_written(saver: DurableSaver) -> Any:
    def note(state: Notes) -> dict[str, Any]:
        return {"messages": [{"role": "assistant", "content": text()}]}

    builder = StateGraph(Notes)
    builder.add_sequence([("first", note), ("second", note), ("third", note)])
    builder.add_edge(START, "first")
    return builder.compile(checkpointer=saver)


@pytest.mark.only_sqlite
@pytest.mark.parametrize(
    "build, question",
    [
        (agent, {"messages": [("user", "What is there to see?")]}),
        (hand_written, {"messages": [{"role": "user", "content": "What?"}], "about": {"text": "y" * 20_000}}),
    ],
    ids=["a plain agent", "a graph with operator.add"],
)
async def test_forty_turns_fit_and_the_last_ones_cost_no_more_than_the_first(
    saver: DurableSaver, database: Database, tmp_path: Path, build: Any, question: Any
) -> None:
    graph, sizes = build(saver), [await size(database, tmp_path)]
    for _ in range(2):
        for _ in range(TURNS // 2):
            await graph.ainvoke(question, CONFIG, durability="sync")
        sizes.append(await size(database, tmp_path))
    assert sizes[2] < BUDGET
    # Where values are cut depends on random ids; storing each list anew would cost three times as much.
    assert sizes[2] - sizes[1] < 1.6 * (sizes[1] - sizes[0])
    state = await graph.aget_state(CONFIG)
    assert len(state.values["messages"]) == 4 * TURNS


PICTURE = b64encode(CHANCE.randbytes(300_000)).decode()


@pytest.mark.only_sqlite
@pytest.mark.parametrize(
    "question",
    [
        {"messages": [HumanMessage([{"type": "image", "base64": PICTURE, "mime_type": "image/png"}])]},
        {"messages": [{"role": "user", "content": [{"type": "image", "base64": PICTURE, "mime_type": "image/png"}]}]},
        {"messages": [HumanMessage("Look.")], "files": {"picture.png": {"data": PICTURE}, "notes.txt": "none"}},
    ],
    ids=["in a message", "in a message that is still a dictionary", "in a dictionary"],
)
async def test_a_picture_is_stored_once_however_many_checkpoints_hold_it(
    saver: DurableSaver, database: Database, tmp_path: Path, question: Any
) -> None:
    class State(TypedDict):
        messages: Annotated[list[AnyMessage], add_messages]
        files: dict[str, Any]

    def answer(state: State) -> dict[str, Any]:
        return {"messages": [AIMessage("I see.")], "files": {**state.get("files", {}), "notes.txt": text(20)}}

    builder = StateGraph(State)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    graph: Any = builder.compile(checkpointer=saver)
    before = await size(database, tmp_path)
    await graph.ainvoke(question, CONFIG)
    for _ in range(25):
        await graph.ainvoke({"messages": [HumanMessage("And now?")]}, CONFIG)
    assert len([found async for found in saver.alist(CONFIG)]) > 50
    assert await size(database, tmp_path) - before < 1.5 * len(PICTURE)


SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=300) | st.binary()
)
MESSAGES = st.builds(HumanMessage, st.text(max_size=400), id=st.uuids().map(str)) | st.builds(
    ToolMessage, st.text(max_size=400), tool_call_id=st.text(max_size=5), artifact=SCALARS
)
ATOMS = SCALARS | MESSAGES | st.datetimes() | st.uuids() | st.sets(st.integers(0, 9)) | st.decimals(allow_nan=False)
VALUES = st.recursive(
    ATOMS | st.just("long " * 3000) | st.binary(min_size=100, max_size=6000),
    lambda inner: (
        st.lists(inner, max_size=40)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=9) | st.integers(0, 99), inner, max_size=9)
    ),
    max_leaves=60,
)


def same(left: Any, right: Any) -> bool:
    """Equal, and of equal types all the way down; NaN is itself."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, ToolMessage):
        return same(left.__dict__, right.__dict__)
    return bool(left == right) or (isinstance(left, float) and math.isnan(left) and math.isnan(right))


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(values=st.dictionaries(st.sampled_from("abc"), VALUES), written=VALUES)
async def test_every_value_comes_back_as_the_plain_serialiser_gives_it(
    saver: DurableSaver, values: dict[str, Any], written: Any
) -> None:
    plain = StrictSerializer()
    expected = {name: plain.loads_typed(plain.dumps_typed(value)) for name, value in values.items()}
    made: Any = {**empty_checkpoint(), "channel_values": values, "channel_versions": dict.fromkeys(values, 1)}
    stored = await saver.aput(CONFIG, made, {}, made["channel_versions"])
    await saver.aput_writes(stored, [("a", written)], "task")
    found = await saver.aget_tuple(stored)
    assert found and found.pending_writes
    assert same(found.checkpoint["channel_values"], expected)
    assert same(found.pending_writes[0][2], plain.loads_typed(plain.dumps_typed(written)))


@given(st.binary(max_size=9000) | VALUES.map(lambda value: StrictSerializer().dumps_typed(value)[1]))
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_is_cut_is_joined_to_the_same_bytes_whatever_they_are(data: bytes) -> None:
    items: dict[str, Item] = {}
    assert join(cut(data, items), items) == data


def stored(value: object) -> dict[str, Item]:
    items: dict[str, Item] = {}
    cut(StrictSerializer().dumps_typed(value)[1], items)
    return items


def new_bytes(before: object, after: object) -> int:
    known = stored(before)
    return sum(len(item.body) for name, item in stored(after).items() if name not in known)


LONG = [{"role": "user", "content": text()} for _ in range(2000)]
NUMBERS = [CHANCE.randrange(2**40) for _ in range(20_000)]


@pytest.mark.parametrize(
    "before, after, limit",
    [
        (LONG, [*LONG, "end"], 5_000),
        (LONG, LONG[1:], 5_000),
        (LONG, [*LONG[:1000], "changed", *LONG[1001:]], 5_000),
        (NUMBERS, NUMBERS[1:], 10_000),
        ({"log": LONG, "rest": NUMBERS}, {"log": [*LONG, "end"], "rest": NUMBERS}, 10_000),
        ([LONG[0]] * 2000, [LONG[0]] * 2001, 5_000),
    ],
    ids=["appended", "lost its beginning", "changed in the middle", "many small ones", "nested", "all the same"],
)
def test_a_long_list_shares_with_its_past_all_but_the_change(before: object, after: object, limit: int) -> None:
    assert new_bytes(before, after) < limit


def test_a_long_list_is_read_in_few_steps() -> None:
    items: dict[str, Item] = {}
    level = cut(StrictSerializer().dumps_typed([{"n": n, "text": text(200)} for n in range(10_000)])[1], items)
    depth = 0
    while level := [part for name in level if isinstance(name, str) for part in items[name].parts]:
        depth += 1
    assert depth <= 5


def delta_graph(saver: Any) -> Any:
    def extend(state: list[str], writes: list[list[str]]) -> list[str]:
        return [*state, *(entry for write in writes for entry in write)]

    class State(TypedDict):
        entries: Annotated[list[str], DeltaChannel(extend, snapshot_frequency=7)]

    builder = StateGraph(State)
    builder.add_node("note", lambda state: {"entries": [f"note {len(state['entries'])} " + "x" * 300]})
    builder.add_edge(START, "note")
    return builder.compile(checkpointer=saver)


async def test_channels_that_langgraph_replays_are_read_from_earlier_writes(saver: DurableSaver) -> None:
    ours, theirs = delta_graph(saver), delta_graph(InMemorySaver())
    for turn in range(10):
        for graph in (ours, theirs):
            await graph.ainvoke({"entries": [f"turn {turn}"]}, CONFIG)
        expected = (await theirs.aget_state(CONFIG)).values
        assert (await ours.aget_state(CONFIG)).values == expected
        assert len(expected["entries"]) == 2 * turn + 2
