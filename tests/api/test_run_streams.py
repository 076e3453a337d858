"""Translated streams of one run: what they show, where they end, and what a server that goes down leaves of them."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from fastapi import APIRouter, FastAPI, Response

from stellwerk.api.http.auth import RequireRead
from stellwerk.api.services import PluginRouters, ServerPlugin, Services
from stellwerk.api.streams.reader import SSE, WHOLE, EventStream, StreamCut, StreamFormat
from stellwerk.api.streams.shared_translation import Frame, SharedTranslation, SharedTranslations, StreamKey
from stellwerk.api.streams.translated import TranslatedReader
from stellwerk.app import Parts, _services
from stellwerk.dialects.base import Chunk, Cursor, Dialect, ndjson
from stellwerk.envelope.frames import Stored
from stellwerk.envelope.model import Envelope, Message, RunEnd, RunStart, decode, type_of
from stellwerk.envelope.payloads import Answered
from stellwerk.log.notify import WakeUps
from stellwerk.settings import Settings
from stellwerk.tenants.principals import LOCAL, LOCAL_TENANT
from tests.conftest import own_server, running_server, without_pauses
from tests.golden.files import DIALECTS

CUT = StreamFormat("text/event-stream", SSE.heartbeat, cut=True)
DONE = b"data: [DONE]\n\n"


class Types:
    """Translates each envelope to its type: enough to see which were shown."""

    def __init__(self, session_id: str, options: Any) -> None:
        self.recalled: list[str] = []

    def recall(self, envelope: Envelope) -> None:
        self.recalled.append(type_of(envelope))

    def feed(self, position: int, envelope: Envelope) -> Iterator[Chunk]:
        yield {"type": type_of(envelope), "recalled": self.recalled}


TYPES = Dialect("types", "application/x-ndjson", Types, ndjson, closing=DONE)


@pytest.fixture
async def services(tmp_path: Path) -> AsyncIterator[Services]:
    parts = Parts(demo_systems=without_pauses)
    async with _services(Settings(data=tmp_path, demo=True), WakeUps(), {}, parts=parts) as opened:
        async with asyncio.timeout(60):
            yield opened


class Rounds(NamedTuple):
    session_id: str
    runs: list[str]


async def read(services: Services, key: StreamKey, run_id: str, after: Cursor = (0, 0), **how: Any) -> bytes:
    reader = TranslatedReader(services.streams, LOCAL, key, **how)
    head = await services.log.head(LOCAL_TENANT, key.session_id)
    return b"".join([piece async for piece in reader.stream(after=after, head=head.position, run_id=run_id)])


async def sent(services: Services, session_id: str, text: str) -> str:
    """The run of a message, which is over."""
    accepted = await services.sessions.send(LOCAL_TENANT, session_id, text)
    await read(services, StreamKey(session_id, TYPES, "debug"), accepted.run_id)
    return accepted.run_id


async def rounds(services: Services, *texts: str) -> Rounds:
    session = await services.sessions.begin(LOCAL_TENANT, "demo", None)
    return Rounds(session.id, [await sent(services, session.id, text) for text in texts])


async def log_of(services: Services, session_id: str) -> list[Stored]:
    return await services.log.read(LOCAL_TENANT, session_id, after=0, limit=1000)


def span(log: list[Stored], run_id: str) -> tuple[int, int]:
    """The positions of the start and the end of a run."""
    bounds = [s.position for s in log if isinstance(e := decode(s.body), RunStart | RunEnd) and e.run_id == run_id]
    return bounds[0], bounds[1]


def frames_between(key: StreamKey, log: list[Stored], first: int, last: int) -> list[Frame]:
    return [frame for frame in SharedTranslation(key, 0).translate(log) or [] if first <= frame[0][0] <= last]


async def test_the_stream_of_a_run_has_its_frames_and_ends_with_it(services: Services) -> None:
    session_id, runs = await rounds(services, "weather", "plan it", "ask")
    log = await log_of(services, session_id)
    for dialect in DIALECTS.values():
        key = StreamKey(session_id, dialect, "user")
        for run_id in runs:
            expected = frames_between(key, log, *span(log, run_id))
            whole = b"".join(frame for *_, frame in expected) + dialect.closing
            assert await read(services, key, run_id) == whole, dialect.name
            middle = expected[len(expected) // 2][0]
            rest = b"".join(frame for cursor, _, frame in expected if cursor > middle) + dialect.closing
            assert await read(services, key, run_id, middle) == rest, dialect.name
    for run_id in runs:  # everything of it was read, whatever came after it
        for dialect in (TYPES, replace(TYPES, memory="trace")):
            end = len(log), WHOLE
            assert await read(services, StreamKey(session_id, dialect, "debug"), run_id, end) == DONE


async def enqueued(services: Services) -> tuple[str, str]:
    """A session with an open question, and the run of the message that is enqueued in it."""
    session_id, _ = await rounds(services, "ask")
    accepted = await services.sessions.send(LOCAL_TENANT, session_id, "weather", if_busy="enqueue")
    return session_id, str(accepted.queued_run_id)


async def reading(services: Services, session_id: str, run_id: str) -> "asyncio.Task[bytes]":
    """A reader of a run that has not begun, as soon as it follows the log."""
    task = asyncio.create_task(read(services, StreamKey(session_id, TYPES, "debug"), run_id))
    while session_id not in services.wakes.watched():
        assert not task.done()
        await asyncio.sleep(0)
    return task


async def test_a_reader_of_an_enqueued_run_sees_that_run_and_not_the_one_before(services: Services) -> None:
    session_id, run_id = await enqueued(services)
    early = await reading(services, session_id, run_id)
    await services.sessions.answer(LOCAL_TENANT, session_id, Answered(ask_id="", text="blue"))
    whole = await early
    log = await log_of(services, session_id)
    first, last = span(log, run_id)
    assert last == len(log) > first
    expected = frames_between(StreamKey(session_id, TYPES, "debug"), log, first, last)
    assert whole == b"".join(frame for *_, frame in expected) + DONE


@pytest.mark.parametrize("how", ["stop", "delete"])
async def test_a_stream_of_a_run_that_can_no_longer_come_ends(services: Services, how: str) -> None:
    session_id, run_id = await enqueued(services)
    waiting = await reading(services, session_id, run_id)
    if how == "stop":
        await services.sessions.stop(LOCAL_TENANT, session_id)
        removed = [decode(stored.body) for stored in await log_of(services, session_id)]
        assert [e for e in removed if isinstance(e, Message) and e.payload.action == "removed"]
    else:
        await services.sessions.delete(LOCAL_TENANT, session_id)
    assert await waiting == DONE
    if how == "stop":
        assert await read(services, StreamKey(session_id, TYPES, "debug"), run_id) == DONE


async def test_nothing_is_encoded_in_front_of_the_cursor_of_a_reader(services: Services) -> None:
    session_id, runs = await rounds(services, "weather", "weather")
    log = await log_of(services, session_id)
    made = list[int]()

    def frame(cursor: Cursor, chunk: Chunk) -> bytes:
        made.append(cursor[0])
        return ndjson(cursor, chunk)

    key = StreamKey(session_id, replace(TYPES, frame=frame), "debug")
    first, last = span(log, runs[1])
    await read(services, key, runs[1])
    assert made == list(range(first, last + 1))
    made.clear()
    await read(services, key, runs[1], (last - 2, WHOLE))
    assert made == [last - 1, last]


async def test_a_translation_that_skips_is_not_shared(services: Services) -> None:
    session_id, _ = await rounds(services, "weather")
    log = await log_of(services, session_id)
    key, translations = StreamKey(session_id, TYPES, "debug"), SharedTranslations()
    ahead = SharedTranslation(key, 0, skip=(4, WHOLE))
    ahead.translate(log[:3])
    assert translations.join(ahead) is ahead
    behind = SharedTranslation(key, 0)
    behind.translate(log[:3])
    assert translations.join(behind) is behind
    ahead.translate(log[3:])
    behind.translate(log[3:])
    assert translations.join(ahead) is behind


async def test_readers_share_a_translation_if_the_options_of_their_dialects_are_equal() -> None:
    given = list[Any]()

    def translator(session_id: str, options: Any) -> Types:
        given.append(options)
        return Types(session_id, options)

    translations = SharedTranslations()
    joined = list[SharedTranslation]()
    for options in (("a", "b"), ("a", "b"), ("a",)):
        dialect = replace(TYPES, new_translator=translator, options=options)
        joined.append(translations.join(SharedTranslation(StreamKey("s", dialect, "user"), 0)))
    assert joined[0] is joined[1] is not joined[2]
    assert given == [("a", "b"), ("a", "b"), ("a",)]


async def test_a_reader_chooses_frames_by_their_tags(services: Services) -> None:
    session_id, runs = await rounds(services, "weather")
    dialect = replace(TYPES, tag=lambda chunk: chunk["type"])
    key = StreamKey(session_id, dialect, "debug")
    chosen = await read(services, key, runs[0], keep=lambda tag: tag in ("run_start", "run_end"))
    assert [line[:20] for line in chosen.splitlines()] == [
        b'{"type":"run_start",',
        b'{"type":"run_end","r',
        b"data: [DONE]",
        b"",
    ]


async def test_a_translator_is_given_what_its_dialect_recalls_of_earlier_traces(services: Services) -> None:
    session_id, runs = await rounds(services, "weather", "weather")
    dialect = replace(TYPES, memory="trace", recalls=("message", "run_end"))
    (line, *_) = (await read(services, StreamKey(session_id, dialect, "debug"), runs[1])).splitlines()
    log = [decode(stored.body) for stored in await log_of(services, session_id)]
    earlier = log[: next(n for n, e in enumerate(log) if e.run_id == runs[1])]
    types = Counter(type_of(each) for each in earlier)
    assert line.count(b'"message"') == types["message"] > 1
    assert line.count(b'"run_end"') == 1


# Over HTTP.


@asynccontextmanager
async def opened(app: FastAPI, services: Services) -> AsyncIterator[PluginRouters]:
    router = APIRouter(include_in_schema=False)

    @router.get("/their/{sid}/{form}")
    async def follow(who: RequireRead, sid: str, form: str, run_id: str | None = None) -> Response:
        wire = CUT if form == "cut" else replace(CUT, cut=False)
        reader = TranslatedReader(services.streams, who, StreamKey(sid, TYPES, "debug"), wire)
        chunks = reader.stream(after=(0, 0), head=0, run_id=run_id)
        return EventStream(chunks, wire, services.quotas.stream(who.tenant, sid), services.streams.timings)

    yield PluginRouters(others=[router])


WITH_PLUGIN = Parts(demo_systems=without_pauses, plugins=lambda: [ServerPlugin(opened)])


async def test_a_stream_that_is_read_to_its_own_end_is_whole(tmp_path: Path) -> None:
    async with own_server(Settings(data=tmp_path, demo=True), parts=WITH_PLUGIN) as client:
        sid = (await client.post("/sessions", json={"agent_system_id": "demo"})).json()["id"]
        accepted = (await client.post(f"/sessions/{sid}/messages", json={"text": "weather"})).json()
        whole = await client.get(f"/their/{sid}/cut", params={"run_id": accepted["run_id"]})
        assert whole.content.endswith(DONE)
        assert whole.content.count(DONE) == 1


@pytest.mark.parametrize("form", ["cut", "native"])
async def test_a_server_that_goes_down_cuts_the_streams_that_are_to_be_cut(tmp_path: Path, form: str) -> None:
    """Their clients would take a clean end for the end of the run."""
    settings = Settings(data=tmp_path, demo=True)
    async with httpx2.AsyncClient(timeout=60) as client, asyncio.timeout(60):
        async with running_server(settings, parts=WITH_PLUGIN) as address:
            sid = (await client.post(f"{address}/sessions", json={"agent_system_id": "demo"})).json()["id"]
            accepted = (await client.post(f"{address}/sessions/{sid}/messages", json={"text": "ask"})).json()
            await client.get(f"{address}/their/{sid}/cut", params={"run_id": accepted["run_id"]})
            stream = await client.send(client.build_request("GET", f"{address}/their/{sid}/{form}"), stream=True)
            pieces, got = stream.aiter_bytes(), b""
            while b'"run_end"' not in got:
                got += await anext(pieces)
        if form == "native":
            assert b"".join([piece async for piece in pieces]) == b""
        else:
            with pytest.raises(httpx2.RemoteProtocolError, match="incomplete"):
                await anext(pieces)
        assert DONE not in got


async def test_no_last_chunk_is_sent_when_a_stream_is_cut(tmp_path: Path) -> None:
    async with running_server(Settings(data=tmp_path, demo=True), parts=WITH_PLUGIN) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
            sid = (await client.post("/sessions", json={"agent_system_id": "demo"})).json()["id"]
            await client.post(f"/sessions/{sid}/messages", json={"text": "ask"})
            key = client.headers.get("authorization", "")
        port = int(address.rpartition(":")[2])
        incoming, outgoing = await asyncio.open_connection("127.0.0.1", port)
        request = f"GET /their/{sid}/cut HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {key}\r\n\r\n"
        outgoing.write(request.encode())
        got = await incoming.readuntil(b'"run_end"')
    got += await asyncio.wait_for(incoming.read(), 60)
    outgoing.close()
    assert b"transfer-encoding: chunked" in got
    assert not got.endswith(b"0\r\n\r\n")
    assert got.endswith(b"\r\n")  # whole chunks, so a client has whole frames


async def test_a_reader_whose_key_is_revoked_is_cut_off(services: Services) -> None:
    session_id, _ = await rounds(services, "weather")
    revoked = TranslatedReader(services.streams, LOCAL, StreamKey(session_id, TYPES, "debug"), CUT)
    await services.credentials.keys.make(tenant=LOCAL_TENANT, name="first", role="admin")
    with pytest.raises(StreamCut):
        await anext(revoked.stream(after=(0, 0), head=0))
