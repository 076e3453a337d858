"""What the operator's file says of graphs that stay as they are, and what the operator sees of their mistakes."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import structlog

from stellwerk.errors import BrokenReference
from stellwerk.settings import Settings
from tests.api.reading import Event, whole_round
from tests.conftest import running_server
from tests.crash.process import server_process
from tests.crash.waiting import eventually
from tests.runs.talking import begin, rest_of_run, send

STATES = """
from dataclasses import dataclass
from enum import Enum
from typing import Any
import datetime

from langgraph.graph import MessagesState, StateGraph
from pydantic import BaseModel


@dataclass
class Order:
    article: str

class Place(BaseModel):
    name: str

class Colour(Enum):
    RED = "red"

class Plain:
    pass

class Moment(datetime.datetime):
    pass

VALUES = {
    "order": Order("lamp"),
    "place": Place(name="here"),
    "colour": Colour.RED,
    "plain": [{"deep": Plain()}],
    "moment": Moment(2026, 1, 2),
}

class State(MessagesState):
    basket: Any

def put(state):
    text = state["messages"][-1].text
    if text == "look":
        return {"messages": [("ai", repr(state["basket"]))]}
    return {"basket": VALUES[text], "messages": [("ai", "stored")]}

graph = StateGraph(State).add_node("put", put).set_entry_point("put").compile()
"""


def operators_file(folder: Path, **content: Any) -> Path:
    path = folder / "operator.yaml"
    path.write_text(json.dumps(content), "utf-8")
    return path


@asynccontextmanager
async def serving(folder: Path, text: str, **content: Any) -> AsyncIterator[httpx2.AsyncClient]:
    (folder / "desk.py").write_text(text, "utf-8")
    config = operators_file(folder, graphs={"desk": "desk.py:graph"}, **content)
    async with running_server(Settings(data=folder / "data", config=config)) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
            yield client


def end(told: list[Event]) -> tuple[str, str | None, str]:
    payload = told[-1]["payload"]
    return payload["status"], payload.get("code"), payload.get("result") or payload.get("reason") or ""


@pytest.mark.parametrize("graph", ["all", "desk"])
async def test_types_that_the_operators_file_allows_are_stored_and_come_back_as_themselves(
    tmp_path: Path, graph: str
) -> None:
    allowed = [f"desk.py:{name}" for name in ("Order", "Place", "Colour")]
    async with serving(tmp_path, STATES, state_types={graph: allowed}) as client:
        for text, shown in (
            ("order", "Order(article='lamp')"),
            ("place", "Place(name='here')"),
            ("colour", "<Colour.RED: 'red'>"),
        ):
            sid = await begin(client, "desk")
            assert end(await whole_round(client, sid, text)) == ("completed", None, "stored")
            assert end(await whole_round(client, sid, "look")) == ("completed", None, shown)


async def test_a_type_that_is_not_allowed_is_named_with_its_key_and_the_line_that_allows_it(tmp_path: Path) -> None:
    async with serving(tmp_path, STATES, state_types={"desk": ["desk.py:Place"]}) as client:
        sid = await begin(client, "desk")
        status, code, reason = end(await whole_round(client, sid, "order"))
    assert (status, code) == ("failed", "corrupt_store")
    assert reason.startswith("in the state key 'basket', the type ")
    allowed = reason.partition("state_types: {all: ['")[2].removesuffix("']}")
    assert allowed.endswith(".desk:Order")
    async with serving(tmp_path, STATES, state_types={"all": [allowed]}) as client:
        sid = await begin(client, "desk")
        assert end(await whole_round(client, sid, "order")) == ("completed", None, "stored")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("plain", r"in the state key 'basket', the type \S+\.desk\.Plain cannot be stored; put plain data"),
        (
            "moment",
            r"in the state key 'basket', stored state wants to call \S+\.desk\.Moment\.fromisoformat.*plain data",
        ),
    ],
)
async def test_a_value_that_cannot_be_stored_at_all_is_named_with_its_key_and_type(
    tmp_path: Path, text: str, reason: str
) -> None:
    async with serving(tmp_path, STATES, state_types={"all": ["desk.py:Plain", "desk.py:Moment"]}) as client:
        sid = await begin(client, "desk")
        status, _, said = end(await whole_round(client, sid, text))
    assert status == "failed"
    assert re.match(reason, said), said


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("desk.py:Nothing", "there is no 'Nothing' in it"),
        ("desk.py:graph", "is of type CompiledStateGraph; state_types lists classes"),
    ],
)
async def test_a_type_that_is_none_stops_the_start(tmp_path: Path, reference: str, says: str) -> None:
    with pytest.raises(BrokenReference, match=says):
        async with serving(tmp_path, STATES, state_types={"all": [reference]}):
            pass


SEARCHING = """
import asyncio
from pathlib import Path

from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

HERE = Path(__file__).parent

