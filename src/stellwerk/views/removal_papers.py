"""Papers: what agents told each other on the way, and what tools read to them out of a file.

No message has it, so nobody could remove it by itself: it goes with the message
or the file that it may quote. They are fed a session's log from the first
envelope on, and asked when all of it is known.
"""

import sys
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from stellwerk.envelope.model import (
    AskUser,
    Document,
    Envelope,
    Error,
    LlmEnd,
    LlmStart,
    LlmToken,
    Log,
    Message,
    RunStart,
    State,
    ToolEnd,
    ToolStart,
    ToolUpdate,
    Update,
    Warning,
)
from stellwerk.envelope.payloads import Json, ToolEnded
from stellwerk.envelope.results import FileRef

GONE = "(removed)"
"""In the place of a text that must not be empty."""
PLAN = "objWorkplan"
OBJECTION = "objection"
"""Keys by which a work plan, and one that did not fit, are known."""

_Place = tuple[str | None, str | None, str]
"""Of a tool call, as the model that wants it knows it. Providers give the same id again elsewhere."""


@dataclass
class Papers:
    gone: Collection[str] = ()
    """Documents that the session has no longer."""
    since: int = sys.maxsize
    """Where the round begins in which it was said; nobody could quote it before."""
    known: set[str] = field(default_factory=set)
    """Ids of all messages."""
    told: Counter[str] = field(default_factory=Counter)
    """How often each document was added."""
    read: dict[str, _Place] = field(default_factory=dict)
    """Tool calls that were about a document that goes."""
    _names: set[str] = field(default_factory=set)
    _agents: dict[str, tuple[int, _Place]] = field(default_factory=dict)
    _inner: set[str] = field(default_factory=set)
    """Calls of agents and of graphs."""
    _rounds: dict[str | None, int] = field(default_factory=dict)

    def feed(self, position: int, envelope: Envelope) -> None:
        match envelope:
            case RunStart(trace_id=trace_id):
                self._rounds.setdefault(trace_id, position)
            case Message(payload=said):
                self.known.add(said.message_id)
            case Document(payload=filed) if filed.action == "added":
                self.told[filed.document_id] += 1
                if filed.document_id in self.gone:
                    self._names |= {filed.name} - {""}
                    self.begin(position, envelope)
            case ToolStart(payload=called, call_id=call_id):
                self._call(position, envelope)
                if call_id not in self._inner and self._names_it(called.args):
                    self.read[call_id] = _place(envelope, called.tool_call_id)
            case ToolEnd(payload=ended, call_id=call_id):
                if call_id not in self._inner and self._came_of_it(ended):
                    self.read[call_id] = _place(envelope, ended.tool_call_id)

    def begin(self, position: int, envelope: Envelope) -> None:
        """Something that goes was said here."""
        self.since = min(self.since, self._rounds.get(envelope.trace_id, position))

    @cached_property
    def handed(self) -> dict[str, _Place]:
        """What was given to agents to do."""
        return {call_id: place for call_id, (position, place) in self._agents.items() if position >= self.since}

    @cached_property
    def _wanted(self) -> set[_Place]:
        return {*self.read.values(), *self.handed.values()}

    def _call(self, position: int, start: ToolStart) -> None:
        if start.payload.kind != "tool":
            self._inner.add(start.call_id)
        if start.payload.kind == "agent":
            self._agents[start.call_id] = position, _place(start, start.payload.tool_call_id)

    def _names_it(self, args: dict[str, Json]) -> bool:
        names = {name.casefold() for name in self._names}
        said = [word for each in _texts(args) for word in (each, *each.split())]
        return any(word in self.gone or word.casefold() in names for word in said)

    def _came_of_it(self, ended: ToolEnded) -> bool:
        if isinstance(ended.result, FileRef):
            return ended.result.document_id in self.gone
        if not self.gone:
            return False
        said = msgspec.json.encode(ended.result).decode() + ("" if ended.error is None else ended.error.message)
        names = self._names if ended.error is not None else set[str]()
        return any(each in said for each in (*self.gone, *names))

    def without(self, position: int, envelope: Envelope) -> Envelope:
        """What is left of an envelope; the same one, if there is nothing in it that goes."""
        left = self._without_calls(envelope)
        return left if position < self.since else self._without_words(left)

    def _without_calls(self, envelope: Envelope) -> Envelope:
        match envelope:
            case ToolStart(call_id=call_id) if call_id in self.read or call_id in self.handed:
                return blank(envelope, args={}, input=None)
            case ToolEnd(call_id=call_id) if call_id in self.read:
                return without_result(envelope)
            case ToolUpdate(payload=update) if update.tool_call_id is not None:
                asked = _place(envelope, update.tool_call_id) in self._wanted
                return without_output(envelope) if asked else envelope
            case ToolUpdate(call_id=call_id) if call_id in self.read:
                return without_output(envelope)
            case AskUser(payload=asking) if asking.tool_call_id is not None:
                asked = _place(envelope, asking.tool_call_id) in self._wanted
                return blank(envelope, args=None, data=None) if asked else envelope
            case LlmEnd(payload=ended) if ended.tool_calls:
                refs = [
                    replace(call, args=None) if _place(envelope, call.tool_call_id) in self._wanted else call
                    for call in ended.tool_calls
                ]
                return envelope if refs == ended.tool_calls else blank(envelope, tool_calls=refs)
        return envelope

    def _without_words(self, envelope: Envelope) -> Envelope:
        match envelope:
            case LlmStart(payload=called) if called.messages is not None:
                return blank(envelope, messages=None)
            case LlmToken(call_id=call_id) if call_id not in self.known:
                return blank(envelope, text="")
            case ToolStart(payload=called) if called.kind == "graph" and called.input is not None:
                return blank(envelope, input=None)
            case ToolEnd(payload=ended) if ended.outcome is not None:
                files = {n: f for n, f in ended.outcome.files.items() if f["document_id"] not in self.gone}
                left = replace(ended.outcome, messages=[], files=files)
                return envelope if left == ended.outcome else blank(envelope, outcome=left)
            case State(payload=changed) if (plan := without_plan(changed.snapshot)) is not changed.snapshot:
                return blank(envelope, snapshot=plan)
            case Update(payload=updated) if (delta := _without_plans(updated.delta)) is not updated.delta:
                return blank(envelope, delta=delta)
            case Log(payload=line) | Warning(payload=line) | Error(payload=line):
                message = line.message
                for name in sorted(self._names, key=len, reverse=True):
                    message = message.replace(name, GONE)
                return envelope if message == line.message else blank(envelope, message=message)
        return envelope


