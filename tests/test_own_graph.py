"""`stellwerk serve my_graph.py:graph`: somebody's graph, served as it is."""

import json
import sys
from pathlib import Path

import httpx2
import pytest

from stellwerk.agents.graphs.operator_file import read_operator
from stellwerk.agents.graphs.serve_targets import systems_of
from stellwerk.errors import SettingsError, SpecError
from stellwerk.settings import Settings
from tests.api.reading import round_with
from tests.conftest import running_server
from tests.crash.process import server_process

EXAMPLE = Path(__file__).parents[1] / "examples/own-graph"


@pytest.mark.parametrize("target", ["desk.py:graph", "langgraph.json"])
async def test_a_graph_is_served_under_its_name_with_its_own_state_and_its_graph_inside(
    target: str, tmp_path: Path
) -> None:
    own = systems_of([str(EXAMPLE / target)])
    assert set(own) == {"desk"}
    async with running_server(Settings(data=tmp_path), own=own) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=20) as client:
            told = await round_with(client, "desk", "I need a lamp")
    assert told[-1]["payload"]["result"] == "Noted: lamp, 20 euros."
    kinds = [one["payload"]["kind"] for one in told if one["type"] == "tool_start"]
    assert kinds == ["graph"]
    updates = {one["payload"]["node"]: one["payload"]["delta"] for one in told if one["type"] == "update"}
    assert updates["quote"] == {"quoted": ["lamp"]}
    assert updates["pricing"]["total"] == 20


async def test_a_graph_that_asks_waits_for_its_user(tmp_path: Path) -> None:
    own = systems_of([str(EXAMPLE / "desk.py:graph")])
    async with running_server(Settings(data=tmp_path), own=own) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=20) as client:
            told = await round_with(client, "desk", "I need a desk")
    (asked,) = [one["payload"] for one in told if one["type"] == "ask_user"]
    assert asked["question"] == "That would be 300 euros. Is it all right?"
    assert told[-1]["payload"]["status"] == "awaiting_user"


async def test_a_start_without_the_graph_says_how_to_serve_it_again(tmp_path: Path) -> None:
    own = systems_of([str(EXAMPLE / "desk.py:graph")])
    async with running_server(Settings(data=tmp_path), own=own):
        pass
    async with running_server(Settings(data=tmp_path)) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=20) as client:
            session = (await client.post("/sessions", json={"agent_system_id": "desk"})).json()
            refused = await client.post(f"/sessions/{session['id']}/messages", json={"text": "I need a lamp"})
    assert refused.status_code == 409
    assert "start it with `desk=path/file.py:graph` again, or remove the system" in refused.json()["detail"]


@pytest.mark.requirement("002.practice.graphs-publish-final-state")
async def test_a_graph_publishes_the_shape_of_its_final_state_also_as_a_sub_agent(tmp_path: Path) -> None:
    agents = [{"id": "lead", "tools": {"allow": ["sales"]}}]
    agents += [{"id": "sales", "role": "sub-agent", "kind": "graph", "graph": "desk"}]
    team = {"version": 1, "system": {"name": "team"}, "agents": agents}
    async with running_server(Settings(data=tmp_path), own=systems_of([str(EXAMPLE / "desk.py:graph")])) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=20) as client:
            assert (await client.post("/agent-systems", json=team)).status_code == 201
            (alone,) = (await client.get("/agent-systems/desk")).json()["agents"]
            below = (await client.get("/agent-systems/team")).json()["agents"]
    assert set(alone["output_schema"]["properties"]) == {"messages", "items", "total", "quoted"}
    assert alone["output_schema"]["properties"]["total"] == {"type": "integer"}
    assert {agent["id"]: agent.get("output_schema") for agent in below} == {
        "lead": None,
        "sales": alone["output_schema"],
    }


