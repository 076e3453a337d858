"""The canonicaliser: whatever it is given, what it returns is JSON that every reader accepts."""

import asyncio
import gc
import inspect
import json
import re
import sys
import threading
import uuid
from base64 import b64encode
from hashlib import sha256
from typing import Any

import httpx2
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage
from pydantic import SecretStr

from stellwerk.envelope.introspection import make_blob
from stellwerk.envelope.results import Json
from stellwerk.envelope.to_json import (
    MAX_BYTES,
    MAX_NOTES,
    PREVIEW,
    Canonical,
    canonical,
    canonical_json,
    clean_text,
    one_line,
    to_result,
)
from tests.envelope.odd_values import (
    Account,
    Client,
    Colour,
    Level,
    Login,
    anything,
    closed,
    cyclic_dict,
    cyclic_model,
    depth_of,
    nested,
    texts,
)

FFFD, FINITE, STRING = "became U+FFFD", "not a finite number", "became a string"
CUT, LARGE, BYTES, CLOSED = "deeper than 64 levels", "too large", "bytes became a document", "no JSON form"
ODD_NAME = 'new\nline "quoted" \u2028 😀 ' + "x" * 500
IMAGE = b64encode(b"\x89PNG" * 75_000).decode()


def stored(data: bytes, mime: str, filename: str = "data", *, preview: bool = False) -> dict[str, Any]:
    begin = {"preview": data.decode()[:PREVIEW]} if preview else {}
    return make_blob(data, mime=mime, filename=filename).reference() | begin


RUN = "r\u2028s\u2029t\x85u\x0b\x0c\x1c\x1d\x1e\r\n\nv"
COPIES = [{"result": "x" * 33_900}] * 38
CASES: list[tuple[int, Any, Any, str | None]] = [
    (44, {RUN: RUN}, {RUN: RUN}, None),
    (45, {"a\0": "b\0c"}, {"a\ufffd": "b\ufffdc"}, FFFD),
    (46, "high \ud83d", "high \ufffd", FFFD),
    (46, "low \ude00 and", "low \ufffd and", FFFD),
    (46, "rejoined \ud83d\ude00", "rejoined 😀", None),
    (47, [float("nan")], [None], f"$[0]: {FINITE}"),
    (47, {"x": float("inf")}, {"x": None}, f"$.x: {FINITE}"),
    (47, float("-1e400"), None, FINITE),
    (47, -0.0, 0.0, "-0.0 became 0.0"),
    (48, 2**53 - 1, 2**53 - 1, None),
    (48, 2**53 + 1, "9007199254740993", STRING),
    (48, -(2**64), "-18446744073709551616", STRING),
    (48, 10**400, "1" + "0" * 400, STRING),
    (48, 10**5000, hex(10**5000), STRING),
    (48, 1 << 10**6, "int of 1000001 bits", STRING),
    (49, b"text \xc3\xbc", stored(b"text \xc3\xbc", "text/plain"), BYTES),
    (49, {"raw": b"\xff\x00"}, {"raw": stored(b"\xff\x00", "application/octet-stream", "raw")}, BYTES),
    (49, bytearray(5_000_000), stored(bytes(5_000_000), "application/octet-stream"), BYTES),
    (49, [b"%PDF-1.7"], [stored(b"%PDF-1.7", "application/pdf", "data.pdf")], BYTES),
    (50, cyclic_dict(), {"self": closed("dict")}, "$.self: dict: contains itself"),
    (50, cyclic_model(), closed("Node"), CLOSED),
    (50, {"e": asyncio.Event()}, {"e": closed("Event")}, f"$.e: Event: {CLOSED}"),
    (50, threading.RLock(), closed("RLock"), CLOSED),
    (50, httpx2.Client(), closed("Client"), CLOSED),
    *((51, nested(depth), nested(64, None), CUT) for depth in (65, 300, 5_000, 1_000_000)),
    (51, nested(64, "deep"), nested(64, "deep"), None),
    (51, nested(64, object()), nested(64, None), CUT),
    (51, nested(64, "x" * 300_000), nested(64, None), CUT),
    (52, {uuid.UUID(int=1): 1}, {"00000000-0000-0000-0000-000000000001": 1}, None),
    (52, {1: "a", "1": "b", "1~2": "c"}, {"1": "a", "1~2": "b", "1~2~2": "c"}, "$.1: key used twice, renamed to 1~2"),
    (52, {"1~2": "c", 1: "a", "1": "b"}, {"1~2": "c", "1": "a", "1~3": "b"}, "renamed to 1~3"),
    (52, {(1, "b"): 1, None: 2, True: 3, b"\xff": 4}, {'[1,"b"]': 1, "null": 2, "true": 3, "\ufffd": 4}, None),
    (53, "x" * 1_500_000, stored(b"x" * 1_500_000, "text/plain", preview=True), LARGE),
    (53, COPIES, stored(canonical_json(COPIES), "application/json", preview=True), LARGE),
    (
        54,
        {"out": "ü" * 11_500_000},
        {"out": stored("ü".encode() * 11_500_000, "text/plain", "out", preview=True)},
        LARGE,
    ),
    (55, {"i": [IMAGE] * 2}, {"i": [stored(IMAGE.encode(), "text/plain", preview=True)] * 2}, LARGE),
    (56, Client(), closed("Client"), CLOSED),
    (56, Account("a", "sk-secret"), {"name": "a", "api_key": "*" * 10, "notes": "*" * 10, "password": None}, None),
    (56, Login(user="a", key=SecretStr("sk-secret")), {"user": "a", "key": "*" * 10}, None),
    (56, [Colour.RED, Level.HIGH], ["red", 3], None),
    (56, ValueError("no", 1), {"error": "ValueError", "message": "('no', 1)"}, None),
    (57, {"name": None, "content": "", "id": None}, {"name": None, "content": "", "id": None}, None),
    (58, {ODD_NAME: ODD_NAME}, {ODD_NAME: ODD_NAME}, None),
]


