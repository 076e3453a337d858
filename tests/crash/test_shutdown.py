"""SIGTERM with a thousand streams open, fifty of them stalled, and runs under way: a quick end that loses nothing."""

import asyncio
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

import httpx2
import pytest

from stellwerk.testing.order import order_problems
from tests.crash import many_readers, wire
from tests.crash.many_readers import STALLED, long_session
from tests.crash.process import ServerProcess, server_process
from tests.runs.talking import begin, events, log_of, rest_of_run, seen, send

SYSTEM = Path(__file__).parent / "shutdown_system"
FOLLOWING = 1000
AT_MOST = 10
"""Seconds until the process is gone."""
SLACK = 20
"""Seconds more on a machine that has other things to do, a thousand clients of ours among them."""
FAREWELL = b": the server is going down; come back with your last id\n"


@dataclass
class Ending:
    took: float
    code: int
    heard: list[bytes]
    session_id: str
    told: int
    """Events that the session had shown before."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shutdown")


@pytest.fixture(scope="module")
def ending(folder: Path) -> Ending:
    (folder / "data").mkdir()
    asyncio.run(long_session(folder / "data"))
    with many_readers.room_for(FOLLOWING + STALLED), started(folder) as server:
        return asyncio.run(end_under_load(server))


@contextmanager
def started(folder: Path) -> Iterator[ServerProcess]:
    """With a tool that works until it is told that it is done."""
    system = shutil.copytree(SYSTEM, folder / "system", dirs_exist_ok=True)
    (system / "operator.yaml").write_text("tools: [tools.py:tools]\n")
    config, serves = system / "operator.yaml", [str(system / "system.yaml")]
    with server_process(folder / "data", errors=folder / "errors", config=config, serves=serves) as server:
        yield server


async def end_under_load(server: ServerProcess) -> Ending:
    async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
        session_id = await begin(client, "shutdown")
        await send(client, session_id, "work 1")
        await seen(client, session_id, "tool_start")
        ways = [("stream", {}), ("stream", {"Accept": wire.NDJSON}), ("ws", many_readers.UPGRADE)]
        stalled = [
            many_readers.connect_and_never_read(server.address, f"/sessions/long/{way}", headers, buffer=4096)
            for way, headers in islice(cycle(ways), STALLED)
        ]
        turnstile = asyncio.Semaphore(100)
        path = f"/sessions/{session_id}/stream?profile=debug"
        entered = await asyncio.gather(*(many_readers.enter(server.address, path, turnstile) for _ in range(FOLLOWING)))
        following = [asyncio.create_task(reader.read(-1)) for reader, _ in entered]
        told = len(await events(client, session_id))
    began = time.monotonic()
    server.process.terminate()
    async with asyncio.timeout(60):
        heard = await asyncio.gather(*following)
        code = await asyncio.to_thread(server.process.wait, 60)
    took = time.monotonic() - began
    for _, writer in entered:
        writer.close()
    for stuck in stalled:
        stuck.close()
    return Ending(took, code, heard, session_id, told)


@pytest.mark.requirement("trust.I18", "fault-13")
def test_the_process_is_gone_in_time_though_fifty_do_not_read(ending: Ending) -> None:
    assert ending.took < AT_MOST + SLACK
    assert ending.code == 0


def test_nothing_of_that_is_an_error(ending: Ending, folder: Path) -> None:
    said = (folder / "errors").read_text()
    assert "Traceback" not in said
    assert '"level": "error"' not in said


@pytest.mark.requirement("fault-13")
def test_everybody_who_listens_is_told(ending: Ending) -> None:
    assert len(ending.heard) == FOLLOWING
    for heard in ending.heard:
        body = wire.unchunked(heard)
        assert body.endswith(FAREWELL), body[-200:]
        frames = wire.sse(body)
        assert [frame.position for frame in frames] == list(range(1, len(frames) + 1))
        assert len(frames) >= ending.told


@pytest.mark.requirement("trust.I10")
async def test_the_run_goes_on_in_the_next_process(ending: Ending, folder: Path) -> None:
    (folder / "system" / "work 1 done").touch()
    with started(folder) as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            end = (await rest_of_run(client, ending.session_id))[-1]["payload"]
            assert (end["status"], end["result"]) == ("completed", "Done: worked.")
            assert order_problems(log_of(await events(client, ending.session_id))) == []
