"""The office for tests: what is given to it, and what comes out of it, over HTTP."""

import re
from collections.abc import Sequence
from typing import Any

import httpx2

from stellwerk.demo import office_yaml
from stellwerk.workflows.documents.writers import write_document
from stellwerk.workflows.views.workflow import Workflow
from tests.api.reading import Event
from tests.runs.talking import begin, log_of, rest_of_run, send

TABLE = "region,amount,units\nnorth,100.5,3\nsouth,200,4\nnorth,50,1\n"
SHEET = write_document("sales.xlsx", TABLE).data
NOTES = b"The north was weak in spring. We should look at it again in autumn.\n"
FILES = (("my sales.xlsx", SHEET), ("notes.txt", NOTES))
FIGURES = "| amount | 3 | 350.5 | 116.8333 | 50 | 200 |"


def quick_office(**changes: str) -> str:
    """The office without its pauses, and with parts of its text changed."""
    text = re.sub(r"pace: [0-9.]+", "pace: 0.0", office_yaml())
    for old, new in changes.items():
        text = text.replace(old.replace("__", " "), new)
    return text


async def given(client: httpx2.AsyncClient, files: Sequence[tuple[str, bytes]] = FILES) -> list[str]:
    """Upload files, and give their ids."""
    ids = []
    for name, data in files:
        answer = await client.post("/files", files={"file": (name, data)})
        assert answer.status_code == 201, answer.text
        ids.append(str(answer.json()["id"]))
    return ids


async def worked(
    client: httpx2.AsyncClient, text: str, files: Sequence[tuple[str, bytes]] = FILES, sid: str | None = None
) -> tuple[str, list[Event]]:
    """One round of the office: its session, and all that was told."""
    sid = sid or await begin(client, "office")
    accepted = await send(client, sid, text, documents=await given(client, files))
    return sid, await rest_of_run(client, sid, accepted["after"])


def seen(told: Sequence[Event]) -> Workflow:
    """As a client that polls would see it."""
    workflow = Workflow("w")
    for envelope in log_of(told):
        workflow.feed(envelope)
    return workflow


async def delivered(client: httpx2.AsyncClient, told: Sequence[Event]) -> dict[str, bytes]:
    """The documents that go with the last message, by name."""
    last = seen(told).messages[-1]
    assert last.status == "last"
    return {f"{file.name}.{file.ext}": await _bytes(client, file.document_id) for file in last.documents}


async def _bytes(client: httpx2.AsyncClient, document_id: str) -> bytes:
    answer = await client.get(f"/files/{document_id}")
    assert answer.status_code == 200
    return answer.content


def payloads(told: Sequence[Event], kind: str) -> list[Any]:
    return [event["payload"] for event in told if event["type"] == kind]
