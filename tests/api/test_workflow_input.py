"""What workflows are given and what they are found by: files, systems, numbers, bad input, the list."""

import base64
from pathlib import Path
from typing import Any

import httpx2
import pytest

from stellwerk import create_app, opened
from stellwerk.app import Parts
from stellwerk.demo import demo_yaml, office_yaml
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
    upload,
    waiting,
)

address, data = quick_server, quick_data


@pytest.mark.requirement("003.document.ids", "003.document.data", "003.document.contents")
@pytest.mark.requirement("003.input.contents-extracted", "003.input.static-summaries")
async def test_a_message_shows_its_files_with_what_is_in_them(client: httpx2.AsyncClient) -> None:
    small, large = b"city,sky\nBerlin,sunny\n", b"x" * (256 * 1024 + 1)
    numbers = [await upload(client, "sky.csv", small), await upload(client, "large.txt", large)]
    damaged = b"PK\x03\x04 nothing of it"
    bad = await upload(client, "broken.docx", damaged)
    whole = await done(client, "table", listFileId=[*numbers, bad], **NEW)
    first, second, broken = whole["messages"][0]["documents"]
    assert first["id"].startswith("doc_")
    assert [first["fileId"], second["fileId"]] == numbers
    assert (first["name"], first["ext"], base64.b64decode(first["data"])) == ("sky", "csv", small)
    assert first["contents"][0]["summary"].startswith("Table, 2 columns")
    assert second["data"] is None
    assert (await client.get(second["dataUrl"])).content == large
    assert (broken["contents"], broken["error"]["code"]) == ([], "document_corrupt")
    assert whole["dataStats"]["bytesReceived"] == len(b"table" + small + large + damaged)


@pytest.mark.requirement("003.start.input")
async def test_files_are_named_by_number_or_id_and_only_those_that_there_are(client: httpx2.AsyncClient) -> None:
    stored = (await client.post("/files", files={"file": ("a.txt", b"a")})).json()
    assert stored == (await client.post("/files", files={"file": ("a.txt", b"a")})).json() | {
        "created_at": stored["created_at"]
    }
    names = [stored["fileId"], stored["id"], f"doc_{stored['id']}", str(stored["fileId"])]
    whole = await done(client, "table", listFileId=names, **NEW)
    assert [document["fileId"] for document in whole["messages"][0]["documents"]] == [stored["fileId"]]
    assert await upload(client, "b.csv", b"a") == stored["fileId"]
    again = await done(client, "table", whole["id"], listFileId=[stored["fileId"]])
    first, second = [message["documents"][0] for message in again["messages"] if message["role"] == "user"]
    assert (first["name"], first["ext"], first["mimeType"]) == ("a", "txt", "text/plain"), "it was called so then"
    assert (second["name"], second["ext"], second["mimeType"]) == ("b", "csv", "text/csv")
    assert [each["contents"][0]["contentType"] for each in (first, second)] == ["text/plain", "text/csv"]
    for each, kind in ((first, "text/plain"), (second, "text/csv")):
        loaded = await client.get(each["dataUrl"])
        assert loaded.headers["content-type"] == f"{kind}; charset=utf-8"
        name = f"{each['name']}.{each['ext']}"
        assert loaded.headers["content-disposition"].startswith(f'attachment; filename="{name}"')
    there_are = [each["id"] for each in (await client.get(PATH)).json()]
    for missing in (stored["fileId"] + 1, "nowhere", "doc_x", "²", "١"):
        answer = await client.post(f"{PATH}/start", json={"prompt": "table", "listFileId": [missing]})
        assert refused(answer) == (404, "unknown_file")
    assert [each["id"] for each in (await client.get(PATH)).json()] == there_are, "what was refused has left nothing"


