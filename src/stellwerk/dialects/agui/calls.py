"""Model calls, tool calls and sub-agents in AG-UI.

The text of a model call becomes a message, its reasoning a message of its own.

A tool call has two phases: its arguments, from START to END, and later its
RESULT, which may come in another run. So a call that waits for the user is
complete before its run ends, and the next run only sends the result. Arguments
are sent as the model writes them; a call whose arguments were not streamed is
sent whole when it starts. A sub-agent cannot wait: it is finished as suspended,
and the next run starts it again under the same id.

An agent is a tool call with a sub-agent in it. A graph inside a graph is a
sub-agent without a tool call: no model requested it, but its events must be
separable from those of parallel graphs.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from stellwerk.dialects.agui.events import CUT_OFF, event, result_content
from stellwerk.dialects.base import Chunk
from stellwerk.envelope import model as m


@dataclass
class _Model:
    message_id: str
    owner: str | None
    has_text: bool = False
    """A text message is open."""
    reasoning: str | None = None
    """The reasoning message that is open."""

    def reason(self, token: m.LlmToken) -> Iterator[Chunk]:
        # One message per block; reasoning after text starts the same message again: it appends.
        message_id = f"{self.message_id}.reasoning.{token.payload.block}"
        if self.reasoning != message_id:
            yield from self.end_reasoning(token)
            self.reasoning = message_id
            yield event("REASONING_START", token, self.owner, messageId=message_id)
            yield event("REASONING_MESSAGE_START", token, self.owner, messageId=message_id, role="reasoning")
        delta = token.payload.text
        yield event("REASONING_MESSAGE_CONTENT", token, self.owner, messageId=message_id, delta=delta)

    def end_reasoning(self, cause: m.Envelope) -> Iterator[Chunk]:
        if self.reasoning is not None:
            yield event("REASONING_MESSAGE_END", cause, self.owner, messageId=self.reasoning)
            yield event("REASONING_END", cause, self.owner, messageId=self.reasoning)
            self.reasoning = None


@dataclass
class ModelMessages:
    _open: dict[str, _Model] = field(default_factory=dict)
    _sent: set[str] = field(default_factory=set)
    """Messages whose text was sent; a resumed graph returns the earlier ones again."""
    is_textless: bool = False
    """Streamed text is left out; the client has it under the id that its call began with."""
    _shown_ids: dict[str, str] = field(default_factory=dict)
    """Of such messages that their provider renamed."""

    def started(self, start: m.LlmStart, owner: str | None) -> None:
        self._open[start.call_id] = _Model(start.payload.message_id, owner)

    def token(self, token: m.LlmToken) -> Iterator[Chunk]:
        model, said = self._open.get(token.call_id), token.payload
        if model is None or not said.text:
            return
        if said.kind == "reasoning":
            yield from model.reason(token)
            return
        if model.reasoning is not None:
            yield from model.end_reasoning(token)
        if not model.has_text:
            model.has_text = True
            yield event("TEXT_MESSAGE_START", token, model.owner, messageId=model.message_id, role="assistant")
        yield event("TEXT_MESSAGE_CONTENT", token, model.owner, messageId=model.message_id, delta=said.text)

    def ended(self, end: m.LlmEnd) -> Iterator[Chunk]:
        model = self._open.pop(end.call_id, None)
        if model is None:
            return
        yield from model.end_reasoning(end)
        if model.has_text:
            yield event("TEXT_MESSAGE_END", end, model.owner, messageId=model.message_id)
            self._sent |= {model.message_id, end.payload.message_id}  # the provider may rename it
        elif self.is_textless and model.message_id != end.payload.message_id:
            self._shown_ids[end.payload.message_id] = model.message_id

    def shown_id(self, message_id: str) -> str:
        return self._shown_ids.get(message_id, message_id)

    def recall(self, message_id: str) -> None:
        self._sent.add(message_id)

    def was_sent(self, message_id: str) -> bool:
        return message_id in self._sent

    def forget(self, retracted: Mapping[str, str]) -> None:
        """The client has dropped these messages: by their ids, and those that it knew."""
        self._sent -= {*retracted, *retracted.values()}

    def message_of(self, call_id: str) -> str | None:
        """Return the message id of an open call."""
        model = self._open.get(call_id)
        return None if model is None else model.message_id


@dataclass
class Drafts:
    """Messages of model calls that a graph may leave out of its state; then the client drops them."""

    _open: set[str] = field(default_factory=set)
    """By call."""
    _unsure: dict[str, tuple[str, frozenset[str]]] = field(default_factory=dict)
    """The id that the client has, and the tool calls, by message id."""

    def started(self, start: m.LlmStart) -> None:
        if start.payload.draft:
            self._open.add(start.call_id)

    def ended(self, end: m.LlmEnd, message_id: str) -> None:
        if end.call_id in self._open and end.payload.status == "ok":
            calls = frozenset(call.tool_call_id for call in end.payload.tool_calls or ())
            self._unsure[end.payload.message_id] = (message_id, calls)
        self._open.discard(end.call_id)

    def said(self, message_id: str) -> None:
        self._unsure.pop(message_id, None)

    def called(self, tool_call_id: str | None) -> None:
        """A tool call starts, or is asked about: its message is in the state."""
        for message_id in [each for each, (_, calls) in self._unsure.items() if tool_call_id in calls]:
            del self._unsure[message_id]

    def left_out(self, end: m.RunEnd) -> dict[str, str]:
        """Return, at the end of a run, the messages that are not in the state."""
        waits = end.payload.status == "awaiting_user"
        found = {each: shown for each, (shown, calls) in self._unsure.items() if not (waits and calls)}
        for message_id in found:
            del self._unsure[message_id]
        return found


_Key = tuple[str, str]
"""A call as its model knows it: its agent ("" is the outermost) and its tool_call_id."""


@dataclass
class _Call:
    start: m.ToolStart
    id: str
    """Its toolCallId."""
    owner: str | None
    """The sub-agent that makes it."""
    message_id: str | None
    """The message that asked for it."""
    shown: bool = False
    """Its progress has an activity."""


@dataclass
class ToolCallEvents:
    only_text: bool = False
    """Results have no parts."""
    _open: dict[str, _Call] = field(default_factory=dict)
    """Including those of earlier runs that wait for the user."""
    _active: dict[str, None] = field(default_factory=dict)
    """Running sub-agents of this run, in the order of their starts."""
    _writing: dict[str, dict[_Key, str]] = field(default_factory=dict)
    """The toolCallId of calls being written, by model call."""
    _wanted: dict[_Key, str] = field(default_factory=dict)
    """The message that requested each call."""
    _announced: dict[_Key, tuple[str, str | None]] = field(default_factory=dict)
    """toolCallId and trace of calls that the client has although they have not started.

    Their arguments were streamed, or they need approval.
    """
    _used: set[str] = field(default_factory=set)
    """Ids in use; a client merges calls of the same id."""

    def recall(self, envelope: m.ToolStart | m.ToolEnd | m.AskUser) -> None:
        """Take a call of an earlier trace: its id is used, and while it is open it may be a sub-agent."""
        match envelope:
            case m.ToolStart(payload=called):
                id_ = self._fresh(called.tool_call_id, envelope.call_id)
                self._open[envelope.call_id] = _Call(envelope, id_, self.owner(envelope.parent_id), None)
            case m.ToolEnd():
                self._open.pop(envelope.call_id, None)
            case m.AskUser(payload=asked):
                self._used |= {asked.tool_call_id or ""}

    def owner(self, parent_id: str | None) -> str | None:
        """Return the sub-agent of an envelope, by its parent call."""
        call = self._open.get(parent_id or "")
        if call is None:
            return None
        return call.owner if call.start.payload.kind == "tool" else call.start.call_id

    def run_starts(self, start: m.RunStart) -> Iterator[Chunk]:
        """Restart sub-agents that an earlier run of the trace left waiting, outer ones first."""
        self._active.clear()
        for call in self._open.values():
            if call.start.trace_id == start.trace_id and call.start.payload.kind != "tool":
                yield self._begin(call, start)

    def run_ends(self, end: m.RunEnd, asked: Collection[tuple[str, str | None]]) -> Iterator[Chunk]:
        """Suspend open sub-agents; ``asked`` has ids of questions and of asking sub-agents."""
        if end.payload.status != "awaiting_user":
            for key, (id_, trace) in list(self._announced.items()):
                if trace == end.trace_id:
                    del self._announced[key]
                    yield _never(end, None, id_)
        for id_ in reversed(self._active):
            own = [ask_id for ask_id, owner in asked if owner == id_]
            outcome = {"type": "suspended", "interruptIds": own} if own else {"type": "suspended"}
            yield event("SUBAGENT_FINISHED", end, id_, outcome=outcome)

    def written(self, update: m.ToolUpdate, message_id: str | None) -> Iterator[Chunk]:
        """Send a piece of the arguments of a call."""
        said, owner = update.payload, self.owner(update.parent_id)
        calls = self._writing.setdefault(update.call_id, {})
        key = self._key(update.parent_id, said.tool_call_id or "")
        if key not in calls:
            calls[key] = self._fresh(key[1], f"{update.call_id}.{key[1]}")
            yield _start(update, owner, calls[key], said.tool_name or "", message_id)
        yield event("TOOL_CALL_ARGS", update, owner, toolCallId=calls[key], delta=said.text)

    def wanted(self, end: m.LlmEnd, message_id: str) -> Iterator[Chunk]:
        """End the arguments that a model wrote; only the calls named in its end will start."""
        owner, written = self.owner(end.parent_id), self._writing.pop(end.call_id, {})
        named = [self._key(end.parent_id, call.tool_call_id) for call in end.payload.tool_calls or ()]
        self._wanted |= dict.fromkeys(named, message_id)
        for key, id_ in written.items():
            yield event("TOOL_CALL_END", end, owner, toolCallId=id_)
            if key in named:
                self._announced[key] = (id_, end.trace_id)
            else:
                yield _never(end, owner, id_)

    def started(self, start: m.ToolStart) -> Iterator[Chunk]:
        called = start.payload
        key = self._key(start.parent_id, called.tool_call_id)
        # No model requests a graph inside a graph, whatever its id looks like.
        announced = None if called.kind == "graph" else self._announced.pop(key, None)
        id_ = announced[0] if announced else self._fresh(called.tool_call_id, start.call_id)
        call = _Call(start, id_, self.owner(start.parent_id), self._wanted.get(key))
        self._open[start.call_id] = call
        if called.kind != "graph" and announced is None:
            yield _start(start, call.owner, id_, called.tool_name, call.message_id)
            yield from _arguments(start, call.owner, id_, called.args)
        if called.kind != "tool":
            yield self._begin(call, start)

    def updated(self, update: m.ToolUpdate) -> Iterator[Chunk]:
        call, said = self._open.get(update.call_id), update.payload
        if call is None:
            return
        place = {"messageId": f"{update.call_id}.progress", "activityType": "TOOL_PROGRESS"}
        piece = said.text if said.text is not None else said.data
        if call.shown:
            patch = [{"op": "add", "path": "/output/-", "value": piece}]
            yield event("ACTIVITY_DELTA", update, call.owner, **place, patch=patch)
            return
        call.shown = True
        content = {"toolCallId": call.id, "toolName": call.start.payload.tool_name, "output": [piece]}
        yield event("ACTIVITY_SNAPSHOT", update, call.owner, **place, content=content, replace=True)

    def ended(self, end: m.ToolEnd) -> Iterator[Chunk]:
        call = self._open.pop(end.call_id, None)
        if call is None:
            return
        if end.call_id in self._active:
            del self._active[end.call_id]
            yield _subagent_ended(end)
        if call.start.payload.kind != "graph":
            content = result_content(end.payload, only_text=self.only_text)
            yield _result(end, call.owner, call.id, content, end.payload.status, end.call_id)

    def asked(self, ask: m.AskUser) -> tuple[str | None, list[Chunk]]:
        """Return the call that a question is about, and its events if the client lacks it."""
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
        owner = self.owner(ask.parent_id)
        start = _start(ask, owner, id_, asked.tool_name, self._wanted.get(key))
        return id_, [start, *_arguments(ask, owner, id_, asked.args or {})]

    def _begin(self, call: _Call, cause: m.Envelope) -> Chunk:
        called, id_ = call.start.payload, call.start.call_id
        self._active[id_] = None
        is_call = called.kind == "agent"
        return event(
            "SUBAGENT_STARTED",
            cause,
            id_,
            name=called.title or called.tool_name,
            parentSubagentRunId=call.owner,
            parentToolCallId=call.id if is_call else None,
            parentMessageId=call.message_id if is_call else None,
        )

    def _fresh(self, tool_call_id: str, call_id: str) -> str:
        """Return the model's id, or ours if the model used it before or the call is repeated."""
        id_ = tool_call_id if tool_call_id and tool_call_id not in self._used else call_id
        self._used.add(id_)
        return id_

    def _key(self, parent_id: str | None, tool_call_id: str) -> _Key:
        return (parent_id if parent_id in self._open else "") or "", tool_call_id


