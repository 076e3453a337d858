"""`stellwerk run` in a pipe: what goes where, and the exit codes."""

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest

from stellwerk.cli.run import RunCommand, run_agent
from stellwerk.envelope.model import decode
from stellwerk.spec.operator import Operator
from stellwerk.testing.order import order_problems
from tests.cli.closed_streams import ended_without
from tests.cli.graphs import GRAPH
from tests.cli.pseudo_terminal import timeless
from tests.forked import Forked, completed, surroundings


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_graph.py").write_text(GRAPH, "utf-8")
    return tmp_path


class PipedRun:
    """The same in this process, which is quicker: files in the place of standard input, output and error."""

    def __init__(self, captured: "pytest.CaptureFixture[str]", monkeypatch: pytest.MonkeyPatch) -> None:
        self._captured, self._monkeypatch = captured, monkeypatch

    def run(self, target: str, *words: str, stdin: str = "", **options: Any) -> tuple[int, str, str]:
        """The exit code, and what was written to either."""
        self._monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        code = run_agent(RunCommand(target, words, Operator(), **options))
        out, err = self._captured.readouterr()
        return code, out, timeless(err)


@pytest.fixture
def pipe(capfd: "pytest.CaptureFixture[str]", monkeypatch: pytest.MonkeyPatch) -> PipedRun:
    return PipedRun(capfd, monkeypatch)


def test_the_answer_is_on_standard_output_and_all_else_beside_it(folder: Path) -> None:
    done = completed("run", "my_graph.py:graph", "hi")
    assert done.stdout == "You say hi, I say hello.\n"
    assert timeless(done.stderr) == "thinking about hi\n· node\ncompleted in 0.0 s\n"
    assert done.returncode == 0


def test_a_reader_that_closes_the_pipe_ends_the_run_silently(folder: Path) -> None:
    here, there = os.pipe()
    with open(here) as output, TemporaryFile() as errors, open(os.devnull) as nothing:
        files, arguments = [nothing.fileno(), there, errors.fileno()], ("run", "--json", "demo", "slow")
        demo = Forked(arguments, files=files, cwd=folder, environment=surroundings())
        os.close(there)
        assert json.loads(output.readline())["type"] == "run_start"
        output.close()
        assert demo.wait(240) == 141
        errors.seek(0)
        assert errors.read() == b""


def test_the_text_can_come_from_standard_input_and_quiet_means_only_the_answer(pipe: PipedRun) -> None:
    code, out, err = pipe.run("demo", stdin="What is the weather?\n", quiet=True)
    assert out.startswith("It is sunny.")
    assert (code, err) == (0, "")


WANTING = f"{Path(__file__).parents[1] / 'runs/wanting/graphs.py'}"


def test_a_graph_gets_its_input_config_and_context_from_options_and_files(folder: Path) -> None:
    (folder / "context.json").write_text('{"language": "German"}')
    asked = ["--run-config", '{"tags": ["a"], "metadata": {"team": 7}}', "--context", "@context.json"]
    assert completed("run", "-q", f"{WANTING}:settings", "hi", *asked).stdout == "German a 7\n"
    mail = completed("run", "-q", f"{WANTING}:mail", "--input", '{"email_input": {"author": "Ann"}}')
    assert (mail.stdout, mail.stderr) == ("Ann wrote (0)\n", "")


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--input", "{author: Ann}", "this is not JSON: .*; write JSON, or @file.json, in single quotes"),
        ("--context", "@no.json", "cannot read no.json: No such file"),
        ("--run-config", "[1]", "this must be an object"),
        ("--run-config", '{"callbacks": []}', "config.callbacks: "),
        ("--context", '{"speech": 1}', "context.speech: graphs has no such key; it has: language"),
    ],
)
def test_an_option_for_a_graph_that_cannot_be_used_says_why(folder: Path, option: str, value: str, says: str) -> None:
    done = completed("run", f"{WANTING}:settings", "hi", option, value)
    assert done.returncode == 2
    assert re.search(says, " ".join(done.stderr.replace("│", " ").split())), done.stderr


def test_without_any_text_there_is_nothing_to_do(pipe: PipedRun) -> None:
    code, out, err = pipe.run("demo")
    assert (code, out) == (2, "")
    assert 'say something: stellwerk run … "text"' in err


def test_a_text_without_a_word_in_it_is_no_text(pipe: PipedRun) -> None:
    code, _, err = pipe.run("demo", " ", stdin="this is not what was meant")
    assert (code, "say something" in err) == (2, True)


@pytest.mark.parametrize("closed", [[0], [1], [2]], ids=["input", "output", "error"])
def test_a_stream_that_is_closed_is_no_reason_for_a_stack(closed: list[int], folder: Path) -> None:
    code, complaint = ended_without(closed, ["run", "my_graph.py:graph", "hi"], folder)
    assert (code, "Traceback" in complaint) == (0, False)


def test_nor_are_three_that_are_closed_from_the_first_moment(folder: Path) -> None:
    command = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable, "-m", "stellwerk", "run"]
    assert subprocess.run([*command, "my_graph.py:graph", "hi"], timeout=240, check=False).returncode == 0


def test_nor_is_a_full_disk(folder: Path) -> None:
    with open("/dev/full", "w") as full, TemporaryFile() as errors, open(os.devnull) as nothing:
        files, arguments = [nothing.fileno(), full.fileno(), errors.fileno()], ("run", "my_graph.py:graph", "hi")
        assert Forked(arguments, files=files, cwd=folder, environment=surroundings()).wait(240) == 1
        errors.seek(0)
        complaint = errors.read().decode()
    assert "Traceback" not in complaint
    assert "stellwerk: cannot write to standard output: No space left on device" in complaint


