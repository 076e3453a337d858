"""What stored bytes may do: become what they were, or raise an error; never run code, never lose their type."""

import asyncio
import operator
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypedDict

import msgspec
import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Send, interrupt
from pydantic import BaseModel

from stellwerk.agents.build.factory import AgentFactory
from stellwerk.agents.build.resources import Resources
from stellwerk.agents.checkpoints.saver import DurableSaver
from stellwerk.agents.checkpoints.serde import StrictSerializer, prove_strict
from stellwerk.database.port import Database, Transaction, locking, session_lock
from stellwerk.errors import CorruptStore
from tests.agents.agent_runs import Conversation, agent, ended, say
from tests.agents.conftest import TENANT

CONFIG: RunnableConfig = {"configurable": {"thread_id": "session-1", "checkpoint_ns": ""}}


@dataclass
class Point:
    x: int
    y: int


class Place(BaseModel):
    name: str
    at: tuple[int, int]


class Pair(NamedTuple):
    left: int
    right: int


async def put(saver: BaseCheckpointSaver[int], value: object) -> RunnableConfig:
    made = {**empty_checkpoint(), "channel_values": {"a": value}, "channel_versions": {"a": 1}}
    return await saver.aput(CONFIG, made, {}, {"a": 1})  # type: ignore[arg-type]


def calling(module: str, name: str, argument: object) -> bytes:
    call = msgspec.msgpack.encode((module, name, argument))
    return msgspec.msgpack.encode([msgspec.msgpack.Ext(0, call)])


def test_the_proof_at_start_up_holds_here() -> None:
    prove_strict()


def test_the_proof_fails_where_langgraph_came_first() -> None:
    program = (
        "import langgraph.checkpoint.memory; "
        "from stellwerk.agents.checkpoints.serde import prove_strict; prove_strict()"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={}, timeout=60)
    assert ended.returncode != 0
    assert "SettingsError: a crafted checkpoint could run code here" in ended.stderr
    assert "LANGGRAPH_STRICT_MSGPACK" in ended.stderr


async def test_a_crafted_blob_runs_nothing_and_is_an_error(
    saver: DurableSaver, database: Database, tmp_path: Path
) -> None:
    stored = await put(saver, "harmless")
    witness = tmp_path / "witness"
    blob = calling("os", "system", f"touch {witness}")

    @locking(lambda _: [session_lock("session-1")])
    def plant(tx: Transaction, ids: Sequence[str]) -> list[None]:
        for id_ in ids:
            tx.run("put_checkpoint", TENANT, "session-1", "", id_, None, None, b"\x80", "msgpack", blob)
        return [None] * len(ids)

    await database.submit(plant, stored["configurable"]["checkpoint_id"])
    with pytest.raises(CorruptStore, match=r"os\.system"):
        await saver.aget_tuple(CONFIG)
    going_on = Conversation(await AgentFactory(Resources(saver=saver)).build(agent("a", say("hi"))), "session-1")
    assert ended(await going_on.send("go on")) == "failed"
    assert not witness.exists()


@pytest.mark.parametrize("kind", ["pickle", "json", "msgpack+aes"])
def test_forms_that_are_never_written_are_never_read(kind: str) -> None:
    with pytest.raises(CorruptStore, match="never written"):
        StrictSerializer().loads_typed((kind, b"{}"))


def test_bytes_that_are_no_value_are_an_error() -> None:
    with pytest.raises(CorruptStore, match="damaged"):
        StrictSerializer().loads_typed(("msgpack", b"\xdc"))


@pytest.mark.parametrize(
    "value",
    [
        Point(1, 2),
        [Point(1, 2)],
        {"at": Place(name="here", at=(1, 2))},
        Pair(1, 2),
        [HumanMessage("Where?"), Place(name="here", at=(1, 2))],
        {"deep": {"down": [Point(1, 2)]}},
    ],
    ids=["alone", "in a list", "in a dictionary", "a named tuple", "among messages", "deep down"],
)
async def test_a_type_that_is_not_allowed_is_refused_before_it_is_stored(saver: DurableSaver, value: object) -> None:
    with pytest.raises(
        CorruptStore, match=rf"{__name__}\.(Point|Place|Pair) is not allowed.*state_types: .all: .'tests"
    ):
        await put(saver, value)
    with pytest.raises(CorruptStore, match="is not allowed"):
        await saver.aput_writes({"configurable": {**CONFIG["configurable"], "checkpoint_id": "1"}}, [("a", value)], "t")
    assert await saver.aget_tuple(CONFIG) is None


async def test_a_stored_type_that_is_not_allowed_any_more_is_an_error_when_it_is_read(saver: DurableSaver) -> None:
    allowing = saver.with_allowlist([(__name__, "Point")])
    await put(allowing, {"deep": {"down": Point(1, 2)}})
    with pytest.raises(CorruptStore, match=rf"in the state key 'a', the type {__name__}\.Point is not allowed"):
        await saver.aget_tuple(CONFIG)
    found = await allowing.aget_tuple(CONFIG)
    assert found and found.checkpoint["channel_values"] == {"a": {"deep": {"down": Point(1, 2)}}}


@pytest.mark.parametrize(
    "value", [None, b"raw", {"a": [1, 2.5, ("b", {3})]}, [HumanMessage("Where?")], Pair(1, 2), {"at": [Point(1, 2)]}]
)
def test_canary_values_are_written_as_langgraph_writes_them(value: object) -> None:
    allowing = StrictSerializer().with_msgpack_allowlist([(__name__, "Point"), (__name__, "Pair")])
    assert allowing.dumps_typed(value) == JsonPlusSerializer().dumps_typed(value)


