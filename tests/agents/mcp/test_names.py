"""Names of tools: the server's name, the tool's, and nothing that our names cannot have."""

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter
from structlog.testing import capture_logs

from stellwerk.agents.mcp.servers import McpServers
from stellwerk.agents.mcp.tools import tool_name
from stellwerk.errors import MissingPackage, SettingsError
from stellwerk.spec.load import load_operator
from stellwerk.spec.operator import McpServer
from stellwerk.spec.script import Name
from tests.agents.mcp.conftest import RAW

SOMEWHERE = McpServer(url="http://127.0.0.1:9/mcp")
server_names = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9_-]{0,62}\Z")


@given(server_names, st.text())
def test_every_tool_of_every_server_gets_a_name_that_agents_can_use(server: str, tool: str) -> None:
    name = tool_name(server, tool)
    assert TypeAdapter(Name).validate_python(name) == name
    assert name.startswith(f"{server}_")


@given(st.lists(server_names, unique=True, max_size=4), st.text())
def test_a_name_tells_which_server_it_belongs_to(names: list[str], tool: str) -> None:
    try:
        servers = McpServers(dict.fromkeys(names, SOMEWHERE))
    except SettingsError:
        return
    assert [servers.server_of(tool_name(name, tool)) for name in names] == names


def test_servers_whose_tools_could_be_confused_are_refused() -> None:
    with pytest.raises(SettingsError, match="'a' and 'a_b' could have tools of one name; rename one"):
        McpServers({"a": SOMEWHERE, "a_b": SOMEWHERE})


async def test_a_name_that_two_tools_of_a_server_would_share_is_given_to_neither() -> None:
    servers = McpServers({"raw": McpServer(command=RAW)})
    with capture_logs() as logs:
        names = [tool.name for tool in await servers.tools("raw")]
    await servers.close()
    assert "raw_hello" in names
    assert "raw_get_it" not in names
    assert [line["tool"] for line in logs if line["event"] == "mcp_name_taken_twice"] == ["get.it", "get_it"]


def test_servers_without_the_package_for_them_are_refused_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "stellwerk.agents.mcp.session", None)
    with pytest.raises(MissingPackage, match=r"the MCP server 'lab' needs .* pip install 'path/to/stellwerk\[mcp\]'"):
        McpServers({"lab": SOMEWHERE})
    McpServers({})


def test_the_servers_of_the_documentation_can_be_registered() -> None:
    page = (Path(__file__).parents[3] / "docs/howto/mcp.md").read_text("utf-8")
    operator = load_operator(page.split("```yaml\n")[1].split("```")[0], source="mcp.md")
    servers = McpServers(operator.mcp_servers)
    assert [servers.server_of(name) for name in ("files_read_file", "shop_order", "other")] == ["files", "shop", None]