@pytest.mark.parametrize(
    "graph, code, reported",
    [
        ("graph", 1, "RuntimeError: the code called sys.exit('enough'); --debug"),
        ("leaving", 2, "my_graph.py:leaving: making the graph failed: SystemExit"),
    ],
)
def test_code_that_calls_exit_is_reported_in_one_line(graph: str, code: int, reported: str, folder: Path) -> None:
    ended = completed("run", f"my_graph.py:{graph}", "exit")
    assert ended.stderr.splitlines()[-1].startswith(f"stellwerk: {reported}")
    assert (ended.returncode, "Traceback" in ended.stderr) == (code, False)


def test_json_is_the_envelopes_and_nothing_else_and_questions_take_their_default(pipe: PipedRun) -> None:
    code, out, err = pipe.run("demo", "ask", as_json=True)
    envelopes = [json.loads(line) for line in out.splitlines()]
    assert [one["position"] for one in envelopes] == list(range(1, len(envelopes) + 1))
    assert [one["payload"]["status"] for one in envelopes if one["type"] == "run_end"] == ["awaiting_user", "completed"]
    stored = [{k: v for k, v in one.items() if k not in ("position", "origin", "session_id")} for one in envelopes]
    assert order_problems(decode(json.dumps(one).encode()) for one in stored) == []
    assert (code, err) == (0, "? Which colour do you like?  green (its default)\n")


def test_what_a_graph_prints_does_not_get_among_the_envelopes(folder: Path, pipe: PipedRun) -> None:
    code, out, err = pipe.run("my_graph.py:graph", "loud", as_json=True)
    assert [json.loads(line)["type"] for line in out.splitlines()][-1] == "run_end"
    assert (code, err) == (0, "thinking about loud, loudly\n")


def test_an_unanswered_question_has_its_own_exit_code(folder: Path, pipe: PipedRun) -> None:
    code, out, err = pipe.run("my_graph.py:graph", "sure")
    assert (code, out) == (3, "")
    assert "? Are you sure?\nstellwerk: the run asks this, and there is no user to answer it" in err


def test_a_failure_that_was_foreseen_says_what_it_is(pipe: PipedRun) -> None:
    assert pipe.run("demo", "fail") == (
        1,
        "",
        "✗ scripted raised ScriptedFailure\nfailed in 0.0 s · 1 model call\n"
        "stellwerk: the script of the demo says that this run fails\n",
    )


def test_an_unexpected_error_is_one_line_with_its_place(folder: Path, pipe: PipedRun) -> None:
    assert pipe.run("my_graph.py:graph", "boom") == (
        1,
        "",
        "thinking about boom\n"
        "failed in 0.0 s\n"
        "stellwerk: ZeroDivisionError: division by zero (my_graph.py, line 16); --debug shows the whole stack\n",
    )
    code, _, err = pipe.run("my_graph.py:graph", "boom", debug=True)
    assert (code, "Traceback" in err) == (1, True)


def test_a_tool_that_raises_is_reported_once_and_its_stack_only_for_debug(folder: Path, pipe: PipedRun) -> None:
    steps = "[{call: calculate, args: {expression: 1/0}}, {say: No.}]"
    model = f"{{provider: scripted, script: [{{steps: {steps}}}]}}"
    agent = f"{{id: a, tools: {{allow: [calculate]}}, model: {model}}}"
    (folder / "system.yaml").write_text(f"{{version: 1, system: {{name: s}}, agents: [{agent}]}}\n", "utf-8")
    code, out, err = pipe.run("system.yaml", "go")
    assert (code, out) == (0, "No.\n")
    assert err.splitlines()[:-1] == [
        "→ calculate  expression: 1/0",
        "✗ calculate  0.0 s  it cannot be worked out: division by zero",
    ]
    _, _, err = pipe.run("system.yaml", "go", debug=True)
    assert "! tool raised: agent a, tool calculate" in err
    assert "ZeroDivisionError: division by zero" in err


def test_a_note_on_a_project_is_one_sentence(folder: Path, pipe: PipedRun) -> None:
    own = Path(__file__).parents[2] / "examples/own-graph/desk.py"
    (folder / "langgraph.json").write_text(f'{{"graphs": {{"desk": "{own}:graph"}}, "env": ".env"}}', "utf-8")
    _, _, err = pipe.run("langgraph.json", "A lamp, please.")
    assert f"! langgraph.json: its env file {folder}/.env does not exist; " in err


@pytest.mark.parametrize(
    "system, complaint",
    [
        ("{id: a, model: {provider: openai, model: gpt-5}}", "needs the secret 'openai_api_key'"),
        ("{id: a, tools: {allow: [no_such_tool]}}", "system.yaml:1:"),
    ],
    ids=["no key", "no such tool"],
)
def test_what_cannot_be_built_says_why_and_is_not_a_failed_run(
    system: str, complaint: str, folder: Path, pipe: PipedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    (folder / "system.yaml").write_text(f"{{version: 1, system: {{name: s}}, agents: [{system}]}}\n", "utf-8")
    code, out, err = pipe.run("system.yaml", "hi")
    assert (code, out) == (2, "")
    assert complaint in err
    assert err.startswith("stellwerk: ")
    assert "Traceback" not in err


def test_help_has_examples_and_exit_codes() -> None:
    text = completed("run", "--help").stdout
    for word in ("my_graph.py:graph", "--json", "--quiet", "Ctrl-C", "130"):
        assert word in text
