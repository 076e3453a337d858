"""`stellwerk workflow run`: files in, documents out; in a pipe, on a terminal, here and on a server."""

import asyncio
from io import StringIO
from pathlib import Path

import httpx2
import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from stellwerk.cli import app
from stellwerk.cli.render.screen import Screen
from stellwerk.envelope.model import Document, Envelope
from stellwerk.envelope.payloads import Filed
from stellwerk.workflows.cli.run import ProgressView
from tests import keyed
from tests.agents.office import FIGURES, NOTES, SHEET, quick_office, worked
from tests.cli.pseudo_terminal import Terminal
from tests.forked import completed
from tests.runs.talking import log_of
from tests.samples import message, place, run_end, run_start

YAML = {"Content-Type": "application/yaml"}


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A folder with a sheet, a text and an office that makes no pauses."""
    (tmp_path / "sales.xlsx").write_bytes(SHEET)
    (tmp_path / "notes.txt").write_bytes(NOTES)
    (tmp_path / "office.yaml").write_text(quick_office(), "utf-8")
    return tmp_path


async def run(desk: Path, *arguments: str) -> tuple[int, str, str]:
    done = await asyncio.to_thread(completed, "workflow", "run", *arguments, cwd=desk)
    return done.returncode, done.stdout, done.stderr


async def registered(client: httpx2.AsyncClient, system: str) -> None:
    answer = await client.post("/agent-systems", content=system, headers=YAML)
    assert answer.status_code == 201, answer.text


async def test_in_a_pipe_each_step_is_a_line_and_the_documents_are_saved(desk: Path) -> None:
    (desk / "out/report.docx").mkdir(parents=True)
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
    assert (desk / "out/report (2).docx").read_bytes()[:2] == b"PK"
    assert (desk / "out/figures.xlsx").read_bytes()[:2] == b"PK"


async def test_on_a_server_it_is_a_session_like_others_and_a_default_answers_where_nobody_sits(
    desk: Path, client: httpx2.AsyncClient
) -> None:
    url = str(client.base_url)
    await registered(client, quick_office())
    code, out, err = await run(desk, "-f", "sales.xlsx", "--out", "mine", "--url", url, "Ask me for the title")
    assert code == 0, err
    assert "? Which title shall the report have?  Report (its default)" in err
    assert (desk / "mine/report.md").read_text().startswith("# Report\n")
    (session,) = (await client.get("/sessions")).json()["sessions"]
    assert (session["agent_system_id"], session["status"], session["round"]) == ("office", "completed", 2)
    assert [each["id"] for each in (await client.get("/api/workflows?chats=false")).json()] == [session["id"]]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["-f", "nowhere.xlsx", "x"], "file 'nowhere.xlsx' does not exist"),
        (["-f", ".", "x"], "file '.' is a directory"),
        (["-f", "large.csv", "x"], "large.csv was not taken: "),
        (["--url", "http://127.0.0.1:9", "x"], "no server answers at http://127.0.0.1:9"),
        (["-o", "sales.xlsx", "x"], "cannot write to sales.xlsx"),
        ([], "say what is to be done"),
    ],
)
async def test_what_cannot_be_started_says_why(desk: Path, arguments: list[str], why: str) -> None:
    with (desk / "large.csv").open("wb") as large:
        large.truncate(26 << 20)
    code, out, err = await run(desk, *arguments)
    assert (code, out) == (2, "")
    assert why in err


def test_a_system_in_a_file_that_is_not_there_is_no_unknown_name() -> None:
    done = CliRunner().invoke(app, ["workflow", "run", "--system", "nowhere.yaml", "x"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "cannot read nowhere.yaml: No such file or directory" in done.stderr


async def test_a_workflow_that_fails_says_why_once_and_has_its_own_exit_code(
    desk: Path, client: httpx2.AsyncClient
) -> None:
    lost = quick_office().replace('"agent": "writer"', '"agent": "nobody"')
    await registered(client, lost)
    code, out, err = await run(desk, "-f", "notes.txt", "--url", str(client.base_url), "Write a report")
    assert (code, out) == (1, "")
    assert "100 % Workflow failure reported" in err
    assert err.count("manager has made no plan that fits") == 1


def test_files_of_the_user_are_not_delivered_if_there_is_no_answer() -> None:
    filed = Filed(document_id="d", name="a.txt", mime="text/plain", size=1, digest="d", message_id="m1")
    view, asked = ProgressView(Screen(StringIO())), message()
    asked = replace(asked, payload=replace(asked.payload, documents=["d"]))
    log: list[Envelope] = [run_start(), Document(**place("d", 1), payload=filed), asked, run_end()]
    for envelope in log:
        view.feed(envelope)
    assert view.workflow.messages[-1].documents and not view.delivered


async def test_a_failed_task_is_reported_once_in_the_terminal(client: httpx2.AsyncClient) -> None:
    await registered(client, quick_office())
    _, told = await worked(client, "Let it fail.", files=())
    view = ProgressView(Screen(shown := StringIO()))
    for envelope in log_of(told):
        view.feed(envelope)
    assert shown.getvalue().count("this task fails") == 1


def test_on_a_terminal_a_bar_grows_and_questions_are_asked_at_the_prompt(desk: Path) -> None:
    with Terminal(
        "workflow", "run", "-f", "sales.xlsx", "--system", "office.yaml", "Ask me for the title", cwd=desk
    ) as terminal:
        terminal.shows("? writer asks: Which title shall the report have?\n  (enter takes Report)\n>")
        terminal.type("Spring")
        assert terminal.ended() == 0
        screen = terminal.screen()
        assert "█" in terminal.raw and "█" not in screen
        assert "█" not in terminal.raw.partition(" Report)")[2].partition("Spring")[0]
        assert "writer: The report “Spring” is written." in screen
        assert "saved out/report.md" in screen and "Running task" not in screen
    assert (desk / "out/report.md").read_text().startswith("# Spring\n")


@pytest.mark.parametrize("where", ["here", "on a server"])
def test_ctrl_c_stops_the_workflow_and_leaves_nothing_behind(desk: Path, where: str, shared_address: str) -> None:
    kept = desk / "tmp"
    kept.mkdir()
    chosen = ("--system", "office.yaml") if where == "here" else ("--url", shared_address)
    arguments = ("workflow", "run", "-f", "sales.xlsx", *chosen, "Take it slow")
    httpx2.post(f"{shared_address}/agent-systems", content=quick_office(), headers=YAML, timeout=60).raise_for_status()
    key = keyed.shown_to(shared_address).get("Authorization", "Bearer none").removeprefix("Bearer ")
    with Terminal(*arguments, cwd=desk, TMPDIR=str(kept), STELLWERK_KEY=key) as terminal:
        terminal.until(lambda: "Running task 1/2: analyst" in terminal.raw)
        terminal.press("C")
        assert terminal.ended() == 130
        assert terminal.echoes()
        assert "starting" in terminal.raw and terminal.screen().endswith("\nstopped")
        assert terminal.screen().count("stopped") == 1 and "stellwerk:" not in terminal.screen()
    assert not list(kept.iterdir()) and not (desk / "out").exists()
