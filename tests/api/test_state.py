"""What can be known of a session without following it, over real HTTP."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from stellwerk.app import Parts
from stellwerk.demo import demo_yaml
from stellwerk.settings import Settings
from tests.api.reading import sse, whole_round
from tests.conftest import own_server, without_pauses
from tests.crash.waiting import eventually

EMPTY = "# Checklist\n\nVersion 0, no tasks.\n"

PARTS = Parts(demo_systems=without_pauses)


@pytest.fixture(scope="module")
def parts() -> Parts:
    return PARTS


@pytest.fixture
def address(shared_address: str) -> str:
    return shared_address


async def get(client: httpx2.AsyncClient, path: str, **params: Any) -> Any:
    answer = await client.get(path, params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def holds(file: Path, text: str) -> bool:
    return file.exists() and file.read_text("utf-8") == text


@pytest.mark.requirement("004.state.fields")
async def test_the_state_of_a_new_session_is_idle_and_empty(client: httpx2.AsyncClient, sid: str) -> None:
    state = await get(client, f"/sessions/{sid}/state")
    assert (state["status"], state["round"], state["awaiting_user_input"]) == ("idle", 0, False)
    assert (state["tasks"], state["version"], state["blocker"], state["questions"]) == ([], 0, None, [])
    assert state["position"] == 0


@pytest.mark.requirement("004.state.fields")
async def test_the_state_shows_the_tasks_that_an_agent_planned(client: httpx2.AsyncClient, sid: str) -> None:
    events = await whole_round(client, sid, "plan it")
    state = await get(client, f"/sessions/{sid}/state")
    assert (state["status"], state["round"], state["position"]) == ("completed", 1, events[-1]["position"])
    assert [(task["id"], task["status"]) for task in state["tasks"]] == [("t1", "completed"), ("t2", "completed")]
    assert state["version"] == 3
    assert state["progress"]["percent"] == 100


@pytest.mark.requirement("004.state.fields")
async def test_the_state_shows_what_a_session_has_asked(client: httpx2.AsyncClient, sid: str) -> None:
    await whole_round(client, sid, "ask me")
    state = await get(client, f"/sessions/{sid}/state")
    assert (state["status"], state["awaiting_user_input"]) == ("running", True)
    (question,) = state["questions"]
    assert (question["question"], question["options"]) == ("Which colour do you like?", ["red", "green", "blue"])
    assert question["default"] == "green"


async def test_usage_adds_up_over_rounds(client: httpx2.AsyncClient, sid: str) -> None:
    ends = [(await whole_round(client, sid, text))[-1] for text in ("hello", "weather", "delegate this")]
    spent = [used for end in ends for used in end["payload"]["usage"]]
    usage = await get(client, f"/sessions/{sid}/usage")
    assert usage["input_tokens"] == sum(used.get("input_tokens", 0) for used in spent)
    assert usage["output_tokens"] == sum(used.get("output_tokens", 0) for used in spent)
    assert (usage["runs"], usage["models"][0]["model"]) == (3, "scripted")
    assert usage["tool_calls"] >= 3
    assert usage["seconds"] > 0
    assert (await get(client, f"/sessions/{sid}/state"))["usage"] == usage


async def test_the_transcript_is_the_conversation_in_pages(client: httpx2.AsyncClient, sid: str) -> None:
    for text in ("one", "two", "ask me"):
        await whole_round(client, sid, text)
    whole = (await get(client, f"/sessions/{sid}/messages"))["messages"]
    assert [entry["role"] for entry in whole] == [*["user", "assistant"] * 3, "assistant"]
    assert (whole[0]["text"], whole[-1]["kind"]) == ("one", "question")
    assert "“one”" in whole[1]["text"]
    paged: list[Any] = []
    cursor: int | None = 0
    while cursor is not None:
        page = await get(client, f"/sessions/{sid}/messages", after=cursor, limit=2)
        paged += page["messages"]
        cursor = page["next"]
    assert paged == whole


async def test_artifacts_are_listed_with_links_that_lead_somewhere(client: httpx2.AsyncClient, sid: str) -> None:
    await whole_round(client, sid, "file please")
    listed = (await get(client, f"/sessions/{sid}/artifacts"))["artifacts"]
    assert [artifact["kind"] for artifact in listed] == ["todolist", "document"]
    assert (listed[1]["name"], listed[1]["mime"]) == ("report.md", "text/markdown")
    for artifact in listed:
        found = await client.get(artifact["href"])
        assert found.status_code == 200
        assert artifact.get("size", len(found.content)) == len(found.content)


@pytest.mark.requirement("004.artifacts.todolist", "004.markdown.deterministic")
async def test_the_todolist_is_markdown_and_the_same_each_time(client: httpx2.AsyncClient, sid: str) -> None:
    path = f"/sessions/{sid}/artifacts/todolist.md"
    empty = await client.get(path)
    assert (empty.status_code, empty.text) == (200, EMPTY)
    await whole_round(client, sid, "plan it")
    first, second = await client.get(path), await client.get(path)
    assert first.headers["content-type"] == "text/markdown; charset=utf-8"
    assert first.headers["x-content-type-options"] == "nosniff"
    assert first.headers["content-security-policy"] == "sandbox; default-src 'none'"
    assert "- [x] **t1** Look at the weather (completed" in first.text
    assert first.content == second.content


@pytest.mark.only_sqlite
@pytest.mark.requirement("004.artifacts.file-per-session", "004.yaml.checklist-dir")
async def test_each_todolist_is_a_file_where_the_system_says_and_goes_with_its_session(tmp_path: Path) -> None:
    async with own_server(Settings(data=tmp_path), parts=PARTS) as client:
        system = demo_yaml()
        named = system.replace("name: demo", "name: lists\n  storage: {checklist_dir: ./lists/all}")
        answer = await client.post("/agent-systems", content=named, headers={"Content-Type": "application/yaml"})
        assert answer.status_code == 201, answer.text
        sids = [(await client.post("/sessions", json={"agent_system_id": "lists"})).json()["id"] for _ in range(2)]
        await asyncio.gather(*(whole_round(client, sid, "plan it") for sid in sids))
        for sid in sids:
            file = tmp_path / "lists/all" / f"todolist_{sid}.md"
            text = (await client.get(f"/sessions/{sid}/artifacts/todolist.md")).text
            await eventually(partial(holds, file, text), within=20, what=f"{file} is not written")
            assert (await client.delete(f"/sessions/{sid}")).status_code == 204
            assert not file.exists()


@pytest.mark.parametrize("path", ["state", "usage", "artifacts", "artifacts/todolist.md", "messages"])
async def test_an_unknown_session_is_404(client: httpx2.AsyncClient, path: str) -> None:
    for sid in ("nothing", "..%2f..", "%00"):
        assert (await client.get(f"/sessions/{sid}/{path}")).status_code == 404


async def test_a_bad_cursor_of_the_transcript_is_refused(client: httpx2.AsyncClient, sid: str) -> None:
    refused = await client.get(f"/sessions/{sid}/messages", params={"after": "x"})
    assert (refused.status_code, refused.json()["code"]) == (400, "bad_cursor")


@pytest.mark.requirement("004.lifecycle.rest-for-the-rest")
async def test_a_look_at_a_session_changes_nothing(client: httpx2.AsyncClient, sid: str) -> None:
    await whole_round(client, sid, "plan it")
    before = await sse(client, f"/sessions/{sid}/stream", until="run_end")
    for path in ("state", "usage", "artifacts", "artifacts/todolist.md", "messages"):
        await client.get(f"/sessions/{sid}/{path}")
    assert await sse(client, f"/sessions/{sid}/stream", until="run_end") == before


@pytest.mark.requirement("004.sessions.own-state")
async def test_each_session_has_a_state_of_its_own_that_outlives_a_restart(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path)
    async with own_server(settings, parts=PARTS) as client:
        sids = [(await client.post("/sessions", json={"agent_system_id": "demo"})).json()["id"] for _ in range(2)]
        await whole_round(client, sids[0], "plan it")
        await whole_round(client, sids[1], "hello")
        before = [await get(client, f"/sessions/{sid}/state") for sid in sids]
    assert [len(state["tasks"]) for state in before] == [2, 0]
    async with own_server(settings, parts=PARTS) as client:
        assert [await get(client, f"/sessions/{sid}/state") for sid in sids] == before
