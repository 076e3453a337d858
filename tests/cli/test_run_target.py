"""What `stellwerk run` can be pointed at, and what it says of everything else."""

import json
from pathlib import Path

import pytest

from stellwerk.cli.run import opened
from stellwerk.errors import StellwerkError
from stellwerk.spec.operator import Operator

EXAMPLE = Path(__file__).parents[2] / "examples/own-graph"
SYSTEM = {"version": 1, "system": {"name": "piped"}, "agents": [{"id": "a"}]}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for file in ("system.json", "system.yaml"):
        (tmp_path / file).write_text(json.dumps(SYSTEM))
    (tmp_path / "wrong.yaml").write_text("version: 2\n")
    (tmp_path / "two").mkdir()
    project = {"graphs": {"one": "./a.py:a", "other": "./b.py:b"}}
    (tmp_path / "two/langgraph.json").write_text(json.dumps(project))
    return tmp_path


@pytest.mark.parametrize(
    "target, name",
    [
        (f"{EXAMPLE}/desk.py:graph", "desk"),
        (f"{EXAMPLE}/langgraph.json", "desk"),
        (f"{EXAMPLE}/langgraph.json:desk", "desk"),
        ("system.json", "a"),
        ("system.yaml", "a"),
        ("demo", "assistant"),
    ],
)
async def test_systems_graphs_and_projects_are_opened(target: str, name: str, folder: Path) -> None:
    async with opened(target, Operator(), pytest.fail) as agent:
        assert agent.name == name


@pytest.mark.parametrize(
    "target, complaint",
    [
        ("nowhere.yaml", "cannot read nowhere.yaml: No such file or directory; write one of these:"),
        ("my_graph.py", "'my_graph.py' is nothing that can be run; write one of these:\n  path/to/file.py:graph"),
        ("system.yaml:a", "system.yaml is an agent system and runs as a whole; leave out :a"),
        ("nowhere.py:graph", "there is no file"),
        ("two/langgraph.json", "has several graphs; choose one: two/langgraph.json:one, two/langgraph.json:other"),
        ("two/langgraph.json:third", "has no graph 'third'; it has: one, other"),
        ("wrong.yaml", "wrong.yaml:1:"),
    ],
)
async def test_anything_else_is_refused_with_what_to_do(target: str, complaint: str, folder: Path) -> None:
    with pytest.raises(StellwerkError) as caught:
        async with opened(target, Operator(), pytest.fail):
            pass
    assert complaint in caught.value.message


async def test_of_a_project_only_the_graph_that_is_run_is_imported(tmp_path: Path) -> None:
    project = {"graphs": {"desk": f"{EXAMPLE}/desk.py:graph", "broken": "./broken.py:graph"}}
    (tmp_path / "langgraph.json").write_text(json.dumps(project))
    (tmp_path / "broken.py").write_text("raise RuntimeError('imported')")
    async with opened(f"{tmp_path}/langgraph.json:desk", Operator(), pytest.fail) as agent:
        assert await agent.run("I need a lamp") == "Noted: lamp, 20 euros."
