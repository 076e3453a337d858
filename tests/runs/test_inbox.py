"""One enqueued message is withdrawn, and runs are found by their ids, from waiting to ended."""

import asyncio
from urllib.parse import quote

import httpx2
import pytest

from stellwerk.testing.order import order_problems
from tests.runs.talking import begin, events, log_of, rest_of_run, send


@pytest.fixture
def address(shared_address: str) -> str:
    return shared_address


async def withdraw(client: httpx2.AsyncClient, sid: str, message_id: str) -> tuple[int, dict[str, object]]:
    done = await client.delete(f"/sessions/{sid}/inbox/{quote(message_id, safe='')}")
    return done.status_code, done.json()


async def test_one_enqueued_message_is_withdrawn_and_the_others_run(client: httpx2.AsyncClient, sid: str) -> None:
    await send(client, sid, "weather")
    ids = ["first", "a/b c?d", "last"]
    for message_id in ids:
        await send(client, sid, f"say {message_id}", if_busy="enqueue", message_id=message_id)
    assert await withdraw(client, sid, ids[1]) == (
        200,
        {"message_id": ids[1], "text": f"say {ids[1]}", "documents": []},
    )
    status, problem = await withdraw(client, sid, ids[1])
    assert (status, problem["code"]) == (409, "not_waiting")
    after = 0
    for _ in range(3):
        after = (await rest_of_run(client, sid, after))[-1]["position"]
    told = await events(client, sid)
    started = [e["payload"]["message_id"] for e in told if e["type"] == "run_start"]
    assert started[1:] == ["first", "last"]
    shown = (await client.get(f"/sessions/{sid}/messages")).json()["messages"]
    assert ids[1] not in [each.get("message_id") for each in shown]
    assert order_problems(log_of(told)) == []
    status, problem = await withdraw(client, sid, "last")
    assert (status, problem["code"]) == (409, "not_waiting")


async def test_what_is_not_there_is_not_withdrawn(client: httpx2.AsyncClient, sid: str) -> None:
    status, problem = await withdraw(client, sid, "other")
    assert (status, problem["code"]) == (404, "unknown_message")
    status, problem = await withdraw(client, "other", "other")
    assert (status, problem["code"]) == (404, "unknown_session")


async def test_withdrawing_races_with_the_start_and_one_of_them_wins(client: httpx2.AsyncClient) -> None:
    async def once() -> None:
        sid = await begin(client)
        running = await send(client, sid, "hello")
        waiting = await send(client, sid, "hello", if_busy="enqueue")
        ended, (status, _) = await asyncio.gather(
            rest_of_run(client, sid, running["after"]), withdraw(client, sid, waiting["message_id"])
        )
        told = await events(client, sid)
        started = [e for e in told if e["type"] == "run_start" and e["run_id"] == waiting["queued_run_id"]]
        assert (status, len(started)) in {(200, 0), (409, 1)}
        if started:
            await rest_of_run(client, sid, ended[-1]["position"])
        assert order_problems(log_of(await events(client, sid))) == []

    await asyncio.gather(*(once() for _ in range(8)))
