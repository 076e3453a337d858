"""`stellwerk workflow run`: files in, documents out; in a pipe, on a terminal, here and on a server."""

import asyncio
import os
import sys
from pathlib import Path

import httpx2
import pytest

from tests.agents.office import FIGURES, NOTES, SHEET, quick_office
from tests.terminal.ttys import Terminal


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A folder with a sheet, a text and an office that makes no pauses."""
    (tmp_path / "sales.xlsx").write_bytes(SHEET)
    (tmp_path / "notes.txt").write_bytes(NOTES)
    (tmp_path / "office.yaml").write_text(quick_office(), "utf-8")
    return tmp_path


async def run(desk: Path, *arguments: str) -> tuple[int, str, str]:
    environment = {"PATH": os.defpath, "LANG": "C.UTF-8"}
    command = [sys.executable, "-m", "stellwerk", "workflow", "run", *arguments]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, cwd=desk, env=environment, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
    )
    async with asyncio.timeout(120):
        out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


async def test_in_a_pipe_each_step_is_a_line_and_the_documents_are_saved(desk: Path) -> None:
    (desk / "out").mkdir()
    (desk / "out/report.md").write_text("mine")
    code, out, err = await run(desk, "-f", "sales.xlsx", "-f", "notes.txt", "--system", "office.yaml", "Write a report")
    assert code == 0, err
    assert out == "Everything that was expected is there.\n\nDelivered:\n- figures.xlsx\n- report.md\n- report.docx\n"
    for line in (
        " 10 % Analyzing request",
        " 25 % Work plan",
        " 30 % Running task 1/2: analyst",
        "100 % Workflow comp",
    ):
        assert line in err
    assert "writer: The report is written." in err
    assert (desk / "out/report.md").read_text() == "mine"
    assert FIGURES in (desk / "out/report (2).md").read_text()
    assert (desk / "out/figures.xlsx").read_bytes()[:2] == b"PK"


async def test_on_a_server_it_is_a_session_like_others_and_a_default_answers_where_nobody_sits(
    desk: Path, client: httpx2.AsyncClient
) -> None:
    url = str(client.base_url)
    registered = await client.post(
        "/agent-systems", content=quick_office(), headers={"Content-Type": "application/yaml"}
    )
    assert registered.status_code == 201
    code, out, err = await run(desk, "-f", "sales.xlsx", "--out", "mine", "--url", url, "Ask me for the title")
    assert code == 0, err
    assert "? Which title shall the report have?  Report (its default)" in err
    assert (desk / "mine/report.md").read_text().startswith("# Report\n")
    (session,) = (await client.get("/sessions")).json()["sessions"]
    assert (session["agent_system_id"], session["status"], session["round"]) == ("office", "completed", 2)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["-f", "nowhere.xlsx", "x"], "there is no file nowhere.xlsx"),
        (["--url", "http://127.0.0.1:9", "x"], "no server answers at http://127.0.0.1:9"),
        (["-o", "sales.xlsx", "x"], "cannot write to sales.xlsx"),
        ([], "say what is to be done"),
    ],
)
async def test_what_cannot_be_started_says_why(desk: Path, arguments: list[str], why: str) -> None:
    code, out, err = await run(desk, *arguments)
    assert (code, out) == (2, "")
    assert why in err


async def test_a_workflow_that_fails_says_why_and_has_its_own_exit_code(desk: Path) -> None:
    lost = quick_office().replace('"agent": "analyst"', '"agent": "nobody"')
    (desk / "office.yaml").write_text(lost, "utf-8")
    code, out, err = await run(desk, "--system", "office.yaml", "Write a report")
    assert (code, out) == (1, "")
    assert "100 % Workflow failure reported" in err
    assert "manager has made no plan that fits" in err


def test_on_a_terminal_a_bar_grows_and_questions_are_asked_at_the_prompt(desk: Path) -> None:
    with Terminal(
        "workflow", "run", "-f", "sales.xlsx", "--system", "office.yaml", "Ask me for the title", cwd=desk
    ) as terminal:
        terminal.shows("? writer asks: Which title shall the report have?\n  (enter takes Report)\n>")
        terminal.type("Spring")
        assert terminal.ended() == 0
        screen = terminal.screen()
        assert "█" in terminal.raw and "█" not in screen
        assert "writer: The report “Spring” is written." in screen
        assert "saved out/report.md" in screen and "Running task" not in screen
    assert (desk / "out/report.md").read_text().startswith("# Spring\n")


def test_ctrl_c_stops_the_workflow_and_leaves_nothing_behind(desk: Path) -> None:
    kept = desk / "tmp"
    kept.mkdir()
    arguments = ("workflow", "run", "-f", "sales.xlsx", "--system", "office.yaml", "Take it slow")
    with Terminal(*arguments, cwd=desk, TMPDIR=str(kept)) as terminal:
        terminal.until(lambda: "Running task 1/2: analyst" in terminal.raw)
        terminal.press("C")
        assert terminal.ended() == 130
        assert terminal.echoes()
    assert not list(kept.iterdir()) and not (desk / "out").exists()
