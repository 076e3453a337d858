"""Lines on the wire: one per JSON value for every reader, and whole again however the bytes are cut."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.envelope.ndjson import LineBuffer, LineTooLong
from stellwerk.envelope.to_json import one_line

lines_of_a_stream = st.lists(st.binary(min_size=1).filter(lambda line: b"\n" not in line and line.strip(b" \t\r")))


def read(buffer: LineBuffer, chunks: list[bytes]) -> list[bytes]:
    return [line for chunk in chunks for line in buffer.feed(chunk)]


@pytest.mark.parametrize("char", ["\u0085", "\u2028", "\u2029"])
def test_a_line_break_of_other_readers_is_escaped(char: str) -> None:
    escaped = one_line(json.dumps({"a": char}, ensure_ascii=False).encode())
    assert escaped == b'{"a": "\\u%04x"}' % ord(char)


def test_an_escape_before_a_line_break_stays_an_escape() -> None:
    text = 'a\\\u2028"\u2029\\\\\u0085'
    assert json.loads(one_line(json.dumps(text, ensure_ascii=False).encode())) == text


@given(st.text())
def test_any_text_is_one_line_and_the_same_after_parsing(text: str) -> None:
    line = one_line(json.dumps(text, ensure_ascii=False).encode())
    assert len(line.decode().splitlines()) == 1
    assert json.loads(line) == text


@pytest.mark.parametrize("data", [b'{"a":"b"}', '{"a":"Zürich – 東京"}'.encode()])
def test_a_line_without_such_breaks_is_not_copied(data: bytes) -> None:
    assert one_line(data) is data


@given(lines_of_a_stream, st.data())
@pytest.mark.requirement("000.stream.cuts-do-not-matter")
def test_how_the_bytes_are_cut_does_not_matter(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    cuts = data.draw(st.lists(st.integers(0, len(stream))).map(sorted))
    chunks = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    buffer = LineBuffer()
    assert read(buffer, chunks) == lines
    assert buffer.close() is None


def test_a_character_cut_in_two_is_whole_again() -> None:
    first, second = "ü\n".encode()[:1], "ü\n".encode()[1:]
    assert read(LineBuffer(), [first, second]) == ["ü".encode()]


def test_heartbeats_are_no_lines() -> None:
    assert read(LineBuffer(), [b"\n", b"\r\n\n", b"{}\n \t\r\n", b"\n[]\n"]) == [b"{}", b"[]"]


def test_a_line_ends_at_lf_and_nowhere_else() -> None:
    line = "a\rb\u2028c\u0085d\x0b\x0c\x1ce".encode()
    assert read(LineBuffer(), [line + b"\n"]) == [line]


def test_the_last_line_needs_no_line_end() -> None:
    buffer = LineBuffer()
    assert read(buffer, [b"a\nb"]) == [b"a"]
    assert buffer.close() == b"b"
    assert buffer.close() is None


def test_bytes_are_taken_in_at_once_even_if_the_lines_are_read_later() -> None:
    buffer = LineBuffer()
    early, late = buffer.feed(b"a\nb"), buffer.feed(b"c\n")
    assert [*early, *late] == [b"a", b"bc"]


def test_a_long_line_in_single_bytes_costs_no_more_than_its_bytes() -> None:
    """Looking at everything again for each byte would take hours."""
    buffer = LineBuffer()
    assert read(buffer, [b"x"] * 2**20) == []
    assert read(buffer, [b"\n"]) == [b"x" * 2**20]


@pytest.mark.parametrize("chunks", [[b"ok\n12345\n"], [b"ok\n12345"], [bytes([byte]) for byte in b"ok\n12345"]])
def test_a_line_too_long_is_refused_after_the_lines_before_it(chunks: list[bytes]) -> None:
    buffer, seen = LineBuffer(max_line=4), []
    with pytest.raises(LineTooLong, match="longer than 4 bytes"):
        for chunk in chunks:
            for line in buffer.feed(chunk):
                seen.append(line)
    assert seen == [b"ok"]
    assert buffer.close() is None, "what cannot be read is not kept"


def test_a_line_of_exactly_the_limit_is_read() -> None:
    assert read(LineBuffer(max_line=4), [b"12", b"34", b"\n"]) == [b"1234"]