FILES = "listFileId: each of these must be the `fileId` or the `id` of a file"
NO_FILES: list[Any] = [0, "", None, 1.5, True, []]
SYSTEMS = "agentSystemId: it is 'quick' in the body and 'demo' in the query; send one"
BAD: list[tuple[dict[str, Any], str]] = [
    ({"json": {}}, "prompt: this field is required"),
    ({"json": {"prompt": ""}}, "prompt: this must not be empty"),
    ({"json": {"prompt": "  "}}, "prompt: this must not be empty"),
    ({"json": {"prompt": 7}}, "prompt: this must be text"),
    ({"json": ["x"]}, "body: this must be an object"),
    *(({"json": {"prompt": "x", "listFileId": [file]}}, FILES) for file in NO_FILES),
    ({"json": {"prompt": "x", "listFileId": 7}}, "listFileId: this must be a list"),
    ({"json": {"prompt": "x", "listFileId": [1] * 51}}, "listFileId: there must not be more than 50 of these"),
    ({"json": {"prompt": "x", "userId": "me"}}, "userId: this must be a whole number"),
    ({"json": {"prompt": "x", "userId": 10**15}}, f"userId: this must be less than {10**15}"),
    ({"json": {"prompt": "x", "mandateId": 2}}, "mandateId: yours is 1; send that, or leave it out"),
    ({"json": {"prompt": "x", "more": 1}}, "more: this field is not known here; remove it"),
    ({"content": b"prompt=x"}, "body: send it with Content-Type: application/json"),
    ({"json": {"prompt": "x"}, "params": {"id": ""}}, "id: this is empty; leave it out for a new workflow"),
    ({"json": {"prompt": "x", **NEW}, "params": {"agentSystemId": "demo"}}, SYSTEMS),
    (
        {"content": b"{", "headers": {"Content-Type": "application/json"}},
        "the body is not JSON: Expecting property name enclosed in double quotes at character 2",
    ),
]


@pytest.mark.requirement("003.start.errors", "003.errors.http-codes", "003.start.input")
async def test_bad_input_is_400_and_says_in_plain_words_what_is_wrong(client: httpx2.AsyncClient) -> None:
    for sent, said in BAD:
        answer = await client.post(f"{PATH}/start", **sent)
        assert (sent, answer.status_code, answer.json()["detail"]) == (sent, 400, said)
        assert answer.headers["content-type"] == "application/problem+json"
    for wish, said in (
        ({"limit": 0}, "limit: this must be 1 or more"),
        ({"chat": "no"}, "chat: there is no such parameter here, did you mean 'chats'? known: before, limit, chats"),
    ):
        answer = await client.get(PATH, params=wish)
        assert (answer.status_code, answer.json()["detail"]) == (400, said)


@pytest.mark.requirement("003.start.unknown-id", "003.start.while-running")
async def test_a_start_is_rejected_for_an_unknown_id_and_while_the_workflow_runs(client: httpx2.AsyncClient) -> None:
    there_are = [each["id"] for each in (await client.get(PATH)).json()]
    unknown = await client.post(f"{PATH}/start", params={"id": "nowhere"}, json={"prompt": "table"})
    assert refused(unknown) == (404, "unknown_workflow")
    assert [each["id"] for each in (await client.get(PATH)).json()] == there_are
    workflow = await start(client, "slow", agentSystemId="demo")
    busy = await client.post(f"{PATH}/start", params={"id": workflow}, json={"prompt": "table"})
    assert refused(busy) == (409, "session_busy")
    assert f"the workflow is at work; ask {PATH}/{workflow}/status" in busy.json()["detail"]
    await client.post(f"{PATH}/{workflow}/stop")
    other = await client.post(f"{PATH}/start", params={"id": workflow}, json={"prompt": "table", **NEW})
    assert refused(other) == (400, "invalid_field")
    assert refused(await client.post(f"{PATH}/start", json={"prompt": "x", "agentSystemId": "nobody"})) == (
        404,
        "unknown_agent_system",
    )


async def test_the_list_has_the_newest_first_page_by_page(client: httpx2.AsyncClient) -> None:
    earlier = await pages(client, PATH)
    await client.post("/sessions", json={"agent_system_id": "demo"})  # nothing was said in it: it is no workflow
    ids = [(await done(client, f"table {n} " + "x" * 80, **NEW))["id"] for n in range(3)]
    found = await pages(client, f"{PATH}?limit=2")
    assert [each["id"] for each in found] == [*ids[::-1], *(each["id"] for each in earlier)]
    await client.delete(f"{PATH}/{ids[1]}")
    assert [each["id"] for each in (await client.get(PATH, params={"before": ids[1], "limit": 1})).json()] == ids[:1]
    for bad in ("zzz", "~" * 22, ids[1] + "0"):
        assert refused(await client.get(PATH, params={"before": bad})) == (400, "invalid_field")
    for each in (found[0], found[2]):
        whole = await get(client, each["id"])
        assert each == {key: whole[key] for key in each}
        assert len(each["name"]) == 60
    chat = (await client.post("/sessions", json={"agent_system_id": "quick"})).json()["id"]
    await client.post(f"/sessions/{chat}/messages", json={"text": "table"})
    await finished(client, chat)
    assert [each["id"] for each in await pages(client, f"{PATH}?limit=1")][:3] == [chat, ids[2], ids[0]]
    assert [each["id"] for each in await pages(client, f"{PATH}?limit=1&chats=false")][:2] == [ids[2], ids[0]]
    await client.delete(f"{PATH}/{chat}")
    asking = await start(client, "ask", **NEW)
    await waiting(client, asking)
    assert [each["awaitingUserInput"] for each in (await client.get(PATH)).json()][:3] == [True, False, False]


