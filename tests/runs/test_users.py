"""A graph is told whose session it runs in, so that what it remembers of one user no other user reads."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from stellwerk.settings import Settings
from tests.api.reading import whole_round
from tests.conftest import running_server
from tests.runs.talking import answer, rest_of_run

REMEMBERING = Path(__file__).parent / "remembering"
GRAPHS = ("context", "pydantic", "typed_dict", "config", "nested")
DELEGATING = {
    "version": 1,
    "system": {"name": "office"},
    "agents": [
        {
            "id": "clerk",
            "model": {"script": [{"steps": [{"call": "memory", "args": {"task": "{message}"}}, {"say": "{result}"}]}]},
            "tools": {"allow": ["memory"]},
        },
        {"id": "memory", "role": "sub-agent", "kind": "graph", "graph": "context", "description": "Remembers."},
    ],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(REMEMBERING, tmp_path, dirs_exist_ok=True)
    return tmp_path


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[httpx2.AsyncClient]:
    own = {name: f"{folder / 'graphs.py'}:{name}" for name in (*GRAPHS, "asking")}
    async with running_server(Settings(data=folder / "data"), own=own) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
            yield client


async def begin_as(client: httpx2.AsyncClient, system: str, user: str | None) -> str:
    body = {"agent_system_id": system} | ({} if user is None else {"user_id": user})
    begun = await client.post("/sessions", json=body)
    assert begun.status_code == 201, begun.text
    return str(begun.json()["id"])


async def answered(client: httpx2.AsyncClient, sid: str, text: str) -> str:
    end = (await whole_round(client, sid, text))[-1]["payload"]
    return str(end.get("result") or end.get("reason"))


@pytest.mark.parametrize("system", GRAPHS)
async def test_what_one_user_said_no_other_user_reads_also_after_a_restart(folder: Path, system: str) -> None:
    async with served(folder) as client:
        ann = await begin_as(client, system, "ann")
        assert await answered(client, ann, "I earn 90000") == "ann: I earn 90000"
        bob = await begin_as(client, system, "bob")
        assert await answered(client, bob, "Hi") == "bob: Hi"
        assert await answered(client, await begin_as(client, system, "ann"), "Hi") == "ann: Hi, I earn 90000"
    async with served(folder) as client:
        assert await answered(client, bob, "Again") == "bob: Again, Hi"
        assert await answered(client, ann, "Again") == "ann: Again, Hi, I earn 90000"


async def test_a_fork_and_a_second_answer_are_for_the_same_user(folder: Path) -> None:
    async with served(folder) as client:
        sid = await begin_as(client, "context", "ann")
        assert await answered(client, sid, "Hi") == "ann: Hi"
        fork = (await client.post(f"/sessions/{sid}/fork", json={})).json()
        assert (fork["user_id"], await answered(client, fork["id"], "Hello")) == ("ann", "ann: Hello, Hi")
        again = (await client.post(f"/sessions/{sid}/regenerate")).json()
        assert (await rest_of_run(client, sid, again["after"]))[-1]["payload"]["result"] == "ann: Hello, Hi"


async def test_a_question_that_is_answered_after_a_restart_is_answered_for_the_same_user(folder: Path) -> None:
    async with served(folder) as client:
        sid = await begin_as(client, "asking", "ann")
        (asked,) = [e["payload"] for e in await whole_round(client, sid, "go") if e["type"] == "ask_user"]
    async with served(folder) as client:
        given = await answer(client, sid, ask_id=asked["ask_id"], text="yes")
        assert (await rest_of_run(client, sid, given["after"]))[-1]["payload"]["result"] == "ann said yes"


async def test_a_graph_below_another_agent_runs_for_the_same_user(folder: Path) -> None:
    async with served(folder) as client:
        registered = await client.post("/agent-systems", json=DELEGATING)
        assert registered.status_code == 201, registered.text
        assert await answered(client, await begin_as(client, "office", "ann"), "Hi") == "ann: Hi"


async def test_the_user_of_a_key_is_the_user_of_the_graph(folder: Path) -> None:
    async with served(folder) as client:
        first = (await client.post("/keys", json={"name": "first", "role": "admin"})).json()["token"]
        admin = {"Authorization": f"Bearer {first}"}
        body = {"name": "ann", "role": "member", "user": "ann"}
        token = (await client.post("/keys", json=body, headers=admin)).json()["token"]
        client.headers["Authorization"] = f"Bearer {token}"
        assert await answered(client, await begin_as(client, "context", None), "Hi") == "ann: Hi"


async def test_a_session_without_a_user_gets_the_default_and_the_operator_is_warned_once(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(folder) as client:
        for _ in range(2):
            assert await answered(client, await begin_as(client, "context", None), "Hi") == "default: Hi"
            await answered(client, await begin_as(client, "config", None), "Hi")
    lines = [record.getMessage() for record in caplog.records]
    at_start = [line for line in lines if "graph_wants_user_id" in line]
    assert [name for name in (*GRAPHS, "asking") if any(f"system='{name}'" in line for line in at_start)] == [
        "context",
        "pydantic",
        "typed_dict",
    ]
    assert all("send user_id with POST /sessions" in line for line in at_start)
    (warned,) = [line for line in lines if "session_without_user_id" in line]
    assert "system='context'" in warned