def test_two_graphs_of_one_name_are_refused_until_one_is_given_another() -> None:
    both = [str(EXAMPLE / "desk.py:graph"), str(EXAMPLE / "langgraph.json")]
    with pytest.raises(
        SettingsError, match=r"would be called 'desk'; give it another name, such as my-desk=.*desk.py:graph"
    ):
        systems_of(both)
    assert set(systems_of([f"help={both[0]}", both[1]])) == {"help", "desk"}


async def test_two_graphs_of_one_file_are_served_under_names_of_their_own(tmp_path: Path) -> None:
    own = systems_of([f"{name}={EXAMPLE}/desk.py:graph" for name in ("sales", "help")])
    async with running_server(Settings(data=tmp_path), own=own) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=20) as client:
            for name in ("sales", "help"):
                told = await round_with(client, name, "I need a lamp")
                assert told[-1]["payload"]["result"] == "Noted: lamp, 20 euros."


SYSTEM = {"version": 1, "system": {"name": "echo"}, "agents": [{"id": "a"}]}


async def test_an_agent_system_is_registered_at_the_start_under_the_name_that_it_has(tmp_path: Path) -> None:
    files = {name: tmp_path / f"mine.{name}" for name in ("yaml", "yml", "json")}
    for name, file in files.items():
        file.write_text(json.dumps(SYSTEM | {"system": {"name": name}}), "utf-8")
    own = systems_of([str(file) for file in files.values()])
    assert own == {name: str(file) for name, file in files.items()}
    async with running_server(Settings(data=tmp_path / "data"), own=own) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=20) as client:
            for name in files:
                assert (await round_with(client, name, "hello"))[-1]["payload"]["status"] == "completed"


async def test_an_agent_system_that_is_wrong_stops_the_start_with_all_that_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("version: 1\nsystem: {nme: echo}\nagents: [{id: a, max_stps: 1}]\n", "utf-8")
    with pytest.raises(SpecError) as refused:
        async with running_server(Settings(data=tmp_path / "data"), own=systems_of([str(file)])):
            pass
    assert [problem.field for problem in refused.value.problems] == [
        "system.name",
        "system.nme",
        "agents[0].max_stps",
    ]


@pytest.mark.parametrize(
    "target", ["desk.py", "desk.txt", "http://example.org", "=desk.py:graph", "nowhere.yaml", "a=b.yaml"]
)
def test_what_cannot_be_served_is_answered_with_everything_that_can(target: str) -> None:
    with pytest.raises(SettingsError) as refused:
        systems_of([target])
    if not target.startswith("="):
        for form in ("path/to/file.py:graph", "name=path", "system.yaml", "langgraph.json"):
            assert form in refused.value.message


@pytest.mark.parametrize(
    ("own", "remedy"),
    [
        ({"demo": "demo.py:graph"}, "give it another name, such as my-demo=demo.py:graph"),
        ({"demo": "mine.yaml"}, "choose another system.name"),
    ],
)
async def test_nothing_takes_the_place_of_the_demo_system(own: dict[str, str], remedy: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=f"would be called 'demo', like the demo system; {remedy}"):
        async with running_server(Settings(data=tmp_path), own=own):
            pass


async def test_the_operators_file_brings_tools_graphs_and_mcp_servers_wherever_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that the documentation quotes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    calls = [("notes_write", {"text": "Buy a lamp."}), ("notes_search", {"word": "lamp"}), ("stock", {})]
    steps = [*({"call": name, "args": args} for name, args in calls), {"say": "{result}"}]
    agent = {"id": "a", "tools": {"allow": [name for name, _ in calls]}, "model": {"script": [{"steps": steps}]}}
    (tmp_path / "clerk.json").write_text(json.dumps(SYSTEM | {"system": {"name": "clerk"}, "agents": [agent]}), "utf-8")
    settings = Settings(data=tmp_path / "data", config=EXAMPLE.parent / "operator.yaml")
    async with running_server(settings, own=systems_of(["clerk.json"])) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=20) as client:
            told = await round_with(client, "clerk", "go")
            desk = await round_with(client, "desk", "I need a lamp")
    results = [one["payload"]["result"] for one in told if one["type"] == "tool_end"]
    assert [result["kind"] for result in results] == ["text", "json", "table"]
    assert results[1]["data"] == {"result": ["Buy a lamp."]}
    assert desk[-1]["payload"]["result"] == "Noted: lamp, 20 euros."


