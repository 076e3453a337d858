"""/api/workflows as a polling front end uses it: start, poll, download, go on, stop, delete."""

import asyncio
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import Depends, HTTPException

from stellwerk import create_app, opened
from stellwerk.settings import Settings
from tests.api.workflow_client import (
    NEW,
    PATH,
    done,
    finished,
    get,
    pages,
    quick_data,
    quick_server,
    refused,
    start,
    status,
    waiting,
)

address, data = quick_server, quick_data


BEGIN = {"prompt": "weather", "userId": 12, "mandateId": 1, **NEW}


@pytest.mark.requirement("003.endpoint.start", "003.start.new-workflow", "003.start.answers-with-id")
@pytest.mark.requirement("003.transition.created")
async def test_a_start_answers_with_the_id_of_a_running_workflow(client: httpx2.AsyncClient) -> None:
    answer = await client.post(f"{PATH}/start", json=BEGIN)
    assert answer.status_code == 200
    begun = answer.json()
    assert (begun["status"], begun["currentRound"]) == ("running", 1)
    assert (await finished(client, begun["id"]))["id"] == begun["id"]


async def begun_and_finished(client: httpx2.AsyncClient) -> dict[str, Any]:
    begun = (await client.post(f"{PATH}/start", json=BEGIN)).json()
    return await finished(client, begun["id"])


@pytest.mark.requirement("003.workflow.times", "003.workflow.status")
@pytest.mark.requirement("003.workflow.current-round", "003.workflow.ids")
async def test_a_workflow_has_the_fields_it_was_started_with(client: httpx2.AsyncClient) -> None:
    whole = await begun_and_finished(client)
    assert {key: whole[key] for key in ("mandateId", "userId", "name", "status", "currentRound")} == {
        "mandateId": 1,
        "userId": 12,
        "name": "weather",
        "status": "completed",
        "currentRound": 1,
    }
    started, active = (datetime.fromisoformat(whole[name]) for name in ("startedAt", "lastActivity"))
    assert started.tzinfo is not None and started <= active
    assert whole["dataStats"]["tokensUsed"] > 0


@pytest.mark.requirement("003.workflow.message-ids", "003.workflow.messages-and-logs")
@pytest.mark.requirement("003.input.listed-in-workflow", "003.input.stored-as-first")
async def test_a_workflow_lists_its_messages_and_the_input_is_the_first(client: httpx2.AsyncClient) -> None:
    whole = await begun_and_finished(client)
    assert whole["messageIds"] == [message["id"] for message in whole["messages"]]
    assert [message["status"] for message in whole["messages"]] == ["first", "step", "last"]


@pytest.mark.requirement("003.endpoint.status", "003.endpoint.logs", "003.endpoint.messages")
async def test_status_logs_and_messages_are_read_by_themselves(client: httpx2.AsyncClient) -> None:
    whole = await begun_and_finished(client)
    assert whole["messages"] == await get(client, whole["id"], "/messages")
    assert whole["logs"] == await get(client, whole["id"], "/logs")
    assert await get(client, whole["id"], "/status") == {
        "status": "completed",
        "lastActivity": whole["lastActivity"],
    }


LOG = {"id", "workflowId", "message", "type", "timestamp", "agentName", "status", "progress", "mandateId", "userId"}
MESSAGE = {
    *("id", "workflowId", "parentMessageId", "startedAt", "finishedAt", "sequenceNo"),
    *("status", "role", "dataStats", "documents", "content", "agentName"),
}


