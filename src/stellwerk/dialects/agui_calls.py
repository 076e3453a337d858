"""Tool calls and sub-agents in AG-UI.

A tool call has two lives there: its arguments, from START to END, and later its
RESULT, which may come in another run. So a call that waits for the user is
whole before its run ends, and the run that goes on only brings the result.
Arguments are sent as the model writes them; only a call that nobody saw written
is sent as a whole when it begins. A sub-agent cannot wait: it is finished as
suspended, and started again under the same id by the run that goes on.

An agent is a tool call with a sub-agent in it. A graph inside a graph is a
sub-agent without a tool call: no model asked for it, but what happens in it
must be told apart, side by side too.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from stellwerk.dialects.agui_events import CUT_OFF, event, result_content
from stellwerk.dialects.base import Chunk
from stellwerk.envelope.model import AskUser, Envelope, LlmEnd, RunEnd, RunStart, ToolEnd, ToolStart, ToolUpdate

_Key = tuple[str, str]
"""A call as its model knows it: the agent it is made in ("" is the outermost), and its tool_call_id."""


@dataclass
class _Call:
    start: ToolStart
    id: str
    """Its toolCallId."""
    owner: str | None
    """The sub-agent that makes it."""
    message_id: str | None
    """The message that asked for it."""
    shown: bool = False
    """Its progress is an activity already."""


@dataclass
class Calls:
    _open: dict[str, _Call] = field(default_factory=dict)
    """Also those of earlier runs that wait for the user."""
    _active: dict[str, None] = field(default_factory=dict)
    """Sub-agents that are under way in this run, in the order of their start."""
    _writing: dict[str, dict[_Key, str]] = field(default_factory=dict)
    """What models are writing, by model call, and its toolCallId."""
    _wanted: dict[_Key, str] = field(default_factory=dict)
    """The message that asked for each call."""
    _announced: dict[_Key, tuple[str, str | None]] = field(default_factory=dict)
    """Calls that the client knows already, though they have not begun: it saw them written, or they want approval.
    Their toolCallId, and the trace that they belong to."""
    _used: set[str] = field(default_factory=set)
    """Ids that a client knows; it would take another call of the same id for the same."""

    def owner(self, parent_id: str | None) -> str | None:
        """The sub-agent that something belongs to, by the call around it."""
        call = self._open.get(parent_id or "")
        if call is None:
            return None
        return call.owner if call.start.payload.kind == "tool" else call.start.call_id

    def run_starts(self, start: RunStart) -> Iterator[Chunk]:
        """Sub-agents that an earlier run of the trace left waiting go on, the outer ones first."""
        self._active.clear()
        for call in self._open.values():
            if call.start.trace_id == start.trace_id and call.start.payload.kind != "tool":
                yield self._begin(call, start)

    def run_ends(self, end: RunEnd, asked: Collection[tuple[str, str | None]]) -> Iterator[Chunk]:
        """What is still open waits for the user; ``asked`` are ids of questions and the sub-agents that ask."""
        if end.payload.status != "awaiting_user":
            for key, (id_, trace) in list(self._announced.items()):
                if trace == end.trace_id:
                    del self._announced[key]
                    yield _never(end, None, id_)
        for id_ in reversed(self._active):
            own = [ask_id for ask_id, owner in asked if owner == id_]
            outcome = {"type": "suspended", "interruptIds": own} if own else {"type": "suspended"}
            yield event("SUBAGENT_FINISHED", end, id_, outcome=outcome)

    def written(self, update: ToolUpdate, message_id: str | None) -> Iterator[Chunk]:
        """A model goes on with the arguments of a call."""
        said, owner = update.payload, self.owner(update.parent_id)
        tool_call_id, calls = said.tool_call_id or "", self._writing.setdefault(update.call_id, {})
        key = self._key(update.parent_id, tool_call_id)
        if key not in calls:
            calls[key] = self._fresh(tool_call_id, f"{update.call_id}.{tool_call_id}")
            yield _start(update, owner, calls[key], said.tool_name or "", message_id)
        yield event("TOOL_CALL_ARGS", update, owner, toolCallId=calls[key], delta=said.text)

    def wanted(self, end: LlmEnd, message_id: str) -> Iterator[Chunk]:
        """A model has ended: what it was writing is whole, and only what it names now will begin."""
        owner, written = self.owner(end.parent_id), self._writing.pop(end.call_id, {})
        named = [self._key(end.parent_id, call.tool_call_id) for call in end.payload.tool_calls or ()]
        self._wanted |= dict.fromkeys(named, message_id)
        for key, id_ in written.items():
            yield event("TOOL_CALL_END", end, owner, toolCallId=id_)
            if key in named:
                self._announced[key] = (id_, end.trace_id)
            else:
                yield _never(end, owner, id_)

    def started(self, start: ToolStart) -> Iterator[Chunk]:
        called = start.payload
        key = self._key(start.parent_id, called.tool_call_id)
        # No model asks for a graph inside a graph, whatever its id looks like.
        known, _ = (None, None) if called.kind == "graph" else self._announced.pop(key, (None, None))
        id_ = known or self._fresh(called.tool_call_id, start.call_id)
        call = self._open[start.call_id] = _Call(start, id_, self.owner(start.parent_id), self._wanted.get(key))
        if called.kind != "graph" and known is None:
            yield from _whole(start, call.owner, id_, called.tool_name, call.message_id, called.args)
        if called.kind != "tool":
            yield self._begin(call, start)

    def updated(self, update: ToolUpdate) -> Iterator[Chunk]:
        call = self._open.get(update.call_id)
        if call is not None:
            yield self._progress(call, update)

    def ended(self, end: ToolEnd) -> Iterator[Chunk]:
        call = self._open.get(end.call_id)
        if call is not None:
            yield from self._finish(end)
            del self._open[end.call_id]
            if call.start.payload.kind == "graph":
                return
        owner, id_ = (call.owner, call.id) if call else (self.owner(end.parent_id), end.payload.tool_call_id)
        yield _result(end, owner, id_, end.call_id, end.payload.status, result_content(end.payload))

    def asked(self, ask: AskUser) -> tuple[str | None, list[Chunk]]:
        """The call that a question is about, and its announcement if the client does not know it yet."""
        asked, around = ask.payload, self._open.get(ask.parent_id or "")
        if around is not None and around.start.payload.kind == "tool":
            return around.id, []
        if asked.tool_call_id is None or asked.tool_name is None:
            return None, []
        key = self._key(ask.parent_id, asked.tool_call_id)
        for call in self._open.values():
            if self._key(call.start.parent_id, call.start.payload.tool_call_id) == key:
                return call.id, []
        if key in self._announced:
            return self._announced[key][0], []
        id_ = self._fresh(asked.tool_call_id, ask.call_id)
        self._announced[key] = (id_, ask.trace_id)
        owner, message_id = self.owner(ask.parent_id), self._wanted.get(key)
        return id_, list(_whole(ask, owner, id_, asked.tool_name, message_id, asked.args or {}))

    def _begin(self, call: _Call, cause: Envelope) -> Chunk:
        called, id_ = call.start.payload, call.start.call_id
        self._active[id_] = None
        return event(
            "SUBAGENT_STARTED",
            cause,
            id_,
            name=called.title or called.tool_name,
            parentSubagentRunId=call.owner,
            parentToolCallId=call.id if called.kind == "agent" else None,
            parentMessageId=call.message_id if called.kind == "agent" else None,
        )

    def _finish(self, end: ToolEnd) -> Iterator[Chunk]:
        if end.call_id not in self._active:
            return
        del self._active[end.call_id]
        done = end.payload
        if done.status == "ok":
            yield event("SUBAGENT_FINISHED", end, end.call_id, outcome={"type": "success"})
        else:
            message, code = (done.error.message, done.error.code) if done.error else (CUT_OFF, None)
            yield event("SUBAGENT_ERROR", end, end.call_id, message=message, code=code or done.status)

    def _progress(self, call: _Call, update: ToolUpdate) -> Chunk:
        said, place = update.payload, {"messageId": f"{update.call_id}.progress", "activityType": "TOOL_PROGRESS"}
        piece = said.text if said.text is not None else said.data
        if call.shown:
            patch = [{"op": "add", "path": "/output/-", "value": piece}]
            return event("ACTIVITY_DELTA", update, call.owner, **place, patch=patch)
        call.shown = True
        content = {"toolCallId": call.id, "toolName": call.start.payload.tool_name, "output": [piece]}
        return event("ACTIVITY_SNAPSHOT", update, call.owner, **place, content=content, replace=True)

    def _fresh(self, tool_call_id: str, call_id: str) -> str:
        """The model's id, or ours where a model gave the same twice or a call is made again."""
        id_ = tool_call_id if tool_call_id and tool_call_id not in self._used else call_id
        self._used.add(id_)
        return id_

    def _key(self, parent_id: str | None, tool_call_id: str) -> _Key:
        return (parent_id if parent_id in self._open else "") or "", tool_call_id


def _start(cause: Envelope, owner: str | None, id_: str, name: str, message_id: str | None) -> Chunk:
    return event("TOOL_CALL_START", cause, owner, toolCallId=id_, toolCallName=name, parentMessageId=message_id)


def _whole(
    cause: Envelope, owner: str | None, id_: str, name: str, message_id: str | None, args: Any
) -> Iterator[Chunk]:
    """A call that nobody saw written."""
    yield _start(cause, owner, id_, name, message_id)
    yield event("TOOL_CALL_ARGS", cause, owner, toolCallId=id_, delta=msgspec.json.encode(args).decode())
    yield event("TOOL_CALL_END", cause, owner, toolCallId=id_)


def _never(cause: Envelope, owner: str | None, id_: str) -> Chunk:
    """The result of a call that never began: a client would think that it has to make a call without one."""
    return _result(cause, owner, id_, id_, "abandoned", CUT_OFF)


def _result(cause: Envelope, owner: str | None, id_: str, name: str, status: str, content: str | list[Chunk]) -> Chunk:
    about = {"messageId": f"{name}.result", "toolCallId": id_, "content": content, "role": "tool"}
    return event("TOOL_CALL_RESULT", cause, owner, **about, metadata=None if status == "ok" else {"status": status})
