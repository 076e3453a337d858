"""A server that is asked to end while an isolated graph works whose LangGraph cannot pause between two steps."""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from tests.crash.process import ServerProcess, server_process
from tests.crash.waiting import eventually
from tests.isolated.serving import WORKER_PYTHON, events
from tests.isolated.test_isolated_projects import environment, packages_of, write
from tests.runs.talking import begin, send

OLDER = """
from langgraph.pregel import Pregel

newer = Pregel.astream


async def astream(self, input, config=None, **given):
    async for part in newer(self, input, config, **given):
        yield part


Pregel.astream = astream
"""
"""LangGraph as it was before 1.1, to which the worker can give neither a request to pause nor a version."""
GRAPH = """
import asyncio
import inspect
from pathlib import Path

from langgraph.graph import START, MessagesState, StateGraph
from langgraph.pregel import Pregel

HERE = Path(__file__).parent


def note(line):
    with (HERE / "notes").open("a") as file:
        file.write(line + "\\n")


async def until(name):
    while not (HERE / name).exists():
        await asyncio.sleep(0.01)


async def first(state):
    note(f"first {'control' in inspect.signature(Pregel.astream).parameters}")
    return {}


async def second(state):
    note("second")
    await until("stopping")
    return {}


async def third(state):
    note("third")
    await until("gate")
    return {"messages": [("ai", "done")]}


graph = StateGraph(MessagesState).add_sequence([first, second, third]).add_edge(START, "first").compile()
"""


@dataclass
class Slow:
    """A served graph of three steps, whose environment has an older LangGraph."""

    folder: Path
    config: Path
    session: str = ""

    @asynccontextmanager
    async def server(self) -> AsyncIterator[tuple[ServerProcess, httpx2.AsyncClient]]:
        serves, errors = [f"slow={self.folder / 'slow.py'}:graph"], self.folder / "errors"
        with server_process(self.folder / "data", errors=errors, serves=serves, config=self.config) as server:
            async with httpx2.AsyncClient(base_url=server.address, timeout=120) as client:
                if not self.session:
                    self.session = await begin(client, "slow")
                    await send(client, self.session, "go")
                yield server, client

    def notes(self) -> list[str]:
        path = self.folder / "notes"
        return path.read_text().splitlines() if path.exists() else []

    async def cut_at(self, step: str) -> None:
        """Ask the server to end when it is at a step; the second step ends when the server is about to."""
        count = self.notes().count(step)
        async with self.server() as (server, _):
            await eventually(lambda: self.notes().count(step) > count, within=120, what=f"{step} is not at work")
            os.kill(server.pid, signal.SIGTERM)
            await eventually(lambda: not listens(server.address), within=60, what="it accepts connections")
            (self.folder / "stopping").touch()
            server.stop()


@pytest.mark.timeout(600)
async def test_a_run_that_cannot_pause_is_cut_off_and_goes_on_without_losing_an_attempt(tmp_path: Path) -> None:
    """Two cuts: as many crashes would end it."""
    write(tmp_path / "slow.py", GRAPH)
    python = WORKER_PYTHON or str(environment(tmp_path / "env", "langgraph", "langchain-core", "pydantic"))
    if not WORKER_PYTHON:
        write(packages_of(Path(python)) / "sitecustomize.py", OLDER)
    slow = Slow(tmp_path, write(tmp_path / "operator.yaml", f"isolate: {{slow: {{python: {python}}}}}"))
    await slow.cut_at("second")
    await slow.cut_at("third")
    (tmp_path / "gate").touch()
    async with slow.server() as (_, client):
        told = await events(client, slow.session)
    assert told[-1]["payload"]["status"] == "completed", told[-1]
    assert [each["payload"]["attempt"] for each in told if each["type"] == "subgraph_resume"] == [2, 3]
    assert [note for note in slow.notes() if note.startswith("first")] == ["first False"], "it cannot be asked to pause"
    logged = (tmp_path / "errors").read_text()
    assert "Traceback" not in logged and "run_lost_its_process" not in logged


def listens(address: str) -> bool:
    try:
        httpx2.get(address + "/healthz", timeout=5)
    except httpx2.ConnectError:
        return False
    except httpx2.HTTPError:
        return True
    return True
