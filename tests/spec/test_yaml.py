"""The YAML parser: data and positions by YAML 1.2, within limits."""

import json

import pytest

from stellwerk.errors import SpecError, SpecProblem
from stellwerk.spec.yaml import Document, parse

BLOCKS = """\
kept: |+
  one

   two


stripped: >-
    folded
    line

    next
indented: |2
    two more
list:
- a
-
  - b
"""


def parsed(text: str | bytes) -> Document:
    return parse(text, source="text")


def refusal(text: str | bytes) -> SpecProblem:
    with pytest.raises(SpecError) as refused:
        parsed(text)
    (problem,) = refused.value.problems
    return problem


def test_blocks_are_kept_folded_and_stripped() -> None:
    assert parsed(BLOCKS).data == {
        "kept": "one\n\n two\n\n\n",
        "stripped": "folded line\nnext",
        "indented": "  two more\n",
        "list": ["a", ["b"]],
    }


def test_every_field_has_a_line_and_a_column() -> None:
    found = parsed('a: 1\nb:\n  - {c: [1, "ü", 3]}\n').positions
    assert found == {
        "": (1, 1),
        "a": (1, 1),
        "b": (2, 1),
        "b[0]": (3, 5),
        "b[0].c": (3, 6),
        "b[0].c[0]": (3, 10),
        "b[0].c[1]": (3, 13),
        "b[0].c[2]": (3, 18),
    }


@pytest.mark.parametrize(
    "value", ["a 😀 b", "\\ud83d\\ude00", "one \u2028 two\u2029", "\\\\😀", "\u00e9\t/", "x" * 3000]
)
def test_any_text_survives_as_json(value: str) -> None:
    for escaped in (True, False):
        written = json.dumps({"key": value, "list": [1]}, ensure_ascii=escaped)
        document = parsed(written)
        assert document.data == {"key": value, "list": [1]}
        assert document.positions["list"][1] == written.index('"list"') + 1


def test_an_escape_counts_only_in_double_quotes() -> None:
    pair = "\\ud83d\\ude00"
    text = f"plain: a {pair}\nsingle: '{pair}'\nblock: |\n  {pair}\ndouble: \"{pair}\"\n"
    assert parsed(text).data == {
        "plain": f"a {pair}",
        "single": pair,
        "block": f"{pair}\n",
        "double": "😀",
    }


@pytest.mark.parametrize(
    "text, start, position",
    [
        ("a: 1\nb: [1, 2", "this is not YAML: while parsing a flow sequence", (3, 1)),
        ('a: "open\n', "this is not YAML: while scanning a quoted scalar", (2, 1)),
        ("a: 1\n\tb: 2\n", "this is not YAML: while scanning a plain scalar", (2, 1)),
        ("a: 1\n---\nb: 2\n", "there is more than one document", (2, 1)),
        ("%YAML 1.2\n---\na: 1\n", "directives (%) are not read", (1, 1)),
        ("a: 1\nb: x\x07y\n", "the character U+0007 is not allowed; remove it", (2, 5)),
        ("a: x\x85y\n", "the character U+0085 is not allowed; remove it", (1, 5)),
    ],
)
def test_a_syntax_error_has_a_line_and_a_column(text: str, start: str, position: tuple[int, int]) -> None:
    error = refusal(text)
    assert (error.message[: len(start)], (error.line, error.column)) == (start, position)


def test_nesting_nodes_and_size_are_limited() -> None:
    assert "nested more than 20 deep" in refusal("[" * 200_000).message
    assert "more than 3000 keys and values" in refusal("[" + "1," * 100_000 + "]").message
    assert "more than 256 KiB" in refusal("#" * 300_000).message
