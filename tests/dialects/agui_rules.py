"""The rules of AG-UI 1.0 as a checker, and a small client: what a real one would refuse, and what it would show.

Both were written from the protocol and know nothing of our translator.
"""

from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import jsonpatch

Chunk = dict[str, Any]

REQUIRED = {
    "RUN_STARTED": {"threadId", "runId"},
    "RUN_FINISHED": {"threadId", "runId"},
    "RUN_ERROR": {"message"},
    "TEXT_MESSAGE_START": {"messageId", "role"},
    "TEXT_MESSAGE_CONTENT": {"messageId", "delta"},
    "TEXT_MESSAGE_END": {"messageId"},
    "TOOL_CALL_START": {"toolCallId", "toolCallName"},
    "TOOL_CALL_ARGS": {"toolCallId", "delta"},
    "TOOL_CALL_END": {"toolCallId"},
    "TOOL_CALL_RESULT": {"messageId", "toolCallId", "content"},
    "REASONING_START": {"messageId"},
    "REASONING_MESSAGE_START": {"messageId", "role"},
    "REASONING_MESSAGE_CONTENT": {"messageId", "delta"},
    "REASONING_MESSAGE_END": {"messageId"},
    "REASONING_END": {"messageId"},
    "STATE_SNAPSHOT": {"snapshot"},
    "STATE_DELTA": {"delta"},
    "MESSAGES_SNAPSHOT": {"messages"},
    "ACTIVITY_SNAPSHOT": {"messageId", "activityType", "content"},
    "ACTIVITY_DELTA": {"messageId", "activityType", "patch"},
    "SUBAGENT_STARTED": {"subagentRunId", "name"},
    "SUBAGENT_FINISHED": {"subagentRunId"},
    "SUBAGENT_ERROR": {"subagentRunId", "message"},
    "CUSTOM": {"name", "value"},
}
OPENS = {
    "TEXT_MESSAGE_START": "message",
    "TOOL_CALL_START": "tool call",
    "REASONING_START": "reasoning span",
    "REASONING_MESSAGE_START": "reasoning",
}
GOES_ON = {"TEXT_MESSAGE_CONTENT": "message", "TOOL_CALL_ARGS": "tool call", "REASONING_MESSAGE_CONTENT": "reasoning"}
CLOSES = {
    "TEXT_MESSAGE_END": "message",
    "TOOL_CALL_END": "tool call",
    "REASONING_END": "reasoning span",
    "REASONING_MESSAGE_END": "reasoning",
}
FREE = {"value", "snapshot", "result", "args", "data", "payload", "default"}
"""Fields in which any JSON may stand, null too."""


def problems(chunks: Iterable[Chunk]) -> list[str]:
    """Everything that a client would refuse, or an empty list."""
    rules = Rules()
    return [f"{number}: {problem}" for number, chunk in enumerate(chunks) for problem in rules.feed(chunk)]


