"""The WebSocket, over real sockets: the same envelopes, commands the other way, and guests who misbehave."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Origin

from stellwerk.settings import Settings
from tests import stores
from tests.api.reading import Event, whole_round, without_origin
from tests.conftest import running_server
from tests.runs.talking import begin, events, seen, send

PATIENCE = 60


@pytest.fixture
def address(shared_address: str) -> str:
    return shared_address


def place(address: str, sid: str, **query: object) -> str:
    params = "&".join(f"{name}={value}" for name, value in query.items())
    return f"{address.replace('http', 'ws', 1)}/sessions/{sid}/ws?{params}"


async def frame(socket: ClientConnection) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE):
        text = await socket.recv()
    assert isinstance(text, str)
    return dict(json.loads(text))


async def events_until(socket: ClientConnection, last: str = "run_end") -> list[Event]:
    """Envelopes until one of this type."""
    found: list[Event] = []
    while not found or found[-1]["type"] != last:
        got = await frame(socket)
        if "event" in got:
            assert got["id"] == got["event"]["position"]
            found.append(got["event"])
    return found


async def reply(socket: ClientConnection, sent: object) -> dict[str, Any]:
    """The reply to a frame, among the events in between."""
    await socket.send(sent if isinstance(sent, str | bytes) else json.dumps(sent))
    while "event" in (got := await frame(socket)):
        pass
    return got


@asynccontextmanager
async def talking(address: str, sid: str, **query: object) -> AsyncIterator[ClientConnection]:
    async with connect(place(address, sid, **query)) as socket:
        yield socket


async def refusal(url: str, **options: Any) -> dict[str, Any]:
    with pytest.raises(InvalidStatus) as refused:
        async with connect(url, **options):
            pass
    response = refused.value.response
    assert response.headers["content-type"] == "application/problem+json"
    return {**json.loads(response.body or b""), "seen": response.status_code}


@pytest.mark.requirement("004.stream.websocket")
async def test_a_conversation_over_the_socket_alone_is_what_the_log_has(
    address: str, client: httpx2.AsyncClient, sid: str
) -> None:
    async with talking(address, sid, profile="debug") as socket:
        accepted = await reply(socket, {"type": "message", "text": "weather", "key": "k1"})
        again = await reply(socket, {"type": "message", "text": "weather", "key": "k1"})
        assert accepted["ok"]["round"] == 1
        assert again == accepted
        assert accepted["key"] == "k1"
    async with talking(address, sid, profile="debug") as socket:
        heard = await events_until(socket)
    assert without_origin(heard) == without_origin(await events(client, sid))


@pytest.mark.requirement("002.replay.no-duplicates")
async def test_a_socket_cut_anywhere_goes_on_with_the_next_envelope(
    address: str, client: httpx2.AsyncClient, sid: str
) -> None:
    whole = without_origin(await whole_round(client, sid, "weather"))
    for after in range(len(whole)):
        async with talking(address, sid, profile="debug", after=after) as socket:
            assert without_origin(await events_until(socket)) == whole[after:]


@pytest.mark.requirement("002.adapter.default-profile-is-user")
async def test_what_a_user_need_not_see_is_left_out_unless_it_is_asked_for(
    address: str, client: httpx2.AsyncClient, sid: str
) -> None:
    await whole_round(client, sid, "weather")
    async with talking(address, sid) as plain, talking(address, sid, profile="debug") as debug:
        seen_by_users, all_of_it = await events_until(plain), await events_until(debug)
    assert [e for e in all_of_it if e["type"] not in ("subgraph_checkpoint", "update")] == seen_by_users
    assert len(all_of_it) > len(seen_by_users)


async def test_a_question_is_answered_and_a_run_is_stopped_over_the_socket(address: str, sid: str) -> None:
    async with talking(address, sid) as socket:
        await reply(socket, {"type": "message", "text": "ask"})
        (asked,) = [e for e in await events_until(socket) if e["type"] == "ask_user"]
        ask_id = asked["payload"]["ask_id"]
        answered = await reply(socket, {"type": "answer", "text": "blue", "ask_id": ask_id})
        assert answered["ok"]["ask_id"] == ask_id
        assert "blue" in (await events_until(socket))[-1]["payload"]["result"]
        await reply(socket, {"type": "message", "text": "slow"})
        await events_until(socket, last="llm_token")
        stopped = await reply(socket, {"type": "stop", "reason": "enough"})
        assert stopped["ok"]["status"] == "stopped"
        assert stopped["ok"]["round"] == 3


@pytest.mark.requirement("trust.I18")
@pytest.mark.parametrize(
    "sent, status, code, field",
    [
        ("{", 400, "malformed_json", "frame"),
        ("", 400, "malformed_json", "frame"),
        ("[" * 5000, 400, "malformed_json", "frame"),
        ("null", 422, "invalid_field", "type"),
        ("[]", 422, "invalid_field", "type"),
        ("{}", 422, "invalid_field", "type"),
        ({"type": "dance"}, 422, "invalid_field", "type"),
        ({"type": "message"}, 422, "invalid_field", "text"),
        ({"type": "message", "text": ""}, 422, "invalid_field", "text"),
        ({"type": "message", "text": "  "}, 422, "invalid_field", "text"),
        ({"type": "message", "text": "x" * 65537}, 422, "invalid_field", "text"),
        ({"type": "message", "text": "x", "colour": "red"}, 422, "invalid_field", "colour"),
        ({"type": "message", "text": "x", "if_busy": "shout"}, 422, "invalid_field", "if_busy"),
        ({"type": "message", "text": "x", "key": ""}, 422, "invalid_field", "key"),
        ({"type": "answer", "text": "x"}, 409, "nothing_asked", None),
        ({"type": "stop", "reason": 7}, 422, "invalid_field", "reason"),
        ('{"type": "message", "text": "' + "x" * 1024 * 1024 + '"}', 413, "too_large", None),
        (b"\x00\xff", 400, "invalid_input", None),
    ],
)
async def test_a_frame_that_cannot_be_taken_is_answered_and_the_socket_stays_open(
    address: str, sid: str, sent: object, status: int, code: str, field: str | None
) -> None:
    async with talking(address, sid) as socket:
        problem = (await reply(socket, sent))["problem"]
        assert (problem["status"], problem["code"], problem.get("field")) == (status, code, field)
        assert (await reply(socket, {"type": "stop"}))["ok"]["status"] == "idle"


async def test_a_problem_has_the_body_of_http(address: str, client: httpx2.AsyncClient, sid: str) -> None:
    await send(client, sid, "slow")
    over_http = await client.post(f"/sessions/{sid}/messages", json={"text": "again"})
    async with talking(address, sid) as socket:
        told_here = await reply(socket, {"type": "message", "text": "again", "key": "mine"})
        assert told_here == {"problem": over_http.json(), "key": "mine"}
        waiting = await reply(socket, {"type": "message", "text": "again", "if_busy": "enqueue"})
        assert waiting["ok"]["status"] == "enqueued"
        interrupting = await reply(socket, {"type": "message", "text": "slow", "if_busy": "interrupt"})
        message_id = waiting["ok"]["message_id"]
        assert interrupting["ok"]["withdrawn"] == [{"message_id": message_id, "text": "again", "documents": []}]
        await reply(socket, {"type": "stop"})


async def test_a_frame_that_is_far_too_large_ends_the_socket_and_nothing_else(address: str, sid: str) -> None:
    async with talking(address, sid) as socket:
        with pytest.raises(ConnectionClosed) as closed:
            await reply(socket, "x" * (3 * 1024 * 1024))
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009
    async with talking(address, sid) as socket:
        assert "ok" in await reply(socket, {"type": "stop"})


async def test_a_handshake_that_must_fail_is_answered_like_any_request_and_is_no_error_of_ours(
    address: str, sid: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert (await refusal(place(address, "nobody")))["code"] == "unknown_session"
    assert (await refusal(place(address, "nobody")))["seen"] == 404
    cursor = await refusal(place(address, sid, after="x"))
    assert (cursor["seen"], cursor["code"]) == (400, "bad_cursor")
    profile = await refusal(place(address, sid, profile="all"))
    assert (profile["seen"], profile["field"]) == (422, "profile")
    unknown = await refusal(place(address, sid, afterwards="1"))
    assert (unknown["seen"], unknown["field"]) == (422, "afterwards")
    assert unknown["detail"].endswith("known: after, profile, ticket")
    assert not [line.getMessage() for line in caplog.records if line.levelno >= logging.ERROR]


async def test_a_page_of_another_origin_and_a_foreign_host_get_no_socket(address: str, sid: str) -> None:
    for origin in ("https://evil.test", "null", address + "0", address.replace("127.0.0.1", "127.0.0.1.evil.test")):
        refused = await refusal(place(address, sid), origin=Origin(origin))
        assert (refused["seen"], refused["code"]) == (403, "refused")
    port = int(address.rpartition(":")[2])
    rebound = f"ws://evil.test:{port}/sessions/{sid}/ws"
    assert (await refusal(rebound, host="127.0.0.1", port=port))["code"] == "refused"
    async with connect(place(address, sid), origin=Origin(address)) as own_page:
        assert "ok" in await reply(own_page, {"type": "stop"})


async def test_a_socket_is_closed_when_its_session_is_deleted(
    address: str, client: httpx2.AsyncClient, sid: str
) -> None:
    async with talking(address, sid) as socket:
        assert "ok" in await reply(socket, {"type": "stop"})
        await client.delete(f"/sessions/{sid}")
        with pytest.raises(ConnectionClosed) as closed:
            await frame(socket)
        assert closed.value.rcvd is not None
        assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1000, "the session was deleted")


async def test_sockets_are_closed_as_going_away_and_resume_at_the_next_server(tmp_path: Path) -> None:
    async with running_server(Settings(data=tmp_path)) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=20) as client:
            sid = await begin(client)
            sockets = [await connect(place(address, sid)) for _ in range(20)]
            await send(client, sid, "slow")
            await seen(client, sid, "llm_token")
    heard = [await _rest(socket) for socket in sockets]
    assert all(code == 1001 for code, _ in heard)
    position = heard[0][1][-1]["position"]
    async with running_server(Settings(data=tmp_path)) as address:
        async with talking(address, sid, after=position) as socket:
            await socket.send('{"type": "stop"}')
            rest = await events_until(socket)
    assert rest[0]["position"] > position
    assert rest[-1]["type"] == "run_end"


async def _rest(socket: ClientConnection) -> tuple[int, list[Event]]:
    found = [json.loads(text)["event"] async for text in _until_closed(socket)]
    assert socket.close_code is not None
    return socket.close_code, found


async def _until_closed(socket: ClientConnection) -> AsyncIterator[str]:
    async with asyncio.timeout(PATIENCE):
        async for text in socket:
            assert isinstance(text, str)
            yield text


async def test_a_message_of_a_client_that_disconnects_at_once_is_accepted(
    address: str, client: httpx2.AsyncClient, sid: str
) -> None:
    async with talking(address, sid) as socket:
        await socket.send('{"type": "message", "text": "hello"}')
    await seen(client, sid, "run_end")


async def test_a_log_that_cannot_be_read_is_reported_before_the_socket_closes(tmp_path: Path) -> None:
    async with running_server(Settings(data=tmp_path)) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=20) as client:
            sid = await begin(client)
            await whole_round(client, sid, "hello")
        with stores.beside(tmp_path) as stored:
            stored.hide("event")
        async with talking(address, sid) as socket:
            assert (await frame(socket))["problem"]["code"] == "storage_gone"
            with pytest.raises(ConnectionClosed) as closed:
                await frame(socket)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1011
