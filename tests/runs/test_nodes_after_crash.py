"""A node that does something itself: it is repeated after a crash, unless the operator's file forbids it."""

from pathlib import Path
from typing import Any

import httpx2
import pytest

from stellwerk.app import Parts
from stellwerk.settings import Settings
from tests.conftest import running_server
from tests.crash.disks import SlowSqlite
from tests.crash.process import server_process
from tests.crash.waiting import eventually
from tests.runs.talking import begin, rest_of_run, send
from tests.runs.test_operators_graphs import end, operators_file

MAILING = """
import asyncio
from pathlib import Path

from langgraph.func import entrypoint
from langgraph.graph import MessagesState, StateGraph

HERE = Path(__file__).parent

async def send_mail(state):
    with (HERE / "ledger").open("a") as ledger:
        ledger.write("sent\\n")
    while not (HERE / "gate").exists():
        await asyncio.sleep(0.02)
    return {}

def say(state):
    return {"messages": [("ai", "done")]}

graph = StateGraph(MessagesState).add_sequence([send_mail, say]).set_entry_point("send_mail").compile()

@entrypoint()
async def mailing(text: str) -> str:
    await send_mail(None)
    return "done"
"""

COUNTING = """
from pathlib import Path

from langgraph.func import entrypoint
from langgraph.graph import MessagesState, StateGraph

from tests import stores

HERE = Path(__file__).parent

def count(state):
    with stores.beside(HERE / "data") as stored:
        checkpoints = stored.value("SELECT count(*) FROM checkpoint")
    with (HERE / "ledger").open("a") as ledger:
        ledger.write(f"{checkpoints}\\n")
    return {}

def before(state):
    return {}

first = StateGraph(MessagesState).add_sequence([count]).set_entry_point("count").compile()
second = StateGraph(MessagesState).add_sequence([before, count]).set_entry_point("before").compile()

@entrypoint()
async def function(text: str) -> str:
    count(None)
    return "done"
"""


@pytest.mark.parametrize(
    ("graph", "nodes", "ended", "times"),
    [
        ("graph", [], ("completed", None), 2),
        ("graph", ["say"], ("completed", None), 2),
        ("graph", ["send_mail"], ("failed", "crashed"), 1),
        ("mailing", ["mailing"], ("failed", "crashed"), 1),
    ],
)
async def test_after_a_crash_in_a_node_that_must_not_be_repeated_the_run_ends_and_names_it(
    tmp_path: Path, graph: str, nodes: list[str], ended: tuple[str, str | None], times: int
) -> None:
    (tmp_path / "desk.py").write_text(MAILING, "utf-8")
    ledger = tmp_path / "ledger"
    ledger.touch()
    config = operators_file(tmp_path, graphs={"desk": f"desk.py:{graph}"}, non_idempotent_nodes={"desk": nodes})
    with server_process(tmp_path / "data", errors=tmp_path / "errors", config=config) as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            sid = await begin(client, "desk")
            await send(client, sid, "go")
            await eventually(lambda: bool(ledger.read_text()), within=60, what="the node does not start")
        server.kill()
    (tmp_path / "gate").touch()
    with server_process(tmp_path / "data", errors=tmp_path / "errors", config=config) as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            status, code, said = end(await rest_of_run(client, sid))
    assert (status, code) == ended
    assert ledger.read_text().splitlines() == ["sent"] * times
    if code:
        assert f"the node {nodes[0]} was at work, and it is unknown how far it came" in said


async def test_a_node_that_the_graph_does_not_have_is_said_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "desk.py").write_text(MAILING, "utf-8")
    content: dict[str, Any] = {"non_idempotent_nodes": {"desk": ["send_mial"]}}
    config = operators_file(tmp_path, graphs={"desk": "desk.py:graph"}, **content)
    settings = Settings(data=tmp_path / "data", config=config)
    own = {"again": f"{tmp_path / 'desk.py'}:graph"}
    async with running_server(settings, own=own) as address, httpx2.AsyncClient(base_url=address) as client:
        (desk,) = [one for one in (await client.get("/agent-systems")).json()["agent_systems"] if one["id"] == "desk"]
    assert "non_idempotent_nodes: it has no node 'send_mial'; did you mean 'send_mail'" in desk["unusable"]


@pytest.mark.parametrize(
    ("graph", "node", "stored"),
    [("first", "count", 2), ("second", "count", 3), ("function", "function", 1)],
)
@pytest.mark.only_sqlite
async def test_a_node_that_must_not_be_repeated_starts_when_the_checkpoint_before_it_is_stored(
    tmp_path: Path, graph: str, node: str, stored: int
) -> None:
    (tmp_path / "desk.py").write_text(COUNTING, "utf-8")
    config = operators_file(tmp_path, graphs={"desk": f"desk.py:{graph}"}, non_idempotent_nodes={"desk": [node]})
    settings = Settings(data=tmp_path / "data", config=config)
    async with running_server(settings, parts=Parts(database=SlowSqlite)) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
            sid = await begin(client, "desk")
            await send(client, sid, "go")
            await rest_of_run(client, sid)
    assert (tmp_path / "ledger").read_text() == f"{stored}\n"
