"""Files that go with a message or an answer: told before it, kept with the session, gone with it."""

from typing import Any

import httpx2
import pytest

from stellwerk.envelope.model import Document
from stellwerk.testing.order import order_problems
from tests.api.reading import whole_round
from tests.runs.talking import answer, begin, events, log_of, rest_of_run, send


@pytest.fixture
def address(shared_address: str) -> str:
    return shared_address


async def uploaded(client: httpx2.AsyncClient, name: str = "list.csv", data: bytes = b"a,b\n1,2\n") -> str:
    answered = await client.post("/files", files={"file": (name, data)})
    assert answered.status_code == 201, answered.text
    return str(answered.json()["id"])


async def test_a_message_names_its_files_and_the_log_tells_of_them_before_it(
    client: httpx2.AsyncClient, sid: str
) -> None:
    file = await uploaded(client)
    accepted = await send(client, sid, "hello", documents=[file, file])
    told = await rest_of_run(client, sid, accepted["after"])
    assert [event["type"] for event in told[:3]] == ["run_start", "document", "message"]
    document, message = told[1]["payload"], told[2]["payload"]
    assert (document["document_id"], document["name"], document["ext"]) == (file, "list.csv", "csv")
    assert document["message_id"] == message["message_id"]
    assert message["documents"] == [file]
    assert not order_problems(log_of(await events(client, sid)))


async def test_the_agent_reads_which_files_came_with_the_words(client: httpx2.AsyncClient, sid: str) -> None:
    file = await uploaded(client)
    accepted = await send(client, sid, "hello", documents=[file])
    told = await rest_of_run(client, sid, accepted["after"])
    assert f"[attached list.csv, document_id {file}]" in told[-1]["payload"]["result"]


async def test_a_file_says_enough_unless_something_is_asked(client: httpx2.AsyncClient, sid: str) -> None:
    file = await uploaded(client)
    accepted = await send(client, sid, " ", documents=[file])
    told = await rest_of_run(client, sid, accepted["after"])
    assert [part["type"] for part in told[2]["payload"]["content"]] == ["file"]
    assert f"“[attached list.csv, document_id {file}]”" in told[-1]["payload"]["result"], "and no empty line before it"
    assert (await client.get(f"/sessions/{sid}")).json()["title"] == "list.csv"
    await whole_round(client, sid, "ask")
    refused = await client.post(f"/sessions/{sid}/messages", json={"documents": [file]})
    assert (refused.status_code, refused.json()["field"]) == (422, "text")


async def test_files_of_an_answer_and_of_an_enqueued_message_are_told_as_well(
    client: httpx2.AsyncClient, sid: str
) -> None:
    one, other = await uploaded(client, "one.txt", b"one"), await uploaded(client, "other.txt", b"other")
    await whole_round(client, sid, "ask")
    await send(client, sid, "later", if_busy="enqueue", documents=[other])
    given = await answer(client, sid, text="blue", documents=[one])
    await rest_of_run(client, sid, given["after"])
    log = log_of(await events(client, sid))
    assert [e.payload.document_id for e in log if isinstance(e, Document)] == [other, one]
    assert not order_problems(log)


@pytest.mark.parametrize("body", [{"text": "hello"}, {"text": "hello", "if_busy": "enqueue"}])
async def test_a_file_that_is_not_there_is_refused_and_changes_nothing(
    client: httpx2.AsyncClient, sid: str, body: dict[str, Any]
) -> None:
    refused = await client.post(f"/sessions/{sid}/messages", json={**body, "documents": ["nowhere"]})
    assert (refused.status_code, refused.json()["code"]) == (404, "unknown_file")
    assert await events(client, sid) == []


async def test_bytes_stay_as_long_as_a_session_refers_to_them(client: httpx2.AsyncClient) -> None:
    data = b"a,b\n3,4\n"  # nobody else sends these
    sid, file = await begin(client), await uploaded(client, data=data)
    accepted = await send(client, sid, "hello", documents=[file])
    await rest_of_run(client, sid, accepted["after"])
    assert (await client.delete(f"/files/{file}")).status_code == 204
    assert (await client.get(f"/files/{file}")).content == data
    assert (await client.delete(f"/sessions/{sid}")).status_code == 204
    assert (await client.get(f"/files/{file}")).status_code == 404
