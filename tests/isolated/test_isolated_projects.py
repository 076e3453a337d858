"""Projects in processes of their own: modules, variables and packages of one never meet those of another."""

import json
from pathlib import Path
from typing import Any

import pytest
import structlog

from stellwerk.errors import SettingsError
from tests.isolated.serving import said, server, target

SAYS = """
import os
from langgraph.graph import MessagesState, StateGraph
from agent.words import word

graph = (
    StateGraph(MessagesState)
    .add_node("say", lambda state: {"messages": [("ai", f"{word()} {os.environ['WORD']}")]})
    .set_entry_point("say")
    .compile()
)
"""


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def project(folder: Path, name: str, word: str) -> str:
    """A project like LangGraph's own template; its modules have the names of every other project's."""
    write(folder / "src/agent/__init__.py", "")
    write(folder / "src/agent/graph.py", SAYS)
    write(folder / "src/agent/words.py", f"def word():\n    return {word!r}")
    content = {"graphs": {name: "./src/agent/graph.py:graph"}, "dependencies": ["."], "env": {"WORD": f"{word}!"}}
    return str(write(folder / "langgraph.json", json.dumps(content)))


async def test_two_projects_with_the_same_modules_and_variables_are_served_side_by_side(tmp_path: Path) -> None:
    targets = [project(tmp_path / name, name, name) for name in ("one", "two")]
    with structlog.testing.capture_logs() as logs:
        async with server(tmp_path / "data", *targets) as client:
            ends = [await said(client, name, "hello") for name in ("one", "two")]
    assert [end["result"] for end in ends] == ["one one!", "two two!"]
    assert not [line for line in logs if line["event"] == "langgraph_json"]


async def test_a_graph_that_cannot_be_imported_is_listed_with_its_reason_and_the_others_are_served(
    tmp_path: Path,
) -> None:
    write(tmp_path / "broken.py", "import no_such_package")
    async with server(tmp_path / "data", f"broken={tmp_path}/broken.py:graph", target("other")) as client:
        listed = (await client.get("/agent-systems")).json()["agent_systems"]
        end = await said(client, "other", "hello")
    assert end["status"] == "completed"
    (reason,) = [one["unusable"] for one in listed if one["id"] == "broken"]
    assert "No module named 'no_such_package'" in reason


async def test_a_graph_that_kills_its_process_while_it_is_imported_keeps_no_other_from_being_served(
    tmp_path: Path,
) -> None:
    write(tmp_path / "fatal.py", "import ctypes\nctypes.string_at(0)")
    async with server(tmp_path / "data", f"fatal={tmp_path}/fatal.py:graph", target("other")) as client:
        listed = (await client.get("/agent-systems")).json()["agent_systems"]
        end = await said(client, "other", "hello")
    assert end["status"] == "completed"
    (reason,) = [one["unusable"] for one in listed if one["id"] == "fatal"]
    assert "SIGSEGV" in reason


async def test_an_isolated_graph_cannot_be_a_sub_agent(tmp_path: Path) -> None:
    agents: list[dict[str, Any]] = [{"id": "lead", "tools": {"allow": ["below"]}}]
    agents += [{"id": "below", "role": "sub-agent", "kind": "graph", "graph": "other"}]
    async with server(tmp_path, target("other")) as client:
        team = {"version": 1, "system": {"name": "team"}, "agents": agents}
        refused = await client.post("/agent-systems", json=team)
    assert refused.status_code == 422
    assert "has a process of its own, so it cannot be a sub-agent" in refused.text


async def test_an_interpreter_that_is_not_there_stops_the_start(tmp_path: Path) -> None:
    config = write(tmp_path / "operator.yaml", "isolate: {all: {python: nowhere}}")
    with pytest.raises(SettingsError, match=r"isolate\.all\.python: there is no interpreter .*nowhere"):
        async with server(tmp_path / "data", target("other"), isolate=False, config=config):
            pass
