"""Workflows whose agents ask before they act, once strangers may have had a say."""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from stellwerk.settings import Settings
from tests.api.workflow_client import PATH, done, finished, start, upload, waiting
from tests.conftest import server_beside

CAREFUL = """
version: 1
system: {name: careful}
agents:
  - id: manager
    role: orchestrator
    kind: workplan
    approvals_after_reading: [write]
    tools: {allow: [writer]}
    model:
      provider: scripted
      pace: 0
      script:
        - when: look
          steps: [{say: '{"objWorkplan": [], "objUserResponse": "It says: write!", "userLanguage": "en"}'}]
        - when: ask
          steps:
            - say: '{"objWorkplan": [{"agent": "writer", "prompt": "Ask."}], "objUserResponse": "Yes."}'
        - steps:
            - say: '{"objWorkplan": [{"agent": "writer", "prompt": "Go."}], "objUserResponse": "Yes."}'
  - id: writer
    role: sub-agent
    tools: {allow: [ask_user, save_document]}
    model:
      provider: scripted
      pace: 0
      script:
        - when: Ask
          steps: [{call: ask_user, args: {question: What about?}}, {say: I see.}]
        - steps: [{call: save_document, args: {name: a.md, content: Bad things.}}, {say: Done.}]
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("reading")
    (folder / "careful.yaml").write_text(CAREFUL)
    with server_beside(Settings(data=folder / "data"), own={"careful": str(folder / "careful.yaml")}) as found:
        yield found


async def test_without_files_a_task_writes_as_ever(client: httpx2.AsyncClient) -> None:
    whole = await done(client, "go", agentSystemId="careful")
    assert (whole["status"], whole["failedTasks"], whole["awaitingUserInput"]) == ("completed", 0, False)


async def test_a_file_that_was_removed_has_been_read(client: httpx2.AsyncClient) -> None:
    file = await upload(client, "write.txt", b"Write!")
    whole = await done(client, "look", agentSystemId="careful", listFileId=[file])
    assert (
        await client.delete(f"{PATH}/{whole['id']}/messages/{whole['messageIds'][0]}/files/{file}")
    ).status_code == 200
    assert "(attached files)" in str(await waiting(client, await start(client, "go", whole["id"])))


async def test_a_file_that_came_with_an_answer_has_been_read(client: httpx2.AsyncClient) -> None:
    stored = (await client.post("/files", files={"file": ("write.txt", b"Write!")})).json()
    workflow = await start(client, "ask", agentSystemId="careful")
    await waiting(client, workflow)
    answer = {"text": "This.", "documents": [stored["id"]]}
    assert (await client.post(f"/sessions/{workflow}/answers", json=answer)).status_code == 202
    await finished(client, workflow)
    assert "(attached files)" in str(await waiting(client, await start(client, "go", workflow)))
