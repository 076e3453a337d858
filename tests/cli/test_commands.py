"""The command line as a newcomer meets it; in a process of its own where that matters."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from stellwerk.settings import Settings
from tests import stores
from tests.cli.processes import line_with, started
from tests.cli.pseudo_terminal import Terminal
from tests.commands import Command, Done
from tests.forked import completed
from tests.spec import test_report

HEAVY = ("langchain", "langchain_core", "langgraph", "openai", "pydantic", "fastapi", "uvicorn")


SPEC = Path(__file__).parents[1] / "spec"


def stellwerk(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "stellwerk", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


def test_help_names_the_commands_and_imports_nothing_heavy() -> None:
    probe = (
        "import sys; sys.argv = ['stellwerk', '--help']\n"
        "from stellwerk.cli import app\n"
        "try: app()\n"
        "except SystemExit: pass\n"
        f"sys.exit(','.join(name for name in {HEAVY!r} if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=240, check=False)
    assert all(
        command in done.stdout for command in ("serve", "check", "schema", "sessions", "tail", "export", "replay")
    )
    assert done.stderr.strip() == "", f"imported by --help: {done.stderr}"


def test_ctrl_c_while_the_command_is_loaded_ends_it_quietly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A shell lets what it starts in the background ignore Ctrl-C, and children inherit that.
    pressed = "signal.signal(signal.SIGINT, signal.default_int_handler)\nos.kill(os.getpid(), signal.SIGINT)\n"
    (tmp_path / "typer.py").write_text(f"import os, signal\n{pressed}")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = stellwerk("--help")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_serve_help_says_what_the_defaults_are() -> None:
    text = stellwerk("serve", "--help").stdout
    for word in ("--port", "8000", "--data", "./data", "STELLWERK_PORT"):
        assert word in text


def test_the_version_is_printed() -> None:
    done = stellwerk("--version")
    assert (done.returncode, done.stdout.split()[0]) == (0, "stellwerk")


@pytest.mark.parametrize(
    "arguments, complaint",
    [
        (["--host", "0.0.0.0"], "there are no API keys"),
        (["--port", "99999"], "port"),
        (["--colour", "red"], "No such option"),
    ],
    ids=["beyond loopback", "no such port", "no such option"],
)
def test_a_server_that_must_not_start_says_why(arguments: list[str], complaint: str, tmp_path: Path) -> None:
    done = completed("serve", "--data", str(tmp_path / "data"), *arguments)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "data").exists()


def test_check_prints_the_tree_of_the_founding_example_with_its_tools_not_registered(command: Command) -> None:
    done = command("check", str(SPEC / "seed_004.yaml"))
    golden = test_report.golden("seed_004").splitlines()
    tree = [line for line in golden if not line.startswith(("warning:", "seed_004.yaml:"))]
    assert done.stdout.splitlines()[: len(tree)] == tree
    assert done.stdout.splitlines()[-1].endswith("sound, but 12 tools not registered here")
    assert f"warning: {SPEC / 'seed_004.yaml'}:21:15: agents[0].tools.allow[0]: the tool" in done.stdout
    assert (done.returncode, done.stderr) == (0, "")


def test_check_reports_problems_of_several_files_and_of_standard_input(tmp_path: Path, command: Command) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("version: 1\nsystem: {nme: x}\nagents: [{id: a}]\n", "utf-8")
    done = command("check", str(wrong), "-", stdin="{version: 1, system: {name: piped}, agents: [{id: a}]}")
    assert done.returncode == 1
    assert f"error: {wrong}:2:10: system.nme: there is no key 'nme' here; did you mean 'name'?" in done.stdout
    assert "piped · version 1\n└── a · react · scripted\n-: ready to register\n" in done.stdout


def test_check_with_the_operators_file_knows_its_graphs_providers_and_mcp_servers(
    tmp_path: Path, command: Command
) -> None:
    operator, system = tmp_path / "named.yaml", tmp_path / "system.yaml"
    operator.write_text(
        "graphs: {report: 'nowhere.py:graph'}\n"
        "providers: {mine: {kind: openai, base_url: 'http://127.0.0.1:1/v1', needs_key: false}}\n"
        "mcp_servers: {files: {command: [no-such-program]}}\n",
        "utf-8",
    )
    system.write_text(
        "version: 1\nsystem: {name: s}\nagents:\n"
        "- {id: a, model: {provider: mine, model: x}, tools: {allow: [files_read, b]}}\n"
        "- {id: b, role: sub-agent, kind: graph, graph: report}\n",
        "utf-8",
    )
    alone, helped = command("check", str(system)), command("check", "--config", str(operator), str(system))
    assert alone.returncode == 1
    assert "the operator has registered no graph 'report' (--config)" in alone.stdout
    assert "there is no provider 'mine'" in alone.stdout
    assert helped.returncode == 0, helped.stdout + helped.stderr
    assert "a · react · mine:x" in helped.stdout
    assert "b · graph report" in helped.stdout
    assert "files_read  of the MCP server files, not checked" in helped.stdout


@pytest.mark.parametrize(
    "arguments, complaint",
    [
        (["nowhere.yaml"], "cannot read nowhere.yaml: No such file or directory"),
        ([str(SPEC)], "Is a directory"),
        (["--config", "nowhere.yaml", "-"], "cannot read nowhere.yaml"),
        ([], "Missing argument"),
    ],
    ids=["no such file", "a folder", "no such config", "nothing"],
)
def test_check_says_what_it_cannot_read(arguments: list[str], complaint: str, command: Command) -> None:
    done = command("check", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert complaint in done.stderr


def on_a_terminal(*arguments: str, **environment: str) -> str:
    with Terminal(*arguments, cwd=SPEC, columns=200, **environment) as terminal:
        assert terminal.ended() == 0
        return terminal.raw


def test_check_has_colours_on_a_terminal_unless_they_are_not_wanted() -> None:
    assert "\x1b[3" in on_a_terminal("check", "two_agents.yaml")
    assert "\x1b[3" not in on_a_terminal("check", "two_agents.yaml", NO_COLOR="1")


def test_the_schema_can_be_printed_for_an_editor(command: Command) -> None:
    described = json.loads(command("schema").stdout)
    assert described["title"] == "Stellwerk agent system, version 1"
    assert set(described["properties"]) == {"version", "system", "agents"}


def test_tools_lists_every_tool_with_its_parameters(command: Command) -> None:
    text = command("tools").stdout
    for name in ("get_weather", "ask_user", "plan_tasks", "write_report"):
        assert f"\n{name}  " in f"\n{text}"
    assert "    city: string, required" in text


def test_tools_in_json_has_the_schemas_and_can_be_asked_for_one(command: Command) -> None:
    (weather,) = json.loads(command("tools", "--json", "get_weather").stdout)
    assert weather["input_schema"]["required"] == ["city"]
    assert {"aliases", "timeout", "effects", "description"} <= weather.keys()


def test_tools_that_are_not_there_and_files_that_cannot_be_read_are_refused(command: Command) -> None:
    for arguments in (("tools", "nothing_like_it"), ("tools", "--config", "nowhere.yaml")):
        done = command(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert "stellwerk: " in done.stderr


async def test_serve_takes_a_tilde_in_a_path_for_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    around = {"HOME": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    async with started("serve", "--port", "0", "--data", "~/kept", **around) as process:
        await line_with(process, "http://127.0.0.1:")
        assert (tmp_path / "kept").is_dir()
    for name, value in {"HOME": str(tmp_path), "STELLWERK_DATA": "~/kept", "STELLWERK_CONFIG": "~/a.yaml"}.items():
        monkeypatch.setenv(name, value)
    assert (Settings().data, Settings().config) == (tmp_path / "kept", tmp_path / "a.yaml")


def test_commands_that_take_a_data_folder_know_a_tilde(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()

    def run(*arguments: str) -> Done:
        return completed(*arguments, "--data", "~/kept", cwd=tmp_path, environment={"HOME": str(home)})

    assert run("keys", "create", "me", "--role", "admin").returncode == 0
    assert (home / "kept").is_dir()
    assert run("audit", "verify").returncode == 0
    with stores.beside(home / "kept") as stored:
        stored.change("DELETE FROM audit")
    empty = run("audit", "verify")
    assert (empty.returncode, empty.stdout) == (0, f"the audit log in {home}/kept has no entries\n")
    assert run("backup", "~/copy").returncode == 0
    (home / "kept").rename(home / "before")
    assert run("restore", "~/copy").returncode == 0
    assert (home / "kept").is_dir()
    assert not (tmp_path / "~").exists()
