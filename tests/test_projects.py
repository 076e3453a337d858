"""Projects as they are: graphs that cannot be used beside those that can, and two projects on one server."""

import json
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
import structlog

from stellwerk.agents.graphs.serve_targets import systems_of
from stellwerk.errors import SettingsError
from stellwerk.settings import Settings
from tests.api.reading import round_with
from tests.conftest import running_server
from tests.crash.process import server_process

SAYS = """
from langgraph.graph import MessagesState, StateGraph

graph = (
    StateGraph(MessagesState)
    .add_node("say", lambda state: {"messages": [("ai", WORD)]})
    .set_entry_point("say")
    .compile()
)
"""


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def project(folder: Path, graphs: dict[str, str], **more: Any) -> str:
    content = {"graphs": graphs, "dependencies": ["."], **more}
    return str(write(folder / "langgraph.json", json.dumps(content)))


def mixed(folder: Path) -> str:
    """A project of which one graph can be used, and three cannot, each for another reason."""
    write(folder / "good.py", f"WORD = 'fine'\n{SAYS}")
    write(folder / "broken.py", "import no_such_package")
    write(folder / "factory.py", "def make():\n    raise ValueError('no database at 10.0.0.1')")
    return project(
        folder,
        {
            "good": "./good.py:graph",
            "Deep Researcher": "./broken.py:graph",
            "made": "./factory.py:make",
            "script": "./agent.ts:graph",
        },
    )


async def test_graphs_that_cannot_be_used_are_listed_with_their_reasons_and_the_others_are_served(
    tmp_path: Path,
) -> None:
    own = systems_of([mixed(tmp_path / "team")])
    with structlog.testing.capture_logs() as logs:
        async with running_server(Settings(data=tmp_path / "data"), own=own) as address:
            async with httpx2.AsyncClient(base_url=address, timeout=20) as client:
                served = await round_with(client, "good", "hello")
                listed = (await client.get("/agent-systems")).json()["agent_systems"]
                shown = (await client.get("/agent-systems/made")).json()
                session = (await client.post("/sessions", json={"agent_system_id": "Deep-Researcher"})).json()
                refused = await client.post(f"/sessions/{session['id']}/messages", json={"text": "hello"})
                agent = {"id": "a", "kind": "graph", "graph": "script"}
                team = {"version": 1, "system": {"name": "team"}, "agents": [agent]}
                registered = await client.post("/agent-systems", json=team)
    assert served[-1]["payload"]["result"] == "fine"
    reasons = {one["id"]: one.get("unusable") for one in listed}
    assert reasons["good"] is None
    assert "No module named 'no_such_package'" in reasons["Deep-Researcher"]
    assert "ValueError: no database at 10.0.0.1" in reasons["made"]
    assert "is JavaScript" in reasons["script"]
    (problem,) = shown["problems"]
    assert problem["message"] == reasons["made"]
    assert (refused.status_code, refused.json()["code"]) == (409, "graph_unusable")
    assert "No module named 'no_such_package'" in refused.json()["detail"]
    assert (registered.status_code, registered.json()["code"]) == (422, "invalid_system")
    logged = {line["system"]: line["reason"] for line in logs if line["event"] == "graph_unusable"}
    assert logged == {name: reason for name, reason in reasons.items() if reason is not None}


async def test_a_start_of_which_no_graph_can_be_used_is_refused_with_all_reasons(tmp_path: Path) -> None:
    folder = tmp_path / "team"
    mixed(folder)
    own = systems_of([project(folder, {"made": "./factory.py:make", "broken": "./broken.py:graph"})])
    with pytest.raises(SettingsError) as refused:
        async with running_server(Settings(data=tmp_path / "data"), own=own):
            pass
    first, second = refused.value.message.splitlines()
    assert first.startswith(f"{folder}/factory.py:make: making the graph failed: ValueError")
    assert second.startswith(f"{folder}/broken.py:graph: importing it failed: ModuleNotFoundError")


async def test_a_factory_that_fails_at_the_start_is_tried_again_with_the_next_message(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    text = f"""
from pathlib import Path
{SAYS}
WORD = "at last"

def make():
    if not Path({str(ready)!r}).exists():
        raise ConnectionError("not yet")
    return graph
"""
    late, early = write(tmp_path / "late.py", text), write(tmp_path / "early.py", f"WORD = 'fine'\n{SAYS}")
    own = systems_of([f"{late}:make", f"{early}:graph"])
    async with running_server(Settings(data=tmp_path / "data"), own=own) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=20) as client:
            sid = (await client.post("/sessions", json={"agent_system_id": "late"})).json()["id"]
            refused = await client.post(f"/sessions/{sid}/messages", json={"text": "hello"})
            assert "ConnectionError: not yet" in refused.json()["detail"]
            ready.touch()
            assert (await round_with(client, "late", "hello"))[-1]["payload"]["result"] == "at last"
            listed = (await client.get("/agent-systems")).json()["agent_systems"]
    assert [one for one in listed if "unusable" in one] == []


