"""With keys: MCP sessions, questions and sessions of another key or tenant look as if there were none."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from stellwerk.settings import Settings
from tests.api.tenants import Shared, shared_server
from tests.conftest import own_server
from tests.protocols.mcp.hosts import host_of, session_of, text_of

KEYS = ({"name": "one", "role": "member"}, {"name": "two", "role": "member"}, {"name": "three", "role": "reader"})
HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}


@pytest.fixture
async def shared(tmp_path: Path) -> AsyncIterator[Shared]:
    async with shared_server(tmp_path / "data", demo=True) as made:
        yield made


def closed(_: types.ElicitRequestFormParams) -> types.ElicitResult:
    return types.ElicitResult(action="cancel")


async def test_a_session_of_another_tenant_is_not_found(shared: Shared) -> None:
    acme, other = [(await shared.key(tenant, role="member"))["token"] for tenant in ("acme", "other")]
    async with host_of(shared.address, key=acme, answer=closed) as host, host_of(shared.address, key=other) as stranger:
        mine = await host.say("How is the weather?", "our chat")
        for session_id in (session_of(mine), "our chat"):
            refused = await stranger.say("", session_id)
            assert refused.is_error
            assert text_of(refused).startswith("there is no")
        theirs = await stranger.say("table", "our chat")
        assert session_of(theirs) != session_of(mine)
        asked = await host.client.session.call_tool("demo", {"message": "ask"}, allow_input_required=True)
        assert isinstance(asked, types.InputRequiredResult)
        with pytest.raises(MCPError, match="requestState"):
            await stranger.client.session.call_tool(
                "demo", {"message": "ask"}, input_responses={}, request_state=asked.request_state
            )
    async with httpx2.AsyncClient(base_url=shared.address) as anybody:
        response = await anybody.post("/mcp", json={}, headers={"Authorization": "Bearer sw_wrong"})
    assert (response.status_code, response.json()["error"]["data"]) == (401, {"code": "unauthorized"})


async def test_an_mcp_session_belongs_to_its_key_and_calls_are_in_the_audit(shared: Shared) -> None:
    tokens = [(await shared.key("acme", **key))["token"] for key in KEYS]
    hello = types.InitializeRequestParams(
        protocol_version="2025-11-25",
        capabilities=types.ClientCapabilities(),
        client_info=types.Implementation(name="test", version="1"),
    )
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello.model_dump(by_alias=True)}
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    mine, another, reader = [{**HEADERS, "Authorization": f"Bearer {token}"} for token in tokens]
    async with httpx2.AsyncClient(base_url=shared.address) as client:
        begun = await client.post("/mcp", json=begin, headers=mine)
        session = {"Mcp-Session-Id": begun.headers["mcp-session-id"]}
        answers = [
            await client.post("/mcp", json=ping, headers={**headers, **session}) for headers in (mine, another, reader)
        ]
    assert [answer.status_code for answer in answers] == [200, 404, 403]
    async with host_of(shared.address, key=tokens[0]) as host:
        called = await host.say("How is the weather?")
    entries = (await shared.acme.get("/audit")).json()["entries"]
    of_mcp = [(each["outcome"], each.get("on", {}).get("sid")) for each in entries if each["what"] == "POST /mcp"]
    assert of_mcp == [(404, None), (403, None), (200, session_of(called))]


async def test_without_the_extra_the_route_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "stellwerk.protocols.mcp_server.server", raising=False)
    monkeypatch.setitem(sys.modules, "mcp_types", None)
    async with own_server(Settings(data=tmp_path / "data")) as client:
        refused = await client.post("/mcp", json={})
        assert refused.status_code == 501
        assert "path/to/stellwerk[mcp]" in refused.json()["error"]["message"]
