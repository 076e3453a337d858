"""Messages with ids of their clients: what is sent twice is one message, and the log has the client's id."""

import asyncio

import httpx2
import pytest

from stellwerk.testing.order import order_problems
from tests.runs.talking import answer, events, log_of, rest_of_run, send, stop


@pytest.fixture
def address(shared_address: str) -> str:
    return shared_address


async def refused(client: httpx2.AsyncClient, sid: str, **body: object) -> tuple[int, str]:
    problem = await client.post(f"/sessions/{sid}/messages", json={"text": "hello", **body})
    return problem.status_code, problem.json()["code"]


async def test_the_log_and_the_transcript_have_the_id_of_the_client(client: httpx2.AsyncClient, sid: str) -> None:
    accepted = await send(client, sid, message_id="mine 1")
    assert accepted["message_id"] == "mine 1"
    told = await rest_of_run(client, sid, accepted["after"])
    assert told[0]["payload"]["message_id"] == told[1]["payload"]["message_id"] == "mine 1"
    shown = (await client.get(f"/sessions/{sid}/messages")).json()["messages"]
    assert shown[0]["message_id"] == "mine 1"
    assert order_problems(log_of(await events(client, sid))) == []


async def test_the_same_message_sent_often_at_once_is_one_message(client: httpx2.AsyncClient, sid: str) -> None:
    sent = [send(client, sid, message_id="m", if_busy=if_busy) for if_busy in ("reject", "interrupt") * 3]
    first, *others = await asyncio.gather(*sent)
    assert all(other == first for other in others)
    await rest_of_run(client, sid)
    assert await send(client, sid, message_id="m") == first
    assert [e["type"] for e in await events(client, sid)].count("run_start") == 1


async def test_another_message_with_the_same_id_is_refused(client: httpx2.AsyncClient, sid: str) -> None:
    await send(client, sid, message_id="m")
    await rest_of_run(client, sid)
    before = await events(client, sid)
    assert await refused(client, sid, message_id="m", text="other") == (409, "message_id_used")
    assert await refused(client, sid, message_id="m", config={"tags": ["other"]}) == (409, "message_id_used")
    with_key = {"Idempotency-Key": "k"}
    body = {"text": "hello", "message_id": "m"}
    problem = await client.post(f"/sessions/{sid}/messages", json=body, headers=with_key)
    assert (problem.status_code, problem.json()["code"]) == (409, "message_id_used")
    for number in (1, 2):
        body, key = {"text": "hello", "message_id": "keyed"}, {"Idempotency-Key": f"k{number}"}
        answered = await client.post(f"/sessions/{sid}/messages", json=body, headers=key)
        assert answered.status_code == (202 if number == 1 else 409), answered.text
        await rest_of_run(client, sid, before[-1]["position"])
    assert await refused(client, sid, message_id="keyed") == (409, "message_id_used")
    before = await events(client, sid)
    said = next(e["payload"]["message_id"] for e in before if e["type"] == "message" and e["payload"]["role"] != "user")
    assert await refused(client, sid, message_id=said) == (409, "message_id_used")
    assert await events(client, sid) == before


@pytest.mark.parametrize("message_id", ["", "x" * 201, "a\nb", "\u2028", 7])
async def test_an_invalid_id_is_refused(client: httpx2.AsyncClient, sid: str, message_id: object) -> None:
    assert await refused(client, sid, message_id=message_id) == (422, "invalid_field")
    assert await events(client, sid) == []


async def test_an_enqueued_message_names_the_run_that_it_starts(client: httpx2.AsyncClient, sid: str) -> None:
    running = await send(client, sid, "weather")
    waiting = await send(client, sid, "table", if_busy="enqueue", message_id="later")
    assert "queued_run_id" not in running
    assert (waiting["status"], waiting["run_id"]) == ("enqueued", running["run_id"])
    await rest_of_run(client, sid)
    told = await rest_of_run(client, sid, waiting["position"] + 1)
    while told[0]["run_id"] != waiting["queued_run_id"]:  # the rest of the first run
        told = await rest_of_run(client, sid, told[-1]["position"])
    assert told[0]["payload"]["message_id"] == "later"
    assert await send(client, sid, "table", if_busy="enqueue", message_id="later") == waiting


async def test_a_message_that_a_stop_withdrew_is_sent_under_a_new_id(client: httpx2.AsyncClient, sid: str) -> None:
    await send(client, sid, "weather")
    await send(client, sid, "table", if_busy="enqueue", message_id="later")
    assert [each["message_id"] for each in (await stop(client, sid))["withdrawn"]] == ["later"]
    assert await refused(client, sid, text="table", message_id="later") == (409, "message_id_used")
    assert (await send(client, sid, "table", message_id="later still"))["status"] == "accepted"


async def test_an_answer_sent_twice_as_the_same_message_is_one_answer(client: httpx2.AsyncClient, sid: str) -> None:
    await send(client, sid, "ask", message_id="a")
    await rest_of_run(client, sid)
    first = await send(client, sid, "blue", message_id="b")
    await rest_of_run(client, sid, first["after"])
    assert await send(client, sid, "blue", message_id="b") == first
    asked = await send(client, sid, "ask", message_id="c")
    await rest_of_run(client, sid, asked["after"])
    assert (await answer(client, sid, text="red"))["status"] == "accepted"
