import json
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from stellwerk.envelope import frames
from stellwerk.envelope.model import Envelope, decode, encode, json_schema, type_of
from tests.samples import message, token, whole_run

SCHEMA = Path(__file__).parents[2] / "docs/reference/envelope.schema.json"


@pytest.mark.requirement("002.envelope.types")
def test_every_type_of_the_contract_exists() -> None:
    wanted = (
        "llm_start llm_token llm_end tool_start tool_update tool_end subgraph_checkpoint subgraph_resume warning error"
    )
    assert set(wanted.split()) <= {kind.__struct_config__.tag for kind in get_args(Envelope)}


@pytest.mark.parametrize("envelope", whole_run(), ids=type_of)
def test_what_is_encoded_decodes_to_the_same(envelope: Envelope) -> None:
    assert decode(encode(envelope)) == envelope


@pytest.mark.requirement("002.envelope.payload")
@pytest.mark.parametrize("kind", get_args(Envelope), ids=lambda kind: str(kind.__struct_config__.tag))
def test_a_type_has_no_field_of_its_own_but_its_payload(kind: type[msgspec.Struct]) -> None:
    common = {"ts", "trace_id", "run_id", "parent_id", "call_id", "seq", "agent", "payload"}
    assert set(kind.__struct_fields__) == common
    assert msgspec.structs.fields(kind)[-1].name == "payload"


@pytest.mark.requirement("002.envelope.ts", "002.envelope.trace-id", "002.envelope.run-id")
def test_the_stored_form_has_its_fields_in_a_fixed_order_and_leaves_out_what_is_absent() -> None:
    assert encode(token("hi")) == (
        b'{"type":"llm_token","ts":1.5,"trace_id":"trace","run_id":"run","parent_id":"run",'
        b'"call_id":"llm","seq":2,"payload":{"text":"hi"}}'
    )


def test_only_the_parent_of_a_root_call_is_null() -> None:
    assert [type_of(e) for e in whole_run() if b"null" in encode(e)] == ["run_start", "run_end"]


def test_an_envelope_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        token("hi").seq = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    "body",
    [
        b'{"type":"llm_token"}',
        b'{"type":"surprise","ts":1,"parent_id":null,"call_id":"c","seq":1,"payload":{}}',
        encode(token("hi")).replace(b'"text"', b'"txet"'),
        encode(token("hi"))[:-1] + b',"extra":1}',
    ],
    ids=["fields missing", "unknown type", "unknown payload field", "unknown field"],
)
def test_a_body_that_is_no_envelope_is_refused(body: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode(body)


@pytest.mark.requirement("004.stream.framing", "000.stream.one-object-per-line")
def test_line_separators_of_other_worlds_are_escaped_and_survive() -> None:
    text = "a\u2028b\u2029c\u0085d\re\nf"
    body = encode(token(text))
    assert body.decode().splitlines() == [body.decode()]
    assert json.loads(body)["payload"]["text"] == text


@pytest.mark.requirement("004.stream.framing")
@pytest.mark.parametrize(
    "text", ["a\n\ndata: {}\n\n", "\r\ndata: {}\r\n\r\n", "\revent: x\rdata: 1\r\r", "id: 9\u2028"]
)
def test_a_text_cannot_forge_a_field_of_the_stream(text: str) -> None:
    frame = frames.sse("s1", frames.Stored(7, encode(token(text))), "live").decode()
    *fields, end, rest = frame.replace("\r", "\n").split("\n")
    assert [field.partition(":")[0] for field in fields] == ["id", "data"]
    assert (end, rest) == ("", "")
    assert json.loads(fields[1].removeprefix("data: "))["payload"]["text"] == text


@pytest.mark.requirement("002.envelope.origin")
def test_a_frame_is_the_stored_body_with_its_place_in_front() -> None:
    stored = frames.Stored(7, encode(message()))
    shown = json.loads(frames.line("s1", stored, "replay"))
    assert list(shown)[:4] == ["position", "origin", "session_id", "type"]
    assert (shown["position"], shown["origin"], shown["session_id"]) == (7, "replay", "s1")
    assert frames.sse("s1", stored, "live").startswith(b'id: 7\ndata: {"position":7,"origin":"live"')
    assert frames.sse("s1", stored, "live").endswith(b"}\n\n")
    assert b"\r" not in frames.sse("s1", stored, "live")


def test_the_published_schema_is_current() -> None:
    assert json.loads(SCHEMA.read_text("utf-8")) == json_schema(), "run `make golden` and review the diff"
