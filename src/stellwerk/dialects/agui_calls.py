"""Tool calls and sub-agents in AG-UI.

A tool call has two lives there: its arguments, from START to END, and later its
RESULT, which may come in another run. So a call that waits for the user is
whole before its run ends, and the run that goes on only brings the result. A
sub-agent cannot wait: it is finished as suspended, and started again under the
same id by the run that goes on.

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
    settled: bool = False
    """Its arguments are whole."""
    in_pieces: bool = False
    """They came bit by bit."""
    shown: bool = False
    """Its progress is an activity already."""


@dataclass
class Calls:
    _open: dict[str, _Call] = field(default_factory=dict)
    """Also those of earlier runs that wait for the user."""
    _active: dict[str, None] = field(default_factory=dict)
    """Sub-agents that are under way in this run, in the order of their start."""
    _wanted: dict[_Key, str] = field(default_factory=dict)
    """The message that asked for each call."""
    _announced: dict[_Key, str] = field(default_factory=dict)
    """Calls that wait for approval: the client knows them, and they have not begun."""
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
        for call in self._open.values():
            yield from self._settle(call, end)
        for id_ in reversed(self._active):
            own = [ask_id for ask_id, owner in asked if owner == id_]
            outcome = {"type": "suspended", "interruptIds": own} if own else {"type": "suspended"}
            yield event("SUBAGENT_FINISHED", end, id_, outcome=outcome)

    def wanted(self, end: LlmEnd, message_id: str) -> Iterator[Chunk]:
        """A model has said which calls it wants; the arguments of those that have begun are whole."""
        args = {self._key(end.parent_id, call.tool_call_id): call.args for call in end.payload.tool_calls or ()}
        self._wanted |= dict.fromkeys(args, message_id)
        for call in [call for call in self._open.values() if not call.settled]:
            key = self._key(call.start.parent_id, call.start.payload.tool_call_id)
            if key in args:
                yield from self._settle(call, end, args[key])

    def entered(self, parent_id: str | None, cause: Envelope) -> Iterator[Chunk]:
        """Something happens inside the call, so its arguments are whole."""
        call = self._open.get(parent_id or "")
        if call is not None:
            yield from self._settle(call, cause)

    def started(self, start: ToolStart, speaking: str | None) -> Iterator[Chunk]:
        """``speaking`` is the message of the model that is at work there."""
        called = start.payload
        key = self._key(start.parent_id, called.tool_call_id)
        message_id, known = self._wanted.get(key), self._announced.pop(key, None)
        id_ = known or self._fresh(called.tool_call_id, start.call_id)
        call = _Call(start, id_, self.owner(start.parent_id), message_id or speaking)
        self._open[start.call_id] = call
        if called.kind == "graph" or known is not None:
            call.settled = True
            if called.kind != "tool":
                yield self._begin(call, start)
            return
        place = {"toolCallId": id_, "toolCallName": called.tool_name, "parentMessageId": call.message_id}
        yield event("TOOL_CALL_START", start, call.owner, **place)
        if called.args or message_id is not None:
            yield from self._settle(call, start)

    def updated(self, update: ToolUpdate) -> Iterator[Chunk]:
        call, said = self._open.get(update.call_id), update.payload
        if call is None:
            return
        if said.phase == "output":
            yield from self._settle(call, update)
            yield self._progress(call, update)
        elif not call.settled and said.text:
            call.in_pieces = True
            yield event("TOOL_CALL_ARGS", update, call.owner, toolCallId=call.id, delta=said.text)

    def ended(self, end: ToolEnd) -> Iterator[Chunk]:
        call = self._open.get(end.call_id)
        if call is not None:
            yield from self._settle(call, end)
            yield from self._finish(end)
            del self._open[end.call_id]
            if call.start.payload.kind == "graph":
                return
        done = end.payload
        yield event(
            "TOOL_CALL_RESULT",
            end,
            call.owner if call else self.owner(end.parent_id),
            messageId=f"{end.call_id}.result",
            toolCallId=call.id if call else done.tool_call_id,
            content=result_content(done),
            role="tool",
            metadata=None if done.status == "ok" else {"status": done.status},
        )

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
            return self._announced[key], []
        id_ = self._announced[key] = self._fresh(asked.tool_call_id, ask.call_id)
        place = {"toolCallId": id_}
        owner, message_id = self.owner(ask.parent_id), self._wanted.get(key)
        return id_, [
            event("TOOL_CALL_START", ask, owner, **place, toolCallName=asked.tool_name, parentMessageId=message_id),
            event("TOOL_CALL_ARGS", ask, owner, **place, delta=_json(asked.args or {})),
            event("TOOL_CALL_END", ask, owner, **place),
        ]

    def _settle(self, call: _Call, cause: Envelope, args: Any = None) -> Iterator[Chunk]:
        """``args`` is what the model wrote, where the start of the call came too early to know it."""
        if call.settled:
            return
        call.settled = True
        if not call.in_pieces:
            whole = _json(call.start.payload.args or args or {})
            yield event("TOOL_CALL_ARGS", cause, call.owner, toolCallId=call.id, delta=whole)
        yield event("TOOL_CALL_END", cause, call.owner, toolCallId=call.id)
        if call.start.payload.kind == "agent":
            yield self._begin(call, cause)

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


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
