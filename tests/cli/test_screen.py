"""The screen: rows of agents that work side by side, streaming text, the status line, and plain lines in a file."""

import io
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stellwerk.cli.render.screen import ROOT, Lane, Screen
from stellwerk.cli.render.text import visible
from stellwerk.envelope.results import Column, Table
from tests.cli.pseudo_terminal import TerminalEmulator

ANNA, BEN, DORA = Lane("anna", 1, 1), Lane("ben", 1, 2), Lane("dora", 2, 3)
WORDS = st.text(st.sampled_from("abcdefg.,-"), min_size=1, max_size=20)
TEXTS = st.lists(st.one_of(WORDS, st.sampled_from([" ", "\n", "\n\n", "  ", "`"]))).map("".join)


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True

    def rows(self) -> list[str]:
        """What a terminal would show."""
        emulator = TerminalEmulator()
        emulator.write(self.getvalue().replace("\n", "\r\n"))
        return emulator.text().rstrip("\n").split("\n")


@pytest.fixture(autouse=True)
def terminal_of_forty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    columns(monkeypatch, 40)


@pytest.fixture
def tty() -> Tty:
    return Tty()


@pytest.fixture
def screen(tty: Tty) -> Screen:
    return Screen(tty)


def columns(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    for name, value in {"COLUMNS": str(number), "TERM": "xterm-256color"}.items():
        monkeypatch.setenv(name, value)


def shown(*pieces: str, lane: Lane = ROOT, note: str = "") -> list[str]:
    """A text that arrived in these pieces."""
    tty = Tty()
    screen = Screen(tty)
    for piece in pieces:
        screen.stream(lane, "call", piece)
    screen.end_stream("call", note)
    screen.settle()
    return tty.rows()


def test_a_text_is_shown_while_it_is_written(tty: Tty, screen: Screen) -> None:
    screen.stream(ROOT, "a", "one two thr")
    assert tty.rows() == ["one two thr"]
    screen.stream(ROOT, "a", "ee and so on, until the row is full")
    assert tty.rows() == ["one two three and so on, until the row", "is full"]


def test_texts_of_two_agents_are_shown_side_by_side_and_printed_one_after_the_other(tty: Tty, screen: Screen) -> None:
    screen.stream(ANNA, "a", "one ")
    screen.stream(BEN, "b", "eins ")
    screen.stream(ANNA, "a", "two")
    assert tty.rows() == ["  anna │ one two", "  ben │ eins"]
    screen.line(BEN, ("→ tool", "plain"))
    assert tty.rows() == ["  ben │ → tool", "  anna │ one two", "  ben │ eins"]
    screen.stream(BEN, "b", "zwei")
    screen.end_stream("b")
    screen.end_stream("a")
    assert tty.rows() == ["  ben │ → tool", "      │ eins zwei", "  anna │ one two"]


def test_the_outermost_agent_has_no_label_and_deeper_ones_are_indented(tty: Tty, screen: Screen) -> None:
    screen.line(ROOT, ("→ anna", "plain"))
    screen.line(ANNA, ("→ dora", "plain"))
    screen.stream(DORA, "d", "here\n\nand there")
    screen.settle()
    assert tty.rows() == ["→ anna", "  anna │ → dora", "    dora │ here", "         │", "         │ and there"]


def test_a_line_is_cut_where_the_screen_ends_unless_every_word_counts(tty: Tty, screen: Screen) -> None:
    text = "a line that is longer than a screen of forty columns"
    screen.line(ANNA, (text, "plain"))
    screen.say(text, "bad")
    assert tty.rows() == [
        "  anna │ a line that is longer than a …",
        "a line that is longer than a screen of",
        "forty columns",
    ]


def test_a_note_is_behind_its_text_or_below_it_if_there_is_no_room() -> None:
    assert shown("done", note="1.0 s") == ["done  1.0 s"]
    long = "thirty-six letters stand in this row"
    assert shown(long, note="1.0 s") == [long, "1.0 s"]
    assert shown("done\n", note="1.0 s") == ["done", "1.0 s"]


def test_a_table_is_drawn_within_its_lane_with_the_number_of_rows_that_are_missing(tty: Tty, screen: Screen) -> None:
    table = Table(columns=("town", Column(name="people", type="number")), rows=(("Ulm", 129), ("Bonn", 336)), total=9)
    screen.table(ANNA, table)
    assert tty.rows() == [
        "  anna │   town   people",
        "       │   ─────────────",
        "       │   Ulm       129",
        "       │   Bonn      336",
        "       │   … 7 more",
    ]


def test_a_table_that_is_too_wide_is_cut_in_its_columns(tty: Tty, screen: Screen) -> None:
    screen.table(ANNA, Table(columns=("name", "about"), rows=(("Ulm", "x" * 99), ("y" * 99, None))))
    assert all(len(row) < 40 for row in tty.rows())
    assert "…" in tty.rows()[-1]


def test_a_file_gets_plain_lines() -> None:
    file = io.StringIO()
    screen = Screen(file)
    text = "a text that is longer than any screen of forty columns would be"
    screen.stream(ANNA, "a", "one\ntwo")
    assert file.getvalue() == "  anna │ one\n"
    screen.status("working")
    screen.end_stream("a")
    screen.say(f"✗ {text}", "bad")
    assert file.getvalue() == f"  anna │ one\n       │ two\n✗ {text}\n"


def test_the_status_line_is_written_over_and_leaves_nothing_behind(tty: Tty, screen: Screen) -> None:
    screen.status("looking · 1 s")
    screen.status("looking · 2 s")
    assert tty.rows() == ["looking · 2 s"]
    screen.line(ROOT, ("✓ found", "good"))
    assert tty.rows() == ["✓ found", "looking · 2 s"]
    screen.status("thinking for such a long time that no screen is wide enough")
    assert tty.rows() == ["✓ found", "thinking for such a long time that no …"]
    screen.settle()
    assert tty.rows() == ["✓ found"]


def test_a_status_line_gives_way_to_text(tty: Tty, screen: Screen) -> None:
    screen.status("thinking")
    screen.stream(ROOT, "a", "Well")
    assert tty.rows() == ["Well"]


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_whatever_the_order_no_row_mixes_two_agents_and_no_word_is_lost(data: st.DataObject) -> None:
    said = {lane: [f"{lane.name}-{number} " for number in range(8)] for lane in (ANNA, BEN, DORA)}
    left: dict[Lane, Iterator[str]] = {lane: iter(words) for lane, words in said.items()}
    tty = Tty()
    screen = Screen(tty)
    while left:
        lane = data.draw(st.sampled_from(list(left)))
        word = next(left[lane], None)
        if word is None:
            screen.end_stream(lane.name)
            del left[lane]
        else:
            screen.stream(lane, lane.name, word)
    heard: dict[str, list[str]] = {}
    for row in tty.rows():
        words = row.partition("│")[2].split()
        assert len({word.split("-")[0] for word in words}) == 1, row
        heard.setdefault(words[0].split("-")[0], []).extend(words)
    assert heard == {lane.name: [word.strip() for word in words] for lane, words in said.items()}


@settings(deadline=None)
@given(TEXTS, st.lists(st.integers(min_value=0, max_value=200)))
def test_no_letter_is_lost_and_how_the_text_was_cut_into_pieces_does_not_matter(text: str, cuts: list[int]) -> None:
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[a:b] for a, b in zip(places, places[1:], strict=False)]
    rows = shown(*pieces, lane=ANNA)
    assert "".join("".join(row.partition("│")[2] for row in rows).split()) == "".join(text.split())
    assert [row.rstrip() for row in rows] == [row.rstrip() for row in shown(text, lane=ANNA)]


