import asyncio
import json
from pathlib import Path

import httpx2
import msgspec
import pytest

from stellwerk.envelope.model import Envelope, decode
from stellwerk.settings import Settings
from stellwerk.testing.order import order_problems
from tests.api.reading import Event, parse_sse, sse, whole_round, without_origin
from tests.api.tenants import shared_server
from tests.conftest import own_server

LASTING = """\
{version: 1, system: {name: lasting}, agents: [{id: one, mission: m, model: {provider: scripted, script: [
  {steps: [{say: Yes., wait: 600}]}]}}]}
"""


@pytest.fixture
def address(shared_address: str) -> str:
    return shared_address


def envelopes(events: list[Event]) -> list[Envelope]:
    front = ("position", "origin", "session_id", "id")
    return [decode(msgspec.json.encode({k: v for k, v in e.items() if k not in front})) for e in events]


def text_of(events: list[Event]) -> str:
    return "".join(e["payload"]["text"] for e in events if e["type"] == "llm_token")


@pytest.mark.requirement("004.sessions.create", "004.sessions.user-id")
async def test_a_session_begins_idle(client: httpx2.AsyncClient) -> None:
    answer = await client.post("/sessions", json={"agent_system_id": "demo", "user_id": "ada"})
    assert answer.status_code == 201
    session = answer.json()
    assert session["id"] == session["sid"]
    assert answer.headers["location"] == f"/sessions/{session['id']}"
    assert (session["status"], session["round"], session["user_id"]) == ("idle", 0, "ada")
    assert (await client.get(answer.headers["location"])).json() == session


@pytest.mark.requirement("004.stream.sse", "002.envelope.seq")
async def test_a_message_is_answered_in_several_tokens_and_the_run_ends(client: httpx2.AsyncClient, sid: str) -> None:
    events = await whole_round(client, sid, "hello there")
    assert [e["position"] for e in events] == list(range(1, len(events) + 1))
    assert order_problems(envelopes(events)) == []
    assert len([e for e in events if e["type"] == "llm_token"]) > 1
    answer = events[-1]["payload"]
    assert answer["status"] == "completed"
    assert "“hello there”" in answer["result"]
    assert text_of(events) == answer["result"]


@pytest.mark.requirement("002.envelope.run-id", "002.envelope.trace-id")
async def test_every_envelope_of_a_run_carries_its_run_and_its_trace(client: httpx2.AsyncClient, sid: str) -> None:
    for text in ("how is the weather?", "delegate"):
        events = await whole_round(client, sid, text)
        assert {(e["run_id"], e["trace_id"]) for e in events} == {(events[0]["run_id"], events[0]["trace_id"])}


@pytest.mark.requirement("004.stream.thought-action-observation", "000.result.kind-always-there", "002.envelope.agent")
async def test_weather_calls_a_tool_whose_result_is_a_table(client: httpx2.AsyncClient, sid: str) -> None:
    events = await whole_round(client, sid, "how is the weather?")
    assert order_problems(envelopes(events)) == []
    end = next(e for e in events if e["type"] == "tool_end")["payload"]
    assert end["tool_name"] == "get_weather"
    assert end["result"]["kind"] == "table"
    assert end["result"]["rows"] == [["Berlin", "sunny", 21]]
    assert "sunny" in events[-1]["payload"]["result"]
    started = [e["type"] for e in events if e["type"] in ("llm_start", "tool_start")]
    assert started == ["llm_start", "tool_start", "llm_start"]


@pytest.mark.requirement("trust.I9")
async def test_rounds_rise_by_one_and_the_agent_remembers(client: httpx2.AsyncClient, sid: str) -> None:
    for number in (1, 2, 3):
        events = await whole_round(client, sid, f"message {number}")
        assert events[0]["payload"]["round"] == number
    session = (await client.get(f"/sessions/{sid}")).json()
    assert (session["status"], session["round"]) == ("completed", 3)


