"""Packed and unpacked again, a story is what it was: every position, every byte, from wherever one reads on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.envelope.frames import Stored
from stellwerk.envelope.model import Envelope, ToolUpdate, decode, encode, type_of
from stellwerk.envelope.packing import compacted, expanded, is_pack
from stellwerk.envelope.payloads import ToolUpdated
from tests.golden.files import BY_NAME, run_file
from tests.samples import llm_end, llm_start, place, run_start, token


def stored(*story: Envelope) -> list[Stored]:
    return [Stored(n, encode(envelope)) for n, envelope in enumerate(story, start=1)]


GOLDEN = [
    Stored(n, body)
    for n, body in enumerate((b for name in sorted(BY_NAME) for b in run_file(name).read_bytes().splitlines()), start=1)
]


@pytest.mark.requirement("trust.I1", "trust.I5")
@given(seen=st.integers(0, len(GOLDEN)), cuts=st.lists(st.integers(0, len(GOLDEN)), max_size=4))
def test_a_reader_who_has_read_some_of_it_goes_on_with_exactly_the_rest(seen: int, cuts: list[int]) -> None:
    compact = GOLDEN
    for cut in cuts:  # piece by piece, and some of it again
        compact = [*compacted(s for s in compact if s.position <= cut), *(s for s in compact if s.position > cut)]
    rest = [s for s in compact if s.position > seen]
    assert list(expanded(rest, after=seen)) == GOLDEN[seen:]


@given(texts=st.lists(st.text(max_size=20), min_size=2, max_size=8))
def test_whatever_was_said_comes_out_as_it_went_in(texts: list[str]) -> None:
    spoken = stored(*(token(text, seq) for seq, text in enumerate(texts, start=2)))
    (pack,) = compacted(spoken)
    assert (pack.position, is_pack(pack), list(expanded([pack]))) == (len(texts), True, spoken)


def test_only_pieces_of_text_are_packed_and_only_several_that_follow_each_other() -> None:
    data = ToolUpdate(**place("t", 2), payload=ToolUpdated(phase="output", data={"document_id": "d"}))
    shown = ToolUpdate(**place("t", 3), payload=ToolUpdated(phase="output", text='a "data": b'))
    story = stored(run_start(), llm_start("a"), token("x"), llm_end(), token("y"), shown, data, data, token("z"))
    kept = compacted(story)
    assert [s.position for s in kept] == [1, 2, 3, 4, 6, 7, 8, 9]
    assert [type_of(decode(s.body)) for s in kept if not is_pack(s)].count("tool_update") == 2


def test_words_that_come_one_by_one_take_a_tenth_of_the_room() -> None:
    words = "a railway signal box is one place that sets the routes and sees every train and writes it down".split()
    spoken = stored(*(token(f"{word} ", seq) for seq, word in enumerate(words * 10, start=2)))
    assert sum(len(s.body) for s in compacted(spoken)) * 10 < sum(len(s.body) for s in spoken)
