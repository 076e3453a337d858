"""Every edge between the states of a workflow that its contract has, and no other; deletion leaves nothing behind."""

from pathlib import Path

import httpx2
import pytest
from structlog.testing import capture_logs

from tests import stores
from tests.api.workflow_client import (
    NEW,
    PATH,
    done,
    finished,
    get,
    quick_data,
    quick_server,
    refused,
    start,
    status,
    upload,
    waiting,
)

address, data = quick_server, quick_data

REACHED = {"completed": "table", "failed": "fail", "waiting": "ask", "running": "slow", "stopped": "slow"}

EDGES = [
    # from, what the client does, the answer, where that leads
    ("null", "start", 404, "null"),
    ("null", "stop", 404, "null"),
    ("null", "delete", 404, "null"),
    ("running", "start", 409, "running"),
    pytest.param("running", "stop", 200, "stopped", marks=pytest.mark.requirement("003.transition.running-stopped")),
    pytest.param(
        "running", "delete", 200, "null", marks=pytest.mark.requirement("003.delete.http", "003.transition.deleted")
    ),
    pytest.param(
        "waiting", "start", 200, "completed", marks=pytest.mark.requirement("003.interrupt.otherwise-goes-on")
    ),
    ("waiting", "stop", 200, "stopped"),
    pytest.param("waiting", "delete", 200, "null", marks=pytest.mark.requirement("003.transition.deleted")),
    pytest.param(
        "completed", "start", 200, "completed", marks=pytest.mark.requirement("003.transition.completed-running")
    ),
    pytest.param(
        "completed", "stop", 200, "completed", marks=pytest.mark.requirement("003.transition.running-completed")
    ),
    pytest.param("completed", "delete", 200, "null", marks=pytest.mark.requirement("003.transition.deleted")),
    pytest.param("stopped", "start", 200, "completed", marks=pytest.mark.requirement("003.transition.stopped-running")),
    ("stopped", "stop", 200, "stopped"),
    pytest.param("stopped", "delete", 200, "null", marks=pytest.mark.requirement("003.transition.deleted")),
    pytest.param("failed", "start", 200, "completed", marks=pytest.mark.requirement("003.transition.failed-running")),
    pytest.param("failed", "stop", 200, "failed", marks=pytest.mark.requirement("003.transition.running-failed")),
    pytest.param("failed", "delete", 200, "null", marks=pytest.mark.requirement("003.transition.deleted")),
]


async def reached(client: httpx2.AsyncClient, state: str) -> str:
    """A workflow in this state; the id of none."""
    if state == "null":
        return "nowhere"
    system = {"agentSystemId": "demo"} if REACHED[state] == "slow" else NEW
    workflow = await start(client, REACHED[state], **system)
    match state:
        case "waiting":
            await waiting(client, workflow)
        case "stopped":
            await client.post(f"{PATH}/{workflow}/stop")
        case "completed" | "failed":
            await finished(client, workflow)
    assert await status(client, workflow) == {"waiting": "running"}.get(state, state)
    return workflow


async def act(client: httpx2.AsyncClient, action: str, workflow: str) -> httpx2.Response:
    match action:
        case "start":
            return await client.post(f"{PATH}/start", params={"id": workflow}, json={"prompt": "blue"})
        case "stop":
            return await client.post(f"{PATH}/{workflow}/stop")
        case _:
            return await client.delete(f"{PATH}/{workflow}")


@pytest.mark.parametrize(("state", "action", "answer", "then"), EDGES, ids=lambda value: str(value))
async def test_every_edge_of_the_contract_and_no_other(
    client: httpx2.AsyncClient, state: str, action: str, answer: int, then: str
) -> None:
    workflow = await reached(client, state)
    before = 0 if state == "null" else (await get(client, workflow))["currentRound"]
    acted = await act(client, action, workflow)
    assert acted.status_code == answer, acted.text
    if then == "null":
        assert refused(await client.get(f"{PATH}/{workflow}/status")) == (404, "unknown_workflow")
        return
    if (action, answer) == ("start", 200):
        assert acted.json() == {"id": workflow, "status": "running", "currentRound": before + 1}
        assert (await finished(client, workflow))["status"] == then
    assert await status(client, workflow) == then
    if then == "running":
        await client.post(f"{PATH}/{workflow}/stop")


def found(canary: bytes, folder: Path) -> list[str]:
    return [name for name, data in stores.contents(folder).items() if canary in data]


@pytest.mark.requirement("003.endpoint.delete", "003.delete.everything", "003.delete.log")
async def test_no_byte_of_a_deleted_workflow_is_left(client: httpx2.AsyncClient, data: Path) -> None:
    """Neither in the documents nor in what was read out of them, nor in the database and its log."""
    number = await upload(client, "kanarienvogel.csv", b"kanarienvogel,1\n")
    whole = await done(client, "kanarienvogel weather", listFileId=[number], **NEW)
    assert whole["messages"][0]["documents"][0]["contents"]
    assert len(found(b"kanarienvogel", data)) >= 3
    with capture_logs() as logged:
        assert (await client.delete(f"{PATH}/{whole['id']}")).json() == {"id": whole["id"], "status": "deleted"}
    assert found(b"kanarienvogel", data) == []
    assert "workflow deleted" in [line["event"] for line in logged]
    again = await client.post(f"{PATH}/start", json={"prompt": "x", "listFileId": [number]})
    assert refused(again) == (404, "unknown_file")


async def test_a_file_that_two_workflows_have_goes_with_the_second(client: httpx2.AsyncClient, data: Path) -> None:
    number = await upload(client, "a.txt", b"stieglitz")
    one, two = [await done(client, "table", listFileId=[number], **NEW) for _ in range(2)]
    await client.delete(f"{PATH}/{one['id']}")
    (document,) = (await get(client, two["id"], "/messages"))[0]["documents"]
    assert (await client.get(document["dataUrl"])).content == b"stieglitz"
    await client.delete(f"{PATH}/{two['id']}")
    assert found(b"stieglitz", data) == []
    assert (await client.get(document["dataUrl"])).status_code == 404
    assert await upload(client, "a.txt", b"stieglitz") > number, "no number is given twice"