@pytest.mark.requirement("003.log.ids", "003.log.text-and-type", "003.log.context", "003.log.progress")
@pytest.mark.requirement("003.polling.logs-tell-progress")
async def test_log_entries_have_the_fields_of_their_contract(client: httpx2.AsyncClient) -> None:
    whole = await done(client, "weather", **NEW)
    assert all(set(entry) == LOG and entry["id"].startswith("log_") for entry in whole["logs"])
    assert [(entry["message"], entry["progress"]) for entry in whole["logs"]] == [
        ("Workflow initialized", 0),
        ("Workflow processing started", 0),
        ("Workflow completed successfully", 100),
    ]
    assert {(entry["type"], entry["status"]) for entry in whole["logs"]} == {("info", "running"), ("info", "completed")}
    owners = {(entry["workflowId"], entry["mandateId"], entry["userId"]) for entry in whole["logs"]}
    assert owners == {(whole["id"], whole["mandateId"], whole["userId"])}
    times = [entry["timestamp"] for entry in whole["logs"]]
    assert whole["startedAt"] <= times[0] and times == sorted(times)
    assert whole["logs"][-1]["agentName"]


@pytest.mark.requirement("003.message.ids", "003.message.times", "003.message.role", "003.message.content")
@pytest.mark.requirement("003.message.data-stats")
async def test_messages_have_the_fields_of_their_contract(client: httpx2.AsyncClient) -> None:
    whole = await done(client, "weather", **NEW)
    assert all(set(message) == MESSAGE and message["id"].startswith("msg_") for message in whole["messages"])
    assert [message["role"] for message in whole["messages"]] == ["user", "assistant", "assistant"]
    assert [message["agentName"] for message in whole["messages"]] == ["user", "assistant", "assistant"]
    roles = (await client.get("/openapi.json")).json()["components"]["schemas"]["WorkflowMessage"]["properties"]["role"]
    assert roles["enum"] == ["assistant", "system", "user"]
    question, step, answer = whole["messages"]
    assert {message["workflowId"] for message in whole["messages"]} == {whole["id"]}
    assert [message["parentMessageId"] for message in whole["messages"]] == [None, question["id"], question["id"]]
    assert question["content"] == "weather"
    assert answer["content"]
    assert all(message["startedAt"] <= message["finishedAt"] for message in (question, step, answer))
    assert answer["dataStats"]["tokensUsed"] > 0


@pytest.mark.requirement("003.message.status", "003.polling.messages-tell-status", "003.polling.status-is-small")
async def test_a_polling_client_reads_the_state_from_messages_and_from_a_small_status(
    client: httpx2.AsyncClient,
) -> None:
    whole = await done(client, "weather", **NEW)
    polled = await get(client, whole["id"], "/messages")
    assert [message["status"] for message in polled] == ["first", "step", "last"]
    assert await get(client, whole["id"], "/status") == {
        "status": "completed",
        "lastActivity": whole["lastActivity"],
    }


@pytest.mark.requirement("003.completed.seen-by-api", "003.completed.status", "003.transition.running-completed")
async def test_last_message_last_entry_and_status_become_visible_together(client: httpx2.AsyncClient) -> None:
    """A client that polls as fast as it can, each of the three by itself, never sees one without the others."""
    workflow = await start(client, "weather", **NEW)

    async def signs() -> tuple[bool, bool, bool]:
        last = any(message["status"] == "last" for message in await get(client, workflow, "/messages"))
        full = any(entry["progress"] == 100 for entry in await get(client, workflow, "/logs"))
        return last, full, await status(client, workflow) == "completed"

    seen: list[tuple[bool, bool, bool]] = []
    async with asyncio.timeout(60):
        while not seen or not all(seen[-1]):
            whole = await get(client, workflow)
            ends = {
                whole["status"] == "completed",
                any(message["status"] == "last" for message in whole["messages"]),
                whole["logs"][-1]["progress"] == 100,
            }
            assert len(ends) == 1, "one answer shows all or nothing"
            seen.append(await signs())
    # What was asked for later may know more, never less.
    assert all(list(each) == sorted(each) for each in seen)


