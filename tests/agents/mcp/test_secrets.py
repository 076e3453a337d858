"""Secrets in the entry of an MCP server: filled in when it is spoken with, with what is stored at that time."""

import asyncio

import pytest

from stellwerk.agents.mcp import McpServers
from stellwerk.errors import McpUnreachable, SpecError
from stellwerk.spec.load import load_operator
from stellwerk.spec.operator import McpServer
from tests.agents.mcp.shared import called
from tests.agents.mcp.vault import serving_vault

HEADERS = {"Authorization": "Bearer ${secret:vault_token}"}


class Told(dict[str, str]):
    def find(self, secret: str) -> str | None:
        return self.get(secret)


async def test_a_header_has_the_secret_of_the_moment_and_calls_under_way_end_in_peace() -> None:
    keys = Told(vault_token="First-Token-1")
    async with serving_vault() as (address, seen):
        servers = McpServers({"vault": McpServer(url=address, headers=HEADERS)}, keys=keys)
        try:
            asked = await asyncio.gather(*(called(servers, "vault_whoami") for _ in range(3)))
            assert {str(answer.content) for answer in asked} == {"you are Bearer First-Token-1"}
            keys["vault_token"] = "Second-Token-2"
            await called(servers, "vault_whoami")
            assert seen[-1] == "Bearer Second-Token-2"
            session = servers._sessions["vault"]
            async with session.call("whoami", {}, _nothing) as call:
                keys["vault_token"] = "Third-Token-3"
                await called(servers, "vault_whoami")
                assert call.client is not None
                assert session._retired
            assert seen[-1] == "Bearer Third-Token-3"
            assert not session._retired
        finally:
            await servers.close()


async def _nothing(progress: float, total: float | None, message: str | None) -> None:
    pass


@pytest.mark.parametrize(
    ("keys", "said"),
    [(Told(), "it needs the secret 'vault_token'"), (Told(vault_token="two\nlines-Canary"), "not allowed there")],
)
async def test_a_server_whose_secret_is_missing_or_unfit_is_not_reached_and_says_why(keys: Told, said: str) -> None:
    servers = McpServers({"vault": McpServer(url="http://127.0.0.1:9/mcp", headers=HEADERS)}, keys=keys)
    with pytest.raises(McpUnreachable, match=said) as refused:
        await servers.tools("vault")
    assert "Canary" not in str(refused.value)


@pytest.mark.parametrize(
    ("entry", "field"),
    [
        ("url: 'http://x/${secret:a}'", "url"),
        ("command: [x, '${secret:a}']", "command"),
        ("{url: 'http://x', headers: {A: '${HOME}'}}", "headers.A"),
        ("{url: 'http://x', headers: {A: '${secret:Not A Name}'}}", "headers.A"),
        ("{url: 'http://x', headers: {'${secret:a}': b}}", "headers"),
    ],
)
def test_a_secret_stands_in_values_of_headers_and_variables_and_nowhere_else(entry: str, field: str) -> None:
    taken = "mcp_servers: {a: {command: [x], env: {K: 'x-${secret:a}-${secret:b}'}}}"
    assert load_operator(taken, source="").mcp_servers["a"].filled(str.upper).env == {"K": "x-A-B"}
    text = f"mcp_servers: {{a: {entry if entry.startswith('{') else '{' + entry + '}'}}}"
    with pytest.raises(SpecError) as refused:
        load_operator(text, source="")
    assert any(field in problem.field for problem in refused.value.problems), refused.value
