"""A plain ``def`` node or tool that calls a graph with ``invoke``: as LangGraph's own documentation writes it."""

import asyncio
import shutil
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import httpx2
import pytest

from stellwerk.settings import Settings
from stellwerk.testing.order import order_problems
from tests.api.reading import Event, whole_round
from tests.conftest import server_beside
from tests.crash.process import ServerProcess, server_process
from tests.crash.waiting import eventually
from tests.runs.talking import answer, begin, events, log_of, rest_of_run, send, stop

THREADED = Path(__file__).parent / "threaded"
TWINS = ("plain", "forgets", "deep", "agents")
NAMES = (*TWINS, *(f"{name}_async" for name in TWINS), "remembers", "streams", "asks", "on_loop", "gated", "beside")


def served(folder: Path) -> dict[str, str]:
    shutil.copytree(THREADED, folder, dirs_exist_ok=True)
    return {name: f"{folder / 'graphs.py'}:{name}" for name in NAMES}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("threaded")


@pytest.fixture(scope="module")
def shared(folder: Path) -> Iterator[str]:
    with server_beside(Settings(data=folder / "data"), own=served(folder)) as found:
        yield found


@pytest.fixture
async def client(shared: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=shared, timeout=60) as made:
        yield made


def result(told: list[Event]) -> tuple[str, str]:
    end = told[-1]["payload"]
    return end["status"], end.get("result") or end.get("reason") or ""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("plain", "one two"),
        ("forgets", "one two"),
        ("streams", "one two"),
        ("deep", "below: one two"),
        ("agents", "They say: the sky is blue"),
    ],
)
async def test_a_plain_function_calls_a_graph(client: httpx2.AsyncClient, name: str, said: str) -> None:
    sid = await begin(client, name)
    told = await whole_round(client, sid, "go")
    assert result(told) == ("completed", said)
    assert order_problems(log_of(told)) == []


def tree(told: list[Event]) -> list[str]:
    """Each call and checkpoint under the names of the calls around it; calls of twins have other names of nodes."""
    calls = {e["call_id"]: e for e in told if e["type"] in ("run_start", "tool_start", "llm_start")}

    def path(call_id: str | None) -> str:
        if call_id is None:
            return ""
        start = calls[call_id]
        name = start["payload"].get("tool_name") or start.get("agent") or start["type"]
        return f"{path(start['parent_id'])}/{name.removesuffix('_async')}"

    return [
        f"{e['type']} {path(e['call_id'] if e['call_id'] in calls else e['parent_id'])}"
        for e in told
        if e["type"] in ("tool_start", "tool_end", "llm_start", "llm_end", "subgraph_checkpoint")
    ]


@pytest.mark.parametrize("name", TWINS)
async def test_its_tree_of_calls_and_checkpoints_is_that_of_the_async_twin(
    client: httpx2.AsyncClient, name: str
) -> None:
    told, twin = [await whole_round(client, await begin(client, system), "go") for system in (name, f"{name}_async")]
    assert result(told) == result(twin)
    assert tree(told) == tree(twin)


async def test_a_graph_with_a_memory_of_its_own_remembers(client: httpx2.AsyncClient) -> None:
    sid = await begin(client, "remembers")
    assert result(await whole_round(client, sid, "go")) == ("completed", "one")
    assert result(await whole_round(client, sid, "go")) == ("completed", "one one")


async def test_a_question_below_a_plain_function_is_asked_and_answered(client: httpx2.AsyncClient) -> None:
    sid = await begin(client, "asks")
    told = await whole_round(client, sid, "go")
    (asked,) = [e["payload"] for e in told if e["type"] == "ask_user"]
    assert (asked["question"], told[-1]["payload"]["status"]) == ("Which one?", "awaiting_user")
    given = await answer(client, sid, ask_id=asked["ask_id"], text="blue")
    told = await rest_of_run(client, sid, given["after"])
    assert result(told) == ("completed", "one you said blue two")
    assert order_problems(log_of(await events(client, sid))) == []


async def test_an_async_node_that_calls_invoke_is_told_what_to_do(client: httpx2.AsyncClient) -> None:
    told = await whole_round(client, await begin(client, "on_loop"), "go")
    status, reason = result(told)
    assert status == "failed"
    assert "await ainvoke() or astream() in an async function, or make the node or tool a plain def" in reason
    assert result(await whole_round(client, await begin(client, "plain"), "go"))[0] == "completed"


async def noted(folder: Path, *lines: str) -> None:
    """Wait until these are the last lines that the graph has written."""
    file = folder / "done.txt"
    await eventually(
        lambda: file.exists() and tuple(file.read_text().split("\n")[-1 - len(lines) : -1]) == lines,
        within=60,
        what=lambda: f"the graph has written {file.read_text() if file.exists() else 'nothing'}",
    )


@pytest.fixture
def closed_gate(folder: Path) -> None:
    (folder / "gate").unlink(missing_ok=True)
    (folder / "done.txt").write_text("")


@pytest.mark.usefixtures("closed_gate")
async def test_a_thread_that_outlives_its_failed_run_stores_nothing_more(
    client: httpx2.AsyncClient, folder: Path
) -> None:
    sid = await begin(client, "beside")
    told = await whole_round(client, sid, "go")
    assert result(told)[0] == "failed"
    (folder / "gate").touch()
    await noted(folder, "waits", "went on", "left")
    assert len(await events(client, sid)) == len(told)


@pytest.mark.usefixtures("closed_gate")
async def test_after_a_stop_the_thread_ends_and_has_stored_nothing_more(
    client: httpx2.AsyncClient, folder: Path
) -> None:
    sid = await begin(client, "gated")
    await send(client, sid, "go")
    await noted(folder, "calls", "begins", "waits")
    await stop(client, sid)
    told = await events(client, sid)
    assert (result(told)[0], order_problems(log_of(told))) == ("stopped", [])
    (folder / "gate").touch()
    await noted(folder, "waits", "went on", "left")
    assert await events(client, sid) == told
    assert result(await whole_round(client, sid, "again")) == ("completed", "begun gone on ended")


@pytest.fixture
def own_folder(tmp_path: Path) -> Path:
    served(tmp_path)
    return tmp_path


def own_server(folder: Path) -> AbstractContextManager[ServerProcess]:
    return server_process(folder / "data", errors=folder / "errors", serves=[f"{folder / 'graphs.py'}:gated"])


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["kill -9", "SIGTERM"])
async def test_a_run_in_a_thread_goes_on_where_it_was_cut_off(own_folder: Path, how: signal.Signals) -> None:
    with own_server(own_folder) as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            sid = await begin(client, "graphs")
            await send(client, sid, "go")
            await noted(own_folder, "calls", "begins", "waits")
        server.process.send_signal(how)
        await asyncio.to_thread(server.process.wait, 60)
    (own_folder / "gate").touch()
    with own_server(own_folder) as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            assert result(await rest_of_run(client, sid)) == ("completed", "begun gone on ended")
            assert order_problems(log_of(await events(client, sid))) == []
    done = (own_folder / "done.txt").read_text().split()
    assert done.count("begins") == 1, "its first step was stored, and is not done again"