@pytest.mark.requirement("002.coercion.own-json-form", "002.coercion.models", "002.coercion.new-classes-are-additive")
@pytest.mark.parametrize(("case", "value", "expected", "note"), CASES, ids=[f"case {case[0]}" for case in CASES])
def test_what_broke_others_becomes_plain_json(case: int, value: Any, expected: Any, note: str | None) -> None:
    found = canonical(value)
    assert found.value == expected
    assert any(note in line for line in found.notes) if note else found.notes == ()
    assert b"\n" not in one_line(msgspec.json.encode(found.value))
    assert "sk-secret" not in repr(found)


def test_a_generator_is_not_consumed() -> None:
    numbers = iter(range(3))
    generator = (number for number in numbers)
    assert canonical(generator).value == closed("generator")
    assert list(generator) == [0, 1, 2]


def test_a_person_at_the_keyboard_is_still_heard() -> None:
    class Slow:
        def model_dump(self) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        canonical(Slow())


def test_minus_zero_is_written_as_zero() -> None:
    assert canonical_json(canonical(-0.0).value) == b"0.0"


def test_a_value_used_twice_is_no_cycle() -> None:
    shared = {"a": [1]}
    assert canonical([shared, shared]).value == [shared, shared]


def test_the_same_bytes_are_one_document_with_a_short_id() -> None:
    found = canonical({"a": b"x", "b": [b"x", bytearray(b"x")]})
    (blob,) = found.blobs
    assert blob.data == b"x" and blob.digest == sha256(b"x").hexdigest()
    assert len(blob.document_id) == 22 and blob.document_id.isalnum()


def test_a_large_value_is_a_document_and_its_place_shows_how_it_begins() -> None:
    value = {"rows": [{"n": n, "text": "some text \u2028"} for n in range(10_000)], "raw": b"x"}
    found = canonical(value)
    raw, whole = found.blobs
    assert raw.data == b"x"
    assert whole.data == canonical_json(value | {"raw": raw.reference()})
    assert found.value == whole.reference() | {"preview": whole.data.decode()[:PREVIEW]}


def test_a_text_of_exactly_the_limit_stays_in_place() -> None:
    text = "x" * (MAX_BYTES - 2)
    assert canonical(text).value == text
    assert canonical(text + "x").value["kind"] == "file_ref"
    assert canonical("\u2028" * (MAX_BYTES // 4)).value["kind"] == "file_ref", "it is counted as it is sent, escaped"


def test_a_small_bomb_of_aliases_does_not_unfold() -> None:
    bomb: Any = {"k" * 1000: 10**3000}
    for _ in range(30):
        bomb = [bomb, bomb, {"a": bomb, "b": bomb}]
    found = canonical(bomb)
    assert found.value["size"] < 100_000_000
    assert "$: too much data, the end is missing" in found.notes


def test_the_notes_stay_short_however_much_was_changed() -> None:
    notes = canonical({f"{n}" + "k" * 1000: [float("nan")] * 10 for n in range(10)}).notes
    assert len(notes) == MAX_NOTES + 1 and notes[-1] == "$: 80 more changes"
    assert max(map(len, notes)) < 250


def test_without_any_stack_left_a_value_is_closed_and_not_an_error() -> None:
    def descend(depth: int) -> Any:
        return descend(depth - 1) if depth else canonical(nested(64)).value

    used = len(inspect.stack(0))
    assert descend(sys.getrecursionlimit() - used - 60) == closed("list")


@pytest.mark.parametrize("changes", [1, 1_000])
def test_a_dict_that_changes_while_it_is_read_is_no_error(changes: int) -> None:
    value = {str(n): n for n in range(5_000)}

    def change(phase: str, info: dict[str, int]) -> None:
        if len(value) < 5_000 + changes:
            value[f"new {len(value)}"] = 0

    gc.callbacks.append(change)  # at each collection, one of which is due while so many items are listed
    try:
        assert isinstance(to_result(value)[0], Json)
    finally:
        gc.callbacks.remove(change)


@given(anything, st.integers(1, 64))
def test_anything_becomes_valid_json_on_one_line_and_not_too_deep(value: Any, depth: int) -> None:
    found = canonical(value, depth=depth)
    line = one_line(msgspec.json.encode(found.value)).decode()
    assert msgspec.json.decode(line) == json.loads(line) == found.value
    assert len(line.splitlines()) == 1 and "\0" not in line
    assert depth_of(found.value) <= depth


@given(anything)
def test_what_is_canonical_stays_as_it_is(value: Any) -> None:
    once = canonical(value).value
    assert canonical(once) == Canonical(value=once)
    assert canonical_json(once) == canonical_json(canonical(value).value)


@given(texts, texts)
def test_text_cleaned_in_pieces_is_the_text_cleaned_whole(first: str, second: str) -> None:
    if not re.search("[\ud800-\udbff]$", first) or not re.match("[\udc00-\udfff]", second):
        assert clean_text(first) + clean_text(second) == clean_text(first + second)
    clean = clean_text(first)
    assert clean_text(clean) is clean
    assert clean.encode().decode() == clean


def test_clean_text_is_a_plain_string_even_of_a_subclass() -> None:
    assert type(clean_text(AIMessage("hi").text)) is str
