"""The envelope: one event of one session, as it is stored.

A session is a list of envelopes and nothing else. This module defines their
types; it has no clock, makes no ids and does no I/O, so the same bytes always
mean the same thing: live, replayed, or read a year later.
"""

from typing import Any

import msgspec
from msgspec import Struct

from stellwerk.envelope import payloads as p
from stellwerk.envelope.to_json import canonical, one_line

FORMAT = 1
"""The version of the stored form; every older one stays readable for ever."""


class _Envelope(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", forbid_unknown_fields=True):
    ts: float
    trace_id: str | None = None
    run_id: str | None = None
    """Absent while an enqueued message waits for its run."""
    parent_id: str | None
    """The call this one belongs to; null for a run, which belongs to nothing."""
    call_id: str
    seq: int
    """Counts up within one ``call_id``; a replay has the same numbers."""
    agent: str | None = None


class RunStart(_Envelope, frozen=True, kw_only=True, tag="run_start"):
    payload: p.RunStarted


class RunEnd(_Envelope, frozen=True, kw_only=True, tag="run_end"):
    payload: p.RunEnded


class Message(_Envelope, frozen=True, kw_only=True, tag="message"):
    payload: p.Said


class LlmStart(_Envelope, frozen=True, kw_only=True, tag="llm_start"):
    payload: p.ModelCalled


class LlmToken(_Envelope, frozen=True, kw_only=True, tag="llm_token"):
    payload: p.Token


class LlmEnd(_Envelope, frozen=True, kw_only=True, tag="llm_end"):
    payload: p.ModelEnded


class ToolStart(_Envelope, frozen=True, kw_only=True, tag="tool_start"):
    payload: p.ToolCalled


class ToolUpdate(_Envelope, frozen=True, kw_only=True, tag="tool_update"):
    payload: p.ToolUpdated


class ToolEnd(_Envelope, frozen=True, kw_only=True, tag="tool_end"):
    payload: p.ToolEnded


class SubgraphCheckpoint(_Envelope, frozen=True, kw_only=True, tag="subgraph_checkpoint"):
    payload: p.Checkpointed


class SubgraphResume(_Envelope, frozen=True, kw_only=True, tag="subgraph_resume"):
    payload: p.Resumed


class AskUser(_Envelope, frozen=True, kw_only=True, tag="ask_user"):
    payload: p.Asked


class UserAnswer(_Envelope, frozen=True, kw_only=True, tag="user_answer"):
    payload: p.Answered


class State(_Envelope, frozen=True, kw_only=True, tag="state"):
    payload: p.StateChanged


class Update(_Envelope, frozen=True, kw_only=True, tag="update"):
    payload: p.Updated


class Document(_Envelope, frozen=True, kw_only=True, tag="document"):
    payload: p.Filed


class Log(_Envelope, frozen=True, kw_only=True, tag="log"):
    payload: p.Logged


class StopRequest(_Envelope, frozen=True, kw_only=True, tag="stop_request"):
    payload: p.StopAsked


class Warning(_Envelope, frozen=True, kw_only=True, tag="warning"):
    payload: p.Problem


class Error(_Envelope, frozen=True, kw_only=True, tag="error"):
    payload: p.Problem


Envelope = (
    RunStart
    | RunEnd
    | Message
    | LlmStart
    | LlmToken
    | LlmEnd
    | ToolStart
    | ToolUpdate
    | ToolEnd
    | SubgraphCheckpoint
    | SubgraphResume
    | AskUser
    | UserAnswer
    | State
    | Update
    | Document
    | Log
    | StopRequest
    | Warning
    | Error
)

CallStart = LlmStart | ToolStart
CallEnd = LlmEnd | ToolEnd

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Envelope] = msgspec.json.Decoder(Envelope)


def encode(envelope: Envelope) -> bytes:
    """Return the stored bytes: one line of JSON, without position, origin and session."""
    try:
        return one_line(_encoder.encode(envelope))
    except UnicodeEncodeError:  # lone surrogates: an error would lose the whole batch
        return one_line(_encoder.encode(canonical(msgspec.to_builtins(envelope)).value))


def decode(body: bytes) -> Envelope:
    return _decoder.decode(body)


def type_of(envelope: Envelope) -> str:
    return str(envelope.__struct_config__.tag)


def json_schema() -> dict[str, Any]:
    """Return the stored form as JSON Schema, for clients in other languages."""
    schema: dict[str, Any] = msgspec.json.schema(Envelope)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Stellwerk envelope", **schema}