def without_plan(value: Json) -> Json:
    """What is left of a work plan, or of one that did not fit; anything else is given back as it is."""
    match value:
        case {"objWorkplan": _, "objUserResponse": _, "objFinalDocuments": _, "userLanguage": language}:
            return {"objFinalDocuments": [], PLAN: [], "objUserResponse": "", "userLanguage": language}
        case {"reply": _, "objection": _} if len(value) == 2:
            return None
    return value


def _without_plans(delta: Json) -> Json:
    if not isinstance(delta, dict):
        return delta
    new = {key: without_plan(value) for key, value in delta.items()}
    return delta if all(new[key] is value for key, value in delta.items()) else new


def without_result(envelope: ToolEnd) -> Envelope:
    error = envelope.payload.error
    return blank(envelope, result=None, error=None if error is None else replace(error, message=GONE))


def without_output(envelope: ToolUpdate) -> Envelope:
    return blank(envelope, text=None if envelope.payload.text is None else "", data=None)


def blank(envelope: Envelope, **changes: Any) -> Envelope:
    payload: Struct = envelope.payload
    return replace(envelope, payload=replace(payload, redacted=True, **changes))


def _texts(value: Json) -> Iterator[str]:
    """All that is text in it, however deep."""
    match value:
        case str():
            yield value
        case dict():
            yield from _texts(list(value.values()))
        case list():
            for each in value:
                yield from _texts(each)


def _place(envelope: Envelope, tool_call_id: str) -> _Place:
    return envelope.trace_id, envelope.parent_id, tool_call_id