@pytest.mark.requirement("004.messages.accepted")
async def test_the_answer_to_a_message_shows_where_its_run_begins(client: httpx2.AsyncClient, sid: str) -> None:
    await whole_round(client, sid, "first")
    accepted = await client.post(f"/sessions/{sid}/messages", json={"text": "second"})
    assert accepted.status_code == 202
    run = accepted.json()
    assert run["status"] == "accepted"
    events = await sse(client, f"/sessions/{sid}/stream", after=str(run["after"]), until="run_end")
    assert (events[0]["type"], events[0]["run_id"]) == ("run_start", run["run_id"])
    assert events[1]["position"] == run["position"]
    assert events[1]["payload"]["message_id"] == run["message_id"]


@pytest.mark.requirement("trust.I8", "004.messages.accepted")
async def test_a_message_while_a_run_is_under_way_is_refused(client: httpx2.AsyncClient, sid: str) -> None:
    await client.post(f"/sessions/{sid}/messages", json={"text": "one"})
    refused = await client.post(f"/sessions/{sid}/messages", json={"text": "two"})
    assert (refused.status_code, refused.json()["code"]) == (409, "session_busy")
    assert "if_busy: enqueue" in refused.json()["detail"]
    events = await sse(client, f"/sessions/{sid}/stream", until="run_end")
    assert [e["payload"]["round"] for e in events if e["type"] == "run_start"] == [1]


@pytest.mark.requirement("trust.I15")
async def test_the_same_idempotency_key_gives_the_same_answer_and_one_run(client: httpx2.AsyncClient, sid: str) -> None:
    headers = {"Idempotency-Key": "abc"}
    first = await client.post(f"/sessions/{sid}/messages", json={"text": "hi"}, headers=headers)
    again = await client.post(f"/sessions/{sid}/messages", json={"text": "hi"}, headers=headers)
    assert first.json() == again.json()
    other = await client.post(f"/sessions/{sid}/messages", json={"text": "ho"}, headers=headers)
    assert (other.status_code, other.json()["code"]) == (409, "key_reused")


async def test_all_ways_of_reading_show_the_same_envelopes(client: httpx2.AsyncClient, sid: str) -> None:
    await whole_round(client, sid, "weather")
    by_sse = await sse(client, f"/sessions/{sid}/stream", until="run_end")
    headers = {"Accept": "application/x-ndjson"}
    ndjson = await client.get(f"/sessions/{sid}/stream", params={"until": "run_end"}, headers=headers)
    assert ndjson.headers["content-type"] == "application/x-ndjson"
    by_line = [json.loads(line) for line in ndjson.text.split("\n") if line]
    by_page = (await client.get(f"/sessions/{sid}/events")).json()
    assert without_origin(by_sse) == without_origin(by_line) == without_origin(by_page["events"])
    assert by_page["next"] == by_sse[-1]["position"]
    came_back = {"until": "run_end", "after": "0", "lastEventId": by_sse[4]["id"]}  # as a polyfill of EventSource does
    rest = await sse(client, f"/sessions/{sid}/stream", **came_back)
    assert rest == by_sse[5:]
    assert await sse(client, f"/sessions/{sid}/stream", last=by_sse[-2]["id"], **came_back) == by_sse[-1:]


@pytest.mark.requirement(
    "002.replay.tagged",
    "002.replay.same-ids-and-seq",
    "trust.I5",
    "002.envelope.call-id-reused-on-replay",
    "002.replay.deterministic",
)
async def test_replay_equals_live_but_for_the_origin(client: httpx2.AsyncClient, sid: str) -> None:
    live = asyncio.create_task(sse(client, f"/sessions/{sid}/stream", after="0"))
    events = await whole_round(client, sid, "hello")
    replayed = await sse(client, f"/sessions/{sid}/stream", until="run_end", profile="debug")
    assert {e["origin"] for e in replayed} == {"replay"}
    assert {e["origin"] for e in events if e["type"] == "run_end"} == {"live"}
    assert without_origin(events) == without_origin(replayed)
    live.cancel()


async def test_pages_of_events_join_without_a_seam(client: httpx2.AsyncClient, sid: str) -> None:
    whole = await whole_round(client, sid, "hello")
    read: list[Event] = []
    after = 0
    query = {"limit": "7", "profile": "debug"}
    while page := (await client.get(f"/sessions/{sid}/events", params={**query, "after": after})).json():
        if not page["events"]:
            break
        read += page["events"]
        after = page["next"]
    assert without_origin(read) == without_origin(whole)