async def test_an_operators_file_that_is_wrong_stops_the_start_with_every_reason(tmp_path: Path) -> None:
    config = tmp_path / "operator.yaml"
    config.write_text("tools: ['gone.py:tools', 'no_such_package:tool']\ngraphs: {shop: 'nowhere.py:graph'}\n", "utf-8")
    with pytest.raises(SettingsError) as refused:
        async with running_server(Settings(data=tmp_path / "data", config=config)):
            pass
    assert [line.split(": ")[0] for line in refused.value.message.splitlines()] == [
        f"{tmp_path}/gone.py:tools",
        "no_such_package:tool",
        f"{tmp_path}/nowhere.py:graph",
    ]


async def test_a_graph_of_the_command_line_does_not_replace_one_of_the_operators_file(tmp_path: Path) -> None:
    config, own = EXAMPLE.parent / "operator.yaml", systems_of([str(EXAMPLE / "desk.py:graph")])
    with pytest.raises(SettingsError, match="both .* of the operator's file and .* would be called 'desk'"):
        async with running_server(Settings(data=tmp_path, config=config), own=own):
            pass


def test_paths_in_the_operators_file_count_from_its_folder(tmp_path: Path) -> None:
    config = tmp_path / "operator.yaml"
    servers = "{a: {command: [x]}, b: {command: [x], cwd: sub}, c: {command: [x], cwd: /srv}, d: {url: 'http://x/mcp'}}"
    config.write_text(f"tools: ['a.py:b', '/c.py:d', 'e.f:g']\nmcp_servers: {servers}\n", "utf-8")
    operator = read_operator(config)
    assert operator.tools == [f"{tmp_path}/a.py:b", "/c.py:d", "e.f:g"]
    found = {name: server.cwd for name, server in operator.mcp_servers.items()}
    assert found == {"a": str(tmp_path), "b": f"{tmp_path}/sub", "c": "/srv", "d": None}


def test_a_kind_of_provider_that_is_not_known_is_told_with_its_place(tmp_path: Path) -> None:
    config = tmp_path / "operator.yaml"
    config.write_text("providers:\n  house: {kind: house}\n", "utf-8")
    with pytest.raises(SpecError, match=r"operator\.yaml:2:11: providers\.house\.kind: there is no kind") as refused:
        read_operator(config)
    assert "did you mean" not in str(refused.value)


LEAVING = """
import sys
from langgraph.graph import END, START, MessagesState, StateGraph

def leave(state):
    sys.exit("so long")

async def leave_too(state):
    sys.exit(3)

def graph_of(node):
    return StateGraph(MessagesState).add_node("leave", node).add_edge(START, "leave").add_edge("leave", END)

here, there = graph_of(leave), graph_of(leave_too)
"""


async def test_a_graph_that_calls_exit_ends_its_run_and_not_the_server(tmp_path: Path) -> None:
    (tmp_path / "leaving.py").write_text(LEAVING)
    serves = [f"{name}={tmp_path / 'leaving.py'}:{name}" for name in ("here", "there")]
    with server_process(tmp_path / "data", errors=tmp_path / "errors", serves=serves) as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=20) as client:
            for name in ("here", "there"):
                told = await round_with(client, name, "hello")
                assert (told[-1]["payload"]["status"], told[-1]["payload"]["code"]) == ("failed", "agent_failed")
            assert (await round_with(client, "demo", "weather"))[-1]["payload"]["status"] == "completed"
