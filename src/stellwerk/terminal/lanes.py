"""Lanes: who speaks. The outermost agent, and beside it every agent, graph or tool in which something happens."""

from dataclasses import dataclass, field

from stellwerk.envelope.model import ToolStart
from stellwerk.terminal.plain import one_line


@dataclass(frozen=True, slots=True)
class Lane:
    name: str
    depth: int
    number: int
    """Counts all lanes; tells colours apart."""


ROOT = Lane("", 0, 0)


@dataclass(slots=True)
class _Call:
    name: str
    outer: Lane
    inner: Lane | None = None


@dataclass
class Lanes:
    _calls: dict[str, _Call] = field(default_factory=dict)
    _made: int = 0

    def begin(self, start: ToolStart) -> tuple[Lane, str]:
        """The lane in which the call is told, and its name there: two of one name that run side by side get numbers."""
        outer = self.inside(start.parent_id)
        title = one_line(start.payload.title or start.payload.tool_name)
        taken = {call.name for call in self._calls.values()}
        names = (title if number == 1 else f"{title} {number}" for number in range(1, len(taken) + 2))
        name = next(name for name in names if name not in taken)
        self._calls[start.call_id] = _Call(name, outer)
        return outer, name

    def inside(self, call_id: str | None) -> Lane:
        """The lane of what happens inside a call; what belongs to no call that is open is the outermost agent's."""
        call = self._calls.get(call_id or "")
        if call is None:
            return ROOT
        if call.inner is None:
            self._made += 1
            call.inner = Lane(call.name, call.outer.depth + 1, self._made)
        return call.inner

    def end(self, call_id: str) -> tuple[Lane, str]:
        call = self._calls.pop(call_id, None)
        return (ROOT, "") if call is None else (call.outer, call.name)
