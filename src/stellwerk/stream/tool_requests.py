"""Tool requests: the tool calls that models asked for, until a tool runs them or a node answers.

A tool that gets a whole tool call knows its ``tool_call_id``. A node that passes only the arguments
on (``tool.invoke(call["args"])``) calls it directly, and writes the ``ToolMessage`` itself; both are
one call. Which request it runs follows from its task, its name and its arguments.
"""

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from typing import Any

from stellwerk.envelope.model import ToolStart
from stellwerk.envelope.to_json import PAYLOAD_DEPTH, canonical, clean_text, to_result
from stellwerk.ids import digest_id
from stellwerk.stream.calls import CallTree
from stellwerk.stream.facts import ToolStarted

DIRECT = "direct_"
"""The beginning of the made-up id of a tool call without one."""


@dataclass
class _DirectCall:
    """A direct call that may be any of several requests."""

    owner: str
    name: str
    result: str | None = None
    """As text, once it has ended."""


@dataclass
class ToolRequests:
    tree: CallTree
    _open: dict[tuple[str, str], tuple[str, dict[str, Any]]] = field(default_factory=dict)
    """Name and arguments of requests, by owner ("" is the run) and tool_call_id."""
    _starts: dict[str, ToolStart] = field(default_factory=dict)
    """The latest start of each call that a model requested, by its first id."""
    _unclear: dict[str, _DirectCall] = field(default_factory=dict)
    """By call_id."""

    def add(self, owner: str | None, calls: Iterable[tuple[str, str, Any]]) -> None:
        """Note the tool calls that a model asked for: name, tool_call_id and arguments."""
        for name, tool_call_id, args in calls:
            given = self.tree.canonical(args).value
            request = (clean_text(name), given if isinstance(given, dict) else {})
            self._open[self._key(owner), tool_call_id] = request

    def take(self, owner: str | None, tool_call_id: str) -> tuple[str, dict[str, Any]] | None:
        """Return name and arguments of a request that starts or that a node answers, once."""
        return self._open.pop((self._key(owner), tool_call_id), None)

    def find(self, owner: str, name: str, args: Any) -> list[str]:
        """Return the tool_call_ids of open requests with this name and these arguments."""
        key = self._key(owner)
        return [call_id for call_id in self._named(key, name) if self._open[key, call_id][1] == args]

    def started(self, first: str, start: ToolStart) -> None:
        called = start.payload
        if not called.tool_call_id.startswith(DIRECT):
            self._starts[first] = start
        elif self._named(self._key(start.parent_id), called.tool_name):
            self._unclear[start.call_id] = _DirectCall(self._key(start.parent_id), called.tool_name)

    def ended(self, call_id: str, result: str) -> None:
        if call_id in self._unclear:
            self._unclear[call_id].result = result

    def claim(self, fact: ToolStarted, paused: Container[str]) -> str | None:
        """Return the tool_call_id of the request that a direct call runs; None if that is unclear.

        It has the same arguments, or it is the only one: a user may have edited them. ``paused`` are
        the first ids of calls that wait for the user.
        """
        name = clean_text(fact.name)
        args = canonical(fact.args, depth=PAYLOAD_DEPTH).value
        owner = self._key(self.tree.owner(fact.parent))
        requests = self._named(owner, name)
        before = self._started_by(fact, name)
        waiting = [start for first, start in before.items() if first in paused]
        likely = [
            *(start.payload.tool_call_id for start in waiting if start.payload.args == args),
            *(call_id for call_id in requests if self._open[owner, call_id][1] == args),
            # The node runs it again, after an interrupt or because it failed.
            *(start.payload.tool_call_id for start in before.values() if start.payload.args == args),
            *(start.payload.tool_call_id for start in waiting),
        ]
        if not likely and len(requests) == 1:
            return requests[0]
        return likely[0] if likely else None

    def was_run(self, owner: str | None, tool_call_id: str, output: Any) -> bool:
        """Whether an unclear direct call ran the request that a node answers; both are done then."""
        key = self._key(owner)
        name, _ = self._open.get((key, tool_call_id), ("", {}))
        calls = [id_ for id_, call in self._unclear.items() if (call.owner, call.name) == (key, name)]
        if not calls:
            return False
        result = to_result(output)[0].as_text()
        same = [call_id for call_id in calls if self._unclear[call_id].result == result]
        if not same and len(self._named(key, name)) > len(calls):
            return False  # the node may have answered this one without the tool
        del self._unclear[(same or calls)[0]]
        self.take(owner, tool_call_id)
        return True

    def _started_by(self, fact: ToolStarted, name: str) -> dict[str, ToolStart]:
        """Return the calls of this tool that the same task has started, by their first id."""
        found = {first: start for first, start in self._starts.items() if start.payload.tool_name == name}
        trace, task = self.tree.trace_id, fact.namespace
        return {
            first: start
            for first, start in found.items()
            if first == digest_id(trace, task, start.payload.tool_call_id)
        }

    def _named(self, owner: str, name: str) -> list[str]:
        return [call_id for (key, call_id), (tool, _) in self._open.items() if (key, tool) == (owner, name)]

    def _key(self, owner: str | None) -> str:
        return "" if owner is None or owner in self.tree.runs else owner
