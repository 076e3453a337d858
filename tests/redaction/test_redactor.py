"""Redaction: a known secret is replaced in its plain, JSON, URL, base64 and Markdown forms."""

import hashlib
import json
import time
import tracemalloc
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.envelope.introspection import make_blob
from stellwerk.envelope.model import Message, decode, encode
from stellwerk.envelope.payloads import Said, TextPart, ToolEnded
from stellwerk.envelope.results import Column, Table, escaped
from stellwerk.envelope.to_json import to_result
from stellwerk.log.transactions import entry
from stellwerk.redaction.redactor import Redactor, forms_of, without_secrets

CANARY = 'sk-canary/7"+ä?\n>>~z|z'
ENCODED = CANARY.encode()


@pytest.mark.parametrize(
    "text",
    [
        CANARY,
        json.dumps(CANARY),
        json.dumps(CANARY, ensure_ascii=False),
        f"https://api.example/?key={quote(CANARY)}&page=2",
        f"https://api.example/?key={quote(CANARY, safe='')}",
        f"key={quote_plus(CANARY)}",
        escaped(f"use {CANARY} now"),
        Table(columns=(Column(name="a"),), rows=((CANARY,),)).as_text(),
        f"key={quote(CANARY, safe='').lower()}",
        b64encode(ENCODED).decode(),
        urlsafe_b64encode(ENCODED).decode(),
        urlsafe_b64encode(ENCODED).decode().rstrip("="),
        json.dumps(CANARY).replace("/", "\\/"),
        f"https://api.example/?key={quote(CANARY, safe=';,/?:@&=+$-_.!~*()#')}",
        *(f"Authorization: Basic {b64encode(b'user'[:n] + b':' + ENCODED + b'!').decode()}" for n in range(4)),
    ],
)
def test_a_secret_is_found_in_its_plain_json_url_and_base64_forms(text: str) -> None:
    redacted = Redactor([CANARY]).redact_text(f"before {text} after")
    assert "[redacted]" in redacted
    assert redacted.startswith("before ") and redacted.endswith(" after")
    for left in (b64encode(ENCODED).decode()[4:16], "canary"):
        assert left not in redacted


def test_every_string_of_a_value_is_redacted_keys_included() -> None:
    value = {"a": ["x hunter22 y", 1, None, True, 1.5], "hunter22": {"b": "hunter22"}, "rows": (("hunter22",),)}
    clean = {"a": ["x [redacted] y", 1, None, True, 1.5], "[redacted]": {"b": "[redacted]"}, "rows": [["[redacted]"]]}
    assert Redactor(["hunter22"]).redact(value) == clean


def test_two_keys_that_become_one_are_both_kept() -> None:
    assert Redactor(["aaaa", "bbbb"]).redact({"aaaa": 1, "bbbb": 2}) == {"[redacted]": 1, "[redacted]~2": 2}


def test_of_two_secrets_the_longer_one_is_taken_out_whole() -> None:
    assert Redactor(["hunter22", "hunter22-prod"]).redact_text("hunter22-prod hunter22") == "[redacted] [redacted]"


def test_long_secrets_cost_no_more_memory_than_their_forms() -> None:
    noise = [hashlib.shake_256(bytes([number])).hexdigest(2000) for number in range(10)]
    secrets = [f"{each}+/\n" for each in noise]
    tracemalloc.start()
    try:
        redactor = Redactor(secrets)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
    text = f"{secrets[3]} {noise[4]} {json.dumps(secrets[5])}"
    assert redactor.redact_text(text) == f'[redacted]\n {noise[4]} "[redacted]\\n"'
    assert redactor.settled(f"so {noise[6]}") == 3


def test_of_two_secrets_that_overlap_nothing_is_left() -> None:
    assert Redactor(["hunter22", "r22-prod7"]).redact_text("so hunter22-prod7 and r22-") == "so [redacted] and r22-"


