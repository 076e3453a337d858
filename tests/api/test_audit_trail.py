"""The audit over HTTP: who did what, and never what was said."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from websockets.asyncio.client import connect

from tests.api.tenants import Shared, shared_server

BEGIN = {"agent_system_id": "demo"}


@pytest.fixture
async def shared(tmp_path: Path) -> AsyncIterator[Shared]:
    async with shared_server(tmp_path / "data") as made:
        yield made


@pytest.mark.requirement("004.security.audit-trail")
async def test_the_audit_log_records_who_did_what_and_outlives_it_without_its_content(shared: Shared) -> None:
    async with shared.client("acme", name="ada's", user="ada", role="member") as ada:
        sid = (await ada.post("/sessions", json=BEGIN)).json()["id"]
        await ada.post(f"/sessions/{sid}/messages", json={"text": "canary-in-a-message"})
        async with connect(
            f"{shared.address.replace('http', 'ws')}/sessions/{sid}/ws",
            additional_headers={"Authorization": ada.headers["authorization"]},
        ) as ws:
            await ws.send(json.dumps({"type": "stop"}))
            while "ok" not in json.loads(await ws.recv()):
                pass
        await ada.post("/stream-tickets", json={"session_id": sid})
        await ada.delete(f"/sessions/{sid}")
        await ada.post("/agent-systems", content="x")
    entries = (await shared.acme.get("/audit", params={"limit": 500})).json()["entries"]
    mine = [(each["what"], each["outcome"], each.get("on", {})) for each in entries if each["who"] == "ada"]
    assert mine == [
        ("POST /sessions", 201, {"made": sid}),
        ("POST /sessions/{sid}/messages", 202, {"sid": sid}),
        ("stop /sessions/{sid}/ws", 202, {"sid": sid}),
        ("POST /stream-tickets", 201, {"sid": sid}),
        ("DELETE /sessions/{sid}", 204, {"sid": sid}),
        ("POST /agent-systems", 403, {}),
    ]
    assert {each["origin"] for each in entries if each["who"] != "operator"} == {"127.0.0.1"}
    assert "canary" not in json.dumps(entries)
    assert [each["number"] for each in entries] == list(range(1, len(entries) + 1))
    assert (await shared.acme.get("/audit", params={"after": 2**64})).status_code == 422
    of_operator = (await shared.operator.get("/audit", params={"limit": 500})).json()["entries"]
    made = [
        each["on"].get("tenant") for each in of_operator if each["what"] == "POST /tenants" and each["outcome"] == 201
    ]
    assert made == ["acme", "other"]
