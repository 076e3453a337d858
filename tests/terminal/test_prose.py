"""Text that arrives in pieces is broken between words, and the same however it was cut."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from stellwerk.terminal.prose import Prose

words = st.text(st.sampled_from("abcdefg.,-"), min_size=1, max_size=20)
texts = st.lists(st.one_of(words, st.sampled_from([" ", "\n", "\n\n", "  ", "`"]))).map("".join)


def written(pieces: Sequence[str], room: int | None, *, torn: bool = True) -> str:
    prose = Prose()
    shown = [out for piece in pieces for out in prose.feed(piece, room, torn=torn)]
    return "".join([*shown, *prose.rest(room, torn=torn)])


@settings(deadline=None)
@given(texts, st.integers(min_value=5, max_value=40))
def test_no_row_is_wider_than_there_is_room_and_no_letter_is_lost(text: str, room: int) -> None:
    shown = written([text], room)
    assert all(len(row) <= room for row in shown.split("\n"))
    assert "".join(shown.split()) == "".join(text.split())


@settings(deadline=None)
@given(texts, st.integers(min_value=5, max_value=40), st.lists(st.integers(min_value=0, max_value=200)))
def test_how_the_text_was_cut_does_not_matter(text: str, room: int, cuts: list[int]) -> None:
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[a:b] for a, b in zip(places, places[1:], strict=False)]
    assert written(pieces, room) == written([text], room)


@settings(deadline=None)
@given(st.lists(words, min_size=1).map(" ".join))
def test_a_word_that_fits_is_never_torn(text: str) -> None:
    assert written([text], 30).split() == text.split()


def test_an_item_of_a_list_is_indented_when_it_goes_on() -> None:
    assert written(["- one two three four five"], 14) == "- one two\n  three four\n  five"


def test_code_and_tables_are_not_wrapped_so_that_they_can_be_copied() -> None:
    text = "look:\n```\na long line of code it is\n```\n| a long row | of a table |\nand here is prose"
    shown = written([text], 12, torn=False).split("\n")
    assert shown == [*text.split("\n")[:-1], "and here is", "prose"]
    command = "- the new one: `git clone ~/a/b/c`, then `cd c`"
    assert written([command], 24, torn=False) == "- the new one:\n  `git clone ~/a/b/c`,\n  then `cd c`"
    assert written([*command], 12, torn=False) == "- the new\n  one:\n  `git clone ~/a/b/c`,\n  then\n  `cd c`"


def test_empty_lines_around_a_text_are_left_out_and_those_in_it_are_kept() -> None:
    assert written(["\n\none\n", "\n", "two\n\n\n"], 20) == "one\n\ntwo\n"


def test_a_script_without_spaces_does_not_wait_for_one() -> None:
    prose = Prose()
    assert "".join(prose.feed("信号塔", 20)) == "信号塔"
    assert "".join(prose.feed("の中の時計は止まっている", 20, torn=True)).count("\n") == 1