async def test_what_one_graph_allows_is_not_allowed_for_another(saver: DurableSaver) -> None:
    allowing = saver.with_allowlist([(__name__, "Point")])
    assert isinstance(allowing, DurableSaver)
    await put(allowing, Point(1, 2))
    with pytest.raises(CorruptStore):
        await saver.aget_tuple(CONFIG)
    with pytest.raises(CorruptStore):
        await put(saver, Point(1, 2))


async def test_a_session_that_cannot_be_read_does_not_fail_the_ones_read_beside_it(saver: DurableSaver) -> None:
    await put(saver.with_allowlist([(__name__, "Point")]), {"deep": {"down": Point(1, 2)}})
    unknown: RunnableConfig = {"configurable": {"thread_id": "session-2"}}
    outcomes: list[object] = await asyncio.gather(
        saver.aget_tuple(CONFIG), saver.aget_tuple(unknown), return_exceptions=True
    )
    refused, missing = outcomes
    assert isinstance(refused, CorruptStore)
    assert missing is None


class State(TypedDict):
    point: Point
    places: list[Place]


async def test_the_types_of_a_state_schema_come_back_as_they_were(saver: DurableSaver) -> None:
    def move(state: State) -> State:
        assert isinstance(state["point"], Point)
        there = Place(name="there", at=(state["point"].x, state["point"].y))
        return {"point": Point(state["point"].x + 1, 0), "places": [*state["places"], there]}

    builder = StateGraph(State)
    builder.add_node("move", move)
    builder.add_edge(START, "move")
    graph: Any = builder.compile(checkpointer=saver)
    await graph.ainvoke({"point": Point(1, 2), "places": []}, CONFIG)
    await graph.ainvoke({"point": Point(5, 6)}, CONFIG)
    state = await graph.aget_state(CONFIG)
    here, there = Place(name="there", at=(1, 2)), Place(name="there", at=(5, 6))
    assert state.values == {"point": Point(6, 0), "places": [here, there]}
    assert [type(place) for place in state.values["places"]] == [Place, Place]


async def test_a_state_of_which_a_part_is_missing_is_an_error(saver: DurableSaver, database: Database) -> None:
    await put(saver, ["x" * 500, "y" * 500])

    @locking(lambda _: [session_lock("session-1")])
    def lose(tx: Transaction, tenants: Sequence[str]) -> list[None]:
        for tenant in tenants:
            name = next(name for name, node in tx.rows("items_of_thread", tenant, "session-1") if node is None)
            tx.run("delete_checkpoint_item", tenant, "session-1", name)
        return [None] * len(tenants)

    await database.submit(lose, TENANT)
    with pytest.raises(CorruptStore, match="lacks a part"):
        await saver.aget_tuple(CONFIG)


@pytest.mark.parametrize("read", [JsonPlusSerializer().loads_typed, StrictSerializer().loads_typed])
def test_the_strict_reader_reads_what_langgraph_writes(read: Callable[[tuple[str, bytes]], Any]) -> None:
    value = {"messages": [HumanMessage("hi", id="1"), ToolMessage("ok", tool_call_id="1", artifact={"rows": [1]})]}
    assert read(JsonPlusSerializer().dumps_typed(value)) == value


class Work(TypedDict):
    log: Annotated[list[Any], operator.add]
    replayed: Annotated[list[str], DeltaChannel(lambda state, writes: sum(writes, state), snapshot_frequency=5)]
    round: int


def workshop(saver: Any) -> Any:
    """Fans out, asks in every third round, and has a channel that LangGraph replays."""

    def plan(state: Work) -> dict[str, Any]:
        return {"log": [{"text": "x" * 200}], "replayed": ["plan" * 50], "round": state.get("round", 0) + 1}

    def hand_out(state: Work) -> list[Send]:
        return [Send("work", {**state, "round": number}) for number in range(3)]

    def work(state: Work) -> dict[str, Any]:
        return {"log": [f"worker {state['round']} " * 40], "replayed": [f"worker {state['round']}"]}

    def check(state: Work) -> dict[str, Any]:
        if state["round"] % 3 == 0:
            interrupt(f"Is round {state['round']} fine?")
        return {"replayed": ["checked"]}

    builder = StateGraph(Work)
    builder.add_node("plan", plan)
    builder.add_node("work", work)
    builder.add_node("check", check)
    builder.add_edge(START, "plan")
    builder.add_conditional_edges("plan", hand_out, ["work"])
    builder.add_edge("work", "check")
    return builder.compile(checkpointer=saver)


async def history(graph: Any, durability: str) -> list[tuple[object, ...]]:
    """Rounds with questions and answers, then a branch from the middle: all that can be seen of it."""
    for number in range(7):
        await graph.ainvoke({"log": [f"round {number}"], "replayed": ["in"]}, CONFIG, durability=durability)
        for question in (await graph.aget_state(CONFIG)).interrupts:
            await graph.ainvoke(Command(resume={question.id: "yes"}), CONFIG, durability=durability)
    middle = [state async for state in graph.aget_state_history(CONFIG)][5]
    await graph.ainvoke({"log": ["branch"], "replayed": ["branch"]}, middle.config, durability=durability)
    return [
        (state.values, state.next, state.metadata, [(task.name, len(task.interrupts)) for task in state.tasks])
        async for state in graph.aget_state_history(CONFIG)
    ]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_a_history_is_the_one_that_langgraphs_own_saver_gives(saver: DurableSaver, durability: str) -> None:
    assert await history(workshop(saver), durability) == await history(workshop(InMemorySaver()), durability)
