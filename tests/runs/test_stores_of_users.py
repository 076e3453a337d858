"""The store behind a server: scoped by user if the operator says so, with a warning if not, and searched by meaning."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
import structlog

from stellwerk.agents.graphs.serve_targets import systems_of
from stellwerk.cli.run import opened
from stellwerk.errors import NotFound, SettingsError
from stellwerk.settings import Settings
from stellwerk.spec.operator import Operator
from tests.api.reading import whole_round
from tests.conftest import running_server
from tests.runs.test_users import begin_as

GRAPHS = '''
from langgraph.config import get_store
from langgraph.graph import MessagesState, StateGraph


async def remembers(state):
    """Keeps what is said in one place for all, as many examples do."""
    store, said = get_store(), state["messages"][-1].text
    known = [item.value["text"] for item in await store.asearch(("notes",))]
    await store.aput(("notes",), said, {"text": said})
    return {"messages": [("ai", ", ".join(sorted(known)) or "nothing")]}


def finds(state):
    store, said = get_store(), state["messages"][-1].text
    for text in ("trams run on rails", "pizza needs cheese"):
        store.put(("facts",), text, {"text": text})
    best = store.search(("facts",), query=said, limit=1)[0]
    return {"messages": [("ai", f"{best.value['text']} {best.score:.2f}" if best.score else "no score")]}


def made(node):
    return StateGraph(MessagesState).add_node("node", node).set_entry_point("node").compile()


memory, other, search = made(remembers), made(remembers), made(finds)


def per_run(config):
    return made(remembers)


quiet = made(lambda state: {"messages": [("ai", "hm")]})
'''
EMBEDDING = """
def embed(texts):
    return [[float(text.count(letter)) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts]
"""
OFFICE = {
    "version": 1,
    "system": {"name": "office"},
    "agents": [
        {
            "id": "clerk",
            "model": {"script": [{"steps": [{"call": "keeper", "args": {"task": "{message}"}}, {"say": "{result}"}]}]},
            "tools": {"allow": ["keeper"]},
        },
        {"id": "keeper", "role": "sub-agent", "kind": "graph", "graph": "memory", "description": "Remembers."},
    ],
}


@asynccontextmanager
async def served(folder: Path, operator: str = "", *names: str) -> AsyncIterator[httpx2.AsyncClient]:
    (folder / "graphs.py").write_text(GRAPHS, "utf-8")
    (folder / "embedding.py").write_text(EMBEDDING, "utf-8")
    config = folder / "operator.yaml"
    config.write_text(operator or "{}", "utf-8")
    own = {name: f"{folder / 'graphs.py'}:{name}" for name in names or ("memory", "other", "search", "quiet")}
    async with running_server(Settings(data=folder / "data", config=config), own=own) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
            yield client


async def says(client: httpx2.AsyncClient, system: str, user: str | None, text: str) -> str:
    end = (await whole_round(client, await begin_as(client, system, user), text))[-1]["payload"]
    return str(end.get("result") or end.get("reason"))


async def test_a_scope_gives_each_user_a_store_of_their_own_and_the_graph_does_not_change(tmp_path: Path) -> None:
    async with served(tmp_path, "{store: {scope: {memory: user}}}") as client:
        assert await says(client, "memory", "ann@example.com", "I earn 90000") == "nothing"
        assert await says(client, "memory", "bob", "Hi") == "nothing"
        assert await says(client, "other", "ann@example.com", "shared") == "nothing"
        assert await says(client, "memory", "ann@example.com", "Again") == "I earn 90000"
    async with served(tmp_path, "{store: {scope: {all: user}}}") as client:
        assert await says(client, "other", "ann@example.com", "Hm") == "Again, I earn 90000"
        assert await says(client, "other", "bob", "Hm") == "Hi"


async def test_a_session_without_a_user_is_told_what_a_scoped_graph_needs(tmp_path: Path) -> None:
    async with served(tmp_path, "{store: {scope: {memory: user}}}") as client:
        said = await says(client, "memory", None, "Hi")
        assert "is scoped by user" in said and "send user_id with POST /sessions" in said


async def test_a_scoped_graph_below_an_agent_is_scoped_too(tmp_path: Path) -> None:
    async with served(tmp_path, "{store: {scope: {memory: user}}}") as client:
        registered = await client.post("/agent-systems", json=OFFICE)
        assert registered.status_code == 201, registered.text
        assert await says(client, "office", "ann", "I earn 90000") == "nothing"
        assert await says(client, "office", "bob", "Hi") == "nothing"
        assert await says(client, "memory", "ann", "Hi") == "I earn 90000"


async def test_a_graph_that_is_made_for_each_run_is_scoped_too_and_warned_of_once(tmp_path: Path) -> None:
    async with served(tmp_path, "{store: {scope: {per_run: user}}}", "per_run") as client:
        assert await says(client, "per_run", "ann", "I earn 90000") == "nothing"
        assert await says(client, "per_run", "bob", "Hi") == "nothing"
        assert await says(client, "per_run", "ann", "Hi") == "I earn 90000"
    with structlog.testing.capture_logs() as logs:
        async with served(tmp_path, "{}", "per_run") as client:
            for user in ("ann", "bob"):
                await says(client, "per_run", user, "Hi")
    assert len([line for line in logs if line["event"] == "store_shared_by_users"]) == 1


@pytest.mark.parametrize(
    ("operator", "warned"),
    [
        ("{}", ["memory", "other", "search"]),
        ("{store: {scope: {memory: user, other: shared}}}", ["search"]),
        ("{store: {scope: {all: shared}}}", []),
    ],
)
async def test_graphs_whose_users_share_a_store_are_named_at_the_start_unless_that_is_decided(
    tmp_path: Path, operator: str, warned: list[str]
) -> None:
    with structlog.testing.capture_logs() as logs:
        async with served(tmp_path, operator):
            pass
    lines = [line for line in logs if line["event"] == "store_shared_by_users"]
    assert [(line["graph"], line["log_level"]) for line in lines] == [(name, "warning") for name in warned]


async def test_a_scope_of_a_graph_that_is_not_there_is_an_error_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no graph 'memry'; did you mean 'memory'?"):
        async with served(tmp_path, "{store: {scope: {memry: user}}}"):
            pass


@pytest.mark.only_sqlite
@pytest.mark.parametrize("scope", ["shared", "user"])
async def test_an_index_of_the_operators_file_gives_searches_real_scores(tmp_path: Path, scope: str) -> None:
    index = "index: {embed: 'embedding.py:embed', dims: 26, fields: [text]}"
    async with served(tmp_path, f"{{store: {{{index}, scope: {{all: {scope}}}}}}}") as client:
        assert await says(client, "search", "ann", "rails of trams") == "trams run on rails 0.86"
        assert await says(client, "search", "ann", "cheese") == "pizza needs cheese 0.87"
        found = await client.post(
            "/store/items/search",
            json={"query": "pizza", "limit": 1} | ({"user_id": "ann"} if scope == "user" else {}),
        )
        [item] = found.json()["items"]
        assert item["key"] == "pizza needs cheese" and item["score"] == pytest.approx(0.418, abs=0.001)


@pytest.mark.only_sqlite
async def test_an_index_of_a_langgraph_json_gives_searches_real_scores(tmp_path: Path) -> None:
    (tmp_path / "graphs.py").write_text(GRAPHS, "utf-8")
    (tmp_path / "embedding.py").write_text(EMBEDDING, "utf-8")
    index = {"embed": "./embedding.py:embed", "dims": 26, "fields": ["text"]}
    project = {"graphs": {"search": "./graphs.py:search"}, "store": {"index": index, "x": 1}}
    (tmp_path / "langgraph.json").write_text(json.dumps(project), "utf-8")
    with structlog.testing.capture_logs() as logs:
        own = systems_of([str(tmp_path / "langgraph.json")])
    [note] = [line["note"] for line in logs if line["event"] == "langgraph_json"]
    assert note.endswith("are ignored: store.x")
    async with running_server(Settings(data=tmp_path / "data"), own=own) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
            assert await says(client, "search", None, "rails of trams") == "trams run on rails 0.86"
    async with opened(f"{tmp_path / 'langgraph.json'}:search", Operator(), pytest.fail) as agent:
        assert await agent.run("rails of trams") == "trams run on rails 0.86"


async def test_two_projects_with_different_indexes_are_refused(tmp_path: Path) -> None:
    for name, dims in (("one", 26), ("two", 3)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "graphs.py").write_text(GRAPHS, "utf-8")
        store = {"index": {"embed": "openai:text-embedding-3-small", "dims": dims}}
        content = {"graphs": {name: "./graphs.py:search"}, "store": store}
        (folder / "langgraph.json").write_text(json.dumps(content), "utf-8")
    with pytest.raises(SettingsError, match="have different indexes under store.index; the server has one setting"):
        systems_of([f"{name}={tmp_path / name / 'langgraph.json'}" for name in ("one", "two")])


async def test_an_index_with_the_wrong_size_keeps_the_server_from_starting_and_names_the_right_one(
    tmp_path: Path,
) -> None:
    with pytest.raises(SettingsError, match=r"store.index: .*embedding.py:embed gives vectors of 26.*set dims to 26"):
        async with served(tmp_path, "{store: {index: {embed: 'embedding.py:embed', dims: 1536}}}"):
            pass