async def test_a_long_poll_waits_for_the_next_event(client: httpx2.AsyncClient, sid: str) -> None:
    waiting = asyncio.create_task(client.get(f"/sessions/{sid}/events", params={"wait": 10}))
    await client.post(f"/sessions/{sid}/messages", json={"text": "hello"})
    events = (await waiting).json()["events"]
    assert events[0]["type"] == "run_start"


async def test_a_long_poll_without_news_ends_empty_where_it_began(client: httpx2.AsyncClient, sid: str) -> None:
    answer = await client.get(f"/sessions/{sid}/events", params={"after": "5", "wait": "0.01"})
    assert answer.json() == {"events": [], "next": 5}


async def test_a_stream_stays_open_over_runs(client: httpx2.AsyncClient, sid: str) -> None:
    async with client.stream("GET", f"/sessions/{sid}/stream") as answer:
        lines = answer.aiter_lines()
        for text in ("one", "two"):
            await client.post(f"/sessions/{sid}/messages", json={"text": text})
            async with asyncio.timeout(20):
                while '"type":"run_end"' not in await anext(lines):
                    pass


async def test_until_run_end_on_an_idle_session_ends_at_once(client: httpx2.AsyncClient, sid: str) -> None:
    assert await sse(client, f"/sessions/{sid}/stream", until="run_end") == []


@pytest.mark.parametrize("wish", [{}, {"dialect": "chunks"}, {"dialect": "events"}], ids=["own", "chunks", "events"])
@pytest.mark.parametrize("accept", ["text/event-stream", "application/x-ndjson"])
async def test_until_run_end_beyond_the_end_ends_with_the_run_under_way(
    client: httpx2.AsyncClient, wish: dict[str, str], accept: str
) -> None:
    sid = await lasting_run(client)
    path, beyond = f"/sessions/{sid}/stream", {**wish, "until": "run_end", "after": "99999"}
    async with client.stream("GET", path, params=beyond, headers={"accept": accept}) as answer:
        await client.post(f"/sessions/{sid}/stop")
        async with asyncio.timeout(10):  # sooner than a heartbeat
            assert await answer.aread() == b""


async def test_a_cursor_beyond_the_end_hides_what_comes_up_to_it(client: httpx2.AsyncClient) -> None:
    sid = await lasting_run(client)
    after = (await client.get(f"/sessions/{sid}")).json()["position"] + 1
    async with client.stream("GET", f"/sessions/{sid}/stream", params={"until": "run_end", "after": after}) as answer:
        await client.post(f"/sessions/{sid}/stop")
        events = parse_sse((await answer.aread()).decode())
    assert events[0]["position"] > after
    assert events[-1]["type"] == "run_end"


async def lasting_run(client: httpx2.AsyncClient) -> str:
    await client.post("/agent-systems", content=LASTING, headers={"Content-Type": "application/yaml"})
    sid = (await client.post("/sessions", json={"agent_system_id": "lasting"})).json()["id"]
    assert (await client.post(f"/sessions/{sid}/messages", json={"text": "x"})).status_code == 202
    return str(sid)


async def test_sessions_are_listed_by_their_last_activity(tmp_path: Path) -> None:
    async with own_server(Settings(data=tmp_path)) as client:
        made = [(await client.post("/sessions", json={"agent_system_id": "demo"})).json() for _ in range(3)]
        assert all(session["last_activity_at"] == session["created_at"] for session in made)
        oldest, *_ = (session["id"] for session in made)
        await whole_round(client, oldest, "hello")
        listed = (await client.get("/sessions")).json()["sessions"]
        assert [session["id"] for session in listed] == [oldest, made[2]["id"], made[1]["id"]]
        last = (await client.get(f"/sessions/{oldest}/events", params={"profile": "debug"})).json()["events"][-1]
        assert listed[0]["last_activity_at"] == last["ts"]
        assert (await client.get(f"/sessions/{oldest}")).json()["last_activity_at"] == last["ts"]
        forked = (await client.post(f"/sessions/{oldest}/fork", json={})).json()
        assert forked["last_activity_at"] == forked["created_at"]
        assert (await client.get("/sessions", params={"limit": 1})).json()["sessions"][0]["id"] == forked["id"]


