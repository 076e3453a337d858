"""Secrets in the entry of an MCP server: filled in when it is spoken with, with what is stored at that time."""

import asyncio

import pytest

from stellwerk.agents.mcp.servers import McpServers
from stellwerk.errors import McpUnreachable, SpecError
from stellwerk.spec.load import load_operator
from stellwerk.spec.operator import McpServer
from tests.agents.living import lives
from tests.agents.mcp.conftest import RAW
from tests.agents.mcp.shared import called
from tests.agents.mcp.vault import serving_vault

HEADERS = {"Authorization": "Bearer ${secret:vault_token}"}


class StaticSecrets(dict[str, str]):
    def find(self, secret: str) -> str | None:
        return self.get(secret)


async def test_a_header_has_the_secret_of_the_moment_and_calls_under_way_end_in_peace() -> None:
    keys = StaticSecrets(vault_token="First-Token-1")
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
                assert (await call.client.list_tools()).tools, "the old connection stays open for its call"
            assert seen[-1] == "Bearer Third-Token-3"
            with pytest.raises(RuntimeError):
                await call.client.list_tools(cache_mode="refresh")
        finally:
            await servers.close()


async def test_a_shutdown_also_closes_a_connection_that_was_replaced_during_a_call() -> None:
    keys = StaticSecrets(token="First-Token-1")
    servers = McpServers({"raw": McpServer(command=RAW, env={"TOKEN": "${secret:token}"})}, keys=keys)
    first = int(str((await called(servers, "raw_hello")).content))
    async with servers._sessions["raw"].call("hello", {}, _nothing):
        keys["token"] = "Second-Token-2"
        second = int(str((await called(servers, "raw_hello")).content))
        assert first != second and lives(first)
        await servers.close()
        assert not lives(first)
        assert not lives(second)


async def _nothing(progress: float, total: float | None, message: str | None) -> None:
    pass


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (StaticSecrets(), "it needs the secret 'vault_token'"),
        (StaticSecrets(vault_token="two\nlines-Canary"), "not allowed there"),
    ],
)
async def test_a_server_with_a_missing_or_invalid_secret_is_not_reached_and_the_error_names_the_reason(
    keys: StaticSecrets, said: str
) -> None:
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
def test_secrets_are_allowed_only_in_values_of_headers_and_variables(entry: str, field: str) -> None:
    taken = "mcp_servers: {a: {command: [x], env: {K: 'x-${secret:a}-${secret:b}'}}}"
    assert load_operator(taken, source="").mcp_servers["a"].filled(str.upper).env == {"K": "x-A-B"}
    text = f"mcp_servers: {{a: {entry if entry.startswith('{') else '{' + entry + '}'}}}"
    with pytest.raises(SpecError) as refused:
        load_operator(text, source="")
    assert any(field in problem.field for problem in refused.value.problems), refused.value
