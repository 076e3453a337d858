"""Resuming: an adapter takes up a trace where it asked the user, or where a crash cut it off.

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
    Message,
    RunStart,
    State,
    SubgraphCheckpoint,
    SubgraphResume,
    ToolEnd,
    ToolStart,
)
from stellwerk.envelope.payloads import Checkpointed, Filed
from stellwerk.envelope.results import FileRef
from stellwerk.stream.outcomes import Inside
from stellwerk.stream.states import States
from stellwerk.stream.tool_calls import ToolCalls


class Resuming:
    def __init__(self, tools: ToolCalls, states: States) -> None:
        self._tools, self._tree = tools, tools.tree
        self._first: dict[str, str] = {}
        """The first attempt of each call."""
        self._texts: defaultdict[str, list[str]] = defaultdict(list)
        self._around: dict[str, str | None] = {}
        self._states = states
        self.attempts = 1
        """How often the trace was taken up, its beginning included."""
        self.said: set[str] = set()
        """Messages that the trace told; a step that is not over gives them back when it goes on."""
        self.answers: list[tuple[LlmEnd, str]] = []
        """The last words of the outermost agent, which may be its answer; a graph's state decides between several."""
        self.in_state = 0
        """How many of them the state has from which the run goes on."""
        self.checkpoint: Checkpointed | None = None
        """Of the outermost graph, the last one: where it goes on."""

    def take_up(self, history: Iterable[Envelope]) -> None:
        for envelope in history:
            match envelope:
                case SubgraphCheckpoint(payload=saved, parent_id=None):
                    self.checkpoint = saved
                    self.in_state = len(self.answers)
                case RunStart(run_id=str(run_id)):
                    self._tree.runs.add(run_id)
                    self.answers, self.in_state = [], 0
                case SubgraphResume():
                    self.attempts += 1
                case Message(payload=said):
                    if envelope.run_id == self._tree.run_id or said.role == "assistant":
                        self.said.add(said.message_id)
                case State() | AskUser():
                    self._states.take_up(envelope)
                case _:
                    self._call(envelope)

    def _call(self, envelope: Envelope) -> None:
        match envelope:
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
            outer.take_over(inside)

    def _said(self, end: LlmEnd) -> None:
        text, done = "".join(self._texts.pop(end.call_id, ())), end.payload
        if end.run_id == self._tree.run_id and done.usage is not None:
            self._tools.models.use(done.usage)
        if done.status == "ok" and text and end.parent_id in self._tree.runs:
            self.answers = [] if done.tool_calls else [*self.answers, (end, text)]
            self.in_state = min(self.in_state, len(self.answers))
        self._tools.want(end.parent_id, [(call.name, call.tool_call_id, call.args) for call in done.tool_calls or ()])
        inside = self._tools.inside.get(end.parent_id or "")
        if inside is not None and done.usage is not None:
            inside.use(done.usage)
            inside.say(done.message_id, text if done.status == "ok" else "")

    def _filed(self, filed: Filed, owner: str | None) -> None:
        inside = self._tools.inside.get(owner or "")
        if inside is not None:
            inside.file(FileRef(document_id=filed.document_id, filename=filed.name, mime=filed.mime, size=filed.size))
