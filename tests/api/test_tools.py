"""/tools over real HTTP."""

import sys
from pathlib import Path

import httpx2
import pytest

from stellwerk.settings import Settings
from tests.conftest import own_server

SERVER = Path(__file__).parents[2] / "examples/mcp/server.py"


@pytest.mark.requirement("004.tools.list", "004.tools.schemas-as-declared")
async def test_every_tool_is_listed_with_its_schema(client: httpx2.AsyncClient) -> None:
    tools = {tool["name"]: tool for tool in (await client.get("/tools")).json()["tools"]}
    assert list(tools) == sorted(tools)
    weather = tools["get_weather"]
    assert weather["input_schema"]["required"] == ["city"]
    assert weather["input_schema"]["properties"]["city"]["type"] == "string"
    for tool in tools.values():
        assert {"description", "aliases", "timeout", "effects", "untrusted", "idempotent"} <= tool.keys()
    assert {"ask_user", "plan_tasks", "write_report"} <= tools.keys()


@pytest.mark.requirement("004.tools.aliases")
async def test_a_tool_is_found_by_its_name_and_by_an_alias(tmp_path: Path) -> None:
    tool = tmp_path / "mine.py"
    text = 'import stellwerk\n\n@stellwerk.tool(aliases=["ours"], timeout=5)\ndef mine(a: str) -> str:\n    "Mine."\n'
    tool.write_text(text + "    return a\n", "utf-8")
    config = tmp_path / "operator.yaml"
    config.write_text(f"tools: ['{tool}:mine']\n", "utf-8")
    settings = Settings(data=tmp_path / "data", config=config)
    async with own_server(settings) as client:
        by_name, by_alias = [(await client.get(f"/tools/{name}")).json() for name in ("mine", "ours")]
    assert by_name == by_alias
    assert (by_name["aliases"], by_name["timeout"]) == (["ours"], 5)


async def test_an_unknown_tool_is_404(client: httpx2.AsyncClient) -> None:
    missing = await client.get("/tools/nothing")
    assert (missing.status_code, missing.json()["code"]) == (404, "unknown_tool")


async def test_tools_of_the_operators_mcp_servers_are_there_and_one_that_is_gone_harms_no_other(tmp_path: Path) -> None:
    config = tmp_path / "operator.yaml"
    config.write_text(
        f"mcp_servers:\n  notes:\n    command: ['{sys.executable}', '{SERVER}']\n"
        "  gone:\n    command: [/does/not/exist]\n",
        "utf-8",
    )
    settings = Settings(data=tmp_path / "data", config=config)
    async with own_server(settings) as client:
        note = (await client.get("/tools/notes_write")).json()
        assert note["input_schema"]["required"] == ["text"]
        names = [tool["name"] for tool in (await client.get("/tools")).json()["tools"]]
    assert "get_weather" in names
    assert not [name for name in names if name.startswith("gone_")]
