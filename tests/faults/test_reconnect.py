"""Readers who come back: late, in another way, or too slow to stay; each has the whole, and nothing twice."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from socket import socket as Socket

import httpx2
import pytest

from stellwerk.app import Parts
from stellwerk.log.notify import HEARTBEAT
from stellwerk.settings import Settings
from stellwerk.timings import Timings
from tests.api.reading import Event, sse, whole_round, without_origin
from tests.crash import many_readers, wire
from tests.crash.inside import Inside, serving
from tests.crash.many_readers import long_session
from tests.crash.waiting import eventually
from tests.crash.wire import NDJSON, PARSERS, SSE, Frame
from tests.faults.conftest import FaultServer
from tests.runs.talking import answer, begin, events, rest_of_run, seen, send

ELEVEN_MINUTES = 11 * 60
YAML = {"Content-Type": "application/yaml"}


@pytest.mark.requirement("fault-01")
async def test_whoever_rejoins_a_run_that_is_over_gets_the_rest_and_an_end(faulty: FaultServer) -> None:
    async with faulty.served() as client:
        sid = await begin(client, "faulty")
        whole = without_origin(await whole_round(client, sid, "hello"))
        await every_rest(client, sid, whole)
    async with faulty.served() as client:
        await every_rest(client, sid, whole)


async def every_rest(client: httpx2.AsyncClient, sid: str, whole: list[Event]) -> None:
    path, query = f"/sessions/{sid}/stream", {"until": "run_end", "profile": "debug"}
    async with asyncio.timeout(60):
        for last in range(len(whole) + 1):
            assert without_origin(await sse(client, path, last=str(last), **query)) == whole[last:]
            headers = {"Accept": NDJSON, "Last-Event-ID": str(last)}
            answer = await client.get(path, params=query, headers=headers)
            assert [frame.position for frame in wire.ndjson(answer.content)] == list(range(last + 1, len(whole) + 1))


@pytest.mark.requirement("fault-02", "fault-17")
async def test_after_a_long_silence_everything_is_there_for_who_stayed_and_for_who_comes_back(
    faulty: FaultServer,
) -> None:
    async with serving(Settings(data=faulty.data, config=faulty.config)) as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            await client.post("/agent-systems", content=faulty.system.read_text(), headers=YAML)
            sid = await begin(client, "faulty")
            await send(client, sid, "hold")
            await seen(client, sid, "tool_start")  # this reader leaves
            last = len(await events(client, sid))
            stayed = bytearray(), bytearray()
            staying = [
                asyncio.create_task(read(client, sid, *each)) for each in zip((SSE, NDJSON), stayed, strict=True)
            ]
            await silence(server, sid, until=lambda: min(signs_of_life(*stayed)) > 1)
            faulty.open_gate()
            await asyncio.gather(*staying)
            log = wire.of_log(sid, [frame.body(sid) for frame in wire.sse(bytes(stayed[0]))])
            assert wire.sse(bytes(stayed[0])) == wire.ndjson(bytes(stayed[1])) == log
            assert [e["position"] for e in await rest_of_run(client, sid, last)] == list(range(last + 1, len(log) + 1))
    assert HEARTBEAT < 60, "proxies give up after a minute"


async def read(client: httpx2.AsyncClient, sid: str, form: str, got: bytearray) -> None:
    """Everything, on a stream that stays open, until a run is over."""
    path = f"/sessions/{sid}/stream?profile=debug"
    async with asyncio.timeout(60), client.stream("GET", path, headers={"Accept": form}) as answer:
        async for piece in answer.aiter_bytes():
            got += piece
            if b'"type":"run_end"' in got and got.endswith(b"\n"):
                break


def signs_of_life(sse: bytearray, ndjson: bytearray) -> tuple[int, int]:
    """A silent stream says now and then that it is there: a comment, or an empty line."""
    return sse.count(b": ping\n"), ndjson.count(b"\n\n")


async def silence(server: Inside, sid: str, *, until: Callable[[], bool]) -> None:
    """As many seconds as eleven minutes have, as far as those who wait can tell, and more if somebody comes late."""
    with server.wakes.watch(sid) as channel:
        await eventually(lambda: channel.watchers == 3, within=60, what="nobody stays")
        async with asyncio.timeout(60):
            passed = 0
            while passed < ELEVEN_MINUTES or not until():
                for _ in range(HEARTBEAT):
                    channel.heartbeat()
                for _ in range(20):
                    await asyncio.sleep(0)  # whoever was woken has a turn, and waits again
                passed += HEARTBEAT


@pytest.mark.requirement("fault-04")
async def test_a_position_is_a_place_in_the_log_whatever_the_reader_asked_for(faulty: FaultServer) -> None:
    async with faulty.served() as client:
        sid = await begin(client, "faulty")
        await whole_round(client, sid, "aside")
        answered = await answer(client, sid, text="left")
        await rest_of_run(client, sid, answered["after"])
        whole = {p: without_origin(await told(client, sid, 0, p)) for p in ("user", "debug")}
        for other, own in (("user", "debug"), ("debug", "user")):
            for seen_so_far in whole[other]:
                last = seen_so_far["position"]
                rest = without_origin(await told(client, sid, last, own))
                assert rest == [event for event in whole[own] if event["position"] > last]
        runs = [await chunk_ids(client, sid, after, until="run_end") for after in (0, answered["after"])]
        lines = [line for run in runs for line in run]
        for last in range(int(lines[-1].split(".")[0])):
            later = await chunk_ids(client, sid, last, last=lines[-1])
            assert later == [line for line in lines if int(line.split(".")[0]) > last]


async def told(client: httpx2.AsyncClient, sid: str, after: int, profile: str) -> list[Event]:
    page = await client.get(f"/sessions/{sid}/events", params={"after": after, "profile": profile, "limit": 1000})
    return list(page.json()["events"])


async def chunk_ids(client: httpx2.AsyncClient, sid: str, after: int, *, last: str = "", **query: str) -> list[str]:
    """The ids of the lines of a dialect behind a position, up to the last or to the end of the stream."""
    found, got = list[str](), ""
    params = {"dialect": "chunks", "after": str(after), **query}
    async with asyncio.timeout(60), client.stream("GET", f"/sessions/{sid}/stream", params=params) as stream:
        async for piece in stream.aiter_text():
            got += piece
            found = [json.loads(line)["id"] for line in got.split("\n")[:-1]]
            if last in found:
                break
    return found


@pytest.mark.requirement("fault-06", "fault-16")
async def test_a_stream_goes_on_from_the_question_to_the_run_of_its_answer(faulty: FaultServer) -> None:
    async with faulty.served() as client:
        sid = await begin(client, "faulty")
        listening = asyncio.Barrier(4)
        readers = [asyncio.create_task(two_runs(client, sid, listening)) for _ in range(3)]
        async with asyncio.timeout(60):
            await listening.wait()  # whoever came later would see a replay
        await whole_round(client, sid, "aside")
        await answer(client, sid, text="left")
        first, *others = await asyncio.gather(*readers)
        assert [frame.body(sid) for frame in wire.sse(first)] == [
            frame.body(sid) for frame in wire.sse(await replay(client, sid))
        ]
    assert others == [first, first], "the same bytes for everybody"


async def two_runs(client: httpx2.AsyncClient, sid: str, listening: asyncio.Barrier) -> bytes:
    got = b""
    async with asyncio.timeout(60), client.stream("GET", f"/sessions/{sid}/stream?profile=debug") as answer:
        await listening.wait()
        async for piece in answer.aiter_bytes():
            got += piece
            if got.count(b'"type":"run_end"') == 2 and got.endswith(b"\n\n"):
                break
    return got


async def replay(client: httpx2.AsyncClient, sid: str) -> bytes:
    got = b""
    for _ in range(2):
        last = wire.sse(got)[-1].position if got else 0
        path = f"/sessions/{sid}/stream?profile=debug&until=run_end&after={last}"
        got += (await client.get(path)).content
    return got


@pytest.mark.requirement("fault-09", "trust.I4")
@pytest.mark.parametrize("form", [SSE, NDJSON])
async def test_a_reader_who_was_let_go_for_being_slow_comes_back_and_has_it_all(tmp_path: Path, form: str) -> None:
    (tmp_path / "data").mkdir()
    sid = await long_session(tmp_path / "data")
    settings = Settings(data=tmp_path / "data")
    received: list[Frame] = []
    async with serving(settings, Parts(timings=Timings(reader_check=0.2))) as server:
        slow = many_readers.connect_and_never_read(server.address, *asked(sid, form, 0), buffer=4096)
        await eventually(lambda: bool(server.wakes.watched()), within=60, what="nobody reads")
        await eventually(lambda: not server.wakes.watched(), within=60, what="it is never let go")
        received += PARSERS[form](wire.unchunked(await asyncio.to_thread(all_of, slow)))
        assert 0 < len(received) < 40, "it was let go in the middle"
    async with serving(settings) as server:  # with the usual timings: the next one reads, however busy the machine is
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            path, headers = asked(sid, form, received[-1].position)
            async with asyncio.timeout(60), client.stream("GET", path, headers=hyphened(headers)) as answer:
                rest = b""
                async for piece in answer.aiter_bytes():
                    rest += piece
                    if len(received) + len(PARSERS[form](rest)) == 40:
                        break
        received += PARSERS[form](rest)
    assert [frame.position for frame in received] == list(range(1, 41))


def asked(sid: str, form: str, last: int) -> tuple[str, dict[str, str]]:
    return f"/sessions/{sid}/stream?profile=debug", {"Accept": form, "Last_Event_ID": str(last)}


def hyphened(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def all_of(socket: Socket) -> bytes:
    """The body as far as it came, before the server closed."""
    with socket:
        socket.settimeout(60)
        got = b""
        try:
            while piece := socket.recv(65536):
                got += piece
        except ConnectionResetError:
            pass
    return got.partition(b"\r\n\r\n")[2]
