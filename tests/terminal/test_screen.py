"""Agents that work side by side, on one screen: every row belongs to one of them, and what each says can be read."""

import io
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stellwerk.envelope.results import Column, Table
from stellwerk.terminal.lanes import ROOT, Lane
from stellwerk.terminal.marks import Grid, Line, Mark, Spoken, Words
from stellwerk.terminal.pen import Pen
from stellwerk.terminal.plain import visible
from stellwerk.terminal.screen import Screen
from tests.terminal.ttys import Paper

ANNA, BEN, DORA = Lane("anna", 1, 1), Lane("ben", 1, 2), Lane("dora", 2, 3)


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    columns(monkeypatch, 40)


def columns(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    for name, value in {"COLUMNS": str(number), "TERM": "xterm-256color"}.items():
        monkeypatch.setenv(name, value)


def shown(marks: Iterable[Mark], file: io.StringIO | None = None) -> list[str]:
    file = file or Tty()
    screen = Screen(Pen(file))
    for mark in marks:
        screen.show(mark)
    screen.settle()
    paper = Paper()
    paper.write(file.getvalue().replace("\n", "\r\n"))
    return paper.text().rstrip("\n").split("\n")


def says(lane: Lane, *words: str, call: str = "") -> list[Mark]:
    call = call or lane.name
    return [*(Words(lane, call, word) for word in words), Spoken(lane, call)]


def line(lane: Lane, text: str) -> Line:
    return Line(lane, ((text, "plain"),))


def test_a_text_has_the_floor_until_it_is_over_and_all_others_wait() -> None:
    anna, ben = says(ANNA, "one ", "two ", "three"), says(BEN, "eins ", "zwei")
    marks = [anna[0], ben[0], anna[1], line(BEN, "→ tool"), ben[1], ben[2], anna[2], anna[3]]
    assert shown(marks) == [
        "  anna │ one two three",
        "  ben │ eins zwei",
        "      │ → tool",
    ]


def test_what_is_whole_is_shown_where_a_line_ends_and_need_not_wait_for_the_end_of_the_text() -> None:
    marks: list[Mark] = [Words(ANNA, "a", "one\n"), line(BEN, "→ tool"), Words(ANNA, "a", "two"), Spoken(ANNA, "a")]
    assert shown(marks) == ["  anna │ one", "  ben │ → tool", "  anna │ two"]


def test_the_outermost_agent_needs_no_gutter_and_deeper_ones_are_indented() -> None:
    marks: list[Mark] = [
        *says(ROOT, "I ask."),
        line(ROOT, "→ anna"),
        line(ANNA, "→ dora"),
        *says(DORA, "here\n\nand there"),
    ]
    assert shown(marks) == [
        "I ask.",
        "→ anna",
        "  anna │ → dora",
        "    dora │ here",
        "         │",
        "         │ and there",
    ]


def test_a_line_is_cut_where_the_screen_ends_unless_every_word_counts() -> None:
    text = "a line that is longer than a screen of forty columns"
    assert shown([line(ANNA, text)]) == ["  anna │ a line that is longer than a …"]
    assert shown([Line(ROOT, ((text, "bad"),), whole=True)]) == [
        "a line that is longer than a screen of",
        "forty columns",
    ]


def test_a_note_stands_behind_its_text_or_below_it_if_there_is_no_room() -> None:
    assert shown([Words(ROOT, "a", "done"), Spoken(ROOT, "a", "1.0 s")]) == ["done  1.0 s"]
    long = "thirty-six letters stand in this row"
    assert shown([Words(ROOT, "a", long), Spoken(ROOT, "a", "1.0 s")]) == [long, "1.0 s"]


def test_a_table_is_drawn_within_its_lane_and_says_how_much_of_it_is_missing() -> None:
    table = Table(columns=("town", Column(name="people", type="number")), rows=(("Ulm", 129), ("Bonn", 336)), total=9)
    assert shown([Grid(ANNA, table)]) == [
        "  anna │   town   people",
        "       │   ─────────────",
        "       │   Ulm       129",
        "       │   Bonn      336",
        "       │   … 7 more",
    ]


def test_in_a_file_nothing_is_wrapped_coloured_or_written_over() -> None:
    file = io.StringIO()
    text = "a text that is longer than any screen of forty columns would be"
    assert shown([*says(ANNA, text), Line(ROOT, (("✗ wrong", "bad"),))], file) == [f"  anna │ {text}", "✗ wrong"]
    assert "\x1b" not in file.getvalue()


def test_the_line_of_standing_is_written_over_and_leaves_nothing_behind() -> None:
    file = Tty()
    screen = Screen(Pen(file))
    screen.stand("looking · 1 s")
    screen.stand("looking · 2 s")
    screen.show(line(ROOT, "✓ found"))
    screen.stand("thinking for such a long time that no screen is wide enough")
    screen.settle()
    assert "looking · 2 s" in file.getvalue()
    paper = Paper()
    paper.write(file.getvalue().replace("\n", "\r\n"))
    assert paper.text() == "✓ found\n"


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_whatever_the_order_no_row_mixes_two_agents_and_nobody_loses_a_word(data: st.DataObject) -> None:
    said = {lane: [f"{lane.name}-{number} " for number in range(8)] for lane in (ANNA, BEN, DORA)}
    left: dict[Lane, Sequence[Mark]] = {lane: says(lane, *words) for lane, words in said.items()}
    marks: list[Mark] = []
    while left:
        lane = data.draw(st.sampled_from(list(left)))
        first, *rest = left.pop(lane)
        marks.append(first)
        if rest:
            left[lane] = rest
    rows = shown(marks)
    heard: dict[str, list[str]] = {}
    for row in rows:
        words = row.partition("│")[2].split()
        assert len({word.split("-")[0] for word in words}) == 1, row
        heard.setdefault(words[0].split("-")[0], []).extend(words)
    assert heard == {lane.name: [word.strip() for word in words] for lane, words in said.items()}


@pytest.mark.parametrize("number", [12, 25, 60, 200])
def test_no_row_is_wider_than_the_screen(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    columns(monkeypatch, number)
    deep = Lane("an agent with a very long name", 7, 4)
    rows = shown([*says(deep, "some words, and a-very-long-word-" + "x" * 80), line(deep, "y" * 300)])
    assert all(len(row) < max(number, 36) for row in rows)


def test_text_has_no_power_over_the_terminal() -> None:
    evil = "\x1b[2Jgone \x9b5n \x07 \u202eevil\u202c and\x00 so\ron"
    assert visible(evil) == "␛[2Jgone \\u009b5n ␇ \\u202eevil\\u202c and␀ so␍on"
    file = Tty()
    shown([Line(ROOT, ((visible(evil), "plain"),))], file)
    assert "\x1b[2J" not in file.getvalue()
