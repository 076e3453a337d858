"""To-do lists as files: whole, and never outside of the data folder."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from stellwerk.documents.todolists import Todolists


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    made = tmp_path / "outside"
    made.mkdir()
    return made


@pytest.fixture
def data(tmp_path: Path) -> Path:
    made = tmp_path / "data"
    made.mkdir()
    return made


@pytest.mark.requirement("004.artifacts.file-per-session")
def test_a_list_is_rewritten_and_removed(data: Path) -> None:
    lists = Todolists(data)
    assert lists.write("a/b", "s1", "first")
    assert lists.write("a/b", "s1", "second")
    assert [path.name for path in (data / "a/b").iterdir()] == ["todolist_s1.md"]
    assert (data / "a/b/todolist_s1.md").read_text("utf-8") == "second"
    assert lists.sessions("a/b") == ["s1"]
    lists.remove(["a/b", "nowhere"], "s1")
    assert lists.sessions("a/b") == []


def test_a_folder_that_is_a_link_is_not_followed(data: Path, outside: Path) -> None:
    (data / "lists").symlink_to(outside)
    (outside / "todolist_s1.md").write_text("mine")
    lists = Todolists(data)
    assert not lists.write("lists", "s1", "text")
    lists.remove(["lists"], "s1")
    assert [path.read_text() for path in outside.iterdir()] == ["mine"]
    assert lists.sessions("lists") == []


def test_a_file_that_is_a_link_is_replaced_and_not_followed(data: Path, outside: Path) -> None:
    (data / "lists").mkdir()
    secret = outside / "secret"
    secret.write_text("mine")
    for name in ("todolist_s1.md", ".todolist_s1.md.part"):
        (data / "lists" / name).symlink_to(secret)
    lists = Todolists(data)
    lists.write("lists", "s1", "text")
    lists.write("lists", "s1", "text")
    assert secret.read_text() == "mine"
    assert (data / "lists/todolist_s1.md").read_text() == "text"


def test_a_file_where_the_folder_should_be_stays(data: Path) -> None:
    (data / "lists").write_text("mine")
    assert not Todolists(data).write("lists", "s1", "text")
    assert (data / "lists").read_text() == "mine"


@pytest.mark.parametrize("session_id", ["../x", "a/b", "", "a.b", "ä"])
def test_only_an_id_of_ours_becomes_part_of_a_name(data: Path, session_id: str) -> None:
    with pytest.raises(ValueError, match="no id of a session"):
        Todolists(data).write("lists", session_id, "text")


def test_on_many_machines_no_list_is_written_which_is_logged_once() -> None:
    lists = Todolists(None)
    with capture_logs() as logs:
        assert not lists.write("lists", "s1", "text")
        assert not lists.write("lists", "s2", "text")
    lists.remove(["lists"], "s1")
    assert lists.sessions("lists") == []
    assert [log["event"] for log in logs] == ["todolists_not_written"]
    assert "artifacts/todolist.md" in logs[0]["remedy"]