@dataclass
class Rules:
    _run: str = "none"
    """none, under way, finished, errored."""
    _open: set[tuple[str, str]] = field(default_factory=set)
    _owners: dict[tuple[str, str], str | None] = field(default_factory=dict)
    _agents: set[str] = field(default_factory=set)
    _started: set[str] = field(default_factory=set)
    _unanswered: set[str] = field(default_factory=set)

    def feed(self, chunk: Chunk) -> Iterator[str]:
        kind = chunk["type"]
        yield from self._check_form(kind, chunk)
        yield from self._check_run(kind)
        if kind in OPENS:
            yield from self._opens(OPENS[kind], chunk)
        elif kind in GOES_ON or kind in CLOSES:
            yield from self._goes_on(kind, chunk)
        elif kind.startswith("SUBAGENT_"):
            yield from self._subagent(kind, chunk)
        elif kind == "RUN_FINISHED":
            yield from self._finished(chunk)
        elif kind == "TOOL_CALL_RESULT":
            self._unanswered.discard(chunk["toolCallId"])
            self._owners["message", chunk["messageId"]] = chunk.get("subagentRunId")
        elif kind.startswith("ACTIVITY_"):
            yield from self._activity(kind, chunk)

    def _check_form(self, kind: str, chunk: Chunk) -> Iterator[str]:
        if kind not in REQUIRED:
            yield f"{kind} is no event of ours"
        elif missing := REQUIRED[kind] - chunk.keys():
            yield f"{kind} lacks {missing}"
        if any(_nulls(chunk)):
            yield f"{kind} has null in {list(_nulls(chunk))}"
        if not isinstance(chunk.get("timestamp"), int):
            yield f"{kind} has no time in milliseconds"

    def _check_run(self, kind: str) -> Iterator[str]:
        if kind == "RUN_STARTED":
            if self._run == "under way":
                yield "RUN_STARTED while a run is under way"
            self.__init__()  # type: ignore[misc]
            self._run = "under way"
        elif self._run == "errored" or (self._run != "under way" and kind != "RUN_ERROR"):
            yield f"{kind} while no run is under way"
        if kind == "RUN_ERROR":
            self._run = "errored"

    def _opens(self, what: str, chunk: Chunk) -> Iterator[str]:
        key = (what, _id(chunk))
        if key in self._open:
            yield f"{what} {key[1]} is open already"
        self._open.add(key)
        yield from self._agrees(what, chunk)
        owner = chunk.get("subagentRunId")
        if what == "tool call":
            self._unanswered.add(key[1])
            holder = ("message", chunk.get("parentMessageId", ""))
            if owner is not None and self._owners.get(holder, owner) != owner:
                yield f"tool call {key[1]} of {owner} stands in a message of {self._owners[holder]}"
            owner = owner if owner is not None else self._owners.get(holder)
        self._owners.setdefault(_owned(what, key[1]), owner)

    def _goes_on(self, kind: str, chunk: Chunk) -> Iterator[str]:
        what = GOES_ON.get(kind) or CLOSES[kind]
        if (what, _id(chunk)) not in self._open:
            yield f"{kind} for the {what} {_id(chunk)}, which is not open"
        yield from self._agrees(what, chunk)
        if kind in CLOSES:
            self._open.discard((what, _id(chunk)))

    def _agrees(self, what: str, chunk: Chunk) -> Iterator[str]:
        tag, key = chunk.get("subagentRunId"), _owned(what, _id(chunk))
        if tag is not None and key in self._owners and self._owners[key] != tag:
            yield f"{chunk['type']} of {tag} for the {what} {_id(chunk)} of {self._owners[key]}"

    def _subagent(self, kind: str, chunk: Chunk) -> Iterator[str]:
        agent, parent = chunk["subagentRunId"], chunk.get("parentSubagentRunId")
        if kind == "SUBAGENT_STARTED":
            if agent in self._started:
                yield f"sub-agent {agent} starts twice in a run"
            if parent is not None and parent not in self._started:
                yield f"sub-agent {agent} belongs to {parent}, which has not started"
            self._started.add(agent)
            self._agents.add(agent)
        elif agent not in self._agents:
            yield f"{kind} for the sub-agent {agent}, which is not under way"
        else:
            self._agents.remove(agent)

    def _activity(self, kind: str, chunk: Chunk) -> Iterator[str]:
        if kind == "ACTIVITY_SNAPSHOT":
            self._owners["activity", chunk["messageId"]] = chunk.get("subagentRunId")
        else:
            yield from self._agrees("activity", chunk)

    def _finished(self, chunk: Chunk) -> Iterator[str]:
        if self._open or self._agents:
            yield f"RUN_FINISHED while {sorted(self._open) + sorted(self._agents)} are open"
        outcome = chunk.get("outcome", {"type": "success"})
        if outcome["type"] == "interrupt" and not outcome["interrupts"]:
            yield "an interrupt without anything to answer"
        if outcome["type"] == "success" and self._unanswered:
            yield f"the client would think it has to answer {self._unanswered}"
        self._run = "finished"


