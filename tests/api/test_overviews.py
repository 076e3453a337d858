"""Overviews are kept beside the log, and can be lost without harm; to-do lists follow them as files."""

from functools import partial
from pathlib import Path

import httpx2
import pytest

from stellwerk.app import Parts
from stellwerk.settings import Settings
from stellwerk.timings import Timings
from tests import stores
from tests.api.reading import whole_round
from tests.conftest import own_server, without_pauses
from tests.crash.waiting import eventually

PARTS = Parts(demo_systems=without_pauses, timings=Timings(overviews=0.5))


@pytest.fixture(scope="module")
def parts() -> Parts:
    return PARTS


def kept(data: Path, sid: str) -> int:
    """How far the overview of a session is kept; 0 if it is not."""
    with stores.beside(data) as stored:
        rows = stored.rows("SELECT position FROM overview WHERE session_id = ?", sid)
    return int(rows[0][0]) if rows else 0


def change(data: Path, statement: str, *params: object) -> None:
    with stores.beside(data) as stored:
        stored.change(statement, *params)


def todolist(data: Path, sid: str) -> Path:
    return data / "checklists" / f"todolist_{sid}.md"


async def begin(client: httpx2.AsyncClient) -> str:
    return str((await client.post("/sessions", json={"agent_system_id": "demo"})).json()["id"])


async def until_written(file: Path) -> None:
    await eventually(partial(Path.exists, file), within=20, what=f"{file} is not written")


@pytest.mark.requirement("trust.I6")
async def test_a_stored_overview_is_continued_and_returns_the_same(tmp_path: Path) -> None:
    async with own_server(Settings(data=tmp_path), parts=PARTS) as client:
        sid = await begin(client)
        await whole_round(client, sid, "plan it")
        await eventually(lambda: kept(tmp_path, sid) > 0, within=20, what="nothing is kept")
        position = kept(tmp_path, sid)
        events = await whole_round(client, sid, "weather")
        state = await client.get(f"/sessions/{sid}/state")
        assert 0 < position < events[-1]["position"] == state.json()["position"]
        change(tmp_path, "DELETE FROM overview")
        assert (await client.get(f"/sessions/{sid}/state")).content == state.content


async def test_what_another_form_of_the_folds_kept_is_not_used(tmp_path: Path) -> None:
    async with own_server(Settings(data=tmp_path), parts=PARTS) as client:
        sid = await begin(client)
        await whole_round(client, sid, "plan it")
        before = await client.get(f"/sessions/{sid}/state")
        await eventually(lambda: kept(tmp_path, sid) > 0, within=20, what="nothing is kept")
        change(tmp_path, "UPDATE overview SET form = 0, state = ?", b"old")
        assert (await client.get(f"/sessions/{sid}/state")).content == before.content


@pytest.mark.only_sqlite
@pytest.mark.requirement("004.markdown.state-leads")
async def test_lists_that_a_crash_left_behind_are_put_right_at_the_next_start(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path)
    async with own_server(settings, parts=PARTS) as client:
        sid = await begin(client)
        await whole_round(client, sid, "plan it")
        await until_written(todolist(tmp_path, sid))
        text = (await client.get(f"/sessions/{sid}/artifacts/todolist.md")).text
    todolist(tmp_path, sid).write_text("- [x] changed by hand")
    todolist(tmp_path, "gone").write_text("of a session that was deleted")
    change(tmp_path, "DELETE FROM overview")
    async with own_server(settings, parts=PARTS) as client:
        assert (await client.get(f"/sessions/{sid}/artifacts/todolist.md")).text == text
        await eventually(lambda: todolist(tmp_path, sid).read_text() == text, within=20, what="it is not put right")
        assert not todolist(tmp_path, "gone").exists()


@pytest.mark.only_sqlite
async def test_a_deleted_session_leaves_neither_overview_nor_list(tmp_path: Path) -> None:
    async with own_server(Settings(data=tmp_path), parts=PARTS) as client:
        sid, later = await begin(client), await begin(client)
        await whole_round(client, sid, "plan it")
        assert (await client.delete(f"/sessions/{sid}")).status_code == 204
        await whole_round(client, later, "plan it")
        await until_written(todolist(tmp_path, later))  # overviews have been stored since
        assert not todolist(tmp_path, sid).exists()
        assert kept(tmp_path, sid) == 0
