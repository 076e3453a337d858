"""The quick scanner reads what ruamel.yaml reads."""

from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import Event

from stellwerk.spec.events import Unreadable, events

# Without directives, which we refuse, and without line breaks that only YAML 1.1 knows.
pieces = st.sampled_from(
    [
        "a",
        "b: ",
        "\n",
        "  ",
        "- ",
        "[",
        "]",
        "{",
        "}",
        ",",
        ": ",
        "? ",
        '"',
        "'",
        "#",
        " #",
        "|",
        ">",
        "|+",
        ">-2",
        "&a ",
    ]
    + ["*a", "!", "!!", "!<", "-", "\t", "é", "12", "<<: ", "~", "@", "`", "$", "  \n", "key: ", '"a": ', '\\"', "\\n"]
)


def described(event: Event) -> tuple[object, ...]:
    mark = event.start_mark
    return type(event), getattr(event, "value", None), getattr(event, "anchor", None), mark.line, mark.column


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


def test_blocks_with_blank_lines_are_read_alike() -> None:
    compare(BLOCKS)


@given(st.lists(pieces, max_size=20).map("".join))
def test_events_and_their_places_are_those_of_ruamel(text: str) -> None:
    compare(text)


def compare(text: str) -> None:
    try:
        expected = [described(event) for event in YAML(typ="safe", pure=True).parse(text)]
    except YAMLError:
        expected = []
    try:
        found = [described(event) for event in events(text)]
    except Unreadable:
        found = []
    assert found == expected