@tool
async def search(what: str) -> str:
    "Search the web."
    with (HERE / "ledger").open("a") as ledger:
        ledger.write(what + "\\n")
    while not (HERE / "gate").exists():
        await asyncio.sleep(0.02)
    return "found " + what

def ask(state):
    call = {"name": "search", "args": {"what": state["messages"][-1].text}, "id": "call_1"}
    return {"messages": [AIMessage("", tool_calls=[call])]}

def say(state):
    return {"messages": [("ai", state["messages"][-1].text)]}

builder = StateGraph(MessagesState).add_sequence([("ask", ask), ("tools", ToolNode([search])), ("say", say)])
graph = builder.set_entry_point("ask").compile()
"""


@pytest.mark.parametrize(
    ("content", "ended", "times"),
    [
        ({"idempotent_tools": {"desk": ["search"]}}, ("completed", None), 2),
        ({"idempotent_tools": {"all": ["search"]}}, ("completed", None), 2),
        ({"idempotent_tools": {"desk": ["other"]}}, ("failed", "crashed"), 1),
    ],
)
async def test_after_a_crash_in_a_tool_that_the_operator_declares_idempotent_the_run_resumes(
    tmp_path: Path, content: dict[str, Any], ended: tuple[str, str | None], times: int
) -> None:
    (tmp_path / "desk.py").write_text(SEARCHING, "utf-8")
    ledger = tmp_path / "ledger"
    ledger.touch()
    config = operators_file(tmp_path, graphs={"desk": "desk.py:graph"}, **content)
    with server_process(tmp_path / "data", errors=tmp_path / "errors", config=config) as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            sid = await begin(client, "desk")
            await send(client, sid, "lamps")
            await eventually(lambda: bool(ledger.read_text()), within=60, what="the tool does not start")
        server.kill()
    (tmp_path / "gate").touch()
    with server_process(tmp_path / "data", errors=tmp_path / "errors", config=config) as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            status, code, said = end(await rest_of_run(client, sid))
    assert (status, code) == ended
    assert ledger.read_text().splitlines() == ["lamps"] * times
    assert (said == "found lamps") is (status == "completed")


BLOCKING = """
import time
from langgraph.graph import MessagesState, StateGraph

async def inner_node(state):
    time.sleep(3)
    return {"messages": [("ai", "awake")]}

inner = StateGraph(MessagesState).add_node("sleeps", inner_node).set_entry_point("sleeps").compile()
graph = StateGraph(MessagesState).add_node("outer", inner).set_entry_point("outer").compile()
"""


async def test_a_node_that_blocks_the_event_loop_is_named_once(tmp_path: Path) -> None:
    (tmp_path / "desk.py").write_text(BLOCKING, "utf-8")
    errors = tmp_path / "errors"
    with server_process(tmp_path / "data", errors=errors, serves=[f"{tmp_path}/desk.py:graph"], logs="json") as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            sid = await begin(client, "desk")
            assert end(await whole_round(client, sid, "hello")) == ("completed", None, "awake")
    lines = [json.loads(line) for line in errors.read_text().splitlines() if line.startswith("{")]
    (blocked,) = [line for line in lines if line["event"] == "loop_blocked" and line.get("system")]
    assert (blocked["level"], blocked["system"], blocked["session"]) == ("warning", "desk", sid)
    assert (blocked["node"], blocked["place"]) == ("outer > sleeps", "desk.py, line 6")


REPLACED = """
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState, StateGraph
from langgraph.store.memory import InMemoryStore

filled, empty = InMemoryStore(), InMemoryStore()
indexed = InMemoryStore(index={"dims": 1, "embed": lambda texts: [[1.0]]})
filled.put(("tools",), "a", {"text": "b"})
builder = StateGraph(MessagesState).add_node("say", lambda state: {}).set_entry_point("say")
has_filled = builder.compile(checkpointer=InMemorySaver(), store=filled)
has_empty = builder.compile(store=empty)
has_indexed = builder.compile(store=indexed)
has_none = builder.compile()
"""


async def test_what_a_graph_brings_and_the_server_replaces_is_logged_and_a_lost_store_is_a_warning(
    tmp_path: Path,
) -> None:
    file = tmp_path / "desk.py"
    file.write_text(REPLACED, "utf-8")
    own = {name: f"{file}:{name}" for name in ("has_filled", "has_empty", "has_indexed", "has_none")}
    with structlog.testing.capture_logs() as logs:
        async with running_server(Settings(data=tmp_path / "data"), own=own):
            pass
    said = [
        (line["log_level"], line["event"], line["graph"], line.get("not_used"))
        for line in logs
        if line["event"].endswith("_replaced")
    ]
    assert said == [
        ("info", "checkpointer_replaced", "has_filled", None),
        ("warning", "store_replaced", "has_filled", "its items"),
        ("info", "store_replaced", "has_empty", None),
        ("warning", "store_replaced", "has_indexed", "its index for semantic search"),
    ]
