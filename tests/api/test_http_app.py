"""An app of a LangGraph project beside the server: ``http.app`` of langgraph.json."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from stellwerk.agents.graphs.serve_targets import http_app_of, systems_of
from stellwerk.errors import BrokenReference, SettingsError
from stellwerk.settings import Settings
from tests.conftest import running_server

APP = """
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Request
from langgraph.graph import MessagesState, StateGraph

graph = StateGraph(MessagesState).add_node("say", lambda state: {}).set_entry_point("say").compile()

@asynccontextmanager
async def lifespan(app):
    yield {"pool": "open"}
    Path(__file__).with_name("closed").touch()

app = FastAPI(lifespan=lifespan)

@app.get("/hello")
def hello(request: Request):
    user = request.scope.get("user")
    return {"pool": request.state.pool, "user": user and user.display_name, "path": request.url.path}

@app.post("/hook")
async def hook(request: Request):
    return await request.json()

@app.get("/sessions")
def sessions():
    return "never reached"

not_an_app = 1
"""


def project(folder: Path, **http: Any) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "web.py").write_text(APP, "utf-8")
    content = {"graphs": {folder.name: "./web.py:graph"}, "http": {"app": "./web.py:app", **http}}
    (folder / "langgraph.json").write_text(json.dumps(content), "utf-8")
    return str(folder / "langgraph.json")


@asynccontextmanager
async def served(folder: Path, target: str) -> AsyncIterator[httpx2.AsyncClient]:
    own = systems_of([target])
    async with running_server(Settings(data=folder / "data"), own=own, http_app=http_app_of([target])) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=20) as client:
            yield client


async def test_its_routes_are_beside_ours_and_its_lifespan_runs(tmp_path: Path) -> None:
    async with served(tmp_path, project(tmp_path / "team")) as client:
        said = (await client.get("/hello")).json()
        posted = await client.post("/hook", json={"a": 1})
        ours = await client.get("/sessions")
        unknown = await client.get("/nothing")
        assert not (tmp_path / "team/closed").exists()
    assert (said["pool"], said["path"]) == ("open", "/hello")
    assert (posted.status_code, posted.json()) == (200, {"a": 1})
    assert "sessions" in ours.json()
    assert (unknown.status_code, unknown.json()) == (404, {"detail": "Not Found"})
    assert "content-security-policy" not in posted.headers
    assert (tmp_path / "team/closed").exists()


@pytest.mark.parametrize(("http", "status"), [({}, 401), ({"enable_custom_route_auth": False}, 200)])
async def test_it_asks_for_a_key_of_this_server_unless_its_file_opens_it(
    tmp_path: Path, http: dict[str, Any], status: int
) -> None:
    async with served(tmp_path, project(tmp_path / "team", **http)) as client:
        await client.post("/keys", json={"name": "first", "role": "admin"})
        stranger = await client.get("/hello", headers={"Authorization": "Bearer sw_nothing"})
        assert (await client.get("/sessions", headers={"Authorization": "Bearer sw_nothing"})).status_code == 401
    assert stranger.status_code == status


async def test_who_asks_is_known_to_it_and_a_key_that_may_only_read_changes_nothing(tmp_path: Path) -> None:
    async with served(tmp_path, project(tmp_path / "team")) as client:

        async def key(**about: Any) -> dict[str, str]:
            made = await client.post("/keys", json={"name": "k", "role": "member", "user": "ann", **about})
            return {"Authorization": f"Bearer {made.json()['token']}"}

        await client.post("/keys", json={"name": "first", "role": "admin"})
        reader, runner = await key(scopes=["read"]), await key()
        assert (await client.get("/hello", headers=reader)).json()["user"] == "ann"
        assert (await client.post("/hook", json={}, headers=reader)).status_code == 403
        assert (await client.post("/hook", json={}, headers=runner)).status_code == 200


async def test_the_guard_is_in_front_of_it(tmp_path: Path) -> None:
    async with served(tmp_path, project(tmp_path / "team", enable_custom_route_auth=False)) as client:
        assert (await client.get("/hello", headers={"Host": "evil.example"})).status_code == 403


async def test_what_is_no_app_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(BrokenReference, match="web.py:not_an_app: is of type int; http.app is an app of Starlette"):
        async with served(tmp_path, project(tmp_path / "team", app="./web.py:not_an_app")):
            pass


def test_two_projects_with_an_app_each_cannot_be_served_together(tmp_path: Path) -> None:
    targets = [project(tmp_path / "a"), f"b={project(tmp_path / 'b')}"]
    with pytest.raises(SettingsError, match="have an http.app each, and both would have the same paths; leave it out"):
        http_app_of(targets)
