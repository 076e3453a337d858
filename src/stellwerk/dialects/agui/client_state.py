"""The state of an AG-UI client: the messages it has, and the state that it shares with the agents.

The protocol cannot retract one message. It has MESSAGES_SNAPSHOT, the whole
list: a client drops every message that is not in it. Activities and reasoning
are left out, so a client keeps its own.

The shared state is one document: a snapshot once per run, then RFC 6902 patches.
States of the outermost agent are at its top by name; those of a sub-agent are
below ``agents`` and its id, as parallel agents have states of the same names.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from stellwerk.dialects.agui.events import event
from stellwerk.dialects.base import Chunk
from stellwerk.envelope.model import RunStart, State
from stellwerk.views.values import after

_TODO = ("checklist", "todos")
"""States that are also shown as an activity."""


@dataclass
class _Message:
    run_id: str
    fields: Chunk
    text: list[str] = field(default_factory=list)
    calls: dict[str, tuple[str, list[str]]] = field(default_factory=dict)
    """Name and arguments of the tool calls in it, by toolCallId."""
    results: list[Chunk] = field(default_factory=list)
    """Tool messages, behind the message that requested them."""

    def whole(self) -> Iterator[Chunk]:
        content = {"content": "".join(self.text)} if self.text else {}
        calls = [
            {"id": id_, "type": "function", "function": {"name": name, "arguments": "".join(args)}}
            for id_, (name, args) in self.calls.items()
        ]
        yield {**self.fields, **content, **({"toolCalls": calls} if calls else {})}
        yield from self.results


@dataclass
class MessageList:
    _messages: dict[str, _Message] = field(default_factory=dict)
    _holders: dict[str, _Message] = field(default_factory=dict)
    """The message of each tool call."""
    _run_id: str = ""

    def take(self, chunk: Chunk) -> None:
        """Apply an event, as the client does."""
        match chunk["type"]:
            case "RUN_STARTED":
                self._run_id = chunk["runId"]
                for message in chunk.get("input", {}).get("messages", []):
                    self._add(message)
            case "TEXT_MESSAGE_START":
                self._add({"id": chunk["messageId"], "role": chunk["role"], **_tag(chunk)})
            case "TEXT_MESSAGE_CONTENT":
                self._messages[chunk["messageId"]].text.append(chunk["delta"])
            case "TOOL_CALL_START":
                self._call(chunk)
            case "TOOL_CALL_ARGS":
                call = chunk["toolCallId"]
                self._holders[call].calls[call][1].append(chunk["delta"])
            case "TOOL_CALL_RESULT":
                self._result(chunk)

    def drop(self, message_id: str) -> bool:
        """Drop a message with the results of its calls; return False if there is none."""
        return self._messages.pop(message_id, None) is not None

    def drop_rounds(self, runs: Collection[str], *, kept: str | None) -> bool:
        """Drop all messages of these runs, except for the one that is answered again."""
        before = len(self._messages)
        self._messages = {
            message_id: message
            for message_id, message in self._messages.items()
            if message.run_id not in runs or message_id == kept
        }
        return len(self._messages) < before

    def put_before(self, earlier: "MessageList") -> None:
        self._messages = earlier._messages | self._messages
        self._holders = earlier._holders | self._holders

    def snapshot(self) -> list[Chunk]:
        return [whole for message in self._messages.values() for whole in message.whole()]

    def _add(self, fields: Chunk) -> _Message:
        return self._messages.setdefault(fields["id"], _Message(self._run_id, fields))

    def _call(self, start: Chunk) -> None:
        call = start["toolCallId"]
        holder = self._add({"id": start.get("parentMessageId", call), "role": "assistant", **_tag(start)})
        holder.calls[call] = (start["toolCallName"], [])
        self._holders[call] = holder

    def _result(self, result: Chunk) -> None:
        call = result["toolCallId"]
        message = {"id": result["messageId"], "role": "tool", "toolCallId": call, "content": result["content"]}
        self._holders[call].results.append(message | _tag(result))


def _tag(chunk: Chunk) -> dict[str, Any]:
    return {"subagentRunId": chunk["subagentRunId"]} if "subagentRunId" in chunk else {}


@dataclass
class SharedState:
    _own: dict[str, Any] = field(default_factory=dict)
    """States of the outermost agent."""
    _agents: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Those of sub-agents."""
    _sent: bool = False
    """The client has the snapshot of this run."""

    def run_starts(self, start: RunStart) -> Iterator[Chunk]:
        self._sent = bool(self._own or self._agents)
        if self._sent:
            yield event("STATE_SNAPSHOT", start, snapshot=self._document())

    def feed(self, changed: State, owner: str | None) -> Iterator[Chunk]:
        delta = list(self._apply(changed, owner))
        if not self._sent:
            self._sent = True
            yield event("STATE_SNAPSHOT", changed, owner, snapshot=self._document())
        elif delta:
            yield event("STATE_DELTA", changed, owner, delta=delta)
        if changed.payload.name in _TODO:
            yield self._todo(changed, owner)

    def _apply(self, changed: State, owner: str | None) -> Iterator[Chunk]:
        """Yield the operations that fit: a client rejects a whole patch for one that does not."""
        name = changed.payload.name
        place, known = [name], self._own
        if owner is not None:
            if not self._agents:
                yield _added(["agents"], {})
            if owner not in self._agents:
                yield _added(["agents", owner], {})
            place, known = ["agents", owner, name], self._agents.setdefault(owner, {})
        if changed.payload.patch is not None and not isinstance(known.get(name), dict):
            yield _added(place, {})
        known[name], done = after(known.get(name), changed.payload)
        for operation in done:
            yield {**operation, "path": _pointer(place) + operation["path"]}

    def _document(self) -> dict[str, Any]:
        inner = {owner: dict(known) for owner, known in self._agents.items()}
        return {**self._own, "agents": inner} if inner else dict(self._own)

    def _todo(self, changed: State, owner: str | None) -> Chunk:
        name = changed.payload.name
        value = (self._own if owner is None else self._agents[owner])[name]
        content = {"name": name, **(value if isinstance(value, dict) else {"tasks": value})}
        message_id = f"todo-{name}" if owner is None else f"todo-{name}-{owner}"
        place = {"messageId": message_id, "activityType": "TODO"}
        return event("ACTIVITY_SNAPSHOT", changed, owner, **place, content=content, replace=True)


def _added(place: list[str], value: Any) -> Chunk:
    return {"op": "add", "path": _pointer(place), "value": value}


def _pointer(place: list[str]) -> str:
    return "".join("/" + name.replace("~", "~0").replace("/", "~1") for name in place)