@given(st.lists(st.text("ab1", min_size=4, max_size=8), min_size=1, max_size=3), st.lists(st.text("ab1", max_size=9)))
@example(["s3cret-s"], ["it is s3cret-s", " now"])
def test_a_text_that_comes_in_pieces_is_redacted_as_if_it_had_come_whole(secrets: list[str], pieces: list[str]) -> None:
    redactor, waiting, told = Redactor(secrets), "", ""
    for piece in pieces:
        waiting += piece
        whole = redactor.settled(waiting)
        told, waiting = told + redactor.redact_text(waiting[:whole]), waiting[whole:]
    assert told + redactor.redact_text(waiting) == redactor.redact_text("".join(pieces))


SAID = Message(
    ts=1.0,
    trace_id="t",
    run_id="r",
    parent_id=None,
    call_id="c",
    seq=1,
    agent="root",
    payload=Said(
        message_id="m1", role="assistant", content=[TextPart(text='so "x": [1, 2]\n\\ 50% &c')], status="last"
    ),
)
FRAGMENTS = st.text(st.sampled_from(encode(SAID).decode()), min_size=4, max_size=12)
STANDING = st.integers(0, len(encode(SAID)) - 4).map(lambda at: encode(SAID).decode()[at : at + 12])


@given(st.lists(FRAGMENTS | STANDING | st.sampled_from(["assistant", "message_id", "content", "last", "text"])))
def test_whatever_the_secrets_are_an_envelope_keeps_its_form(secrets: list[str]) -> None:
    body = entry(SAID, Redactor(secrets)).body
    plain, whole = json.loads(body), json.loads(encode(SAID))
    decode(body)
    assert keys(plain) == keys(whole)
    assert [plain["payload"][name] for name in ("role", "status")] == ["assistant", "last"]
    said = SAID.payload.content[0]
    assert isinstance(said, TextPart)
    assert plain["payload"]["content"][0]["text"] == Redactor(secrets).redact_text(said.text)


def keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: keys(item) for key, item in value.items()}
    return [keys(item) for item in value] if isinstance(value, list) else None


ENCODERS = {
    "plain": str,
    "JSON": json.dumps,
    "URL": quote,
    "base64": lambda text: b64encode(text.encode()).decode(),
}


@pytest.mark.parametrize("encoded", ENCODERS.values(), ids=ENCODERS.keys())
@pytest.mark.parametrize("canary", [CANARY, "back\\slash7", 'quo"te and\ttab7', "delete\x7f\x01seven", "line\u2028end"])
def test_no_form_of_a_secret_gets_into_the_log(canary: str, encoded: Callable[[str], str]) -> None:
    redactor = Redactor([canary])
    text = f"it is {encoded(canary)}"
    message = replace(SAID, payload=replace(SAID.payload, content=[TextPart(text=text)]))
    stored = json.loads(entry(message, redactor).body)["payload"]["content"][0]["text"]
    assert stored == redactor.redact_text(text)
    assert "[redacted]" in stored


def test_a_document_of_json_stays_one_though_a_secret_looks_like_a_part_of_it() -> None:
    blob = make_blob(b'{"a": "x", "b": ["s3cret-7"]}', mime="application/json", filename="a.json")
    _, (clean,) = without_secrets([], [blob], Redactor(['"x", "b": [', "s3cret-7"]))
    assert json.loads(clean.data) == {"a": "x", "b": ["[redacted]"]}


def test_a_number_that_is_a_secret_is_taken_out_of_a_document_of_json() -> None:
    blob = make_blob(b'{"pin": 4711081512, "n": 1.5}', mime="application/json", filename="a.json")
    _, (clean,) = without_secrets([], [blob], Redactor(["4711081512"]))
    assert json.loads(clean.data) == {"pin": "[redacted]", "n": 1.5}


def work(redactor: Redactor, text: str) -> float:
    """Processor time; the best of three, as the machine does other things besides."""
    took = []
    for _ in range(3):
        began = time.process_time()
        redactor.redact_text(text)
        redactor.settled(text)
        took.append(time.process_time() - began)
    return min(took)


ALIKE = {
    "ends that differ": lambda n: "a" * 8000 + f"X{n}",
    "middles that differ": lambda n: "a" * 4000 + f"X{n}" + "a" * 4000,
    "lengths that differ": lambda n: "a" * (8000 + n) + "X",
}


