"""What a log tells, apart from how it was heard: the form in which two recordings of one scenario are compared.

Left out are ids, times, and how the words of a call were cut. Calls that ran
side by side have no order among themselves. ``seen_by`` takes away what a form
of recording cannot know; docs/explain/golden.md says why.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from stellwerk.envelope.model import (
    AskUser,
    CallEnd,
    CallStart,
    Document,
    Envelope,
    Error,
    LlmEnd,
    LlmStart,
    LlmToken,
    Log,
    Message,
    RunEnd,
    State,
    SubgraphCheckpoint,
    ToolEnd,
    ToolStart,
    ToolUpdate,
    Update,
)
from tests.golden.turns import Form

Told = dict[str, Any]


@dataclass
class _Call:
    start: CallStart
    began: int
    ended: int = -1
    end: CallEnd | None = None
    texts: defaultdict[str, str] = field(default_factory=lambda: defaultdict(str))
    output: list[Any] = field(default_factory=list)
    inside: list["_Call"] = field(default_factory=list)


def story(log: Sequence[Envelope]) -> Told:
    calls = _calls(log)
    told: dict[str, list[Any]] = defaultdict(list)
    for envelope in log:
        for about, what in _beside(envelope, calls):
            told[about].append(what)
    outermost = [call for call in calls.values() if call.start.parent_id not in calls]
    told["updates"].sort(key=json.dumps)
    return {**told, "calls": list(_tree(outermost))}


def _beside(envelope: Envelope, calls: dict[str, _Call]) -> Iterator[tuple[str, Any]]:
    """What is told beside the calls."""
    match envelope:
        case Message(payload=said):
            yield "messages", (said.role, _plain(said.content), said.status, said.author)
        case AskUser(payload=asked):
            path = _path(envelope.parent_id, calls)
            yield "questions", (asked.kind, asked.question, path, _plain(asked.options), asked.tool_name, asked.args)
        case State(payload=changed):
            path = _path(envelope.parent_id, calls)
            yield "states", (path, changed.name, changed.version, changed.owner, changed.snapshot, changed.patch)
        case Update(payload=update):
            yield "updates", (update.node, len(update.namespace), update.delta)
        case Document(payload=filed):
            yield "documents", (filed.name, filed.mime, filed.digest)
        case SubgraphCheckpoint(payload=saved):
            yield "checkpoints", saved.node
        case Log(payload=line):
            yield "lines", line.message
        case Error(payload=problem):
            yield "errors", {"code": problem.code, "name": problem.name, "class": problem.class_}
        case RunEnd(payload=ended):
            yield "ends", (ended.status, ended.result, ended.reason, ended.code)


def _calls(log: Sequence[Envelope]) -> dict[str, _Call]:
    calls: dict[str, _Call] = {}
    for place, envelope in enumerate(log):
        match envelope:
            case LlmStart() | ToolStart():
                call = calls[envelope.call_id] = _Call(envelope, place)
                if envelope.parent_id in calls:
                    calls[envelope.parent_id].inside.append(call)
            case LlmEnd() | ToolEnd():
                call = calls[envelope.call_id]
                # An end that was made up says nothing of the time.
                call.end, call.ended = envelope, call.began if envelope.payload.synthesized else place
            case LlmToken(payload=token):
                calls[envelope.call_id].texts[token.kind] += token.text
            case ToolUpdate(payload=update) if update.phase == "args":
                calls[envelope.call_id].texts[f"{update.tool_name} {update.tool_call_id}"] += update.text or ""
            case ToolUpdate(payload=update):
                calls[envelope.call_id].output.append(update.text if update.text is not None else update.data)
    return calls


def _tree(calls: Sequence[_Call]) -> Iterator[Told]:
    """In the order in which they began; those that overlap are told in an order that does not depend on it."""
    groups: list[list[_Call]] = []
    for call in calls:
        if groups and call.began < max(before.ended for before in groups[-1]):
            groups[-1].append(call)
        else:
            groups.append([call])
    for group in groups:
        yield from sorted((_call(call) for call in group), key=lambda told: json.dumps(told, sort_keys=True))


def _call(call: _Call) -> Told:
    start, end = call.start, call.end
    if isinstance(start, LlmStart):
        ended = end.payload if isinstance(end, LlmEnd) else None
        return {
            "model": start.payload.model,
            "agent": start.agent,
            "node": start.payload.node,
            "params": start.payload.params,
            "texts": dict(call.texts),
            "wants": [(want.name, want.tool_call_id) for want in (ended and ended.tool_calls) or ()],
            "usage": ended and _plain(ended.usage),
            "finish": ended and ended.finish_reason,
            "status": ended and ended.status,
        }
    done = end.payload if isinstance(end, ToolEnd) else None
    return {
        "tool": start.payload.tool_name,
        "id": _given_id(start),
        "kind": (start.payload.kind, start.payload.title),
        "agent": start.agent,
        "node": start.payload.node,
        "args": start.payload.args,
        "input": start.payload.input,
        # What a tool gives out and what it writes to the graph's stream come on two ways.
        "output": (
            "".join(o for o in call.output if isinstance(o, str)),
            [o for o in call.output if not isinstance(o, str)],
        ),
        "status": done and done.status,
        "result": done and _without_ids(_plain(done.result)),
        "error": done and done.error and {"message": done.error.message, "class": done.error.class_},
        "outcome": done and done.outcome and [message["text"] for message in done.outcome.messages],
        "inside": list(_tree(call.inside)),
    }


def _given_id(start: ToolStart) -> str | None:
    """The id that a model gave to the call; a graph, and the signal of an agent that is done, have none."""
    called = start.payload
    return None if called.kind == "graph" or called.tool_call_id == start.call_id else called.tool_call_id


def _without_ids(value: Any) -> Any:
    match value:
        case dict():
            return {key: _without_ids(item) for key, item in value.items() if key != "message_id"}
        case list():
            return [_without_ids(item) for item in value]
        case _:
            return value


def _path(call_id: str | None, calls: dict[str, _Call]) -> list[str]:
    """The names of the calls around, from the outside in."""
    names: list[str] = []
    while call_id in calls:
        start = calls[call_id].start
        names.insert(0, start.payload.tool_name if isinstance(start, ToolStart) else start.payload.model)
        call_id = start.parent_id
    return names


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value)


def seen_by(form: Form, told: Told) -> Told:
    """The same without what this form of recording cannot know."""
    match form:
        case "parts":
            errors = [{**error, "class": None} for error in told.get("errors", ()) if not _of_model(error, told)]
            return {**told, "errors": errors, "calls": [_without_classes(call) for call in _heard(told["calls"])]}
        case "events":
            known = {about: what for about, what in told.items() if about not in ("checkpoints", "lines")}
            errors = [error for error in told.get("errors", ()) if not _of_model(error, told)]
            return {**known, "errors": errors, "calls": [_without_progress(call) for call in told["calls"]]}
        case "live":
            return told


def _of_model(error: Told, told: Told) -> bool:
    return error["name"] in {call.get("model") for call in _every(told["calls"])}


def _every(calls: Sequence[Told]) -> Iterator[Told]:
    for call in calls:
        yield call
        yield from _every(call.get("inside", ()))


def _heard(calls: Sequence[Told]) -> list[Told]:
    """Model calls that say nothing and want nothing leave no trace among the parts."""
    return [
        {**call, "inside": _heard(call["inside"])} if "inside" in call else call
        for call in calls
        if "inside" in call or call["texts"] or call["wants"]
    ]


def _without_classes(call: Told) -> Told:
    """Parts have the text of an error that a tool raised, but not its class."""
    if "inside" not in call:
        return call
    error = call["error"] and {**call["error"], "class": None}
    return {**call, "error": error, "inside": [_without_classes(inner) for inner in call["inside"]]}


def _without_progress(call: Told) -> Told:
    """Events have no word of a tool that is working, and do not say that a model failed: only that it never ended."""
    if "inside" not in call:
        return {**call, "status": call["status"] == "ok"}
    return {**call, "output": [], "inside": [_without_progress(inner) for inner in call["inside"]]}
