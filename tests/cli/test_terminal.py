"""`stellwerk run` on a real terminal of 80 columns: all that is on the screen when it has ended."""

import sys
from pathlib import Path

import pytest

from stellwerk.demo import demo_yaml
from tests.cli.graphs import GRAPH
from tests.cli.pseudo_terminal import Terminal

LAB = Path(__file__).parents[1] / "agents/mcp/lab.py"


def test_a_conversation_with_a_question_a_stop_and_an_end(tmp_path: Path) -> None:
    text = demo_yaml().replace("pace: 0.03", "pace: 0.0").replace("{seconds: 5}", "{seconds: 60}")
    (tmp_path / "demo.yaml").write_text(text, "utf-8")
    with Terminal("run", "demo.yaml", cwd=tmp_path) as terminal:
        terminal.shows("conversation.\n>")
        terminal.type("ask me")
        terminal.shows("(enter takes green)\n>")
        terminal.type("x")
        terminal.shows("3) blue\n  (enter takes green)\n>", times=2)
        terminal.type("1")
        terminal.shows("22 tokens\n>")
        terminal.type("slow, please")
        terminal.shows("→ wait_a_while  seconds: 60\nwait_a_while")
        terminal.press("C")
        terminal.shows("8 tokens\n>")
        terminal.type("table")
        terminal.shows("63 tokens\n>")
        terminal.press("D")
        assert terminal.ended() == 0
        assert terminal.screen() == (
            "assistant listens. Ctrl-C stops an answer, Ctrl-D ends the conversation.\n"
            "> ask me\n"
            "I need to know something.  0.0 s\n"
            "? Which colour do you like?\n  1) red\n  2) green\n  3) blue\n  (enter takes green)\n"
            "> x\n"
            "! type a number from 1 to 3, or its name\n"
            "? Which colour do you like?\n  1) red\n  2) green\n  3) blue\n  (enter takes green)\n"
            "> 1\n"
            "You answered: red\n"
            "completed in 0.0 s · 2 model calls · 1 tool call · scripted 22 → 22 tokens\n"
            "> slow, please\n"
            "This takes half a minute.  0.0 s\n"
            "→ wait_a_while  seconds: 60\n"
            "■ wait_a_while  stopped after 0.0 s\n"
            "stopped in 0.0 s · 1 model call · 1 tool call · scripted 19 → 8 tokens\n"
            "> table\n"
            "Here are some towns.  0.0 s\n"
            "→ make_table  rows: 5\n"
            "✓ make_table  0.0 s  5 rows\n"
            "  town      country       inhabitants\n"
            "  ───────────────────────────────────\n"
            "  Berlin    Germany           3878000\n"
            "  Vienna    Austria           2028000\n"
            "  Zurich    Switzerland        448000\n"
            "  Lyon      France             520000\n"
            "  Utrecht   Netherlands        374000\n"
            "A table keeps its columns and types all the way to your page:\n"
            "\n"
            "| town | country | inhabitants |\n"
            "|---|---|---|\n"
            "| Berlin | Germany | 3878000 |\n"
            "| Vienna | Austria | 2028000 |\n"
            "| Zurich | Switzerland | 448000 |\n"
            "| Lyon | France | 520000 |\n"
            "| Utrecht | Netherlands | 374000 |\n"
            "completed in 0.0 s · 2 model calls · 1 tool call · scripted 113 → 63 tokens\n"
            ">"
        )
        assert "\x1b[3" in terminal.raw, "no colours"
        assert terminal.echoes()


def children(pid: int) -> set[int]:
    found = Path(f"/proc/{pid}/task").glob("*/children")
    return {int(child) for file in found for child in file.read_text().split()}


def test_ctrl_c_in_the_middle_of_a_tool_ends_the_process_and_those_it_started(tmp_path: Path) -> None:
    (tmp_path / "operator.yaml").write_text(f"mcp_servers: {{lab: {{command: [{sys.executable}, {LAB}]}}}}\n", "utf-8")
    script = "[{steps: [{say: 'I think. ', call: lab_ponder}]}]"
    agent = f"{{id: a, tools: {{allow: [lab_ponder]}}, model: {{provider: scripted, script: {script}}}}}"
    (tmp_path / "system.yaml").write_text(f"{{version: 1, system: {{name: s}}, agents: [{agent}]}}\n", "utf-8")
    arguments = ("run", "--config", "operator.yaml", "system.yaml", "go")
    with Terminal(*arguments, cwd=tmp_path, NO_COLOR="1") as terminal:
        terminal.shows("→ lab_ponder\nlab_ponder · ")
        servers = children(terminal.pid)
        assert servers
        terminal.press("C")
        assert terminal.ended() == 130
        assert terminal.screen() == (
            "I think.  0.0 s\n"
            "→ lab_ponder\n"
            "■ lab_ponder  stopped after 0.0 s\n"
            "stopped in 0.0 s · 1 model call · 1 tool call · scripted 1 → 4 tokens"
        )
        assert not any(Path(f"/proc/{server}").exists() for server in servers)
        assert "\x1b[3" not in terminal.raw, "colours that are not wanted"
        assert terminal.echoes()


def test_a_second_ctrl_c_ends_what_cannot_be_stopped(tmp_path: Path) -> None:
    (tmp_path / "my_graph.py").write_text(GRAPH, "utf-8")
    with Terminal("run", "my_graph.py:blocked", "go", cwd=tmp_path) as terminal:
        terminal.until((tmp_path / "blocking").exists)
        while not terminal.is_over():  # two signals of one kind that come at the same moment are one
            terminal.press("C")
        assert terminal.ended() == 130


def test_ctrl_c_at_a_prompt_leaves_and_gives_the_terminal_back(tmp_path: Path) -> None:
    with Terminal("run", "demo", "ask", cwd=tmp_path) as terminal:
        terminal.shows("(enter takes green)\n>")
        terminal.press("C")
        assert terminal.ended() == 130
        assert terminal.screen().endswith("(enter takes green)\n>")
        assert terminal.echoes()


HOSTILE = "\x1b[2J\x1b]0;title\a\x9b5n \u202eevil\u202c [bold]markup[/bold]"


@pytest.mark.parametrize("options", [(), ("--quiet",)], ids=["full", "quiet"])
@pytest.mark.parametrize("columns", [80, 24])
def test_escape_sequences_of_a_model_have_no_power_over_the_terminal(
    options: tuple[str, ...], columns: int, tmp_path: Path
) -> None:
    (tmp_path / "my_graph.py").write_text(GRAPH, "utf-8")  # repeats what it is given, and prints it
    with Terminal("run", *options, "my_graph.py:graph", HOSTILE, cwd=tmp_path, columns=columns) as terminal:
        assert terminal.ended() == 0
        assert "␛[2J" in terminal.screen() and "[bold]markup[/bold]" in terminal.screen().replace("\n", "")
    for code in ("\x1b[2J", "\x1b]", "\x07", "\x9b", "\u202e"):
        assert code not in terminal.raw


def test_a_narrow_terminal_shows_agents_below_each_other_within_its_width(tmp_path: Path) -> None:
    with Terminal("run", "demo", "delegate", cwd=tmp_path, columns=40) as terminal:
        assert terminal.ended() == 0
        rows = terminal.screen().split("\n")
    assert all(len(row) < 40 for row in rows)
    assert "  researc… │ Two things to look up." in rows
    assert "✓ researcher  0.0 s" in rows
