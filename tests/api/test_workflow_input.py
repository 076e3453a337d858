"""What workflows are given and what they are found by: files, systems, numbers, bad input, the list."""

import base64
from typing import Any

import httpx2
import pytest

from stellwerk.demo import demo_yaml
from tests.api.workflow_client import NEW, PATH, done, finished, get, quick_server, refused, start, upload

address = quick_server


@pytest.mark.requirement("003.document.ids")
@pytest.mark.requirement("003.document.data")
@pytest.mark.requirement("003.document.contents")
@pytest.mark.requirement("003.input.contents-extracted")
@pytest.mark.requirement("003.input.static-summaries")
async def test_a_message_shows_its_files_with_what_is_in_them(client: httpx2.AsyncClient) -> None:
    small, large = b"city,sky\nBerlin,sunny\n", b"x" * (256 * 1024 + 1)
    numbers = [await upload(client, "sky.csv", small), await upload(client, "large.txt", large)]
    broken_bytes = b"PK\x03\x04 nothing of it"
    bad = await upload(client, "broken.docx", broken_bytes)
    whole = await done(client, "table", listFileId=[*numbers, bad], **NEW)
    first, second, broken = whole["messages"][0]["documents"]
    assert first["id"].startswith("doc_")
    assert [first["fileId"], second["fileId"]] == numbers
    assert (first["name"], first["ext"], base64.b64decode(first["data"])) == ("sky", "csv", small)
    assert first["contents"][0]["summary"].startswith("Table, 2 columns")
    assert second["data"] is None
    assert (await client.get(second["dataUrl"])).content == large
    assert (broken["contents"], broken["error"]["code"]) == ([], "document_corrupt")
    assert whole["dataStats"]["bytesReceived"] == len("table") + len(small) + len(large) + len(
        b"PK\x03\x04 nothing of it"
    )


async def test_files_are_named_by_number_or_id_and_only_those_that_there_are(client: httpx2.AsyncClient) -> None:
    stored = (await client.post("/files", files={"file": ("a.txt", b"a")})).json()
    assert stored == (await client.post("/files", files={"file": ("a.txt", b"a")})).json() | {
        "created_at": stored["created_at"]
    }
    whole = await done(client, "table", listFileId=[stored["fileId"], stored["id"], str(stored["fileId"])], **NEW)
    assert [document["fileId"] for document in whole["messages"][0]["documents"]] == [stored["fileId"]]
    for missing in (stored["fileId"] + 1, "nowhere", "doc_x", "²", "١"):
        answer = await client.post(f"{PATH}/start", json={"prompt": "table", "listFileId": [missing]})
        assert await refused(answer) == (404, "unknown_file")
    assert len((await client.get(PATH)).json()) == 1, "what was refused has left nothing"


@pytest.mark.requirement("003.start.errors")
@pytest.mark.requirement("003.errors.http-codes")
@pytest.mark.parametrize(
    "sent",
    [
        {"json": {}},
        {"json": {"prompt": ""}},
        {"json": {"prompt": "  "}},
        {"json": {"prompt": 7}},
        {"json": {"prompt": "x", "listFileId": [0]}},
        {"json": {"prompt": "x", "listFileId": 7}},
        {"json": {"prompt": "x", "userId": "me"}},
        {"json": {"prompt": "x", "mandateId": 2}},
        {"json": {"prompt": "x", "more": 1}},
        {"content": b"{", "headers": {"Content-Type": "application/json"}},
        {"content": b"prompt=x"},
        {"json": {"prompt": "x"}, "params": {"id": ""}},
    ],
    ids=str,
)
async def test_bad_input_is_400(client: httpx2.AsyncClient, sent: dict[str, Any]) -> None:
    answer = await client.post(f"{PATH}/start", **sent)
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert (await client.get(PATH, params={"limit": 0})).status_code == 400


@pytest.mark.requirement("003.start.unknown-id")
@pytest.mark.requirement("003.start.while-running")
async def test_a_start_is_refused_for_an_id_that_nobody_knows_and_while_it_works(client: httpx2.AsyncClient) -> None:
    unknown = await client.post(f"{PATH}/start", params={"id": "nowhere"}, json={"prompt": "table"})
    assert await refused(unknown) == (404, "unknown_workflow")
    assert (await client.get(PATH)).json() == []
    workflow = await start(client, "slow", agentSystemId="demo")
    busy = await client.post(f"{PATH}/start", params={"id": workflow}, json={"prompt": "table"})
    assert await refused(busy) == (409, "session_busy")
    await client.post(f"{PATH}/{workflow}/stop")
    other = await client.post(f"{PATH}/start", params={"id": workflow}, json={"prompt": "table", **NEW})
    assert await refused(other) == (400, "invalid_field")
    assert await refused(await client.post(f"{PATH}/start", json={"prompt": "x", "agentSystemId": "nobody"})) == (
        404,
        "unknown_agent_system",
    )


async def test_the_list_has_the_newest_first_page_by_page(client: httpx2.AsyncClient) -> None:
    await client.post("/sessions", json={"agent_system_id": "demo"})  # nothing was said in it: it is no workflow
    ids = [(await done(client, f"table {n} " + "x" * 80, **NEW))["id"] for n in range(3)]
    found, place = [], f"{PATH}?limit=2"
    while place:
        answer = await client.get(place)
        found += answer.json()
        place = answer.links["next"]["url"] if "next" in answer.links else ""
    assert [each["id"] for each in found] == ids[::-1]
    for each in found:
        whole = await get(client, each["id"])
        assert each == {key: whole[key] for key in each}
        assert len(each["name"]) == 60


async def test_a_workflow_is_a_session_and_a_session_is_a_workflow(client: httpx2.AsyncClient) -> None:
    workflow = (await done(client, "table", **NEW))["id"]
    session = (await client.get(f"/sessions/{workflow}")).json()
    assert (session["status"], session["agent_system_id"]) == ("completed", "quick")
    sid = (await client.post("/sessions", json={"agent_system_id": "quick", "user_id": "ada"})).json()["id"]
    assert await refused(await client.get(f"{PATH}/{sid}/status")) == (404, "unknown_workflow")
    await client.post(f"/sessions/{sid}/messages", json={"text": "table"})
    assert (await finished(client, sid))["userId"] == 0


async def test_without_a_system_the_office_is_taken_if_there_is_one(client: httpx2.AsyncClient) -> None:
    async def chosen(**params: str) -> str:
        answer = await client.post(f"{PATH}/start", json={"prompt": "table"}, params=params)
        return str((await client.get(f"/sessions/{answer.json()['id']}")).json()["agent_system_id"])

    assert await chosen() in ("demo", "office")
    assert await chosen(agentSystemId="quick") == "quick"
    office = demo_yaml().replace("name: demo", "name: office")
    await client.post("/agent-systems", content=office, headers={"Content-Type": "application/yaml"})
    assert await chosen() == "office"
