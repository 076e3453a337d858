"""What a server knows of itself when an agent system is checked: effects of tools, and packages that are missing."""

import sys
from pathlib import Path

import pytest

from stellwerk.agents.build.factory import AgentFactory
from stellwerk.agents.build.models import chat_model, missing_packages
from stellwerk.agents.build.resources import Resources
from stellwerk.agents.mcp.servers import McpServers
from stellwerk.agents.tools.registry import discover
from stellwerk.errors import SpecError, UnknownProvider
from stellwerk.spec.load import load_system
from stellwerk.spec.model import ModelSpec
from stellwerk.spec.operator import McpServer, Provider

EXAMPLES = Path(__file__).parents[2] / "examples"


async def test_effects_are_those_that_tools_and_mcp_servers_declare() -> None:
    server = McpServer(command=[sys.executable, str(EXAMPLES / "mcp/server.py")])
    mcp = McpServers({"notes": server})
    resources = Resources(tools=discover([f"{EXAMPLES}/tools/shop.py:tools"]), mcp=mcp)
    try:
        effects = (await resources.catalogue(["notes_write"])).effects
        agent = (
            "{id: a, effects: [read], tools: {allow: [stock, plan_tasks, notes_search, notes_write, print_invoice]}}"
        )
        loaded = load_system(f"version: 1\nsystem: {{name: s}}\nagents: [{agent}]\n", source="s.yaml")
        with pytest.raises(SpecError) as refused:
            await AgentFactory(resources).admitted(loaded)
    finally:
        await mcp.close()
    assert {name: effects[name] for name in ("list_stock", "print_invoice", "notes_search", "notes_write")} == {
        "list_stock": "read",
        "print_invoice": "external",
        "notes_search": "read",
        "notes_write": "write",
    }
    assert [problem.field for problem in refused.value.problems] == [
        "agents[0].tools.allow[3]",
        "agents[0].tools.allow[4]",
    ]


async def test_a_provider_without_its_package_is_known_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    house = {"house": Provider(kind="groq")}
    missing = missing_packages(house)
    assert (missing["groq"], missing["house"]) == ("langchain-groq", "langchain-groq")
    assert "openai" not in missing
    monkeypatch.setitem(sys.modules, "langchain_openai", None)
    assert missing_packages({})["openai"] == "path/to/stellwerk[openai]"
    loaded = load_system(
        "version: 1\nsystem: {name: s}\nagents: [{id: a, model: {provider: groq, model: x}}]\n", source="s.yaml"
    )
    with pytest.raises(SpecError, match=r"s\.yaml:3:26: agents\[0\]\.model\.provider: .* pip install 'langchain-groq'"):
        await AgentFactory().admitted(loaded)


def test_a_kind_that_is_the_providers_own_name_is_not_suggested_again() -> None:
    with pytest.raises(UnknownProvider) as refused:
        chat_model(ModelSpec(provider="house", model="x"), providers={"house": Provider(kind="house")}, keys=None)  # type: ignore[arg-type]
    assert "did you mean" not in str(refused.value)
