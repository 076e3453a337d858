"""What parts tell of one task and of one model call, piece by piece, until it is whole."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from stellwerk.recordings.shapes import Item, finish_of, number, plain_id, rows, table
from stellwerk.stream.facts import ModelDone


@dataclass
class Task:
    id: str
    space: str
    node: str
    agent: str | None
    tools: dict[str, str] = field(default_factory=dict)
    """Runs of its tools that have not ended, by tool_call_id."""
    models: set[str] = field(default_factory=set)


@dataclass
class Words:
    """A model call that is speaking."""

    task: Task | None
    texts: list[str] = field(default_factory=list)
    calls: dict[Any, list[str]] = field(default_factory=dict)
    """Name, id and arguments, as they grow, by their index."""
    finish_reason: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0

    def hear(self, message: Item) -> None:
        usage = table(message.get("usage_metadata"))
        self.input_tokens += number(usage.get("input_tokens"))
        self.output_tokens += number(usage.get("output_tokens"))
        self.finish_reason = finish_of(message) or self.finish_reason
        for piece in map(table, rows(message.get("tool_call_chunks"))):
            call = self.calls.setdefault(piece.get("index"), ["", "", ""])
            for place, key in enumerate(("name", "id", "args")):
                call[place] += str(piece.get(key) or "")

    def done(self, ts: float, run: str, last: Item) -> ModelDone:
        return ModelDone(
            ts=ts,
            run=run,
            message_id=plain_id(last),
            text="".join(self.texts),
            finish_reason=self.finish_reason,
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            tool_calls=list(self._tool_calls()),
        )

    def _tool_calls(self) -> Iterator[tuple[str, str, Any]]:
        for name, tool_call_id, args in self.calls.values():
            try:
                yield name, tool_call_id, json.loads(args or "{}")
            except ValueError:  # the model wrote no JSON; nobody can call that
                continue
