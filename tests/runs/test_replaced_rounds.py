"""Earlier rounds are regenerated or edited: that round and all later ones go, from the transcript and from memory."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from stellwerk.settings import Settings
from stellwerk.testing.order import order_problems
from tests.api.reading import Event
from tests.conftest import running_server
from tests.runs.talking import answer, begin, events, log_of, rest_of_run, send, stop

SYSTEM = Path(__file__).parent / "resumed_system"


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    graphs = {name: f"{SYSTEM / name}.py:graph" for name in ("echo", "replayed")}
    async with running_server(Settings(data=tmp_path), own=graphs) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
            yield client


async def say(client: httpx2.AsyncClient, sid: str, text: str, **more: Any) -> Event:
    """The end of its run."""
    return (await rest_of_run(client, sid, (await send(client, sid, text, **more))["after"]))[-1]


async def regenerated(client: httpx2.AsyncClient, sid: str, run_id: str, **more: Any) -> Event:
    accepted = await client.post(f"/sessions/{sid}/regenerate", json={"run_id": run_id, **more})
    assert accepted.status_code == 202, accepted.text
    return (await rest_of_run(client, sid, accepted.json()["after"]))[-1]


async def refused(client: httpx2.AsyncClient, sid: str, path: str, **body: Any) -> tuple[int, str]:
    before = await events(client, sid)
    problem = await client.post(f"/sessions/{sid}/{path}", json=body)
    assert await events(client, sid) == before
    return problem.status_code, problem.json()["code"]


async def shown(client: httpx2.AsyncClient, sid: str) -> list[str]:
    return [each["text"] for each in (await client.get(f"/sessions/{sid}/messages")).json()["messages"]]


@pytest.mark.parametrize("graph", ["echo", "replayed"])
async def test_a_graph_goes_back_to_before_an_edited_round(client: httpx2.AsyncClient, graph: str) -> None:
    sid = await begin(client, graph)
    ends = [await say(client, sid, text) for text in ("one", "two", "three", "four")]
    edited = await say(client, sid, "two!", replaces=ends[1]["run_id"])
    assert edited["payload"]["result"] == "I heard one, two!."
    assert (await say(client, sid, "five"))["payload"]["result"] == "I heard one, two!, five."
    again = await regenerated(client, sid, edited["run_id"])
    assert again["payload"]["result"] == "I heard one, two!."
    first = await regenerated(client, sid, ends[0]["run_id"])
    assert first["payload"]["result"] == "I heard one."
    assert await shown(client, sid) == ["one", "I heard one."]
    told = await events(client, sid)
    assert order_problems(log_of(told)) == []
    replaced = [e["payload"]["replaces"] for e in told if e["type"] == "run_start" and "replaces" in e["payload"]]
    assert replaced == [ends[1]["run_id"], edited["run_id"], ends[0]["run_id"]]
    state = (await client.get(f"/sessions/{sid}/state/values")).json()["values"]
    assert [message["content"] for message in state["messages"]] == ["one", "I heard one."]
    assert state.get("asked", 1) == 1


async def test_any_run_of_a_round_with_a_question_names_it(client: httpx2.AsyncClient) -> None:
    for which in (0, 1):
        sid = await begin(client)
        await say(client, sid, "hello")
        asked = await say(client, sid, "ask")
        done = await rest_of_run(client, sid, (await answer(client, sid, text="blue"))["after"])
        runs = [asked["run_id"], done[-1]["run_id"]]
        await say(client, sid, "weather")
        await say(client, sid, "hello again", replaces=runs[which])
        told = await events(client, sid)
        assert [e["payload"].get("replaces") for e in told if e["type"] == "run_start"][-1] == runs[1]
        texts = await shown(client, sid)
        assert texts[0] == "hello"
        assert texts[2] == "hello again"
        assert len(texts) == 4
        assert order_problems(log_of(told)) == []


async def test_a_round_is_replaced_once_and_must_be_one_of_the_session(client: httpx2.AsyncClient) -> None:
    sid, other = await begin(client, "echo"), await begin(client, "echo")
    first, second = [await say(client, sid, text) for text in ("one", "two")]
    foreign = await say(client, other, "one")
    for run in (foreign["run_id"], "none"):
        assert await refused(client, sid, "regenerate", run_id=run) == (404, "unknown_run")
        assert await refused(client, sid, "messages", text="x", replaces=run) == (404, "unknown_run")
    await say(client, sid, "one!", replaces=first["run_id"])
    for end in (first, second):
        assert await refused(client, sid, "regenerate", run_id=end["run_id"]) == (409, "already_replaced")
        assert await refused(client, sid, "messages", text="x", replaces=end["run_id"]) == (409, "already_replaced")
    enqueue = {"text": "x", "replaces": first["run_id"], "if_busy": "enqueue"}
    assert await refused(client, sid, "messages", **enqueue) == (422, "invalid_field")


async def test_an_open_question_is_not_answered_by_an_edit_and_is_closed_by_one_that_interrupts(
    client: httpx2.AsyncClient,
) -> None:
    sid = await begin(client)
    first = await say(client, sid, "hello")
    await say(client, sid, "ask")
    edit = {"text": "hello!", "replaces": first["run_id"]}
    assert await refused(client, sid, "messages", **edit) == (409, "question_open")
    assert await refused(client, sid, "regenerate", run_id=first["run_id"]) == (409, "question_open")
    waiting = await send(client, sid, "table", if_busy="enqueue")
    accepted = await send(client, sid, "hello!", replaces=first["run_id"], if_busy="interrupt")
    assert [each["message_id"] for each in accepted["withdrawn"]] == [waiting["message_id"]]
    await rest_of_run(client, sid, accepted["after"])
    assert (await client.get(f"/sessions/{sid}/state")).json()["questions"] == []
    assert (await shown(client, sid))[0] == "hello!"
    assert len(await shown(client, sid)) == 2
    assert order_problems(log_of(await events(client, sid))) == []


async def test_the_same_edit_sent_twice_is_one_edit(client: httpx2.AsyncClient) -> None:
    sid = await begin(client, "echo")
    first = await say(client, sid, "one")
    edit = {"message_id": "edit", "replaces": first["run_id"], "if_busy": "interrupt"}
    accepted = await send(client, sid, "one!", **edit)
    assert await send(client, sid, "one!", **edit) == accepted
    await rest_of_run(client, sid, accepted["after"])
    assert await send(client, sid, "one!", **edit) == accepted
    headers = {"Idempotency-Key": "again"}
    body = {"run_id": accepted["run_id"], "if_busy": "interrupt"}
    regenerations = [
        (await client.post(f"/sessions/{sid}/regenerate", json=body, headers=headers)).json() for _ in range(2)
    ]
    assert regenerations[0] == regenerations[1]
    await rest_of_run(client, sid, regenerations[0]["after"])
    assert [e["type"] for e in await events(client, sid)].count("run_start") == 3


async def test_a_fork_goes_back_to_its_own_rounds_only(client: httpx2.AsyncClient) -> None:
    sid = await begin(client, "echo")
    first = await say(client, sid, "one")
    fork = (await client.post(f"/sessions/{sid}/fork")).json()["id"]
    own = await say(client, fork, "two")
    edit = {"text": "one!", "replaces": first["run_id"]}
    assert await refused(client, fork, "messages", **edit) == (409, "state_gone")
    assert await refused(client, fork, "regenerate", run_id=first["run_id"]) == (409, "state_gone")
    assert (await say(client, fork, "two!", replaces=own["run_id"]))["payload"]["result"] == "I heard one, two!."
    assert (await say(client, sid, "one!", replaces=first["run_id"]))["payload"]["result"] == "I heard one!."


async def test_a_removed_message_is_not_answered_again_but_another_takes_its_place(client: httpx2.AsyncClient) -> None:
    sid = await begin(client, "echo")
    sent = await send(client, sid, "one", message_id="m")
    await rest_of_run(client, sid, sent["after"])
    await say(client, sid, "two")
    (first, *_) = (await client.get(f"/api/workflows/{sid}/messages")).json()
    assert (await client.delete(f"/api/workflows/{sid}/messages/{first['id']}")).status_code == 200
    assert await refused(client, sid, "regenerate", run_id=sent["run_id"]) == (409, "nothing_said")
    assert (await say(client, sid, "one!", replaces=sent["run_id"]))["payload"]["result"] == "I heard one!."


async def test_what_is_stopped_before_it_says_anything_has_replaced_what_it_names(client: httpx2.AsyncClient) -> None:
    sid = await begin(client, "echo")
    ends = [await say(client, sid, text) for text in ("one", "two")]
    later = await send(client, sid, "one!", replaces=ends[0]["run_id"], after_seconds=3600)
    assert await shown(client, sid) == ["one!"]
    await stop(client, sid)
    assert (await say(client, sid, "three"))["payload"]["result"] == "I heard one!, three."
    assert later["status"] == "accepted"
