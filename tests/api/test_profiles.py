"""Profiles over HTTP: the user's is the default of every way to read, and no cursor gets lost behind what it hides."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import nullcontext
from pathlib import Path
from urllib.parse import urlencode

import httpx2
import pytest
from starlette.types import Message
from websockets.asyncio.client import connect

from stellwerk.api.services import Services
from stellwerk.api.streams.reader import SSE, EventStream, Reader
from stellwerk.app import Parts, _services
from stellwerk.log.log import Lease, LogEntry
from stellwerk.log.notify import WakeUps
from stellwerk.settings import Settings
from stellwerk.tenants.principals import LOCAL, LOCAL_TENANT
from stellwerk.timings import Timings
from tests.api.reading import Event, sse, whole_round, without_origin
from tests.conftest import without_pauses
from tests.crash.waiting import eventually

HIDDEN = {"subgraph_checkpoint", "update"}
SECRETIVE = """
version: 1
system: {name: secretive, store_prompts: true}
agents:
  - id: keeper
    model:
      provider: scripted
      pace: 0
      script: [{steps: [{say: "I keep it."}]}]
    system_prompt: The password of the house is swordfish.
"""
PROMPT = "swordfish"
ASKED = {"messages": [{"role": "user", "content": "weather"}]}

PARTS = Parts(demo_systems=without_pauses)


@pytest.fixture(scope="module")
def parts() -> Parts:
    return PARTS


def inside(count: int) -> list[LogEntry]:
    return [LogEntry("update", 0.0, b'{"type":"update"}')] * count


def line(text: str) -> LogEntry:
    return LogEntry("log", 0.0, b'{"type":"log","payload":{"message":"%b"}}' % text.encode())


@pytest.fixture
async def services(tmp_path: Path) -> AsyncIterator[Services]:
    async with _services(Settings(data=tmp_path, demo=True), WakeUps(), {}, parts=PARTS) as made, asyncio.timeout(20):
        yield made


async def begun(services: Services, *entries: LogEntry) -> str:
    session = await services.sessions.begin(LOCAL_TENANT, "demo", None)
    await services.log.append(Lease(LOCAL_TENANT, session.id, "run", 0), 1, entries)
    return session.id


async def read(client: httpx2.AsyncClient, sid: str, **params: str) -> list[list[Event]]:
    """The session as SSE, as NDJSON and as a page."""
    path, until = f"/sessions/{sid}/stream", {**params, "until": "run_end"}
    ndjson = await client.get(path, params=until, headers={"Accept": "application/x-ndjson"})
    page = (await client.get(f"/sessions/{sid}/events", params=params)).json()
    assert page["next"] == (await client.get(f"/sessions/{sid}")).json()["position"]
    lines = [json.loads(text) for text in ndjson.text.splitlines()]
    return [without_origin(events) for events in (await sse(client, path, **until), lines, page["events"])]


@pytest.mark.requirement("002.adapter.default-profile-is-user", "002.profile.debug")
async def test_without_a_choice_a_reader_gets_the_user_profile(client: httpx2.AsyncClient, sid: str) -> None:
    log = without_origin(await whole_round(client, sid, "weather"))
    shown_events = [event for event in log if event["type"] not in HIDDEN]
    assert {event["type"] for event in log} >= HIDDEN - {"update"}
    assert await read(client, sid) == await read(client, sid, profile="user") == [shown_events] * 3
    assert await read(client, sid, profile="debug") == [log] * 3


@pytest.mark.parametrize("dialect", ["chunks", "events"])
async def test_a_dialect_that_leaves_the_same_out_is_the_same_in_both_profiles(
    client: httpx2.AsyncClient, dialect: str
) -> None:
    answer = await client.post("/stream-test", json=ASKED, params={"dialect": dialect})
    path = f"/sessions/{answer.headers['Stellwerk-Session']}/stream"
    for profile in ("user", "debug"):
        again = await client.get(path, params={"dialect": dialect, "profile": profile, "until": "run_end"})
        assert again.text == answer.text


async def test_a_stored_prompt_is_shown_to_debug_readers_only_in_every_way_to_read(
    client: httpx2.AsyncClient, address: str
) -> None:
    made = await client.post("/agent-systems", content=SECRETIVE, headers={"Content-Type": "application/yaml"})
    assert made.status_code == 201, made.text
    one_shots = [
        await client.post("/stream-test", json={**ASKED, "agent_system_id": "secretive"}, params={"dialect": dialect})
        for dialect in ("chunks", "events")
    ]
    sid = one_shots[0].headers["Stellwerk-Session"]
    log = await read(client, sid, profile="debug")
    assert all(PROMPT in json.dumps(start(events)) for events in log)
    for profile in ({}, {"profile": "user"}):
        shown_events = await read(client, sid, **profile)
        assert [start(events) for events in shown_events] == [without_prompt(start(events)) for events in log]
        assert PROMPT not in json.dumps(shown_events)
        socket = await over_websocket(address, sid, **profile)
        assert PROMPT not in json.dumps(socket) and without_origin(socket) == shown_events[0]
        for dialect in ("chunks", "events"):
            params = {"dialect": dialect, "until": "run_end", **profile}
            assert PROMPT not in (await client.get(f"/sessions/{sid}/stream", params=params)).text
    assert PROMPT not in "".join(answer.text for answer in one_shots)
    assert PROMPT in json.dumps(await over_websocket(address, sid, profile="debug"))


async def test_a_stored_prompt_is_kept_from_those_who_follow_live(client: httpx2.AsyncClient) -> None:
    await client.post("/agent-systems", content=SECRETIVE, headers={"Content-Type": "application/yaml"})
    sid = (await client.post("/sessions", json={"agent_system_id": "secretive"})).json()["id"]
    path, lines = f"/sessions/{sid}/stream", {"Accept": "application/x-ndjson"}
    async with (
        asyncio.timeout(60),
        client.stream("GET", path, headers=lines) as for_user,
        client.stream("GET", path, headers=lines, params={"profile": "debug"}) as for_debug,
    ):
        await client.post(f"/sessions/{sid}/messages", json={"text": "hi"})
        shown_events, log = await until_run_end(for_user), await until_run_end(for_debug)
    assert {event["origin"] for event in [*shown_events, *log]} == {"live"}
    assert PROMPT in json.dumps(start(log)) and PROMPT not in json.dumps(shown_events)
    assert start(shown_events) == without_prompt(start(log))


async def until_run_end(stream: httpx2.Response) -> list[Event]:
    found: list[Event] = []
    async for text in stream.aiter_lines():
        if text:
            found.append(json.loads(text))
        if found and found[-1]["type"] == "run_end":
            break
    return found


def start(events: list[Event]) -> Event:
    (found,) = (event for event in events if event["type"] == "llm_start")
    return found


def without_prompt(event: Event) -> Event:
    return {**event, "payload": {name: value for name, value in event["payload"].items() if name != "messages"}}


async def over_websocket(address: str, sid: str, **query: str) -> list[Event]:
    found: list[Event] = []
    place = f"{address.replace('http', 'ws', 1)}/sessions/{sid}/ws?{urlencode(query)}"
    async with asyncio.timeout(60), connect(place) as socket:
        while not found or found[-1]["type"] != "run_end":
            found.append(json.loads(await socket.recv())["event"])
    return found


async def test_a_profile_that_there_is_not_is_refused(client: httpx2.AsyncClient, sid: str) -> None:
    params = {"profile": "admin"}
    answers = [
        await client.get(f"/sessions/{sid}/stream", params=params),
        await client.get(f"/sessions/{sid}/stream", params={**params, "dialect": "chunks"}),
        await client.get(f"/sessions/{sid}/events", params=params),
        await client.post("/stream-test", json=ASKED, params=params),
    ]
    for answer in answers:
        problem = answer.json()
        assert (answer.status_code, problem["code"], problem["field"]) == (422, "invalid_field", "profile")
        assert problem["detail"] == "profile: this must be 'user' or 'debug'"
    assert len((await client.get("/sessions")).json()["sessions"]) == 1


async def test_a_page_reads_over_what_it_hides(services: Services) -> None:
    sid = await begun(services, *inside(5), line("one"), *inside(3), line("two"), *inside(4))
    pages = []
    after = 0
    reader = Reader(services.streams, LOCAL, sid, "user")
    while (page := await reader.page(after=after, limit=2))[0]:
        pages.append(([stored.position for stored in page[0]], page[1]))
        after = page[1]
    assert pages == [([6], 6), ([10], 10)]
    assert page == ([], 14)


async def test_a_long_poll_waits_for_something_to_see(services: Services) -> None:
    sid = await begun(services, line("one"), *inside(3))
    reader = Reader(services.streams, LOCAL, sid, "user")
    waiting = asyncio.create_task(reader.page(after=1, limit=1, wait=60))
    await eventually(lambda: bool(services.wakes.watched()), within=20, what="no reader waits")
    more = [*inside(2), line("two"), line("three"), *inside(1)]
    lease = Lease(LOCAL_TENANT, sid, "run", 0)
    await services.log.append(lease, 2, inside(2))
    await services.log.append(lease, 3, more)
    page, after = await waiting
    assert ([stored.position for stored in page], after) == ([9], 9)


async def test_a_long_poll_that_saw_nothing_still_gets_ahead(services: Services) -> None:
    sid = await begun(services, line("one"), *inside(3))
    reader = Reader(services.streams, LOCAL, sid, "user")
    assert await reader.page(after=1, limit=500, wait=0.01) == ([], 4)


async def test_a_reader_that_is_shown_nothing_for_long_gets_a_heartbeat() -> None:
    timings = Timings(reader_check=0.01)
    sent: list[bytes] = []

    async def send(message: Message) -> None:
        sent.append(message.get("body", b""))

    async def hidden() -> AsyncIterator[bytes]:
        yield b"one"
        while sent[-1] != b": ping\n":
            yield b""
            await asyncio.sleep(0)
        yield b"two"

    async with asyncio.timeout(20):
        await EventStream(hidden(), SSE, nullcontext(), timings).stream_response(send)
    assert sent[1:] == [b"one", b": ping\n", b"two", b""]
