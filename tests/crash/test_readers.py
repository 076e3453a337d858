"""Readers in numbers, readers that stall, readers that go: none of them can hurt a run or leave a trace."""

import asyncio
import signal
from pathlib import Path

import httpx2
import pytest

from stellwerk.app import Parts
from stellwerk.settings import Settings
from stellwerk.timings import Timings
from tests.crash import many_readers, wire
from tests.crash.inside import Inside, serving
from tests.crash.many_readers import READING, STALLED, UPGRADE, Scene, long_session
from tests.crash.process import server_process
from tests.crash.waiting import eventually

KIB = 1024
SETTLING = 2 + 58
"""Seconds after which nothing may be left; two would do on a machine that does nothing else."""

GARBAGE = (
    b"\x00\xff\xfe nothing that anybody speaks\r\n\r\n",
    b"GET /sess",
    b"GET /sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 100_000,
    b"POST /sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 500000\r\n\r\n{",
    b"POST /sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return many_readers.play(tmp_path_factory.mktemp("many_readers"))


@pytest.mark.requirement("trust.I18", "fault-16")
def test_a_thousand_readers_get_the_run_whole_though_fifty_never_read(scene: Scene) -> None:
    assert len(scene.received) == READING
    assert all(frames == scene.log for frames in scene.received)
    assert scene.sockets_with_crowd >= READING + STALLED, "they were there together"


@pytest.mark.requirement("trust.I17", "trust.I18")
def test_a_run_does_not_wait_for_its_readers(scene: Scene) -> None:
    # Both had the same machine. A run that waited for one of the fifty would take half a minute longer.
    assert scene.watched < 3 * scene.alone + 10


@pytest.mark.requirement("trust.I17")
def test_a_reader_costs_little_memory(scene: Scene) -> None:
    assert scene.memory_per_reader < 48 * KIB  # 40 on a quiet machine, 44 on a busy one, where more waits to be sent


@pytest.mark.requirement("trust.I18", "fault-10")
def test_readers_that_left_or_were_reset_leave_no_socket_open(scene: Scene) -> None:
    assert max(scene.sockets_after) <= scene.sockets_before


async def test_readers_that_the_server_has_yet_to_accept_are_waited_for(tmp_path: Path) -> None:
    with server_process(tmp_path / "data", errors=tmp_path / "errors") as server:
        before = server.sockets()
        server.process.send_signal(signal.SIGSTOP)  # what a busy machine does to it, for longer
        waiting = [many_readers.connect_and_never_read(server.address, "/healthz") for _ in range(STALLED)]
        counting = asyncio.create_task(many_readers.sockets_left(server, before))
        assert not (await asyncio.wait([counting], timeout=0.5))[0], "nobody is accepted yet, so nobody has left"
        server.process.send_signal(signal.SIGCONT)
        for stuck in waiting:
            stuck.close()
        assert await counting <= before


@pytest.mark.requirement("trust.I18", "fault-10", "fault-11")
@pytest.mark.parametrize("way", ["stream", "ws"])
async def test_whoever_leaves_stalls_or_sends_garbage_leaves_no_task_and_no_watch(tmp_path: Path, way: str) -> None:
    upgrade = UPGRADE if way == "ws" else {}
    async with serving(Settings(data=tmp_path / "data")) as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            session_id = await many_readers.begin(client)
            path = f"/sessions/{session_id}/{way}?profile=debug"
            before = len(asyncio.all_tasks())
            for _ in range(many_readers.RESET):
                await asyncio.to_thread(many_readers.reset_at_once, server.address, path, upgrade)
            stuck = [many_readers.connect_and_never_read(server.address, path, upgrade) for _ in range(STALLED)]
            stuck += [many_readers.say_and_never_read(server.address, garbage) for garbage in GARBAGE]
            writers = [(await wire.connect(server.address, path, **upgrade))[1] for _ in range(STALLED)]
            for writer in writers if upgrade else ():
                writer.write(b"\x81\xfe no frame that anybody speaks")
            lines = await many_readers.run(client, session_id)
            assert b'"type":"run_end"' in lines[-1]
            for socket in stuck:
                socket.close()
            for writer in writers:
                writer.close()
            await eventually(
                lambda: not server.wakes.watched() and len(asyncio.all_tasks()) <= before,
                within=SETTLING,
                what=lambda: f"{server.wakes.watched()} is watched, tasks: {asyncio.all_tasks()}",
            )


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@pytest.mark.requirement("trust.I17", "trust.I18")
@pytest.mark.parametrize("way", ["stream", "ws"])
async def test_a_reader_that_takes_nothing_is_let_go_and_the_run_goes_on(data: Path, way: str) -> None:
    session_id = await long_session(data)
    async with serving(Settings(data=data), Parts(timings=Timings(reader_check=0.5))) as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            path, upgrade = f"/sessions/{session_id}/{way}", UPGRADE if way == "ws" else {}
            stuck = many_readers.connect_and_never_read(server.address, path, upgrade, buffer=4 * KIB)
            await eventually(lambda: bool(server.wakes.watched()), within=20, what="nobody reads")
            run = asyncio.create_task(many_readers.run(client, session_id))
            await let_go(server, run)
            assert b'"status":"completed"' in (await run)[-1]
            stuck.close()


async def let_go(server: Inside, run: "asyncio.Task[list[bytes]]") -> None:
    await eventually(
        lambda: not server.wakes.watched() and run.done(), within=60, what="a reader that takes nothing is kept"
    )
