"""A team's langgraph.json, as it is: its graphs, its variables, its folders; and what has no meaning here."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from stellwerk.agents.graphs.langgraph_json import read_langgraph_json
from stellwerk.agents.graphs.registry import discover
from stellwerk.errors import SettingsError

AGENT = """
import os
from team_desk.parts import builder

colour = os.environ["TEAM_COLOUR"]
size = os.environ["TEAM_SIZE"]
graph = builder.compile()
"""
PARTS = """
from langgraph.graph import MessagesState, StateGraph

builder = StateGraph(MessagesState)
builder.add_node("say", lambda state: {})
builder.set_entry_point("say")
"""


def project(folder: Path, **content: Any) -> Path:
    path = folder / "langgraph.json"
    path.write_text(json.dumps(content), "utf-8")
    return path


def team(folder: Path) -> Path:
    """The layout that LangGraph's own templates have."""
    package = folder / "src/team_desk"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "agent.py").write_text(AGENT, "utf-8")
    (package / "parts.py").write_text(PARTS, "utf-8")
    (folder / ".env").write_text("# of the team\nTEAM_COLOUR='light blue'\nexport TEAM_SIZE=7\nNOTHING\n", "utf-8")
    return project(
        folder,
        **{"$schema": "https://example.com/schema.json"},
        python_version="3.12",
        dependencies=["."],
        graphs={
            "desk": "./src/team_desk/agent.py:graph",
            "same": {"path": "team_desk.agent:graph", "description": "!"},
        },
        env=".env",
    )


def test_a_project_is_read_as_it_is(tmp_path: Path) -> None:
    found = read_langgraph_json(team(tmp_path))
    assert found.graphs == {
        "desk": f"{tmp_path}/src/team_desk/agent.py:graph",
        "same": "team_desk.agent:graph",
    }
    assert found.env == {"TEAM_COLOUR": "light blue", "TEAM_SIZE": "7"}
    assert found.folders == (tmp_path, tmp_path / "src")
    assert found.notes == ("langgraph.json: these keys have no meaning here and are ignored: python_version",)
    assert "light blue" not in repr(found), "variables may be secrets"


def test_the_code_of_a_project_finds_its_modules_and_its_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("TEAM_COLOUR", "TEAM_SIZE"):
        monkeypatch.setenv(name, "")
    monkeypatch.delenv("TEAM_COLOUR")
    monkeypatch.setenv("TEAM_SIZE", "what the server was started with")
    found = read_langgraph_json(team(tmp_path))
    found.adopt()
    graphs = discover(found.graphs)
    assert graphs.names() == ["desk", "same"]
    assert graphs.find("desk").source is graphs.find("same").source, "one module, however it is named"
    agent = sys.modules["team_desk.agent"]
    assert agent.colour == "light blue"
    assert agent.size == "what the server was started with", "the operator's own environment wins"


def test_variables_may_stand_in_the_file_itself(tmp_path: Path) -> None:
    path = project(tmp_path, graphs={"desk": "a.b:c"}, env={"SIZE": 7, "COLOUR": "blue"})
    assert read_langgraph_json(path).env == {"SIZE": "7", "COLOUR": "blue"}


def test_what_is_missing_around_a_project_is_said_and_does_no_harm(tmp_path: Path) -> None:
    path = project(tmp_path, graphs={"desk": "a.b:c"}, env="./.env", dependencies=["no-such-thing[extra]>=2", "."])
    (env,) = read_langgraph_json(path).notes
    assert f"env file {tmp_path}/.env does not exist" in env


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({}, "graphs: this is missing; add it"),
        ({"graphs": {}}, "graphs: this is empty; it needs at least one graph"),
        ({"graphs": []}, "graphs: found a list; expected a mapping"),
        ({"graphs": {"desk": 7}}, "graphs.desk: found 7; expected a text"),
        ({"graphs": {"desk": {"file": "x"}}}, "graphs.desk: found a mapping; expected a text"),
        ({"graphs": {"desk": "./agent.py"}}, "graphs.desk: './agent.py' names no object; write ./agent.py:graph"),
        ({"graphs": {"desk": "a:b"}, "env": 1}, "env: found 1; expected a text"),
        ({"graphs": {"desk": "a:b"}, "dependencies": "."}, "dependencies: found '.'; expected a list"),
        ({"graphs": {"desk": "a:b"}, "dependencies": ["./gone"]}, "dependencies: there is no folder .*/gone"),
    ],
)
def test_an_entry_without_meaning_is_named(tmp_path: Path, content: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError, match=f"langgraph.json, {says}"):
        read_langgraph_json(project(tmp_path, **content))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"{", "this is not JSON: "),
        (b"\xff", "this is not JSON: "),
        (b"[" * 100_000, "this is not JSON: "),
        (b"[]", "found a list; expected a mapping"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "langgraph.json"
    path.write_bytes(content)
    with pytest.raises(SettingsError, match=f"{path}: {says}"):
        read_langgraph_json(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="langgraph.json cannot be read: No such file"):
        read_langgraph_json(tmp_path / "langgraph.json")


def test_every_name_of_a_graph_becomes_an_id_and_a_changed_one_is_noted(tmp_path: Path) -> None:
    names = ["Deep Researcher", "Deep-Researcher", "demo", "研究", "a" * 70, "plain_one"]
    found = read_langgraph_json(project(tmp_path, graphs=dict.fromkeys(names, "a.b:c")))
    assert list(found.graphs) == ["Deep-Researcher-2", "Deep-Researcher", "demo-2", "graph", "a" * 60, "plain_one"]
    assert found.notes[0] == "langgraph.json: the graph 'Deep Researcher' is served as 'Deep-Researcher-2'"
    assert len(found.notes) == 4


def test_a_prefix_is_in_front_of_every_name(tmp_path: Path) -> None:
    path = project(tmp_path, graphs={"agent": "a.b:c", "my desk": "a.b:c", "demo": "a.b:c"})
    found = read_langgraph_json(path, prefix="team")
    assert list(found.graphs) == ["team-agent", "team-my-desk", "team-demo"]
    assert found.notes == ("langgraph.json: the graph 'my desk' is served as 'team-my-desk'",)


def test_a_project_with_auth_is_refused_unless_the_operator_ignores_it(tmp_path: Path) -> None:
    path = project(tmp_path, graphs={"desk": "a.b:c"}, auth={"path": "./auth.py:auth"})
    with pytest.raises(SettingsError, match="would open what its author closed; start with --ignore-auth"):
        read_langgraph_json(path)
    (note,) = read_langgraph_json(path, ignore_auth=True).notes
    assert note == "langgraph.json: these keys have no meaning here and are ignored: auth"
