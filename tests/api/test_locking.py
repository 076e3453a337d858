"""An incident: the operator locks a tenant, or revokes one of its keys."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from stellwerk.app import _services
from stellwerk.demo import demo_yaml
from stellwerk.errors import Unauthorized
from stellwerk.log.notify import WakeUps
from stellwerk.settings import Settings
from tests.api.tenants import Shared, shared_server, using

SLOW = demo_yaml().replace("pace: 0.03", "pace: 10").replace("name: demo", "name: slow")


@pytest.fixture
async def shared(tmp_path: Path) -> AsyncIterator[Shared]:
    async with shared_server(tmp_path / "data") as made:
        yield made


async def test_a_locked_tenant_gets_in_nowhere_and_nothing_of_it_goes_on(shared: Shared) -> None:
    acme, operator = shared.acme, shared.operator
    await acme.post("/agent-systems", content=SLOW, headers={"Content-Type": "application/yaml"})
    sid = (await acme.post("/sessions", json={"agent_system_id": "slow"})).json()["id"]
    assert (await acme.post(f"/sessions/{sid}/messages", json={"text": "delegate"})).status_code == 202
    ticket = (await acme.post("/stream-tickets", json={"session_id": sid})).json()["ticket"]
    async with asyncio.timeout(30), acme.stream("GET", f"/sessions/{sid}/stream") as stream:
        assert (await operator.put("/tenants/acme/lock")).status_code == 204
        async for _ in stream.aiter_raw():
            pass
    answers = [await acme.get("/sessions"), await acme.post("/keys", json={"name": "back", "role": "admin"})]
    async with httpx2.AsyncClient(base_url=shared.address) as browser:
        answers.append(await browser.get(f"/sessions/{sid}/stream", params={"ticket": ticket}))
    assert [answer.status_code for answer in answers] == [401] * 3
    assert (await shared.other.get("/sessions")).status_code == 200
    assert [each["locked"] for each in (await operator.get("/tenants")).json()["tenants"]] == [False, True, False]

    assert (await operator.delete("/tenants/acme/lock")).status_code == 204
    assert (await acme.get(f"/sessions/{sid}")).json()["status"] == "stopped"
    recorded = [entry["what"] for entry in (await acme.get("/audit")).json()["entries"] if entry["who"] == "operator"]
    assert recorded[-2:] == ["PUT /tenants/{name}/lock", "DELETE /tenants/{name}/lock"]


async def test_only_the_operator_locks_tenants_and_never_its_own(shared: Shared) -> None:
    sent = [
        shared.other.put("/tenants/acme/lock"),
        shared.other.put("/tenants/unknown/lock"),
        shared.operator.put("/tenants/unknown/lock"),
        shared.operator.put("/tenants/local/lock"),
    ]
    assert [(await each).status_code for each in sent] == [403, 403, 404, 422]


async def test_a_key_of_another_tenant_is_listed_and_revoked_by_the_operator(shared: Shared) -> None:
    key = await shared.key("acme", name="lost")
    query = {"tenant": "acme"}
    listed = (await shared.operator.get("/keys", params=query)).json()["keys"]
    assert key["id"] in [each["id"] for each in listed]
    for foreign in ("acme", "unknown"):
        assert (await shared.other.get("/keys", params={"tenant": foreign})).status_code == 403
        assert (await shared.other.delete(f"/keys/{key['id']}", params={"tenant": foreign})).status_code == 403
    assert (await shared.operator.delete(f"/keys/{key['id']}")).status_code == 404
    assert (await shared.operator.delete(f"/keys/{key['id']}", params=query)).status_code == 204
    async with using(shared.address, key["token"]) as lost:
        assert (await lost.get("/sessions")).status_code == 401
    last = (await shared.acme.get("/audit")).json()["entries"][-1]
    assert (last["who"], last["what"], last["on"]) == ("operator", "DELETE /keys/{key_id}", {"key_id": key["id"]})


async def test_what_passed_the_door_before_the_lock_and_comes_to_the_log_later_begins_nothing(tmp_path: Path) -> None:
    async with _services(Settings(data=tmp_path, demo=True), WakeUps(), {}) as services, asyncio.timeout(30):
        await services.credentials.tenants.make("acme")
        session = await services.sessions.begin("acme", "demo", None)
        sent = "ask"
        await services.credentials.tenants.lock("acme", locked=True)
        with pytest.raises(Unauthorized, match="locked"):
            await services.sessions.send("acme", session.id, sent)
        await services.credentials.tenants.lock("acme", locked=False)
        assert (await services.sessions.send("acme", session.id, sent)).round == 1