async def test_tasks_that_have_failed_are_counted_in_the_list_too_round_by_round(client: httpx2.AsyncClient) -> None:
    system = office_yaml().replace("name: office", "name: bureau").replace("pace: 0.01", "pace: 0")
    await client.post("/agent-systems", content=system, headers={"Content-Type": "application/yaml"})
    flawed = await done(client, "let it fail", agentSystemId="bureau")
    assert (flawed["status"], flawed["failedTasks"]) == ("completed", 1)
    flawed = await done(client, "let it fail", flawed["id"])
    assert (flawed["currentRound"], flawed["failedTasks"]) == (2, 1)
    head = (await client.get(PATH, params={"limit": 1})).json()[0]
    assert head == {key: flawed[key] for key in head}
    fork = (await client.post(f"/sessions/{flawed['id']}/fork")).json()["id"]
    assert (await client.get(PATH, params={"limit": 1})).json()[0] == {**head, "id": fork}


async def test_a_workflow_is_a_session_and_a_session_is_a_workflow(client: httpx2.AsyncClient) -> None:
    workflow = (await done(client, "table", **NEW))["id"]
    session = (await client.get(f"/sessions/{workflow}")).json()
    assert (session["status"], session["agent_system_id"]) == ("completed", "quick")
    sid = (await client.post("/sessions", json={"agent_system_id": "quick", "user_id": "ada"})).json()["id"]
    for answer in (
        await client.get(f"{PATH}/{sid}/status"),
        await client.post(f"{PATH}/start", params={"id": sid}, json={"prompt": "table"}),
    ):
        assert refused(answer) == (404, "unknown_workflow")
    await client.post(f"/sessions/{sid}/messages", json={"text": "table"})
    assert (await finished(client, sid))["userId"] == 0


async def test_without_an_office_the_first_workplan_is_the_default_until_it_is_deleted(
    tmp_path: Path,
) -> None:
    parts = Parts(demo_systems=lambda: {"demo.yaml": demo_yaml()})
    app = create_app(Settings(data=tmp_path / "data", demo=True), parts=parts)
    transport = httpx2.ASGITransport(app)
    async with opened(app), httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:

        async def chosen() -> str:
            workflow = await start(client, "table")
            await client.post(f"{PATH}/{workflow}/stop")
            return str((await client.get(f"/sessions/{workflow}")).json()["agent_system_id"])

        async def register(text: str) -> None:
            made = await client.post("/agent-systems", content=text, headers={"Content-Type": "application/yaml"})
            assert made.status_code in (200, 201), made.text

        plain, planning = demo_yaml().replace("name: demo", "name: one"), office_yaml()
        await register(plain)
        assert await chosen() == "demo"
        await register(plain.replace("pace: 0.03", "pace: 0"))
        await register(planning.replace("name: office", "name: two"))
        assert await chosen() == "two"
        await client.delete("/agent-systems/two")
        assert await chosen() == "demo"


async def test_without_a_system_the_office_is_taken_if_there_is_one(client: httpx2.AsyncClient) -> None:
    async def chosen(**params: str) -> str:
        answer = await client.post(f"{PATH}/start", json={"prompt": "table"}, params=params)
        return str((await client.get(f"/sessions/{answer.json()['id']}")).json()["agent_system_id"])

    assert await chosen() in ("demo", "office")
    assert await chosen(agentSystemId="quick") == "quick"
    office = demo_yaml().replace("name: demo", "name: office")
    await client.post("/agent-systems", content=office, headers={"Content-Type": "application/yaml"})
    assert await chosen() == "office"