@pytest.mark.requirement("003.start.existing-workflow", "003.resume.new-message", "003.resume.answers-like-start")
@pytest.mark.requirement("003.round.every-interaction", "003.endpoint.start")
async def test_a_second_round_goes_on_with_the_same_workflow(client: httpx2.AsyncClient) -> None:
    first = await done(client, "table", **NEW)
    answer = await client.post(f"{PATH}/start", params={"id": first["id"]}, json={"prompt": "weather"})
    assert answer.json() == {"id": first["id"], "status": "running", "currentRound": 2}
    second = await finished(client, first["id"])
    assert [message["content"] for message in second["messages"] if message["role"] == "user"] == ["table", "weather"]
    assert [entry["message"] for entry in second["logs"][3:6]] == [
        "Running workflow",
        "Resuming workflow, round 2",
        "Workflow processing started",
    ]


async def test_a_start_on_a_waiting_workflow_is_the_answer(client: httpx2.AsyncClient) -> None:
    workflow = await start(client, "ask", **NEW)
    asked = await waiting(client, workflow)
    assert (asked["status"], asked["messages"][-1]["status"]) == ("running", "step")
    assert "Waiting for an answer" in asked["logs"][-1]["message"]
    wrong = await client.post(f"{PATH}/start", params={"id": workflow}, json={"prompt": "mauve"})
    assert refused(wrong) == (400, "invalid_field")
    await start(client, "blue", workflow)
    whole = await finished(client, workflow)
    assert (whole["status"], whole["currentRound"]) == ("completed", 2)
    assert "blue" in whole["messages"][-1]["content"]


@pytest.mark.requirement(
    "003.endpoint.stop", "003.stop.status", "003.interrupt.stopped-breaks-off", "003.interrupt.http"
)
async def test_a_stop_in_the_middle_takes_effect_at_once_and_may_be_repeated(client: httpx2.AsyncClient) -> None:
    workflow = await start(client, "slow", agentSystemId="demo")
    for _ in range(2):
        answer = await client.post(f"{PATH}/{workflow}/stop")
        assert (answer.status_code, answer.json()) == (200, {"id": workflow, "status": "stopped"})
        assert await status(client, workflow) == "stopped"
    whole = await get(client, workflow)
    assert (whole["logs"][-1]["message"], whole["logs"][-1]["progress"]) == ("Workflow stopped by user", 100)
    assert whole["lastActivity"] == whole["logs"][-1]["timestamp"]


@pytest.mark.requirement(
    "003.failed.status", "003.failed.seen-by-api", "003.interrupt.failed-breaks-off", "003.errors.logged"
)
async def test_a_failure_is_seen_and_explained(client: httpx2.AsyncClient) -> None:
    whole = await done(client, "fail", **NEW)
    assert whole["status"] == await status(client, whole["id"]) == "failed"
    *_, error, last = whole["logs"]
    assert (error["type"], error["progress"]) == ("error", 100)
    assert (last["message"], last["progress"]) == ("Workflow failure reported", 100)
    assert whole["lastActivity"] == last["timestamp"]
    log = (await client.get(f"/sessions/{whole['id']}/events", params={"limit": 1000})).json()["events"]
    failed = next(n for n, event in enumerate(log) if event["type"] == "error")
    assert [event["type"] for event in log[failed:] if event["type"].endswith("_start")] == []
    assert log[-1]["type"] == "run_end"


@pytest.mark.requirement("003.polling.logs-from-id", "003.polling.messages-from-id", "003.polling.paged")
@pytest.mark.parametrize("what", ["logs", "messages"])
async def test_pages_and_cursors_give_everything_once(client: httpx2.AsyncClient, what: str) -> None:
    workflow = (await done(client, "weather", **NEW))["id"]
    whole = await get(client, workflow, f"/{what}")
    for n, each in enumerate(whole):
        assert await get(client, workflow, f"/{what}", id=each["id"]) == whole[n + 1 :]
    assert await pages(client, f"{PATH}/{workflow}/{what}?limit=1") == whole
    other = (await done(client, "table", **NEW))["id"]
    for bad in ("nonsense", (await get(client, other, f"/{what}"))[0]["id"]):
        assert refused(await client.get(f"{PATH}/{workflow}/{what}", params={"id": bad})) == (
            400,
            "invalid_input",
        )
    assert await get(client, workflow, f"/{what}", id="") == whole