def twin(folder: Path, word: str) -> str:
    """The layout of LangGraph's own template, with every form of import, also in a function."""
    package = folder / "src/twin_agent"
    write(package / "__init__.py", "")
    write(package / "words.py", f"WORD = {word!r}")
    write(package / "late.py", f"LATE = {word!r}")
    write(folder / "twin_shared.py", f"SHARED = {word!r}")
    write(
        package / "graph.py",
        """
import twin_agent.words
import twin_shared
from dataclasses import dataclass
from langgraph.graph import MessagesState, StateGraph
from twin_agent import words
from twin_agent.words import WORD
from .words import WORD as RELATIVE

@dataclass
class Note:
    text: str

class State(MessagesState):
    note: Note

def say(state):
    from twin_agent.late import LATE
    found = [WORD, RELATIVE, words.WORD, twin_agent.words.WORD, twin_shared.SHARED, LATE]
    earlier = [state["note"].text] if state.get("note") else []
    return {"messages": [("ai", " ".join(earlier + found))], "note": Note(f"noted by {WORD}")}

graph = StateGraph(State).add_node("say", say).set_entry_point("say").compile()
""",
    )
    return project(folder, {"agent": "./src/twin_agent/graph.py:graph", "named": "twin_agent.graph:graph"})


async def test_two_projects_of_one_template_are_served_side_by_side(tmp_path: Path) -> None:
    projects = {word: twin(tmp_path / word, word) for word in ("left", "right")}
    own = systems_of([f"{word}={path}" for word, path in projects.items()])
    assert list(own) == ["left-agent", "left-named", "right-agent", "right-named"]
    async with running_server(Settings(data=tmp_path / "data"), own=own) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=20) as client:
            for name in own:
                word = name.partition("-")[0]
                sid = (await client.post("/sessions", json={"agent_system_id": name})).json()["id"]
                for expected in (" ".join([word] * 6), " ".join([f"noted by {word}", *[word] * 6])):
                    accepted = (await client.post(f"/sessions/{sid}/messages", json={"text": "hello"})).json()
                    stream = f"/sessions/{sid}/stream?until=run_end&after={accepted['after']}"
                    told = await client.get(stream, headers={"accept": "application/x-ndjson"})
                    assert json.loads(told.text.splitlines()[-1])["payload"]["result"] == expected


def test_two_projects_with_graphs_of_one_name_are_refused_with_the_remedy(tmp_path: Path) -> None:
    one, other = (project(tmp_path / name, {"agent": "a.b:c"}) for name in ("one", "other"))
    with pytest.raises(SettingsError, match=f"would be called 'agent'; .*, or its project a prefix: my={other}"):
        systems_of([one, other])
    with pytest.raises(SettingsError, match="cannot be called 'my team'"):
        systems_of([f"my team={one}"])


def test_variables_and_modules_that_two_projects_share_are_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("TWIN_COLOUR", "TWIN_SIZE"):
        monkeypatch.setenv(name, "")  # is taken back behind the test
    one, other = twin(tmp_path / "one", "one"), twin(tmp_path / "other", "other")
    project(tmp_path / "one", {"a": "a.b:c"}, env={"TWIN_COLOUR": "blue", "TWIN_SIZE": "7"})
    project(tmp_path / "other", {"b": "a.b:c"}, env={"TWIN_COLOUR": "red", "TWIN_SIZE": "7"})

    def notes(*targets: str) -> list[str]:
        with structlog.testing.capture_logs() as logs:
            systems_of(targets)
        return [line["note"] for line in logs]

    variables = f"beside {one}, its variables have other values there, which are used: TWIN_COLOUR"
    assert notes(one, f"apart={other}") == [variables]
    first, second = notes(one, other)
    assert first == variables
    assert second.startswith(f"beside {one}, modules have the same names, and one of each is used: twin_agent, twin_")


async def test_reasons_of_the_operators_code_are_not_for_other_tenants(tmp_path: Path) -> None:
    own = systems_of([mixed(tmp_path / "team")])
    async with running_server(Settings(data=tmp_path / "data"), own=own) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=20) as operator:
            made = await operator.post("/keys", json={"name": "first", "role": "admin"})
            operator.headers["Authorization"] = f"Bearer {made.json()['token']}"
            assert (await operator.post("/tenants", json={"name": "acme"})).is_success
            key = {"name": "admin", "tenant": "acme", "role": "admin"}
            token = (await operator.post("/keys", json=key)).json()["token"]
        async with httpx2.AsyncClient(base_url=address, timeout=20) as client:
            client.headers["Authorization"] = f"Bearer {token}"
            listed = (await client.get("/agent-systems")).json()["agent_systems"]
            shown = (await client.get("/agent-systems/made")).json()
            session = (await client.post("/sessions", json={"agent_system_id": "made"})).json()
            refused = (await client.post(f"/sessions/{session['id']}/messages", json={"text": "hello"})).json()
    reasons = [one["unusable"] for one in listed if "unusable" in one]
    reasons += [shown["problems"][0]["message"], refused["detail"]]
    assert len(reasons) == 5
    for reason in reasons:
        assert reason.endswith("a graph of the operator cannot be loaded; the server's log has the reason")


async def test_auth_of_a_project_is_ignored_only_if_the_operator_asks_for_it(tmp_path: Path) -> None:
    write(tmp_path / "good.py", f"WORD = 'fine'\n{SAYS}")
    target = project(tmp_path, {"good": "./good.py:graph"}, auth={"path": "./auth.py:auth"})
    with pytest.raises(SettingsError, match="its key 'auth' guards the graphs"):
        systems_of([target])
    with server_process(tmp_path / "data", serves=[target], errors=tmp_path / "errors", ignore_auth=True) as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=20) as client:
            assert (await round_with(client, "good", "hello"))[-1]["payload"]["result"] == "fine"
