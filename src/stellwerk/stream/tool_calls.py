"""Tool calls: of tools, of agents used as tools, and of graphs inside graphs."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from stellwerk.envelope.model import Document, Envelope, ToolEnd, ToolStart
from stellwerk.envelope.payloads import Failure, Filed, ToolCalled, ToolEnded
from stellwerk.envelope.results import FileRef, Json, ToolResult
from stellwerk.envelope.to_json import clean_text, to_result
from stellwerk.ids import digest_id
from stellwerk.stream import facts as f
from stellwerk.stream.calls import CallTree, abandoned, cleaned, graph_of
from stellwerk.stream.outcomes import OutcomeBuilder
from stellwerk.stream.tool_requests import DIRECT, ToolRequests

ERROR_TEXT = 2000
"""Characters of an error that are kept."""
_UNNAMED = "LangGraph"
"""LangGraph's name for a graph without a name."""
_MESSAGE = "message_id"


@dataclass
class ToolCalls:
    tree: CallTree
    outcomes: dict[str, OutcomeBuilder] = field(default_factory=dict)
    """By call, for every open agent and graph."""
    waiting: dict[str, ToolStart] = field(default_factory=dict)
    """Calls that an earlier run of the trace left open with a question, by their first id."""
    attempts: dict[str, int] = field(default_factory=dict)
    """Starts of each call, by its first id."""

    def __post_init__(self) -> None:
        self.requests = ToolRequests(self.tree)

    def started(self, fact: f.ToolStarted) -> Iterator[Envelope]:
        if fact.tool_call_id.startswith(DIRECT):
            fact = replace(fact, tool_call_id=self.requests.claim(fact, self.waiting) or fact.tool_call_id)
        first = digest_id(self.tree.trace_id, fact.namespace, fact.tool_call_id)
        start = self.waiting.pop(first, None)
        if start is None:
            start = self._start(fact, first)
            yield start
        self.requests.take(start.parent_id, fact.tool_call_id)
        self.requests.started(first, start)
        self.tree.open(fact.run, start, fact.namespace)
        if fact.kind == "agent":
            self.outcomes.setdefault(start.call_id, OutcomeBuilder()).signal = fact.signal

    def _start(self, fact: f.ToolStarted, first: str) -> ToolStart:
        call_id, before = self._attempt(first)
        args = self.tree.canonical(fact.args)
        called = ToolCalled(
            tool_name=clean_text(fact.name),
            tool_call_id=clean_text(fact.tool_call_id),
            args=args.value if isinstance(args.value, dict) else {"value": args.value},
            node=cleaned(fact.node),
            kind=fact.kind,
            title=cleaned(fact.title),
            meta=None if fact.message_id is None else {_MESSAGE: clean_text(fact.message_id)},
            retry_of=before,
            idempotent=fact.idempotent,
            sanitized=list(args.notes) or None,
        )
        parent = self.tree.owner(fact.parent)
        return ToolStart(**self.tree.place(fact.ts, parent, call_id, fact.agent), payload=called)

    def _attempt(self, first: str) -> tuple[str, str | None]:
        """Return the id of the next attempt within the trace, and the attempt that it repeats."""
        number = self.attempts[first] = self.attempts.get(first, 0) + 1
        if number == 1:
            return first, None
        return digest_id(first, str(number)), first if number == 2 else digest_id(first, str(number - 1))

    def graph_started(self, fact: f.StepStarted) -> Iterator[Envelope]:
        """Open a call for a graph inside a node, so that its events are separate."""
        node, _, task = fact.namespace.rpartition("|")[2].partition(":")
        name = node if fact.name in ("", _UNNAMED) else fact.name
        first = digest_id(self.tree.trace_id, fact.namespace, "graph", name)
        start = self.waiting.pop(first, None)
        if start is None:
            call_id, before = self._attempt(first)
            given = self.tree.canonical(fact.input)
            called = ToolCalled(
                tool_name=clean_text(name),
                tool_call_id=clean_text(task),
                input=given.value,
                node=clean_text(node),
                kind="graph",
                retry_of=before,
                sanitized=list(given.notes) or None,
            )
            place = self.tree.place(fact.ts, self.tree.owner(fact.parent), call_id, None)
            start = ToolStart(**place, payload=called)
            yield start
        self.tree.open(fact.run, start, fact.namespace)
        self.outcomes.setdefault(start.call_id, OutcomeBuilder())

    def graph_ended(self, fact: f.StepEnded) -> Iterator[Envelope]:
        start = self.tree.calls.get(fact.run)
        if not isinstance(start, ToolStart):
            return
        self.tree.close(fact.run)
        name = start.payload.tool_name
        failure = None
        if fact.failed is not None:
            failure = Failure(message=f"{name} raised {fact.failed}", class_=fact.failed)
        yield from self._end(start, fact.ts, None, failure)

    def finished(self, fact: f.ToolFinished) -> Iterator[Envelope]:
        start = self.tree.close(fact.run)
        if isinstance(start, ToolStart):
            yield from self._returned(start, fact.ts, fact.output, fact.failed, fact.notes)

    def answered(self, fact: f.ToolAnswered) -> Iterator[Envelope]:
        """End a call that a node answered in place of the tool, perhaps after an interrupt."""
        for call_id, call in self.tree.tools.items():
            if call.payload.tool_call_id == fact.tool_call_id:
                if graph_of(self.tree.where[call_id]) == fact.namespace and call.payload.kind != "graph":
                    self.tree.close_tool(call_id)
                    yield from self._returned(call, fact.ts, fact.output, fact.failed)
                    return
        owner = self.tree.owner_of(fact.namespace)
        if self.requests.was_run(owner, fact.tool_call_id, fact.output):
            return
        requested = self.requests.take(owner, fact.tool_call_id)
        if requested is None:
            return
        name, args = requested
        call_id, _ = self._attempt(digest_id(self.tree.trace_id, fact.namespace, fact.tool_call_id))
        called = ToolCalled(tool_name=name, tool_call_id=clean_text(fact.tool_call_id))
        if fact.failed:  # a rejected call shows what was rejected
            called = replace(called, args=args)
        start = ToolStart(**self.tree.place(fact.ts, owner, call_id, self.tree.agent_of(owner)), payload=called)
        yield start
        for envelope in self._returned(start, fact.ts, fact.output, fact.failed):
            if isinstance(envelope, ToolEnd) and not fact.failed:
                envelope = replace(envelope, payload=replace(envelope.payload, written_by_node=True))
            yield envelope

    def failed(self, start: ToolStart, fact: f.CallFailed) -> Iterator[Envelope]:
        failure = Failure(message=clean_text(fact.message)[:ERROR_TEXT], code="tool_raised", class_=fact.kind)
        self.requests.ended(start.call_id, failure.message)
        yield from self._end(start, fact.ts, None, failure)

    def paused(self, fact: f.CallPaused) -> Iterable[Envelope]:
        start = self.tree.close(fact.run)
        if isinstance(start, ToolStart):
            self.tree.paused[start.call_id] = start
            for ask_id in fact.ask_ids:
                self.tree.asked_by.setdefault(self.tree.question_id(ask_id), start.call_id)
        return ()

    def _returned(
        self, start: ToolStart, ts: float, output: Any, failed: bool, before: tuple[str, ...] = ()
    ) -> Iterator[Envelope]:
        result, notes, blobs = to_result(output)
        self.tree.blobs += blobs
        self.requests.ended(start.call_id, result.as_text())
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
        yield from self._abandon_inside(start.call_id, ts)
        inside = self.outcomes.pop(start.call_id, None)
        if inside is not None:
            if (outer := self.outcomes.get(start.parent_id or "")) is not None:
                outer.take_over(inside)
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
        yield ToolEnd(**self.tree.in_call(ts, start), payload=ended)

    def _abandon_inside(self, call_id: str, ts: float) -> Iterator[Envelope]:
        """End the open calls inside: the framework reports no end of calls that it cancels."""
        for run, call in self.tree.inside(call_id, self.waiting.values()):
            yield from self.tree.abandon_held(ts, call.call_id)
            if run is None:
                self._give_up(call.call_id)
            else:
                self.tree.close(run)
            if run is None or self.tree.voices.pop(run, None) != "held":
                yield abandoned(call, ts, self.tree.run_id)
            self.outcomes.pop(call.call_id, None)
        yield from self.tree.abandon_held(ts, call_id)

    def _give_up(self, call_id: str) -> None:
        """Forget a paused call whose caller went on without the answer."""
        self.tree.paused.pop(call_id, None)
        self.waiting = {first: start for first, start in self.waiting.items() if start.call_id != call_id}
        self.tree.given_up |= {ask_id for ask_id, caller in self.tree.asked_by.items() if caller == call_id}

    def _signal(self, start: ToolStart, ts: float, inside: OutcomeBuilder) -> Iterator[Envelope]:
        """Record an agent's completion signal, a call that holds its outcome, if it has one."""
        if inside.signal is None:
            return
        call_id = digest_id(start.call_id, inside.signal)
        place = self.tree.place(ts, start.call_id, call_id, start.payload.title or start.payload.tool_name)
        yield ToolStart(**place, payload=ToolCalled(tool_name=inside.signal, tool_call_id=call_id))
        result = Json(data=inside.plain())
        done = ToolEnded(tool_name=inside.signal, tool_call_id=call_id, status="ok", result=result)
        yield ToolEnd(**place, payload=done)

    def _filed(self, start: ToolStart, ts: float, file: FileRef) -> Envelope:
        call_id = digest_id("document", start.call_id, file.document_id)
        message_id = self._message_around(start)
        filed = Filed.of(file.document_id, file.filename, file.mime, file.size, message_id=message_id)
        if (owner := self.outcomes.get(start.parent_id or "")) is not None:
            owner.file(file.filename, file.document_id, file.mime, file.size)
        return Document(**self.tree.place(ts, start.call_id, call_id, start.agent), payload=filed)

    def _message_around(self, call: ToolStart | None) -> str | None:
        """Return the message that the innermost call around will end with, if there is one."""
        while call is not None:
            if isinstance(call.payload.meta, dict) and _MESSAGE in call.payload.meta:
                return str(call.payload.meta[_MESSAGE])
            call = self.tree.tools.get(call.parent_id or "")
        return None