@pytest.mark.requirement("003.polling.cached")
async def test_what_has_not_changed_is_not_sent_again(client: httpx2.AsyncClient) -> None:
    place = f"{PATH}/{(await done(client, 'table', **NEW))['id']}"
    asked = (PATH, *(f"{place}{what}" for what in ("", "/status", "/logs", "/messages")))
    answers = {what: await client.get(what) for what in asked}
    for what, first in answers.items():
        tag = first.headers["etag"]
        for known in (tag, "*", f'"another", {tag.removeprefix("W/")}'):
            again = await client.get(what, headers={"If-None-Match": known})
            assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    await done(client, "weather", place.rpartition("/")[2])
    for what, first in answers.items():
        changed = await client.get(what, headers={"If-None-Match": first.headers["etag"]})
        assert changed.status_code == 200
        assert changed.json() != first.json()


async def test_an_invalid_request_is_rejected_even_if_its_etag_matches(
    client: httpx2.AsyncClient,
) -> None:
    place = f"{PATH}/{(await done(client, 'table', **NEW))['id']}"
    logs, messages = [await client.get(f"{place}/{what}") for what in ("logs", "messages")]
    for what, first, other in (("logs", logs, messages), ("messages", messages, logs)):
        tag, last, foreign = {"If-None-Match": first.headers["etag"]}, first.json()[-1]["id"], other.json()[-1]["id"]
        right = ("", f"id={last}", f"id={last}&limit=2", "limit=2", "id=")
        wrong = ("id=bogus", f"id={last}x", f"id={foreign}", f"id={last}&limit=x", "limit=0")
        for query in (*right, *wrong):
            answer = await client.get(f"{place}/{what}?{query}", headers=tag)
            assert (query, answer.status_code) == (query, 304 if query in right else 400)


async def test_only_a_message_an_entry_or_a_status_moves_the_last_activity(client: httpx2.AsyncClient) -> None:
    workflow = await start(client, "hello", agentSystemId="demo")
    position, news = 0, f"/sessions/{workflow}/events"
    async with asyncio.timeout(60):
        while position < 20:  # meanwhile it says more and more words
            position = (await client.get(news, params={"after": position, "wait": 30})).json()["next"]
            whole = await get(client, workflow)
            answers = [entry["timestamp"] for entry in whole["logs"]]
            assert whole["lastActivity"] == max(answers + [message["finishedAt"] for message in whole["messages"]])
    await client.post(f"{PATH}/{workflow}/stop")


async def test_the_short_way_of_a_poll_does_not_lead_around_the_checks_of_a_host(tmp_path: Path) -> None:
    def refuse(theirs: str = "") -> None:
        if closed:
            raise HTTPException(401, "not you")

    closed: list[bool] = []
    app = create_app(Settings(data=tmp_path / "data", demo=True), dependencies=[Depends(refuse)])
    transport = httpx2.ASGITransport(app)
    async with opened(app), httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        workflow = (await done(client, "table", agentSystemId="demo"))["id"]
        for what in ("status", "logs", "messages"):
            tag = (await client.get(f"{PATH}/{workflow}/{what}")).headers["etag"]
            place, known = f"{PATH}/{workflow}/{what}", {"If-None-Match": tag}
            assert (await client.get(place, headers=known)).status_code == 304
            assert (
                await client.get(place, params={"theirs": "x"})
            ).status_code == 200  # the host's dependency reads it
            assert (await client.get(place, params={"nobodys": "x"})).status_code == 400
            closed.append(True)
            assert (await client.get(place, headers=known)).status_code == 401
            closed.clear()


@pytest.mark.requirement("003.interrupt.http")
async def test_an_exception_in_the_server_is_a_500_without_its_text(tmp_path: Path) -> None:
    def fail() -> None:
        raise RuntimeError("the text of the exception")

    app = create_app(Settings(data=tmp_path / "data", demo=True), dependencies=[Depends(fail)])
    transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
    async with opened(app), httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.post(f"{PATH}/any/stop")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert "the text of the exception" not in answer.text
