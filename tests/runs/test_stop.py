"""Stop: the run is over for everybody at once, whatever its driver still believes; the session goes on."""

import asyncio
from pathlib import Path

import httpx2
import pytest

from stellwerk.settings import Settings
from stellwerk.testing.order import order_problems
from tests.api.reading import whole_round
from tests.conftest import running_server
from tests.runs.talking import begin, events, log_of, rest_of_run, seen, send, stop


@pytest.mark.requirement("trust.I11")
async def test_a_stop_in_mid_tool_closes_what_is_open_and_the_next_message_works(
    client: httpx2.AsyncClient, sid: str
) -> None:
    await send(client, sid, "slow")
    await seen(client, sid, "tool_start")
    async with asyncio.timeout(30):
        stopped = await stop(client, sid, reason="seen enough")
    told = await events(client, sid)
    assert [e["type"] for e in told[-3:]] == ["stop_request", "tool_end", "run_end"]
    assert told[-2]["payload"]["status"] == "abandoned"
    assert told[-1]["payload"] == {
        **told[-1]["payload"],
        "status": "stopped",
        "reason": "seen enough",
        "code": "stopped",
    }
    assert (stopped["status"], stopped["position"]) == ("stopped", told[-1]["position"])
    assert (await whole_round(client, sid, "weather"))[-1]["payload"]["status"] == "completed"
    assert order_problems(log_of(await events(client, sid))) == []


async def test_a_stop_in_mid_word_keeps_the_words_and_says_that_they_are_no_answer(
    client: httpx2.AsyncClient, sid: str
) -> None:
    await send(client, sid, "hello")
    await seen(client, sid, "llm_token")
    await stop(client, sid)
    told = await events(client, sid)
    assert "".join(e["payload"]["text"] for e in told if e["type"] == "llm_token").startswith("You")
    assert [(e["type"], e["payload"].get("status")) for e in told[-2:]] == [
        ("llm_end", "abandoned"),
        ("run_end", "stopped"),
    ]
    assert (await whole_round(client, sid, "weather"))[-1]["payload"]["status"] == "completed"


async def test_a_stop_while_a_question_is_open_is_a_round_of_its_own(client: httpx2.AsyncClient, sid: str) -> None:
    await whole_round(client, sid, "ask")
    stopped = await stop(client, sid)
    told = await events(client, sid)
    (start,) = [e for e in told if e["type"] == "run_start" and e["payload"]["trigger"] == "stop"]
    assert (start["payload"]["round"], stopped["round"], stopped["run_id"]) == (2, 2, start["run_id"])
    assert told[-1]["payload"]["status"] == "stopped"
    assert order_problems(log_of(told)) == []
    session = (await client.get(f"/sessions/{sid}")).json()
    assert (session["status"], session["awaiting_user_input"]) == ("stopped", False)
    assert (await whole_round(client, sid, "weather"))[-1]["payload"]["status"] == "completed"


async def test_a_stop_gives_back_the_messages_that_waited_and_nothing_starts_by_itself(
    client: httpx2.AsyncClient, sid: str
) -> None:
    await send(client, sid, "slow")
    uploaded = (await client.post("/files", files={"file": ("notes.txt", b"by the way")})).json()["id"]
    first = await send(client, sid, "weather", if_busy="enqueue")
    second = await send(client, sid, "table", if_busy="enqueue", documents=[uploaded])
    stopped = await stop(client, sid)
    told = await events(client, sid)
    assert [(one["message_id"], one["text"]) for one in stopped["withdrawn"]] == [
        (first["message_id"], "weather"),
        (second["message_id"], "table"),
    ]
    assert [[file["document_id"] for file in one["documents"]] for one in stopped["withdrawn"]] == [[], [uploaded]]
    removed = [e["payload"]["message_id"] for e in told if e["payload"].get("action") == "removed"]
    assert removed == [first["message_id"], second["message_id"]]
    assert (told[-1]["type"], [e["type"] for e in told].count("run_start")) == ("run_end", 1)
    assert "withdrawn" not in await stop(client, sid)
    again = await send(client, sid, stopped["withdrawn"][1]["text"], documents=[uploaded])
    assert (await rest_of_run(client, sid, again["after"]))[-1]["payload"]["status"] == "completed"


async def test_a_message_that_interrupts_gives_back_the_messages_that_waited_each_time_it_is_sent(
    client: httpx2.AsyncClient, sid: str
) -> None:
    await send(client, sid, "slow")
    uploaded = (await client.post("/files", files={"file": ("notes.txt", b"by the way")})).json()["id"]
    waited = await send(client, sid, "table", if_busy="enqueue", documents=[uploaded])
    body, headers = {"text": "weather", "if_busy": "interrupt"}, {"Idempotency-Key": "once"}
    first, again = [
        (await client.post(f"/sessions/{sid}/messages", json=body, headers=headers)).json() for _ in range(2)
    ]
    file = {"type": "file", "document_id": uploaded, "filename": "notes.txt", "mime": "text/plain"}
    assert first["withdrawn"] == [{"message_id": waited["message_id"], "text": "table", "documents": [file]}]
    assert again == first, "the answer is remembered with its key"
    assert (await rest_of_run(client, sid, first["after"]))[-1]["payload"]["status"] == "completed"
    await send(client, sid, "slow")
    assert "withdrawn" not in await send(client, sid, "weather", if_busy="interrupt"), "no message waited"


async def test_to_stop_what_is_over_changes_nothing(client: httpx2.AsyncClient, sid: str) -> None:
    assert await stop(client, sid) == {"status": "idle", "round": 0, "run_id": None, "position": 0}
    last = (await whole_round(client, sid, "weather"))[-1]
    for _ in range(2):
        stopped = await stop(client, sid)
        assert (stopped["status"], stopped["position"]) == ("completed", last["position"])
    assert (await client.post("/sessions/nobody/stop")).status_code == 404


@pytest.mark.requirement("fault-19", "fault-31")
async def test_a_run_that_waits_for_its_slot_is_stopped_before_it_begins(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path, slots=1)
    async with running_server(settings) as address, httpx2.AsyncClient(base_url=address, timeout=60) as client:
        busy, waiting = await begin(client), await begin(client)
        await send(client, busy, "slow")
        await send(client, waiting, "hello")
        await stop(client, waiting)
        assert [e["type"] for e in await events(client, waiting)] == [
            "run_start",
            "message",
            "stop_request",
            "run_end",
        ]
        await stop(client, busy)
        assert (await whole_round(client, waiting, "weather"))[-1]["payload"]["status"] == "completed"


@pytest.mark.parametrize("times", [2, 5])
async def test_stops_at_the_same_time_end_the_run_once(client: httpx2.AsyncClient, sid: str, times: int) -> None:
    await send(client, sid, "slow")
    answers = await asyncio.gather(*(stop(client, sid) for _ in range(times)))
    assert {answer["status"] for answer in answers} == {"stopped"}
    told = await events(client, sid)
    assert [e["type"] for e in told].count("run_end") == 1
    assert order_problems(log_of(told)) == []
