"""Questions: answered by id or by the next message, several at once, across a restart; answered wrongly, they stay."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest

from stellwerk.settings import Settings
from stellwerk.testing.order import order_problems
from tests.api.reading import Event, whole_round
from tests.conftest import running_server
from tests.runs.talking import answer, begin, events, log_of, rest_of_run, send, stop

TWO = """
version: 1
system: {name: two}
agents:
- id: clerk
  mission: Ask.
  model:
    provider: scripted
    script:
    - steps:
      - say: "Two things. "
        calls:
        - {call: ask_user, args: {question: Which colour?, options: [red, green]}}
        - {call: ask_user, args: {question: Which size?}}
        - {call: count_words, args: {text: one two}}
      - say: "Thank you."
  tools: {allow: [ask_user, count_words]}
"""


@pytest.fixture
def address(shared_address: str) -> str:
    return shared_address


def text_of(told: list[Event]) -> str:
    return str(told[-1]["payload"].get("result"))


def asks_in(told: list[Event]) -> dict[str, str]:
    return {e["payload"]["question"]: e["payload"]["ask_id"] for e in told if e["type"] == "ask_user"}


@pytest.mark.requirement("004.answers.accepted", "004.answers.resumes")
async def test_an_answer_lets_the_round_go_on_in_a_run_of_the_same_trace(client: httpx2.AsyncClient, sid: str) -> None:
    asked = await whole_round(client, sid, "ask")
    assert asked[-1]["payload"]["status"] == "awaiting_user"
    session = (await client.get(f"/sessions/{sid}")).json()
    assert (session["status"], session["awaiting_user_input"]) == ("running", True)
    accepted = await answer(client, sid, text="blue")
    told = await rest_of_run(client, sid, accepted["after"])
    assert (told[0]["payload"]["trigger"], accepted["round"]) == ("answer", 2)
    assert told[0]["trace_id"] == asked[0]["trace_id"]
    assert text_of(told) == "You answered: blue"
    assert order_problems(log_of(await events(client, sid))) == []


async def test_a_message_while_one_question_is_open_is_its_answer(client: httpx2.AsyncClient, sid: str) -> None:
    await whole_round(client, sid, "ask")
    accepted = await send(client, sid, "red")
    assert "ask_id" in accepted and "message_id" not in accepted
    assert text_of(await rest_of_run(client, sid, accepted["after"])) == "You answered: red"


@pytest.mark.requirement("004.answers.text-required")
async def test_an_answer_that_does_not_fit_is_refused_and_the_question_stays_open(
    client: httpx2.AsyncClient, sid: str
) -> None:
    await whole_round(client, sid, "ask")
    position = (await client.get(f"/sessions/{sid}")).json()["position"]
    for path, body in (("answers", {"text": "mauve"}), ("answers", {}), ("messages", {"text": "mauve"})):
        refused = await client.post(f"/sessions/{sid}/{path}", json=body)
        assert refused.status_code == 422, refused.text
    assert (await client.get(f"/sessions/{sid}")).json()["position"] == position
    accepted = await answer(client, sid, text="green")
    assert text_of(await rest_of_run(client, sid, accepted["after"])) == "You answered: green"


@pytest.mark.requirement("fault-37")
async def test_an_answer_to_nothing_is_refused(client: httpx2.AsyncClient, sid: str) -> None:
    for when in ("before", "after"):
        refused = await client.post(f"/sessions/{sid}/answers", json={"text": "blue"})
        assert (refused.status_code, refused.json()["code"]) == (409, "nothing_asked"), when
        await whole_round(client, sid, "weather")
    asked = await whole_round(client, sid, "ask")
    (ask_id,) = asks_in(asked).values()
    wrong = await client.post(f"/sessions/{sid}/answers", json={"ask_id": "another", "text": "blue"})
    assert (wrong.status_code, wrong.json()["code"]) == (409, "not_asked")
    assert ask_id in wrong.json()["detail"]


@pytest.mark.requirement("fault-37")
async def test_of_two_answers_at_the_same_time_one_is_taken(client: httpx2.AsyncClient, sid: str) -> None:
    asked = await whole_round(client, sid, "ask")
    (ask_id,) = asks_in(asked).values()
    body = {"ask_id": ask_id, "text": "blue"}
    both = await asyncio.gather(*(client.post(f"/sessions/{sid}/answers", json=body) for _ in range(2)))
    assert sorted(one.status_code for one in both) == [202, 409]
    await rest_of_run(client, sid, asked[-1]["position"])
    assert order_problems(log_of(await events(client, sid))) == []


async def test_the_same_answer_with_the_same_key_is_taken_once(client: httpx2.AsyncClient, sid: str) -> None:
    await whole_round(client, sid, "ask")
    headers = {"Idempotency-Key": "k1"}
    first, again = [
        (await client.post(f"/sessions/{sid}/answers", json={"text": "blue"}, headers=headers)) for _ in range(2)
    ]
    assert first.json() == again.json()
    await rest_of_run(client, sid, first.json()["after"])


@pytest.mark.requirement("trust.I15")
async def test_what_is_sent_again_is_no_answer_to_the_question_that_it_led_to(
    client: httpx2.AsyncClient, sid: str
) -> None:
    headers = {"Idempotency-Key": "k1"}
    first = await client.post(f"/sessions/{sid}/messages", json={"text": "ask"}, headers=headers)
    asked = await rest_of_run(client, sid)
    again = await client.post(f"/sessions/{sid}/messages", json={"text": "ask"}, headers=headers)
    assert (again.status_code, again.json()) == (202, first.json())
    reused = await client.post(f"/sessions/{sid}/messages", json={"text": "mauve"}, headers=headers)
    assert (reused.status_code, reused.json()["code"]) == (409, "key_reused")
    assert len(await events(client, sid)) == len(asked)


@pytest.mark.requirement("trust.I7")
async def test_a_question_survives_a_restart(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path)
    async with running_server(settings) as address, httpx2.AsyncClient(base_url=address, timeout=60) as client:
        sid = await begin(client)
        await whole_round(client, sid, "ask")
    async with running_server(settings) as address, httpx2.AsyncClient(base_url=address, timeout=60) as client:
        accepted = await answer(client, sid, text="blue")
        assert text_of(await rest_of_run(client, sid, accepted["after"])) == "You answered: blue"


@pytest.fixture
def two(tmp_path: Path) -> dict[str, str]:
    path = tmp_path / "two.yaml"
    path.write_text(TWO)
    return {"two": str(path)}


@pytest.mark.requirement("fault-33")
async def test_of_several_questions_each_is_answered_by_its_id_and_the_graph_goes_on_with_the_last(
    tmp_path: Path, two: dict[str, Any]
) -> None:
    settings = Settings(data=tmp_path / "data")
    async with (
        running_server(settings, own=two) as address,
        httpx2.AsyncClient(base_url=address, timeout=60) as client,
    ):
        sid = await begin(client, "two")
        asked = await whole_round(client, sid, "go")
        asks = asks_in(asked)
        for path in ("answers", "messages"):
            refused = await client.post(f"/sessions/{sid}/{path}", json={"text": "red"})
            assert refused.status_code == 409
            assert all(ask_id in refused.json()["detail"] for ask_id in asks.values())
        noted = await answer(client, sid, ask_id=asks["Which size?"], text="large")
        assert (noted["status"], noted["open_asks"]) == ("noted", [asks["Which colour?"]])
        accepted = await answer(client, sid, text="red")
        told = await rest_of_run(client, sid, accepted["after"])
        assert told[0]["payload"]["ask_ids"] == list(asks.values())
        whole = await events(client, sid)
        assert order_problems(log_of(whole)) == []
        calls = [e["payload"]["tool_name"] for e in whole if e["type"] == "tool_start"]
        assert sorted(calls) == ["ask_user", "ask_user", "count_words"], "nothing runs twice"
        given = [e["payload"]["result"]["text"] for e in told if e["type"] == "tool_end"]
        assert sorted(given) == ["large", "red"]


async def test_a_message_that_may_wait_starts_the_next_round_when_this_one_is_over(
    client: httpx2.AsyncClient, sid: str
) -> None:
    first = await send(client, sid, "hello")
    later = [await send(client, sid, text, if_busy="enqueue") for text in ("weather", "table")]
    assert [one["status"] for one in later] == ["enqueued", "enqueued"]
    ends = []
    after = first["after"]
    for _ in range(3):
        told = await rest_of_run(client, sid, after)
        after = told[-1]["position"]
        ends.append(told[-1]["payload"]["result"][:12])
    assert ends == ["You said “he", "It is sunny.", "A table keep"]
    assert order_problems(log_of(await events(client, sid))) == []


async def test_a_message_may_interrupt_what_is_under_way(client: httpx2.AsyncClient, sid: str) -> None:
    await send(client, sid, "slow")
    accepted = await send(client, sid, "weather", if_busy="interrupt")
    assert accepted["round"] == 2
    assert (await rest_of_run(client, sid, accepted["after"]))[-1]["payload"]["status"] == "completed"
    ends = [e["payload"]["status"] for e in await events(client, sid) if e["type"] == "run_end"]
    assert ends == ["stopped", "completed"]


async def test_an_interruption_that_is_sent_again_does_not_stop_its_own_run(
    client: httpx2.AsyncClient, sid: str
) -> None:
    body, headers = {"text": "hello", "if_busy": "interrupt"}, {"Idempotency-Key": "k1"}
    first, again = [await client.post(f"/sessions/{sid}/messages", json=body, headers=headers) for _ in range(2)]
    assert first.json() == again.json()
    assert (await rest_of_run(client, sid, first.json()["after"]))[-1]["payload"]["status"] == "completed"


async def test_messages_that_wait_for_a_session_that_waits_for_a_slot_are_all_answered(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path, slots=1)
    async with running_server(settings) as address, httpx2.AsyncClient(base_url=address, timeout=60) as client:
        sid, other = await begin(client), await begin(client)
        first = await send(client, sid, "table")
        await send(client, sid, "weather", if_busy="enqueue")
        await send(client, other, "hello")
        told = await rest_of_run(client, sid, first["after"])
        await send(client, sid, "file", if_busy="enqueue")
        ends = []
        for _ in range(2):
            told = await rest_of_run(client, sid, told[-1]["position"])
            ends.append(told[-1]["payload"]["result"][:12])
    assert ends == ["It is sunny.", "The bytes ar"]


@pytest.mark.requirement("fault-31")
async def test_who_stops_a_session_does_not_want_what_waits_in_it(client: httpx2.AsyncClient, sid: str) -> None:
    await send(client, sid, "slow")
    waiting = await send(client, sid, "weather", if_busy="enqueue")
    await stop(client, sid)
    told = await events(client, sid)
    (removed,) = [e["payload"] for e in told if e["payload"].get("action") == "removed"]
    assert removed["message_id"] == waiting["message_id"]
    assert (await whole_round(client, sid, "table"))[0]["payload"]["round"] == 2


async def test_what_waits_in_a_session_is_run_after_a_restart(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path)
    async with running_server(settings) as address, httpx2.AsyncClient(base_url=address, timeout=60) as client:
        sid = await begin(client)
        await whole_round(client, sid, "ask")
        await send(client, sid, "weather", if_busy="enqueue")
    async with running_server(settings) as address, httpx2.AsyncClient(base_url=address, timeout=60) as client:
        accepted = await answer(client, sid, text="blue")
        told = await rest_of_run(client, sid, accepted["after"])
        again = await rest_of_run(client, sid, told[-1]["position"])
        assert again[-1]["payload"]["result"].startswith("It is sunny")


async def test_only_so_many_messages_may_be_enqueued_in_a_session(tmp_path: Path) -> None:
    async with running_server(Settings(data=tmp_path, waiting=2)) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
            sid, other = await begin(client), await begin(client)
            for each in (sid, other):
                await send(client, each, "ask")
                await rest_of_run(client, each)
            for _ in range(2):
                await send(client, sid, if_busy="enqueue")
            refused = await client.post(f"/sessions/{sid}/messages", json={"text": "x", "if_busy": "enqueue"})
            assert (refused.status_code, refused.json()["code"]) == (429, "overloaded")
            assert refused.headers["Retry-After"]
            assert (await send(client, other, if_busy="enqueue"))["status"] == "enqueued"
