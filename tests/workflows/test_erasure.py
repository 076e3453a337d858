"""Erasure of messages and files: from responses, the log, checkpoints and the disk."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from stellwerk.settings import Settings
from stellwerk.testing.order import order_problems
from tests import stores
from tests.api.workflow_client import PATH, done, get, refused, start, upload, waiting
from tests.conftest import server_beside
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

READER = """
version: 1
system: {name: reader, store_prompts: true}
agents:
  - id: reader
    role: orchestrator
    tools: {allow: [list_documents, read_document, table_figures, ask_user]}
    model:
      provider: scripted
      pace: 0
      script:
        - when: read
          steps:
            - calls:
                - {call: list_documents}
                - {call: read_document, args: {document: NOTES.txt}}
                - {call: read_document, args: {document: other.txt}}
                - {call: read_document, args: {document: missing.txt}}
                - {call: table_figures, args: {document: notes.txt}}
            - say: Now I know it.
        - when: ask
          steps:
            - call: ask_user
              args: {question: Which colour?}
            - say: "I paint it {result:ask_user}."
        - steps: [{say: Good.}]
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("removal") / "data"


@pytest.fixture(scope="module")
def address(data: Path) -> Iterator[str]:
    graph, system = data.parent / "reciter.py", data.parent / "reader.yaml"
    graph.write_text(GRAPH)
    system.write_text(READER)
    with server_beside(Settings(data=data), own={"reciter": f"{graph}:graph", "reader": str(system)}) as found:
        yield found


@pytest.fixture(autouse=True)
async def _nothing_is_left(client: httpx2.AsyncClient) -> AsyncIterator[None]:
    """The next test looks for its own words, in the same files."""
    yield
    for each in (await client.get(PATH)).json():
        assert (await client.delete(f"{PATH}/{each['id']}")).status_code == 200


async def completed(client: httpx2.AsyncClient, prompt: str, workflow_id: str | None = None, **more: Any) -> Any:
    system = {} if workflow_id or "agentSystemId" in more else {"agentSystemId": "reciter"}
    return await done(client, prompt, workflow_id, **system, **more)


async def delete(client: httpx2.AsyncClient, workflow_id: str, rest: str) -> httpx2.Response:
    return await client.delete(f"{PATH}/{workflow_id}/messages/{rest}")


def found(text: str, folder: Path) -> list[str]:
    return [name for name, content in stores.contents(folder).items() if text.encode() in content]


@pytest.mark.requirement("003.endpoint.delete-message")
async def test_a_message_that_is_deleted_is_gone_for_readers_the_agent_and_the_disk(
    client: httpx2.AsyncClient, data: Path
) -> None:
    first = await completed(client, "secret canary-one")
    workflow, (question, answer) = first["id"], [message["id"] for message in first["messages"]]
    assert found("canary-one", data)
    assert (await delete(client, workflow, question)).json() == {"id": question, "status": "deleted"}
    assert (await delete(client, workflow, answer)).status_code == 200
    assert found("canary-one", data) == []
    assert await get(client, workflow, "/messages") == []
    second = await completed(client, "hello", workflow)
    assert [message["content"] for message in second["messages"]] == ["hello", "I know: hello"]
    assert second["name"] == (await client.get(f"/sessions/{workflow}")).json()["title"] == "hello"


@pytest.mark.requirement("003.polling.messages-from-id")
async def test_all_messages_of_a_workplan_can_be_deleted_and_the_rest_goes_with_the_workflow(
    client: httpx2.AsyncClient, data: Path
) -> None:
    text = await upload(client, "canary-text.txt", b"The canary-one sings.\n\nAnd the canary-two.")
    table = await upload(client, "canary-table.csv", b"canary-three,amount\ncanary-four,7\n")
    whole = await done(client, "Report on the canary-five", agentSystemId="office", listFileId=[text, table])
    workflow = whole["id"]
    assert whole["status"] == "completed"
    *others, task, last = whole["messageIds"]
    assert (await delete(client, workflow, task)).status_code == 200
    shown = (await get(client, workflow, "/messages"))[-1]
    assert [file["name"] for file in shown["documents"]][-2:] == ["report", "report"]  # they are not gone yet
    for message in (last, *others):
        assert (await delete(client, workflow, message)).status_code == 200, message
    stored = await events(client, workflow)
    assert [event for event in stored if event["type"] in ("message", "document") and "canary-" in str(event)] == []
    assert not order_problems(log_of(stored))
    assert await get(client, workflow, "/messages") == []
    assert (await get(client, workflow))["name"] == ""
    assert (await done(client, "hello", workflow))["status"] == "completed"
    assert found("canary-", data), "what agents wrote about it stays"
    assert (await client.delete(f"{PATH}/{workflow}")).status_code == 200
    assert found("canary-", data) == []


async def test_the_id_of_a_deleted_message_stays_good_as_a_cursor(client: httpx2.AsyncClient) -> None:
    first = await completed(client, "one")
    gone, kept = [message["id"] for message in first["messages"]]
    await delete(client, first["id"], gone)
    assert [message["id"] for message in await get(client, first["id"], "/messages", id=gone)] == [kept]


async def test_the_log_keeps_its_positions_and_says_what_was_removed(client: httpx2.AsyncClient) -> None:
    workflow = (await completed(client, "one"))["id"]
    before = await events(client, workflow)
    (await delete(client, workflow, (await get(client, workflow))["messageIds"][0])).raise_for_status()
    after = await events(client, workflow)
    assert [event["type"] for event in after] == [*(event["type"] for event in before), "message"]
    assert not order_problems(log_of(after))
    changed = [new for old, new in zip(before, after, strict=False) if old["payload"] != new["payload"]]
    assert [(event["type"], event["payload"]["redacted"], event["payload"]["content"]) for event in changed] == [
        ("message", True, [])
    ]
    assert after[-1]["payload"]["action"] == "removed"
    assert (await client.get(f"/sessions/{workflow}/messages")).json()["messages"][0]["role"] == "assistant"


