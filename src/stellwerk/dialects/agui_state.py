"""The state that an AG-UI client shares: the whole once in each run, then RFC 6902 patches.

It is one document. The outermost agent's states stand at its top by name;
those of a sub-agent below ``agents`` and its id, because agents that work side
by side have states of the same names.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from stellwerk.dialects.agui_events import event
from stellwerk.dialects.base import Chunk
from stellwerk.envelope.model import RunStart, State
from stellwerk.views import states

_TODO = ("checklist", "todos")
"""States that are shown as an activity too."""
_AGENTS = "agents"


@dataclass
class SharedState:
    _own: dict[str, Any] = field(default_factory=dict)
    """States of the outermost agent."""
    _agents: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Those of sub-agents."""
    _sent: bool = False
    """The client has got the whole in this run."""

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
        """The operations that change the document; a client would refuse a whole patch for one that does not fit."""
        name, place, known = changed.payload.name, [changed.payload.name], self._own
        if owner is not None:
            missing = [_AGENTS] * (not self._agents), [_AGENTS, owner] * (owner not in self._agents)
            yield from (_add(above, {}) for above in missing if above)
            place, known = [_AGENTS, owner, name], self._agents.setdefault(owner, {})
        if changed.payload.patch is not None and known.get(name) is None:
            yield _add(place, {})
        known[name], done = states.after(known.get(name), changed.payload)
        yield from ({**operation, "path": states.pointer(place) + operation["path"]} for operation in done)

    def _document(self) -> dict[str, Any]:
        inner = {owner: dict(known) for owner, known in self._agents.items()}
        return {**self._own, **({_AGENTS: inner} if inner else {})}

    def _todo(self, changed: State, owner: str | None) -> Chunk:
        name = changed.payload.name
        value = (self._own if owner is None else self._agents[owner])[name]
        content = {"name": name, **(value if isinstance(value, dict) else {"tasks": value})}
        place = {"messageId": f"todo-{name}" if owner is None else f"todo-{name}-{owner}", "activityType": "TODO"}
        return event("ACTIVITY_SNAPSHOT", changed, owner, **place, content=content, replace=True)


def _add(place: list[str], value: Any) -> Chunk:
    return {"op": "add", "path": states.pointer(place), "value": value}