def _start(cause: m.Envelope, owner: str | None, id_: str, name: str, message_id: str | None) -> Chunk:
    return event("TOOL_CALL_START", cause, owner, toolCallId=id_, toolCallName=name, parentMessageId=message_id)


def _arguments(cause: m.Envelope, owner: str | None, id_: str, args: Any) -> Iterator[Chunk]:
    """Yield the arguments of a call whose arguments were not streamed."""
    yield event("TOOL_CALL_ARGS", cause, owner, toolCallId=id_, delta=msgspec.json.encode(args).decode())
    yield event("TOOL_CALL_END", cause, owner, toolCallId=id_)


def _subagent_ended(end: m.ToolEnd) -> Chunk:
    done = end.payload
    if done.status == "ok":
        return event("SUBAGENT_FINISHED", end, end.call_id, outcome={"type": "success"})
    message, code = (done.error.message, done.error.code) if done.error else (CUT_OFF, None)
    return event("SUBAGENT_ERROR", end, end.call_id, message=message, code=code or done.status)


def _never(cause: m.Envelope, owner: str | None, id_: str) -> Chunk:
    """Return a result for a call that never started; without one, the client would run the call."""
    return _result(cause, owner, id_, CUT_OFF, "abandoned", id_)


def _result(
    cause: m.Envelope, owner: str | None, id_: str, content: str | list[Chunk], status: str, name: str
) -> Chunk:
    metadata = None if status == "ok" else {"status": status}
    about = {"messageId": f"{name}.result", "toolCallId": id_, "content": content, "role": "tool"}
    return event("TOOL_CALL_RESULT", cause, owner, **about, metadata=metadata)