@pytest.mark.parametrize("number", [12, 25, 60, 200])
def test_no_row_is_wider_than_the_screen(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    columns(monkeypatch, number)
    deep = Lane("an agent with a very long name", 7, 4)
    tty = Tty()
    screen = Screen(tty)
    screen.stream(deep, "a", "some words, and a-very-long-word-" + "x" * 80)
    screen.settle()
    screen.line(deep, ("y" * 300, "plain"))
    assert all(len(row) < max(number, 36) for row in tty.rows())


def test_code_and_tables_are_not_wrapped_so_that_they_can_be_copied() -> None:
    code = "a line of code that is longer than a screen of forty columns"
    table = "| a long row | of a table | that is wider | than it |"
    text = f"look:\n```\n{code}\n```\n{table}\nand here is prose that is wrapped at the end"
    expected = ["look:", "```", code, "```", table, "and here is prose that is wrapped at", "the end"]
    assert shown(text) == shown(*text) == expected


def test_empty_lines_around_a_text_are_left_out_and_those_in_it_are_kept() -> None:
    assert shown("\n\none\n", "\n", "two\n\n\n") == ["one", "", "two"]


def test_a_script_without_spaces_is_wrapped_by_the_width_of_its_letters() -> None:
    assert shown("信号塔の中の時計は止まっているが列車はまだ走っている") == [
        "信号塔の中の時計は止まっているが列車は",
        "まだ走っている",
    ]


EVIL = "\x1b[2Jgone \x9b5n \x07 \u202eevil\u202c and\x00 so\ron"


def test_text_has_no_power_over_the_terminal(tty: Tty, screen: Screen) -> None:
    assert visible(EVIL) == "␛[2Jgone \\u009b5n ␇ \\u202eevil\\u202c and␀ so␍on"
    screen.line(ROOT, (EVIL, "plain"))
    screen.say(EVIL)
    screen.status(EVIL)
    screen.stream(ROOT, "a", EVIL)
    screen.end_stream("a", EVIL)
    screen.table(ROOT, Table(columns=(EVIL,), rows=((EVIL,),)))
    screen.settle()
    for code in ("\x1b[2J", "\x9b", "\x07", "\u202e", "\x00", "\ron"):
        assert code not in tty.getvalue()


def test_markup_is_text(tty: Tty, screen: Screen) -> None:
    screen.say("[bold]no[/bold] :smile: [link=https://example.org]x[/link]")
    screen.table(ROOT, Table(columns=("[red]a",), rows=(("[/red]",),)))
    assert tty.rows()[0].startswith("[bold]no[/bold] :smile:")
    assert (tty.rows()[-3], tty.rows()[-1]) == ("  [red]a", "  [/red]")
