"""Messages and files that are taken back: gone from the answers, the log, the disk, and the agent's memory."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from stellwerk.envelope.order import legal
from stellwerk.settings import Settings
from tests.api.workflow_client import PATH, done, finished, get, refused, start, upload, waiting
from tests.conftest import running_server
from tests.runs.talking import events, log_of

GRAPH = """
from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt

def recite(state):
    said = [message.text for message in state["messages"]]
    if said[-1] == "ask":
        return {"messages": [AIMessage("You said " + interrupt("Which colour, dear canary?"))]}
    return {"messages": [AIMessage("I know: " + " | ".join(said))]}

graph = StateGraph(MessagesState).add_node("recite", recite).add_edge(START, "recite").add_edge("recite", END).compile()
"""


@pytest.fixture
async def address(tmp_path: Path) -> AsyncIterator[str]:
    (tmp_path / "reciter.py").write_text(GRAPH)
    own = {"reciter": f"{tmp_path / 'reciter.py'}:graph"}
    async with running_server(Settings(data=tmp_path / "data"), own=own) as found:
        yield found


async def told(client: httpx2.AsyncClient, prompt: str, workflow_id: str | None = None, **more: Any) -> Any:
    system = {} if workflow_id else {"agentSystemId": "reciter"}
    return await done(client, prompt, workflow_id, **system, **more)


async def delete(client: httpx2.AsyncClient, workflow_id: str, rest: str) -> httpx2.Response:
    return await client.delete(f"{PATH}/{workflow_id}/messages/{rest}")


def found(text: str, folder: Path) -> list[str]:
    return [str(path) for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


@pytest.mark.requirement("003.endpoint.delete-message")
async def test_a_message_that_is_deleted_is_gone_for_readers_the_agent_and_the_disk(
    client: httpx2.AsyncClient, tmp_path: Path
) -> None:
    first = await told(client, "secret canary-one")
    workflow, (question, answer) = first["id"], [message["id"] for message in first["messages"]]
    assert found("canary-one", tmp_path / "data")
    assert (await delete(client, workflow, question)).json() == {"id": question, "status": "deleted"}
    assert (await delete(client, workflow, answer)).status_code == 200
    assert found("canary-one", tmp_path / "data") == []
    assert await get(client, workflow, "/messages") == []
    second = await told(client, "hello", workflow)
    assert [message["content"] for message in second["messages"]] == ["hello", "I know: hello"]
    assert second["name"] == "hello"


@pytest.mark.requirement("003.polling.messages-from-id")
async def test_what_the_agents_of_an_office_were_given_goes_with_the_prompt(client: httpx2.AsyncClient) -> None:
    workflow = await start(client, "Write a report on the canary-prompt", agentSystemId="office")
    whole = await finished(client, workflow)
    for message in whole["messages"]:
        assert (await delete(client, workflow, message["id"])).status_code == 200, message
    assert [event for event in await events(client, workflow) if "canary-prompt" in str(event)] == []
    assert (await get(client, workflow))["name"] == ""


async def test_the_id_of_a_deleted_message_stays_good_as_a_cursor(client: httpx2.AsyncClient) -> None:
    first = await told(client, "one")
    gone, kept = [message["id"] for message in first["messages"]]
    await delete(client, first["id"], gone)
    assert [message["id"] for message in await get(client, first["id"], "/messages", id=gone)] == [kept]


async def test_the_log_keeps_its_positions_and_says_what_was_removed(client: httpx2.AsyncClient) -> None:
    workflow = (await told(client, "one"))["id"]
    before = await events(client, workflow)
    (await delete(client, workflow, (await get(client, workflow))["messageIds"][0])).raise_for_status()
    after = await events(client, workflow)
    assert [event["type"] for event in after] == [*(event["type"] for event in before), "message"]
    assert not legal(log_of(after))
    changed = [new for old, new in zip(before, after, strict=False) if old["payload"] != new["payload"]]
    assert [(event["type"], event["payload"]["redacted"], event["payload"]["content"]) for event in changed] == [
        ("message", True, [])
    ]
    assert after[-1]["payload"]["action"] == "removed"
    assert (await client.get(f"/sessions/{workflow}/messages")).json()["messages"][0]["role"] == "assistant"


@pytest.mark.requirement("003.endpoint.delete-file")
async def test_a_file_leaves_its_message_and_the_last_one_takes_the_bytes_along(
    client: httpx2.AsyncClient, tmp_path: Path
) -> None:
    number = await upload(client, "canary-name.txt", b"canary-bytes")
    first = await told(client, "one", listFileId=[number])
    workflow = first["id"]
    second = await told(client, "two", workflow, listFileId=[number])
    one, two = (message["id"] for message in second["messages"] if message["role"] == "user")
    assert (await delete(client, workflow, f"{one}/files/{number}")).json() == {"id": str(number), "status": "deleted"}
    shown = {message["id"]: message["documents"] for message in await get(client, workflow, "/messages")}
    assert shown[one] == []
    assert [document["fileId"] for document in shown[two]] == [number]
    assert await refused(await delete(client, workflow, f"{one}/files/{number}")) == (404, "unknown_file")
    assert (await delete(client, workflow, f"{two}/files/{number}")).status_code == 200
    assert found("canary-bytes", tmp_path / "data") == []
    assert (await client.get(f"/sessions/{workflow}/artifacts")).json()["artifacts"][1:] == []


async def test_the_agent_no_longer_reads_of_a_file_that_was_removed(client: httpx2.AsyncClient, tmp_path: Path) -> None:
    number = await upload(client, "canary-name.txt", b"canary-bytes")
    first = await told(client, "one", listFileId=[number])
    for message in first["messages"][1:]:  # the answer quotes what it was given
        await delete(client, first["id"], message["id"])
    await delete(client, first["id"], f"{first['messageIds'][0]}/files/{number}")
    second = await told(client, "two", first["id"])
    assert second["messages"][-1]["content"] == "I know: one | two"
    assert found("canary-name", tmp_path / "data") == []


@pytest.mark.parametrize(("system", "answer"), [("reciter", "canary-blue"), ("demo", "blue")])
async def test_a_question_and_its_answer_can_be_deleted(client: httpx2.AsyncClient, system: str, answer: str) -> None:
    """One that a graph asks itself, and one that a model asks by a tool."""
    workflow = await start(client, "ask", agentSystemId=system)
    await waiting(client, workflow)
    await start(client, answer, workflow)
    whole = await finished(client, workflow)
    assert "Which" in str(whole["messages"])
    for message in whole["messages"][1:]:
        assert (await delete(client, workflow, message["id"])).status_code == 200, message
    assert [message["content"] for message in await get(client, workflow, "/messages")] == ["ask"]
    assert [event for event in await events(client, workflow) if answer in str(event)] == []
    assert "canary" not in str(await get(client, workflow, "/logs"))
    assert not legal(log_of(await events(client, workflow)))
    kinds = [entry["kind"] for entry in (await client.get(f"/sessions/{workflow}/messages")).json()["messages"]]
    assert kinds == ["message"]


@pytest.mark.parametrize("rest", ["{0}", "{0}/files/{1}"])
async def test_nothing_is_removed_while_a_workflow_works_or_waits(client: httpx2.AsyncClient, rest: str) -> None:
    for prompt in ("slow", "ask"):
        number = await upload(client, "a.txt", b"a")
        workflow = await start(client, prompt, agentSystemId="demo", listFileId=[number])
        if prompt == "ask":
            await waiting(client, workflow)
        message = (await get(client, workflow))["messageIds"][0]
        assert await refused(await delete(client, workflow, rest.format(message, number))) == (409, "session_busy")
        await client.post(f"{PATH}/{workflow}/stop")
        assert (await delete(client, workflow, rest.format(message, number))).status_code == 200


async def test_what_is_not_there_cannot_be_removed(client: httpx2.AsyncClient) -> None:
    whole = await told(client, "one")
    workflow, message = whole["id"], whole["messageIds"][0]
    assert await refused(await delete(client, workflow, "msg_x")) == (404, "unknown_message")
    assert await refused(await delete(client, "nowhere", message)) == (404, "unknown_workflow")
    assert await refused(await delete(client, workflow, f"{message}/files/99")) == (404, "unknown_file")
    assert (await delete(client, workflow, message)).status_code == 200
    assert await refused(await delete(client, workflow, message)) == (404, "unknown_message")


async def test_followers_and_translations_get_the_rewritten_log(client: httpx2.AsyncClient) -> None:
    """Also those that were told the old one have no frame of it left to share."""
    whole = await told(client, "canary-four")
    sid = whole["id"]
    for message in whole["messageIds"]:
        assert (await delete(client, sid, message)).status_code == 200
    for params in ({}, {"dialect": "chunks"}, {"dialect": "events"}, {"profile": "debug"}):
        answer = await client.get(f"/sessions/{sid}/stream", params={"until": "run_end", **params})
        assert answer.status_code == 200
        assert "canary-four" not in answer.text
