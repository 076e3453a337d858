"""Escapes: a text is read as whoever wrote it meant it, and what is found has its place in the text as it was."""

import html
import json
import time
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.envelope import escapes

WRITERS = (
    lambda text: text,
    lambda text: json.dumps(text)[1:-1],
    lambda text: json.dumps(text, ensure_ascii=False)[1:-1].replace("/", "\\/"),
    lambda text: "".join(f"\\u{ord(letter):04X}" if ord(letter) < 0x10000 else letter for letter in text),
    lambda text: quote(text, safe=""),
    html.escape,
    lambda text: "".join(f"&#{ord(letter)};" for letter in text),
)
TEXTS = st.text(st.sampled_from('ab1 +/&<";\n\tä€😀'), min_size=1, max_size=8)


@given(TEXTS, TEXTS, TEXTS, st.lists(st.sampled_from(WRITERS), max_size=escapes.LAYERS))
def test_what_was_escaped_a_few_times_is_read_and_found_where_it_stands(
    before: str, text: str, after: str, writers: list[Callable[[str], str]]
) -> None:
    parts = [before, text, after]
    for write in writers:
        parts = [write(part) for part in parts]
    layers = escapes.readings("".join(parts))
    starts = [depth for depth, read in enumerate(layers) if read == before + text + after]
    assert starts, layers
    above = layers[: starts[0]]
    place, end = escapes.places(above, [len(before), len(before + text)])
    assert layers[0][place:end] == parts[1]


@pytest.mark.parametrize(
    ("text", "half"),
    [
        ("a", 1),
        ("a\\", 1),
        ("a\\\\", 3),
        ("a\\\\\\", 3),
        ("a\\u00e", 1),
        ("a\\u00e4", 7),
        ("\\ud83d", 0),
        ("\\ud83d\\ude0", 0),
        ("\\ud83d\\ude00", 12),
        ("5%", 1),
        ("%c3", 0),
        ("%c3%a", 0),
        ("%c3%a4", 6),
        ("R&D", 1),
        ("R&D ", 4),
        ("&#4", 0),
        ("\\" * 100, 100),
        ("\\" * 101, 100),
    ],
)
def test_half_an_escape_waits_for_what_follows(text: str, half: int) -> None:
    assert escapes.unfinished(text) == half


def test_a_text_of_nothing_but_escapes_holds_up_nobody() -> None:
    for text in ("\\" * 1_000_000, "%2525" * 200_000, "&amp;" * 200_000):
        began = time.process_time()
        layers = escapes.readings(text)
        escapes.places(layers[:-1], list(range(0, len(layers[-1]), 10)))
        assert time.process_time() - began < 4
