"""Tool calls: of tools, of agents used as tools, and of graphs inside graphs."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from stellwerk.envelope.canonical import PAYLOAD_DEPTH, canonical, clean_text
from stellwerk.envelope.model import Document, Envelope, ToolEnd, ToolStart
from stellwerk.envelope.payloads import Failure, Filed, Outcome, ToolCalled, ToolEnded, Usage
from stellwerk.envelope.results import FileRef, Json, ToolResult, to_result
from stellwerk.ids import digest_id
from stellwerk.stream.facts import CallFailed, CallPaused, Linked, StepEnded, ToolAnswered, ToolBegan, ToolDone
from stellwerk.stream.model_calls import sum_of
from stellwerk.stream.tree import Tree, cleaned, graph_of

ERROR_TEXT = 2000
"""Characters of an error that are kept."""


@dataclass
class Inside:
    """What happened inside an agent or a graph, for its normalised result."""

    messages: list[dict[str, str]] = field(default_factory=list)
    files: dict[str, Any] = field(default_factory=dict)
    usage: dict[str, Usage] = field(default_factory=dict)
    signal: str | None = None

    def outcome(self) -> Outcome:
        return Outcome(messages=self.messages, files=self.files, usage=list(self.usage.values()))


@dataclass
class ToolCalls:
    tree: Tree
    inside: dict[str, Inside] = field(default_factory=dict)
    """By call, for every agent and graph that is open."""
    waiting: dict[str, ToolStart] = field(default_factory=dict)
    """Calls that an earlier run of the trace left open because they asked the user."""
    asked_by: dict[str, str] = field(default_factory=dict)
    """The innermost call that asked a question."""
    paused: set[str] = field(default_factory=set)
    """Calls on the path to a question of this run."""
    wanted: dict[tuple[str, str], tuple[str, dict[str, Any]]] = field(default_factory=dict)
    """Tool calls that a model asked for and that have not begun, by owner ("" is the run) and tool_call_id."""
    attempts: dict[str, int] = field(default_factory=dict)

    def began(self, fact: ToolBegan) -> Iterator[Envelope]:
        first = digest_id(self.tree.trace_id, fact.namespace, fact.tool_call_id)
        start = self.waiting.pop(first, None)
        if start is None:
            start = self._start(fact, first)
            yield start
        self.take(start.parent_id, fact.tool_call_id)
        self.tree.calls[fact.run] = start
        self.tree.spaces[fact.namespace] = start.call_id
        if fact.kind == "agent":
            self.inside.setdefault(start.call_id, Inside(signal=fact.signal))

    def _start(self, fact: ToolBegan, first: str) -> ToolStart:
        # A tool that is tried again within a run is another call of the same tool_call_id.
        attempt = self.attempts[first] = self.attempts.get(first, 0) + 1
        call_id = first if attempt == 1 else digest_id(first, str(attempt))
        before = None if attempt == 1 else first if attempt == 2 else digest_id(first, str(attempt - 1))
        args = canonical(fact.args, depth=PAYLOAD_DEPTH)
        self.tree.blobs += args.blobs
        called = ToolCalled(
            tool_name=clean_text(fact.name),
            tool_call_id=clean_text(fact.tool_call_id),
            args=args.value if isinstance(args.value, dict) else {"value": args.value},
            node=cleaned(fact.node),
            kind=fact.kind,
            title=cleaned(fact.title),
            retry_of=before,
            sanitized=list(args.notes) or None,
        )
        parent = self.tree.owner(fact.parent)
        return ToolStart(**self.tree.place(fact.ts, parent, call_id, fact.agent), payload=called)

    def graph_began(self, fact: Linked) -> Iterator[Envelope]:
        """A graph inside a node: a call of its own, so that what happens in it can be told apart."""
        parent, task = self.tree.owner(fact.parent), fact.namespace.rpartition(":")[2]
        call_id = digest_id(self.tree.trace_id, fact.namespace, "graph", fact.name)
        start = self.waiting.pop(call_id, None)
        if start is None:
            called = ToolCalled(tool_name=clean_text(fact.name), tool_call_id=clean_text(task), kind="graph")
            start = ToolStart(**self.tree.place(fact.ts, parent, call_id, None), payload=called)
            yield start
        self.tree.calls[fact.run] = start
        self.tree.spaces[fact.namespace] = start.call_id
        self.inside.setdefault(call_id, Inside())

    def graph_ended(self, fact: StepEnded) -> Iterator[Envelope]:
        start = self.tree.calls.get(fact.run)
        if not isinstance(start, ToolStart):
            return
        del self.tree.calls[fact.run]
        name = start.payload.tool_name
        failure = None if fact.failed is None else Failure(message=f"{name} raised {fact.failed}", class_=fact.failed)
        yield from self._end(start, fact.ts, None, failure)

    def done(self, fact: ToolDone) -> Iterator[Envelope]:
        start = self.tree.calls.pop(fact.run, None)
        if isinstance(start, ToolStart):
            yield from self._ended(start, fact.ts, fact.output, fact.failed, fact.notes)

    def answered(self, fact: ToolAnswered) -> Iterator[Envelope]:
        """A call that somebody answered in the tool's place, or that was cut off and answered for."""
        for run, call in list(self.tree.calls.items()):
            if isinstance(call, ToolStart) and call.payload.tool_call_id == fact.tool_call_id:
                if self._graph_of(call) == fact.namespace:
                    del self.tree.calls[run]
                    yield from self._ended(call, fact.ts, fact.output, fact.failed)
                    return
        parent = self.tree.owner_of(fact.namespace)
        asked = self.wanted.pop((self._key(parent), fact.tool_call_id), None)
        if asked is None:
            return
        name, args = asked
        call_id = digest_id(self.tree.trace_id, fact.namespace, fact.tool_call_id)
        called = ToolCalled(tool_name=clean_text(name), tool_call_id=clean_text(fact.tool_call_id), args=args)
        start = ToolStart(**self.tree.place(fact.ts, parent, call_id, None), payload=called)
        yield start
        yield from self._ended(start, fact.ts, fact.output, fact.failed)

    def failed(self, start: ToolStart, fact: CallFailed) -> Iterator[Envelope]:
        failure = Failure(message=clean_text(fact.message)[:ERROR_TEXT], code="tool_raised", class_=fact.kind)
        yield from self._end(start, fact.ts, None, failure)

    def pause(self, fact: CallPaused) -> Iterable[Envelope]:
        start = self.tree.calls.pop(fact.run, None)
        if start is not None:
            self.paused.add(start.call_id)
            for ask_id in fact.ask_ids:
                self.asked_by.setdefault(ask_id, start.call_id)
        return ()

    def said(self, owner: str, message_id: str, text: str, used: Usage) -> None:
        """A model inside the call said something."""
        inside = self.inside.get(owner)
        if inside is not None:
            inside.usage[used.model] = sum_of(inside.usage.get(used.model), used)
            if text:
                inside.messages.append({"message_id": message_id, "role": "assistant", "text": text})

    def want(self, owner: str, calls: Iterable[tuple[str, str, Any]]) -> None:
        for name, tool_call_id, args in calls:
            safe = canonical(args, depth=PAYLOAD_DEPTH).value
            self.wanted[self._key(owner), tool_call_id] = (name, safe if isinstance(safe, dict) else {})

    def take(self, owner: str | None, tool_call_id: str) -> None:
        """The call has begun."""
        self.wanted.pop((self._key(owner), tool_call_id), None)

    def _ended(
        self, start: ToolStart, ts: float, output: Any, failed: bool, before: tuple[str, ...] = ()
    ) -> Iterator[Envelope]:
        result, notes, blobs = to_result(output)
        self.tree.blobs += blobs
        failure = Failure(message=result.as_text()[:ERROR_TEXT], code="tool_error") if failed else None
        if isinstance(result, FileRef):
            yield self._filed(start, ts, result)
        yield from self._end(start, ts, result, failure, before + notes)

    def _end(
        self,
        start: ToolStart,
        ts: float,
        result: ToolResult | None,
        failure: Failure | None,
        notes: tuple[str, ...] = (),
    ) -> Iterator[Envelope]:
        inside = self.inside.pop(start.call_id, None)
        if inside is not None:
            self._pass_on(start, inside)
            yield from self._signal(start, ts, inside)
        ended = ToolEnded(
            tool_name=start.payload.tool_name,
            tool_call_id=start.payload.tool_call_id,
            status="ok" if failure is None else "error",
            result=result,
            error=failure,
            duration=round(max(ts - start.ts, 0), 6),
            outcome=None if inside is None else inside.outcome(),
            sanitized=list(notes) or None,
        )
        yield ToolEnd(**self.tree.place(ts, start.parent_id, start.call_id, start.agent), payload=ended)

    def _signal(self, start: ToolStart, ts: float, inside: Inside) -> Iterator[Envelope]:
        """The call by which an agent says that it is done, if it was told to say so."""
        if inside.signal is None:
            return
        call_id = digest_id(start.call_id, inside.signal)
        place = self.tree.place(ts, start.call_id, call_id, start.payload.title or start.payload.tool_name)
        yield ToolStart(**place, payload=ToolCalled(tool_name=inside.signal, tool_call_id=call_id))
        result = Json(data={"messages": inside.messages, "files": inside.files, "usage": _plain(inside.usage)})
        done = ToolEnded(tool_name=inside.signal, tool_call_id=call_id, status="ok", result=result)
        yield ToolEnd(**place, payload=done)

    def _pass_on(self, start: ToolStart, inside: Inside) -> None:
        """What an inner agent used, the one around it has used too."""
        outer = self.inside.get(start.parent_id or "")
        if outer is not None:
            for used in inside.usage.values():
                outer.usage[used.model] = sum_of(outer.usage.get(used.model), used)
            outer.files.update(inside.files)

    def _filed(self, start: ToolStart, ts: float, file: FileRef) -> Envelope:
        call_id = digest_id("document", start.call_id, file.document_id)
        ext = file.filename.rpartition(".")[2] if "." in file.filename else ""
        filed = Filed(
            document_id=file.document_id,
            name=file.filename,
            mime=file.mime,
            size=file.size,
            digest=file.document_id,
            ext=ext,
        )
        owner = self.inside.get(start.parent_id or "")
        if owner is not None:
            owner.files[file.filename] = {"document_id": file.document_id, "mime": file.mime, "size": file.size}
        return Document(**self.tree.place(ts, start.call_id, call_id, start.agent), payload=filed)

    def _graph_of(self, call: ToolStart) -> str:
        return next((graph_of(space) for space, owner in self.tree.spaces.items() if owner == call.call_id), "")

    def _key(self, owner: str | None) -> str:
        return "" if owner is None or owner in self.tree.runs else owner


def _plain(usage: dict[str, Usage]) -> list[dict[str, Any]]:
    return [msgspec.to_builtins(used) for used in usage.values()]
