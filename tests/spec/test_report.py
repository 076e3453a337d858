"""The report of `stellwerk check`, pinned by golden files; `make golden` rewrites them."""

from pathlib import Path

import pytest

from stellwerk.spec.catalogue import Catalogue
from stellwerk.spec.report import report

HERE = Path(__file__).parent
CATALOGUE = Catalogue(tools={"search": "search"}, mcp_servers=("files",), providers=("scripted", "openai"))
GOLDEN = ("seed_004", "two_agents")


def printed(text: str | bytes, *, source: str) -> str:
    made = report(text, source=source, catalogue=CATALOGUE)
    return "".join("".join(piece for piece, _ in line) + "\n" for line in made.lines)


def golden(name: str) -> str:
    return printed((HERE / f"{name}.yaml").read_bytes(), source=f"{name}.yaml")


@pytest.mark.parametrize("name", GOLDEN)
def test_the_tree_of_a_system_is_as_the_golden_file_says(name: str) -> None:
    assert golden(name) == (HERE / f"{name}.txt").read_text("utf-8"), "`make golden` rewrites it; review the diff"


def test_tools_that_are_not_registered_are_marked_but_do_not_make_a_system_unsound() -> None:
    made = report((HERE / "seed_004.yaml").read_bytes(), source="seed_004.yaml", catalogue=CATALOGUE)
    assert made.sound
    marked = [line for line in made.lines if ("  not registered", "bad") in line]
    assert len(marked) == 12


def test_a_system_that_cannot_be_read_has_problems_and_no_tree() -> None:
    made = report("version: 1\nsystems: {}\n", source="my.yaml", catalogue=CATALOGUE)
    assert not made.sound
    assert printed("version: 1\nsystems: {}\n", source="my.yaml").splitlines() == [
        "error: my.yaml:1:1: system: this is missing; add it",
        "error: my.yaml:1:1: agents: this is missing; add it",
        "error: my.yaml:2:1: systems: there is no key 'systems' here; did you mean 'system'?",
        "my.yaml: refused, 3 problems",
    ]


def test_a_system_with_problems_still_shows_its_tree() -> None:
    agents = "- {id: a, tools: {allow: [b]}}\n- {id: b, tools: {allow: [a, files_x]}}"
    text = f"version: 1\nsystem: {{name: s}}\nagents:\n{agents}\n"
    assert printed(text, source="s.yaml").splitlines() == [
        "s · version 1",
        "└── a · react · scripted",
        "    └── b · react · scripted",
        "        └── files_x  of the MCP server files, not checked",
        "warning: s.yaml:5:30: agents[1].tools.allow[1]: "
        "whether the MCP server 'files' offers 'files_x' was not checked",
        "error: s.yaml:5:3: agents[1]: 'b' is an orchestrator beside 'a', because it names no role; "
        "there is one, so give the others role: sub-agent",
        "error: s.yaml:5:27: agents[1].tools.allow[0]: these agents call each other in a circle: a → b → a; "
        "remove one of the steps",
        "s.yaml: refused, 2 problems",
    ]


def test_texts_of_a_system_cannot_move_the_cursor() -> None:
    text = 'version: 1\nsystem: {name: s}\nagents: [{id: a, mission: "\\u202eone\\u2028two\\u200b"}]\n'
    assert all(line.isprintable() for line in printed(text, source="s.yaml").splitlines())
