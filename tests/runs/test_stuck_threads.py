"""A plain ``def`` node that hangs: its run can be stopped, and its thread is nobody else's loss."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest

from tests.api.reading import whole_round
from tests.crash.process import ServerProcess, server_process
from tests.crash.waiting import eventually
from tests.runs.talking import begin, rest_of_run, send, stop

GRAPHS = """
import time
from pathlib import Path

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph

HERE = Path(__file__).parent

def hangs(state):
    with (HERE / "hanging").open("a") as file:
        file.write("x")
    while not (HERE / "gate").exists():
        time.sleep(0.01)
    return {"messages": [AIMessage("late")]}

def one(node):
    return StateGraph(MessagesState).add_node("node", node).add_edge(START, "node").compile()

inner = one(hangs)

stuck = one(hangs)
inside = one(lambda state: inner.invoke(state))
quick = one(lambda state: {"messages": [AIMessage("here")]})
"""
MANY = 40
"""More than the threads of a default executor: 32 at most."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "graphs.py").write_text(GRAPHS)
    return tmp_path


@pytest.fixture
def server(folder: Path) -> Iterator[ServerProcess]:
    serves = [f"{name}={folder / 'graphs.py'}:{name}" for name in ("stuck", "inside", "quick")]
    with server_process(folder / "data", errors=folder / "errors", serves=serves) as found:
        yield found


@pytest.fixture
async def client(server: ServerProcess) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=server.address, timeout=60) as made:
        yield made


async def hanging(folder: Path, count: int) -> None:
    file = folder / "hanging"
    await eventually(
        lambda: file.exists() and len(file.read_text()) == count,
        within=60,
        what=lambda: f"{len(file.read_text()) if file.exists() else 0} of {count} nodes are at work",
    )


async def gauge(client: httpx2.AsyncClient, name: str) -> float:
    lines = (await client.get("/metrics")).text.splitlines()
    (value,) = [line.removeprefix(f"{name} ") for line in lines if line.startswith(f"{name} ")]
    return float(value)


async def test_sync_nodes_that_hang_keep_no_other_sync_node_waiting(
    client: httpx2.AsyncClient, folder: Path, server: ServerProcess
) -> None:
    sids = [await begin(client, "stuck") for _ in range(MANY)]
    for sid in sids:
        await send(client, sid, "go")
    await hanging(folder, MANY)
    assert (await whole_round(client, await begin(client, "quick"), "go"))[-1]["payload"]["result"] == "here"
    await asyncio.gather(*(stop(client, sid) for sid in sids))
    assert (await whole_round(client, await begin(client, "quick"), "go"))[-1]["payload"]["result"] == "here"
    assert await gauge(client, "stellwerk_threads_left") == MANY
    assert server.errors.read_text().count("threads_left") == MANY
    (folder / "gate").touch()

    async def all_returned() -> bool:
        return await gauge(client, "stellwerk_threads_left") == 0

    await eventually(all_returned, within=60, what="threads are still counted")


@pytest.mark.parametrize("system", ["stuck", "inside"])
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "Ctrl-C"])
async def test_the_process_ends_although_a_node_hangs(
    client: httpx2.AsyncClient, folder: Path, server: ServerProcess, system: str, how: signal.Signals
) -> None:
    stopped = await begin(client, system)
    await send(client, stopped, "go")
    await hanging(folder, 1)
    await stop(client, stopped)
    sid = await begin(client, system)
    await send(client, sid, "go")
    await hanging(folder, 2)
    server.process.send_signal(how)
    await asyncio.to_thread(server.process.wait, 60)
    (folder / "gate").touch()
    with server_process(
        folder / "data", errors=folder / "errors", serves=[f"{system}={folder}/graphs.py:{system}"]
    ) as new:
        async with httpx2.AsyncClient(base_url=new.address, timeout=60) as again:
            assert (await rest_of_run(again, sid))[-1]["payload"]["result"] == "late"
