"""Resuming: an adapter takes up a trace where an earlier run of it asked the user.

What that run left open goes on under the same ids; what the framework repeats
of it is swallowed; what happened inside open calls still counts for them.
"""

from collections import defaultdict
from collections.abc import Iterable

from stellwerk.envelope.model import (
    AskUser,
    Document,
    Envelope,
    LlmEnd,
    LlmToken,
    RunStart,
    SubgraphCheckpoint,
    ToolEnd,
    ToolStart,
)
from stellwerk.envelope.payloads import Checkpointed, Filed
from stellwerk.envelope.results import FileRef
from stellwerk.stream.outcomes import Inside
from stellwerk.stream.tool_calls import ToolCalls


class Resuming:
    def __init__(self, tools: ToolCalls) -> None:
        self._tools, self._tree = tools, tools.tree
        self._first: dict[str, str] = {}
        """The first attempt of each call."""
        self._texts: defaultdict[str, list[str]] = defaultdict(list)
        self._around: dict[str, str | None] = {}
        self.checkpoint: Checkpointed | None = None
        """Of the outermost graph, the last one: where it goes on."""

    def take_up(self, history: Iterable[Envelope]) -> None:
        for envelope in history:
            match envelope:
                case SubgraphCheckpoint(payload=saved, parent_id=None):
                    self.checkpoint = saved
                case RunStart(run_id=str(run_id)):
                    self._tree.runs.add(run_id)
                case ToolStart():
                    self._began(envelope)
                case ToolEnd():
                    self._ended(envelope)
                case LlmToken(payload=token) if token.kind == "text":
                    self._texts[envelope.call_id].append(token.text)
                case LlmEnd():
                    self._said(envelope)
                case Document(payload=filed, parent_id=str(call)):
                    self._filed(filed, self._around.get(call))
                case AskUser(payload=asked) if asked.tool_name and asked.tool_call_id:
                    self._tools.want(envelope.parent_id, [(asked.tool_name, asked.tool_call_id, asked.args)])

    def _began(self, start: ToolStart) -> None:
        before = start.payload.retry_of
        first = self._first[start.call_id] = self._first.get(before, before) if before else start.call_id
        self._tools.attempts[first] = self._tools.attempts.get(first, 0) + 1
        self._tools.waiting[first] = start
        self._tools.take(start.parent_id, start.payload.tool_call_id)
        self._around[start.call_id] = start.parent_id
        if start.payload.kind != "tool":
            self._tools.inside[start.call_id] = Inside()

    def _ended(self, end: ToolEnd) -> None:
        self._tools.waiting.pop(self._first.get(end.call_id, end.call_id), None)
        inside = self._tools.inside.pop(end.call_id, None)
        outer = self._tools.inside.get(end.parent_id or "")
        if inside is not None and outer is not None:
            outer.use(*inside.usage.values())
            outer.files.update(inside.files)

    def _said(self, end: LlmEnd) -> None:
        text, done = "".join(self._texts.pop(end.call_id, ())), end.payload
        self._tools.want(end.parent_id, [(call.name, call.tool_call_id, call.args) for call in done.tool_calls or ()])
        inside = self._tools.inside.get(end.parent_id or "")
        if inside is not None and done.usage is not None:
            inside.use(done.usage)
            inside.say(done.message_id, text if done.status == "ok" else "")

    def _filed(self, filed: Filed, owner: str | None) -> None:
        inside = self._tools.inside.get(owner or "")
        if inside is not None:
            inside.file(FileRef(document_id=filed.document_id, filename=filed.name, mime=filed.mime, size=filed.size))