@pytest.mark.requirement("003.endpoint.delete-file")
async def test_a_file_leaves_its_message_and_the_last_one_takes_the_bytes_along(
    client: httpx2.AsyncClient, data: Path
) -> None:
    number = await upload(client, "canary-name.txt", b"canary-bytes")
    first = await completed(client, "one", listFileId=[number])
    workflow = first["id"]
    second = await completed(client, "two", workflow, listFileId=[number])
    one, two = (message["id"] for message in second["messages"] if message["role"] == "user")
    assert (await delete(client, workflow, f"{one}/files/{number}")).json() == {"id": str(number), "status": "deleted"}
    shown = {message["id"]: message["documents"] for message in await get(client, workflow, "/messages")}
    assert shown[one] == []
    assert [document["fileId"] for document in shown[two]] == [number]
    assert refused(await delete(client, workflow, f"{one}/files/{number}")) == (404, "unknown_file")
    assert (await delete(client, workflow, f"{two}/files/{number}")).status_code == 200
    (listed,) = (await client.get(PATH)).json()
    assert listed["lastActivity"] == (await get(client, workflow, "/status"))["lastActivity"] > second["lastActivity"]
    assert found("canary-bytes", data) == []
    assert (await client.get(f"/sessions/{workflow}/artifacts")).json()["artifacts"][1:] == []


async def test_the_agent_no_longer_reads_of_a_file_that_was_removed(client: httpx2.AsyncClient, data: Path) -> None:
    number = await upload(client, "canary-name.txt", b"canary-bytes")
    first = await completed(client, "one", listFileId=[number])
    for message in first["messages"][1:]:  # the answer quotes what it was given
        await delete(client, first["id"], message["id"])
    await delete(client, first["id"], f"{first['messageIds'][0]}/files/{number}")
    second = await completed(client, "two", first["id"])
    assert second["messages"][-1]["content"] == "I know: one | two"
    assert found("canary-name", data) == []


@pytest.mark.requirement("003.endpoint.delete-file")
async def test_a_file_goes_with_stored_prompts_and_what_tools_had_read_out_of_it_stays(
    client: httpx2.AsyncClient, data: Path
) -> None:
    notes, other = await upload(client, "notes.txt", b"canary-notes"), await upload(client, "other.txt", b"goldfinch")
    first = await completed(client, "read", agentSystemId="reader", listFileId=[notes, other])
    workflow = first["id"]
    before = await events(client, workflow)
    assert found("canary-notes", data / "documents")
    (await delete(client, workflow, f"{first['messageIds'][0]}/files/{notes}")).raise_for_status()
    after = await events(client, workflow)
    changed = [new["type"] for old, new in zip(before, after, strict=False) if old["payload"] != new["payload"]]
    assert sorted(set(changed)) == ["document", "llm_start", "message"]
    assert "canary-notes" in str([event for event in after if event["type"] == "tool_end"])
    assert not order_problems(log_of(after))
    assert found("canary-notes", data / "documents") == []


@pytest.mark.parametrize("system", ["reciter", "reader"])
async def test_a_question_and_its_answer_can_be_deleted(client: httpx2.AsyncClient, data: Path, system: str) -> None:
    """One that a graph asks itself, and one that a model asks by a tool."""
    workflow = await start(client, "ask", agentSystemId=system)
    await waiting(client, workflow)
    whole = await done(client, "canary-blue", workflow)
    assert "Which" in str(whole["messages"])
    assert found("canary-blue", data)
    for message in whole["messages"][1:]:
        assert (await delete(client, workflow, message["id"])).status_code == 200, message
    assert [message["content"] for message in await get(client, workflow, "/messages")] == ["ask"]
    assert [event for event in await events(client, workflow) if "canary" in str(event)] == []
    assert "canary" not in str(await get(client, workflow, "/logs"))
    assert found("canary", data) == []
    assert not order_problems(log_of(await events(client, workflow)))
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
        assert refused(await delete(client, workflow, rest.format(message, number))) == (409, "session_busy")
        await client.post(f"{PATH}/{workflow}/stop")
        assert (await delete(client, workflow, rest.format(message, number))).status_code == 200


async def test_what_is_not_there_cannot_be_removed(client: httpx2.AsyncClient) -> None:
    whole = await completed(client, "one")
    workflow, message = whole["id"], whole["messageIds"][0]
    assert refused(await delete(client, workflow, "msg_x")) == (404, "unknown_message")
    assert refused(await delete(client, "nowhere", message)) == (404, "unknown_workflow")
    assert refused(await delete(client, workflow, f"{message}/files/99")) == (404, "unknown_file")
    assert (await delete(client, workflow, message)).status_code == 200
    assert refused(await delete(client, workflow, message)) == (404, "unknown_message")


async def test_followers_and_translations_get_the_rewritten_log(client: httpx2.AsyncClient) -> None:
    """Also those that were told the old one have no frame of it left to share."""
    whole = await completed(client, "canary-four")
    sid = whole["id"]
    for message in whole["messageIds"]:
        assert (await delete(client, sid, message)).status_code == 200
    for params in ({}, {"dialect": "chunks"}, {"dialect": "events"}, {"profile": "debug"}):
        answer = await client.get(f"/sessions/{sid}/stream", params={"until": "run_end", **params})
        assert answer.status_code == 200
        assert "canary-four" not in answer.text
