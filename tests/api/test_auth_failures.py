"""Rejected requests are logged and audited, and so is what the operator does to a tenant."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
import structlog
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from stellwerk.api.http.metrics_middleware import LOGGED_PER_MINUTE, AuthFailureLog
from stellwerk.logs import NotSecret
from tests.api.tenants import Shared, shared_server, using


@pytest.fixture
async def shared(tmp_path: Path) -> AsyncIterator[Shared]:
    async with shared_server(tmp_path / "data") as made:
        yield made


async def audit(client: httpx2.AsyncClient) -> list[tuple[str, str, int]]:
    entries = (await client.get("/audit?limit=500")).json()["entries"]
    return [(each["who"], each["what"], each["outcome"]) for each in entries]


async def test_what_the_operator_does_and_what_was_refused_is_in_the_audit_of_the_tenant(shared: Shared) -> None:
    await shared.operator.put("/tenants/acme/limits", json={"runs": 5})
    await shared.operator.post("/keys", json={"name": "x", "tenant": "acme", "role": "reader", "scopes": ["run"]})
    await shared.other.post("/keys", json={"name": "x", "tenant": "acme"})
    made = ("POST /tenants", "POST /keys", "PUT /tenants/{name}/limits")
    assert await audit(shared.acme) == list(zip(["operator"] * 3, made, [201, 201, 200], strict=True))
    entries = (await shared.acme.get("/audit")).json()["entries"]
    assert not any("origin" in each or "key_id" in each for each in entries)
    assert {what for _, what, _ in await audit(shared.operator)} == set(made)

    # Rejections are audited for known principals, and logged for all.
    async with (
        shared.client("acme", name="ada's", user="ada", role="reader") as ada,
        shared.client("acme", name="bob's", user="bob", scopes=["run"]) as bob,
        using(shared.address, "sw_abcdefghijkl_" + "x" * 43) as invalid,
    ):
        with structlog.testing.capture_logs() as logged:
            assert (await ada.get("/audit")).status_code == 403
            assert (await invalid.get("/sessions?canary=1")).status_code == 401
            key = {"Authorization": bob.headers["authorization"]}
            with pytest.raises(InvalidStatus):
                async with connect(f"ws{shared.address[4:]}/sessions/s/ws", additional_headers=key):
                    pass
            async with asyncio.timeout(20):  # it is refused before it is recorded
                while ("bob", "WS /sessions/{sid}/ws", 403) not in (recorded := await audit(shared.acme)):
                    pass
    assert ("ada", "GET /audit", 403) in recorded
    assert {line["event"] for line in logged} == {"request_refused"}
    rejected = [line for line in logged if line["event"] == "request_refused"]
    assert (rejected[0]["status"], rejected[0]["route"], rejected[0]["origin"]) == (403, "/audit", "127.0.0.1")
    assert (rejected[1]["status"], rejected[1]["route"], rejected[1]["key"]) == (401, "/sessions", "abcdefghijkl")
    assert "canary" not in str(rejected) and "xxx" not in str(rejected)
    # A tenant cannot have it redacted by storing it as a secret.
    assert all(isinstance(rejected[1][name], NotSecret) for name in ("route", "origin", "key"))


async def test_so_many_refusals_are_logged_in_a_minute_and_no_more() -> None:
    turned_away, asked = AuthFailureLog(), {"type": "http", "headers": [], "client": ("192.0.2.1", 1)}
    with structlog.testing.capture_logs() as logged:
        for _ in range(LOGGED_PER_MINUTE + 5):
            turned_away.record(asked, 401)
    assert len(logged) == LOGGED_PER_MINUTE
    turned_away._since -= 60
    with structlog.testing.capture_logs() as logged:
        turned_away.record(asked, 401)
    assert (logged[0]["not_told_before"], logged[0]["origin"], logged[0]["key"]) == (5, "192.0.2.1", None)


async def test_a_download_does_not_go_on_when_its_key_was_revoked(shared: Shared) -> None:
    size = 24 * 1024 * 1024
    key = await shared.key("acme", role="member", name="reads")
    stored = await shared.acme.post("/files", files={"file": ("a.bin", bytes(size))})
    assert stored.status_code == 201
    async with asyncio.timeout(50), using(shared.address, key["token"]) as client:
        with pytest.raises(httpx2.RemoteProtocolError):
            async with client.stream("GET", f"/files/{stored.json()['id']}") as answer:
                pieces, got = answer.aiter_raw(), 0
                got += len(await anext(pieces))
                await shared.acme.delete(f"/keys/{key['id']}")
                async for piece in pieces:
                    got += len(piece)
        assert got < size