def _id(chunk: Chunk) -> str:
    return str(chunk["toolCallId"] if chunk["type"].startswith("TOOL_CALL") else chunk["messageId"])


def _owned(what: str, id_: str) -> tuple[str, str]:
    return ("reasoning" if what == "reasoning span" else what, id_)


def _nulls(value: Any, path: str = "") -> Iterator[str]:
    if value is None:
        yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        if key not in FREE and not (key == "content" and isinstance(inner, dict)):
            yield from _nulls(inner, f"{path}.{key}")


@dataclass
class Client:
    """What is on the screen. Ids are unique, a message appears once, a snapshot leaves nothing else."""

    messages: dict[str, Chunk] = field(default_factory=dict)
    state: Any = field(default_factory=dict)

    def read(self, chunks: Iterable[Chunk]) -> "Client":
        for chunk in chunks:
            self.feed(chunk)
        return self

    def feed(self, chunk: Chunk) -> None:
        match chunk["type"]:
            case "RUN_STARTED":
                for message in chunk.get("input", {}).get("messages", []):
                    self.messages.setdefault(message["id"], message)
            case "TEXT_MESSAGE_START" | "REASONING_MESSAGE_START":
                self._add(chunk["messageId"], chunk["role"], chunk).setdefault("content", "")
            case "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT":
                self.messages[chunk["messageId"]]["content"] += chunk["delta"]
            case "TOOL_CALL_START":
                holder = self._add(str(chunk.get("parentMessageId", chunk["toolCallId"])), "assistant", chunk)
                call = {"id": chunk["toolCallId"], "function": {"name": chunk["toolCallName"], "arguments": ""}}
                holder.setdefault("toolCalls", []).append(call)
            case "TOOL_CALL_ARGS":
                self.call(chunk["toolCallId"])["arguments"] += chunk["delta"]
            case "TOOL_CALL_RESULT":
                assert chunk["messageId"] not in self.messages
                assert self.call(chunk["toolCallId"]), "a result belongs to one call"
                self.messages[chunk["messageId"]] = {**chunk, "role": "tool"}
            case "MESSAGES_SNAPSHOT":
                kept = {k: m for k, m in self.messages.items() if m["role"] in ("activity", "reasoning")}
                self.messages = kept | {m["id"]: deepcopy(m) for m in chunk["messages"]}
            case _:
                self._shared(chunk)

    def _shared(self, chunk: Chunk) -> None:
        match chunk["type"]:
            case "STATE_SNAPSHOT":
                self.state = deepcopy(chunk["snapshot"])
            case "STATE_DELTA":
                self.state = jsonpatch.apply_patch(self.state, chunk["delta"])
            case "ACTIVITY_SNAPSHOT":
                self.messages[chunk["messageId"]] = {**deepcopy(chunk), "role": "activity"}
            case "ACTIVITY_DELTA":
                shown = self.messages[chunk["messageId"]]
                shown["content"] = jsonpatch.apply_patch(shown["content"], chunk["patch"])

    def call(self, tool_call_id: str) -> Chunk:
        (found,) = [c for m in self.messages.values() for c in m.get("toolCalls", []) if c["id"] == tool_call_id]
        function: Chunk = found["function"]
        return function

    def texts(self, role: str = "assistant", owner: str | None = None) -> list[str]:
        shown = [m for m in self.messages.values() if m["role"] == role and m.get("subagentRunId") == owner]
        return [m["content"] for m in shown if m.get("content")]

    def activities(self, kind: str) -> list[Chunk]:
        return [m["content"] for m in self.messages.values() if m.get("activityType") == kind]

    def _add(self, message_id: str, role: str, chunk: Chunk) -> Chunk:
        tag = {"subagentRunId": chunk["subagentRunId"]} if "subagentRunId" in chunk else {}
        return self.messages.setdefault(message_id, {"id": message_id, "role": role, **tag})
