"""Sub-agents as ``data-agent`` parts of the message.

A part is replaced when something in it ends: a tool, a message, the agent. What its model says in
between comes as ``data-agent-delta``, which is transient: clients show it and do not keep it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from stellwerk.dialects.base import Chunk
from stellwerk.envelope import model as m

_SHOWN_CALLS = 10
_SHOWN_TEXT = 2000
_ENDED = {"ok": "done", "error": "failed", "abandoned": "stopped"}


@dataclass
class _Agent:
    id: str
    about: Chunk
    status: str = "running"
    text: str = ""
    """Its latest message."""
    todos: Any = None
    calls: dict[str, Chunk] = field(default_factory=dict)

    def part(self) -> Chunk:
        data: Chunk = {**self.about, "status": self.status, "text": self.text[-_SHOWN_TEXT:]}
        data["calls"] = [dict(call) for call in list(self.calls.values())[-_SHOWN_CALLS:]]
        if self.todos is not None:
            data["todos"] = self.todos
        return {"type": "data-agent", "id": self.id, "data": data}


@dataclass
class AgentParts:
    _running: dict[str, _Agent] = field(default_factory=dict)
    _texts: dict[str, list[str]] = field(default_factory=dict)
    """Of open model calls inside, by call_id."""

    def starts(self, start: m.ToolStart, part_id: str | None, parent: str | None) -> Chunk:
        called = start.payload
        about = {"name": called.title or called.tool_name, "toolCallId": part_id, "parentId": parent or None}
        known = {name: value for name, value in about.items() if value is not None}
        agent = self._running[start.call_id] = _Agent(start.call_id, known)
        return agent.part()

    def ends(self, end: m.ToolEnd) -> Iterator[Chunk]:
        agent = self._running.pop(end.call_id, None)
        if agent is not None:
            agent.status = _ENDED[end.payload.status]
            yield agent.part()

    def waits(self, *, waiting: bool) -> Iterator[Chunk]:
        """The run ends with questions, or goes on after their answers."""
        for agent in self._running.values():
            agent.status = "waiting" if waiting else "running"
            yield agent.part()

    def token(self, agent_id: str, token: m.LlmToken) -> Iterator[Chunk]:
        if token.payload.kind == "text":
            self._texts.setdefault(token.call_id, []).append(token.payload.text)
            data = {"agentId": agent_id, "delta": token.payload.text}
            yield {"type": "data-agent-delta", "data": data, "transient": True}

    def model_ends(self, agent_id: str, end: m.LlmEnd) -> Iterator[Chunk]:
        said = "".join(self._texts.pop(end.call_id, ()))
        if said and end.payload.status == "ok":
            yield from self.says(agent_id, said)

    def says(self, agent_id: str, text: str) -> Iterator[Chunk]:
        agent = self._running.get(agent_id)
        if agent is not None and agent.text != text:
            agent.text = text
            yield agent.part()

    def calls(self, agent_id: str, envelope: m.ToolStart | m.ToolEnd) -> Iterator[Chunk]:
        agent = self._running.get(agent_id)
        if agent is None:
            return
        named = {"toolCallId": envelope.payload.tool_call_id, "toolName": envelope.payload.tool_name}
        status = _ENDED[envelope.payload.status] if isinstance(envelope, m.ToolEnd) else "running"
        agent.calls[envelope.call_id] = {**named, "status": status}
        yield agent.part()

    def plans(self, agent_id: str, todos: Any) -> Iterator[Chunk]:
        agent = self._running.get(agent_id)
        if agent is not None:
            agent.todos = todos
            yield agent.part()