@pytest.mark.parametrize("secret", ALIKE.values(), ids=ALIKE.keys())
def test_a_hundred_long_secrets_that_begin_alike_take_no_longer_than_one(secret: Callable[[int], str]) -> None:
    text = "a" * 240_000
    one, many = Redactor([secret(0)]), Redactor(map(secret, range(100)))
    assert work(many, text) < 5 * work(one, text)


def test_a_long_secret_takes_no_longer_than_a_short_one() -> None:
    text = "a" * 240_000
    assert work(Redactor(["a" * 8000 + "X"]), text) < 5 * work(Redactor(["a" * 70 + "X"]), text)


def test_twice_the_text_takes_twice_the_time() -> None:
    redactor = Redactor("a" * 8000 + f"X{n}" for n in range(100))
    assert work(redactor, "a" * 480_000) < 5 * work(redactor, "a" * 240_000)


SIMILAR = st.lists(st.text("ab+", min_size=4, max_size=9), min_size=1, max_size=5)
LONG_AND_SHORT = st.lists(st.sampled_from(["ab" * 40, "ab" * 40 + "+", "b" + "ab" * 60, "aaaa", "+ab+ab"]), min_size=1)


@given(SIMILAR | LONG_AND_SHORT, st.lists(st.sampled_from(["ab" * 40, "a", "b", "+", "%2B", "ba" * 30]), max_size=12))
def test_redaction_finds_what_a_naive_search_finds(secrets: list[str], pieces: list[str]) -> None:
    text = "".join(pieces)
    forms = {form for secret in secrets for form in forms_of(secret)}
    hidden = set[int]()
    for start in range(len(text)):
        for form in forms:
            if text.startswith(form, start):
                hidden.update(range(start, start + len(form)))
    left = "".join(letter for at, letter in enumerate(text) if at not in hidden)
    assert Redactor(secrets).redact_text(text).replace("[redacted]", "") == left


@pytest.mark.parametrize("secret", ["", "abc", "  abc\n"])
def test_a_secret_too_short_to_be_one_is_ignored(secret: str) -> None:
    assert Redactor([secret]).redact_text("abc, abcd") == "abc, abcd"


def test_a_short_secret_is_found_in_base64_only_if_it_is_alone() -> None:
    text = f"{b64encode(b'abcd').decode()} {b64encode(b'xabcdx').decode()}"
    assert Redactor(["abcd"]).redact_text(text) == "[redacted] eGFiY2R4"


def test_white_space_around_a_secret_does_not_hide_it() -> None:
    assert Redactor(["hunter22\n"]).redact_text("hunter22") == "[redacted]"


def test_without_secrets_nothing_is_copied() -> None:
    value, text = {"a": ["b"]}, "some text"
    assert Redactor().redact(value) is value
    assert Redactor().redact_text(text) is text


@given(st.text(min_size=4), st.text(), st.text())
def test_whatever_the_secret_is_it_is_gone(secret: str, before: str, after: str) -> None:
    secret = secret.replace("\0", "").strip()
    assume(len(secret) >= 4 and secret not in "[redacted]" and "[" not in secret and "]" not in secret)
    assert secret not in Redactor([secret]).redact_text(before + secret + after)


@pytest.mark.parametrize(
    "value",
    [
        {"args": {CANARY: CANARY}},
        [CANARY, (CANARY,), {CANARY}],
        ValueError(f"401 for key {CANARY}"),
        {"log": CANARY + "x" * 300_000},
        [CANARY] * 30_000,
        f"key: {CANARY}".encode(),
        {"kind": "file_ref", "filename": CANARY, "bytes_b64": b64encode(ENCODED).decode()},
        {CANARY: float("nan")},
    ],
    ids=["argument", "members", "exception", "long text", "large value", "bytes", "file", "note"],
)
def test_a_secret_reaches_neither_value_nor_note_nor_blob(value: Any) -> None:
    redactor = Redactor([CANARY])
    result, notes, blobs = to_result(value)
    ended = ToolEnded(tool_name="look", tool_call_id="c1", status="ok", result=result, sanitized=list(notes))
    (stored,), documents = without_secrets([ended], blobs, redactor)
    seen = repr((redactor.redact(stored), documents))
    assert "canary" not in seen
    assert "[redacted]" in seen