async def test_pages_of_the_list_have_every_session_once_while_sessions_move(tmp_path: Path) -> None:
    async with own_server(Settings(data=tmp_path)) as client:
        made = [(await client.post("/sessions", json={"agent_system_id": "demo"})).json()["id"] for _ in range(8)]
        made.reverse()
        first = (await client.get("/sessions", params={"limit": 3})).json()
        await whole_round(client, made[2], "the last of the first page")
        await whole_round(client, made[4], "one that is still to come")
        await client.delete(f"/sessions/{made[2]}")
        pages, before = [first["sessions"]], first["next"]
        while before is not None:
            page = (await client.get("/sessions", params={"limit": 3, "before": before})).json()
            pages.append(page["sessions"])
            before = page["next"]
        seen = [session["id"] for page in pages for session in page]
        assert seen == [session for session in made if session != made[4]]
        assert (await client.get("/sessions", params={"limit": 1})).json()["sessions"][0]["id"] == made[4]
        for bad in ("nonsense", made[3]):
            refused = await client.get("/sessions", params={"before": bad})
            assert (refused.status_code, refused.json()["field"]) == (422, "before")


async def test_sessions_are_listed_newest_first_in_pages(tmp_path: Path) -> None:
    async with own_server(Settings(data=tmp_path)) as client:
        made = [(await client.post("/sessions", json={"agent_system_id": "demo"})).json()["id"] for _ in range(5)]
        first = (await client.get("/sessions", params={"limit": 3})).json()
        second = (await client.get("/sessions", params={"limit": 3, "before": first["next"]})).json()
        assert {s["id"] for s in first["sessions"]} | {s["id"] for s in second["sessions"]} == set(made)
        assert (len(first["sessions"]), second["next"]) == (3, None)


async def test_a_long_poll_of_the_session_list_ends_when_it_has_changed(tmp_path: Path) -> None:
    async with shared_server(tmp_path) as server:

        async def changed(known: str, wait: float = 60) -> httpx2.Response:
            return await server.acme.get("/sessions", params={"wait": wait}, headers={"If-None-Match": known})

        async def polled_while(
            by: httpx2.AsyncClient, method: str, path: str, known: str, **body: object
        ) -> httpx2.Response:
            waiting = asyncio.create_task(changed(known))
            assert (await by.request(method, path, **body)).is_success  # type: ignore[arg-type]
            return await waiting

        first = await server.acme.get("/sessions")
        assert first.json() == {"sessions": [], "next": None}
        demo = {"agent_system_id": "demo"}
        begun = await polled_while(server.acme, "POST", "/sessions", first.headers["etag"], json=demo)
        sid = begun.json()["sessions"][0]["id"]
        assert (await server.other.post("/sessions", json=demo)).status_code == 201
        quiet = await changed(begun.headers["etag"], wait=0.01)  # what others do is no change
        assert (quiet.status_code, quiet.headers["etag"]) == (304, begun.headers["etag"])
        message = {"text": "How\nis   the weather" + " today" * 40}
        running = await polled_while(
            server.acme, "POST", f"/sessions/{sid}/messages", begun.headers["etag"], json=message
        )
        assert begun.json()["sessions"][0]["title"] is None
        [session] = running.json()["sessions"]
        assert session["position"] > 0
        assert session["title"] == "How is the weather" + " today" * 10 + "…"
        await server.acme.get(f"/sessions/{sid}/stream", params={"until": "run_end"})
        settled = await server.acme.get("/sessions")
        gone = await polled_while(server.acme, "DELETE", f"/sessions/{sid}", settled.headers["etag"])
        assert (gone.status_code, gone.json()["sessions"]) == (200, [])


async def test_a_deleted_session_is_gone_for_everybody(client: httpx2.AsyncClient, sid: str) -> None:
    await client.post(f"/sessions/{sid}/messages", json={"text": "hello"})
    assert (await client.delete(f"/sessions/{sid}")).status_code == 204
    for path in ("", "/stream", "/events"):
        assert (await client.get(f"/sessions/{sid}{path}")).status_code == 404
    assert (await client.post(f"/sessions/{sid}/messages", json={"text": "hi"})).status_code == 404
    assert (await client.delete(f"/sessions/{sid}")).status_code == 404
