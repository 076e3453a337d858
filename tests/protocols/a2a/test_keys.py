"""With keys: the card says how to authenticate, and tasks and contexts of another tenant look unknown."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from a2a.types import a2a_pb2 as pb
from a2a.utils import errors

from stellwerk.settings import Settings
from tests.api.tenants import Shared, shared_server
from tests.conftest import own_server
from tests.protocols.a2a.peers import message, peer_of, say


@pytest.fixture
async def shared(tmp_path: Path) -> AsyncIterator[Shared]:
    async with shared_server(tmp_path / "data", demo=True) as made:
        yield made


async def test_a_task_of_another_tenant_looks_unknown(shared: Shared) -> None:
    keys = [(await shared.key(tenant, role="member"))["token"] for tenant in ("acme", "other")]
    async with peer_of(shared.address, key=keys[0]) as acme, peer_of(shared.address, key=keys[1]) as other:
        mine = await say(acme, "ask", context_id="ours")
        for task_id in (mine.task_id, "0000000000000000000000"):
            with pytest.raises(errors.TaskNotFoundError, match="there is no task"):
                await other.get_task(pb.GetTaskRequest(id=task_id))
            with pytest.raises(errors.TaskNotFoundError):
                await other.cancel_task(pb.CancelTaskRequest(id=task_id))
            with pytest.raises(errors.TaskNotFoundError):
                _ = [event async for event in other.subscribe(pb.SubscribeToTaskRequest(id=task_id))]
            with pytest.raises(errors.TaskNotFoundError):
                _ = [event async for event in other.send_message(message("blue", task_id=task_id))]
        assert not (await other.list_tasks(pb.ListTasksRequest())).tasks
        with pytest.raises(errors.InvalidParamsError):
            await other.list_tasks(pb.ListTasksRequest(context_id="ours"))
        theirs = await say(other, "table", context_id="ours")
        assert theirs.task_id != mine.task_id
        assert [task.id for task in (await acme.list_tasks(pb.ListTasksRequest())).tasks] == [mine.task_id]
    entries = (await shared.acme.get("/audit")).json()["entries"]
    assert [each["outcome"] for each in entries if each["what"].startswith("POST /a2a")] == [200]


async def test_the_card_needs_a_key_and_names_it(shared: Shared) -> None:
    path = "/a2a/demo/.well-known/agent-card.json"
    card = (await shared.acme.get(path)).json()
    assert card["securitySchemes"]["key"]["httpAuthSecurityScheme"]["scheme"] == "Bearer"
    assert {each["protocolVersion"] for each in card["supportedInterfaces"]} == {"1.0", "0.3"}
    assert card["url"] == f"{shared.address}/a2a/demo/"
    assert (await shared.acme.get(path.replace("demo", "nowhere"))).status_code == 404
    async with httpx2.AsyncClient(base_url=shared.address) as anybody:
        refused = await anybody.get(path, headers={"Authorization": "Bearer sw_wrong"})
    assert (refused.status_code, refused.json()["error"]["data"]) == (401, {"code": "unauthorized"})


async def test_without_the_extra_the_route_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "stellwerk.protocols.a2a_server.server", raising=False)
    monkeypatch.setitem(sys.modules, "a2a.server.context", None)
    async with own_server(Settings(data=tmp_path / "data")) as client:
        refused = await client.post("/a2a/demo/", json={})
        assert refused.status_code == 501
        assert "path/to/stellwerk[a2a]" in refused.json()["error"]["message"]
