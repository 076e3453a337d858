"""The answer of an operator's own graph over HTTP: the conversation and all streams agree with the graph's state."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from stellwerk.agents.graphs.serve_targets import systems_of
from stellwerk.settings import Settings
from stellwerk.testing.order import order_problems
from tests.api.reading import Event, whole_round
from tests.conftest import running_server
from tests.runs.talking import answer, begin, events, log_of, rest_of_run, seen, send, stop

GRAPHS = Path(__file__).parent / "own_graphs.py"


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    own = systems_of([f"{name}={GRAPHS}:{name}" for name in ("memory", "report", "insists", "asks_twice")])
    async with running_server(Settings(data=tmp_path), own=own) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=20) as client:
            yield client


async def conversation(client: httpx2.AsyncClient, sid: str) -> list[tuple[str, str]]:
    entries = (await client.get(f"/sessions/{sid}/messages")).json()["messages"]
    return [(entry["text"], entry["status"]) for entry in entries if entry["role"] == "assistant"]


async def lines(client: httpx2.AsyncClient, sid: str, dialect: str) -> list[Event]:
    path = f"/sessions/{sid}/stream?until=run_end&dialect={dialect}"
    answer = await client.get(path, headers={"accept": "application/x-ndjson"})
    return [json.loads(line) for line in answer.text.splitlines()]


@pytest.mark.parametrize(("system", "answer"), [("memory", "It is sunny."), ("report", "All about weather.")])
async def test_what_the_graph_ends_with_is_the_answer_in_every_place(
    system: str, answer: str, client: httpx2.AsyncClient
) -> None:
    sid = await begin(client, system)
    told = await whole_round(client, sid, "weather")
    assert told[-1]["payload"]["result"] == answer
    assert await conversation(client, sid) == [(answer, "last")]
    chunks = await lines(client, sid, "chunks")
    assert "".join(line["data"] for line in chunks if line["type"] == "text_final") == answer
    texts = [line["payload"] for line in await lines(client, sid, "events") if line["type"] == "text_message"]
    assert [text["text"] for text in texts] == [answer]
    assert order_problems(log_of(await events(client, sid))) == []


@pytest.mark.parametrize(("system", "answer"), [("memory", "It is sunny."), ("report", "All about weather.")])
async def test_an_answer_that_is_given_again_is_what_the_graph_ends_with(
    system: str, answer: str, client: httpx2.AsyncClient
) -> None:
    sid = await begin(client, system)
    await whole_round(client, sid, "weather")
    again = (await client.post(f"/sessions/{sid}/regenerate")).json()
    told = await rest_of_run(client, sid, again["after"])
    assert (told[-1]["payload"]["status"], told[-1]["payload"]["result"]) == ("completed", answer)
    assert [text for text, status in await conversation(client, sid) if status == "last"] == [answer]


async def test_an_answer_that_waits_for_the_end_is_in_the_conversation_when_the_run_is_stopped(
    client: httpx2.AsyncClient,
) -> None:
    sid = await begin(client, "memory")
    await send(client, sid, "endless weather")
    await seen(client, sid, "llm_end", count=2)
    await stop(client, sid)
    assert await conversation(client, sid) == [("It is sunny.", "step")]
    assert order_problems(log_of(await events(client, sid))) == []
    assert (await whole_round(client, sid, "weather"))[-1]["payload"]["result"] == "It is sunny."


ANSWERS = {"demo": ["blue"], "insists": ["please", "now"], "asks_twice": ["a", "b"]}


@pytest.mark.filterwarnings("ignore:NodeInterrupt is deprecated")  # many graphs still raise it
@pytest.mark.parametrize("ending", ["stopped", "answered"])
@pytest.mark.parametrize("system", ANSWERS)
async def test_a_late_answer_to_an_old_question_never_answers_a_new_one(
    client: httpx2.AsyncClient, system: str, ending: str
) -> None:
    """Whether its node asked again, or the round was regenerated: each question has an id of its own."""
    sid = await begin(client, system)
    await whole_round(client, sid, "ask")
    for given in ANSWERS[system] if ending == "answered" else ():
        accepted = await answer(client, sid, text=given)
        await rest_of_run(client, sid, accepted["after"])
    await stop(client, sid)
    again = (await client.post(f"/sessions/{sid}/regenerate")).json()
    await rest_of_run(client, sid, again["after"])

    log = await events(client, sid)
    *old, new = [event["payload"]["ask_id"] for event in log if event["type"] == "ask_user"]
    assert len({*old, new}) == len(old) + 1
    for ask_id in old:
        late = await client.post(f"/sessions/{sid}/answers", json={"text": "late", "ask_id": ask_id})
        assert (late.status_code, late.json()["code"]) == (409, "not_asked")
    assert (await events(client, sid))[-1]["position"] == log[-1]["position"]
    meant = await client.post(f"/sessions/{sid}/answers", json={"text": ANSWERS[system][0], "ask_id": new})
    assert meant.status_code == 202
    await rest_of_run(client, sid, meant.json()["after"])
    assert order_problems(log_of(await events(client, sid))) == []
