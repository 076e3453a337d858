"""Projects in processes of their own: modules, variables and packages of one never meet those of another."""

import importlib.metadata
import json
import re
import sysconfig
import venv
from pathlib import Path
from typing import Any

import pytest
import structlog

from stellwerk.errors import BrokenReference, SettingsError
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


def packages_of(folder: Path) -> Path:
    return Path(sysconfig.get_path("purelib", "venv", {"base": str(folder), "platbase": str(folder)}))


def environment(folder: Path, *packages: str) -> Path:
    """A virtual environment with these packages and what they require, and nothing else."""
    venv.create(folder, with_pip=False, symlinks=True)
    place = packages_of(folder)
    pending, seen = [*packages], set[str]()
    while pending:
        name = pending.pop().lower().replace("_", "-")
        if name in seen:
            continue
        seen.add(name)
        try:
            found = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:  # for another Python or another system
            continue
        wanted = [each for each in found.requires or () if "extra ==" not in each]
        pending += [re.split(r"[^A-Za-z0-9._-]", each)[0] for each in wanted]
        for top in {each.parts[0] for each in found.files or () if each.parts[0] != ".."}:
            if not (place / top).exists() and top != "__pycache__":
                merge(Path(str(found.locate_file(top))), place / top)
    return folder


def merge(source: Path, link: Path) -> None:
    """A link to a package, or links to the parts of a namespace that several packages share."""
    if source.name == "langgraph":
        link.mkdir()
        for part in source.iterdir():
            (link / part.name).symlink_to(part)
    else:
        link.symlink_to(source)


ALONE = """
import importlib.util
import sys

from langgraph.graph import MessagesState, StateGraph


def say(state):
    missing = [name for name in ("fastapi", "uvicorn", "langchain", "jsonschema") if importlib.util.find_spec(name)]
    return {"messages": [("ai", f"{sys.prefix} {missing}")]}


graph = StateGraph(MessagesState).add_node("say", say).set_entry_point("say").compile()
"""


async def test_a_graph_runs_in_the_virtual_environment_of_its_project_which_has_nothing_of_ours(tmp_path: Path) -> None:
    folder = environment(tmp_path / "env", "langgraph", "langchain-core", "pydantic")
    write(tmp_path / "alone.py", ALONE)
    config = write(tmp_path / "operator.yaml", "isolate: {alone: {python: env}}")
    async with server(tmp_path / "data", f"alone={tmp_path}/alone.py:graph", isolate=False, config=config) as client:
        end = await said(client, "alone", "hello")
    assert end["result"] == f"{folder} []"


async def test_an_environment_that_lacks_packages_or_has_older_ones_is_named_with_the_remedy(tmp_path: Path) -> None:
    folder = environment(tmp_path / "env", "pydantic")
    write(packages_of(folder) / "langgraph-0.6.11.dist-info/METADATA", "Name: langgraph\nVersion: 0.6.11")
    write(tmp_path / "alone.py", ALONE)
    config = write(tmp_path / "operator.yaml", "isolate: {alone: {python: env/bin/python}}")
    with pytest.raises(BrokenReference) as refused:
        async with server(tmp_path / "data", f"alone={tmp_path}/alone.py:graph", isolate=False, config=config):
            pass
    assert "langgraph 0.6.11 is too old: a worker needs 1.0.6 or newer; " in str(refused.value)
    assert "langchain-core is not installed, and a worker needs 1.0 or newer. " in str(refused.value)
    assert f"Update the environment {folder}: pip install 'langgraph>=1.0.6' " in str(refused.value)


async def test_an_interpreter_that_is_not_there_stops_the_start(tmp_path: Path) -> None:
    config = write(tmp_path / "operator.yaml", "isolate: {all: {python: nowhere}}")
    with pytest.raises(SettingsError, match=r"isolate\.all\.python: there is no interpreter .*nowhere"):
        async with server(tmp_path / "data", target("other"), isolate=False, config=config):
            pass
