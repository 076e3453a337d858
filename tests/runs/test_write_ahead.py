"""No tool begins before the log has its start, whoever made the graph: a crash cannot hide that it had begun."""

import shutil
from pathlib import Path

import httpx2
import pytest

from stellwerk.app import Parts
from stellwerk.settings import Settings
from stellwerk.timings import Timings
from tests.conftest import running_server
from tests.crash.disks import SlowSqlite
from tests.crash.waiting import eventually
from tests.runs.talking import begin, rest_of_run, send

pytestmark = pytest.mark.only_sqlite

GRAPH = Path(__file__).parent / "workshop/graph.py"


async def noted(folder: Path, text: str, timings: Timings = Timings()) -> tuple[str, list[str]]:
    """How a run ended, and what its tools noted. The disk is slow, so a tool that does not wait for it is too early."""
    parts = Parts(database=SlowSqlite, timings=timings)
    graph, ledger = shutil.copy(GRAPH, folder), folder / "ledger"
    ledger.touch()
    own = {"workshop": f"{graph}:graph"}
    async with running_server(Settings(data=folder / "data"), own=own, parts=parts) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
            sid = await begin(client, "workshop")
            await send(client, sid, text)
            end = (await rest_of_run(client, sid))[-1]
            await eventually(lambda: bool(ledger.read_text()), within=60, what="nobody has noted anything")
    return end["payload"]["status"], ledger.read_text().splitlines()


@pytest.mark.parametrize("text", ["model hammer", "model saw", "awaits hammer", "awaits saw", "calls saw"])
async def test_the_tools_of_somebody_elses_graph_begin_when_their_start_is_stored(tmp_path: Path, text: str) -> None:
    assert await noted(tmp_path, text) == ("completed", [f"{text.split()[1]} announced"])


async def test_a_node_that_blocks_the_event_loop_gets_its_tools_all_the_same(tmp_path: Path) -> None:
    assert await noted(tmp_path, "blocks saw", Timings(blocked_loop=0.5)) == ("completed", ["saw unannounced"] * 2)


async def test_a_node_that_blocks_the_event_loop_while_its_tool_waits_stops_nobody(tmp_path: Path) -> None:
    status, lines = await noted(tmp_path, "hands_over saw", Timings(blocked_loop=0.5))
    assert (status, [line.split()[0] for line in lines]) == ("completed", ["saw"])


async def test_a_stall_of_two_seconds_lets_no_tool_begin_unannounced(tmp_path: Path) -> None:
    assert await noted(tmp_path, "stalls saw") == ("completed", ["saw announced"])


async def test_no_tool_begins_when_its_run_is_over(tmp_path: Path) -> None:
    refusal = "refused: the run is over, nothing more is begun in it"
    assert await noted(tmp_path, "leaves hammer") == ("completed", [refusal])
