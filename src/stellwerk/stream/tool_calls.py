"""Tool calls: of tools, of agents used as tools, and of graphs inside graphs."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from stellwerk.envelope.canonical import PAYLOAD_DEPTH, canonical, clean_text
from stellwerk.envelope.model import Document, Envelope, ToolEnd, ToolStart
from stellwerk.envelope.payloads import Failure, Filed, ToolCalled, ToolEnded
from stellwerk.envelope.results import FileRef, Json, ToolResult, to_result
from stellwerk.ids import digest_id
from stellwerk.stream.calls import abandoned
from stellwerk.stream.facts import CallFailed, CallPaused, Linked, StepEnded, ToolAnswered, ToolBegan, ToolDone
from stellwerk.stream.model_calls import ModelCalls
from stellwerk.stream.outcomes import Inside
from stellwerk.stream.tree import Tree, cleaned, graph_of

ERROR_TEXT = 2000
"""Characters of an error that are kept."""
_UNNAMED = "LangGraph"
"""What LangGraph calls a graph that nobody named."""

_MESSAGE = "message_id"

Wanted = tuple[str, str, Any]
"""(name, tool_call_id, arguments) of a call that a model asked for."""


@dataclass
class ToolCalls:
    tree: Tree
    models: ModelCalls
    inside: dict[str, Inside] = field(default_factory=dict)
    """By call, for every agent and graph that is open."""
    waiting: dict[str, ToolStart] = field(default_factory=dict)
    """Calls that an earlier run of the trace left open because they asked the user, by their first id."""
    asked_by: dict[str, str] = field(default_factory=dict)
    """The innermost call that asked a question."""
    paused: dict[str, ToolStart] = field(default_factory=dict)
    """Calls on the path to a question of this run."""
    given_up: set[str] = field(default_factory=set)
    """Questions that nobody waits for."""
    wanted: dict[tuple[str, str], tuple[str, dict[str, Any]]] = field(default_factory=dict)
    """Tool calls that a model asked for and that have not begun, by owner ("" is the run) and tool_call_id."""
    attempts: dict[str, int] = field(default_factory=dict)
    """How often each call was begun, by its first id."""

    def began(self, fact: ToolBegan) -> Iterator[Envelope]:
        first = digest_id(self.tree.trace_id, fact.namespace, fact.tool_call_id)
        start = self.waiting.pop(first, None)
        if start is None:
            start = self._start(fact, first)
            yield start
        self.take(start.parent_id, fact.tool_call_id)
        self.tree.open(fact.run, start, fact.namespace)
        if fact.kind == "agent":
            self.inside.setdefault(start.call_id, Inside()).signal = fact.signal

    def _start(self, fact: ToolBegan, first: str) -> ToolStart:
        call_id, before = self._attempt(first)
        args = canonical(fact.args, depth=PAYLOAD_DEPTH)
        self.tree.blobs += args.blobs
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
        """A call that is begun again within a trace is another call; what it repeats."""
        number = self.attempts[first] = self.attempts.get(first, 0) + 1
        if number == 1:
            return first, None
        return digest_id(first, str(number)), first if number == 2 else digest_id(first, str(number - 1))

    def graph_began(self, fact: Linked) -> Iterator[Envelope]:
        """A graph inside a node: a call of its own, so that what happens in it can be told apart."""
        node, _, task = fact.namespace.rpartition("|")[2].partition(":")
        name = node if fact.name in ("", _UNNAMED) else fact.name
        first = digest_id(self.tree.trace_id, fact.namespace, "graph", name)
        start = self.waiting.pop(first, None)
        if start is None:
            call_id, before = self._attempt(first)
            given = canonical(fact.input, depth=PAYLOAD_DEPTH)
            self.tree.blobs += given.blobs
            called = ToolCalled(
                tool_name=clean_text(name),
                tool_call_id=clean_text(task),
                input=given.value,
                node=clean_text(node),
                kind="graph",
                retry_of=before,
                sanitized=list(given.notes) or None,
            )
            start = ToolStart(**self.tree.place(fact.ts, self.tree.owner(fact.parent), call_id, None), payload=called)
            yield start
        self.tree.open(fact.run, start, fact.namespace)
        self.inside.setdefault(start.call_id, Inside())

    def graph_ended(self, fact: StepEnded) -> Iterator[Envelope]:
        start = self.tree.calls.get(fact.run)
        if not isinstance(start, ToolStart):
            return
        self.tree.close(fact.run)
        name = start.payload.tool_name
        failure = None if fact.failed is None else Failure(message=f"{name} raised {fact.failed}", class_=fact.failed)
        yield from self._end(start, fact.ts, None, failure)

    def done(self, fact: ToolDone) -> Iterator[Envelope]:
        start = self.tree.close(fact.run)
        if isinstance(start, ToolStart):
            yield from self._ended(start, fact.ts, fact.output, fact.failed, fact.notes)

    def answered(self, fact: ToolAnswered) -> Iterator[Envelope]:
        """A call that somebody answered in the tool's place, or that was cut off and answered for."""
        for call_id, call in self.tree.tools.items():
            if call.payload.tool_call_id == fact.tool_call_id:
                if graph_of(self.tree.where[call_id]) == fact.namespace and call.payload.kind != "graph":
                    self.tree.close_tool(call_id)
                    yield from self._ended(call, fact.ts, fact.output, fact.failed)
                    return
        owner = self.tree.owner_of(fact.namespace)
        asked = self.wanted.pop((self._key(owner), fact.tool_call_id), None)
        if asked is None:
            return
        call_id, _ = self._attempt(digest_id(self.tree.trace_id, fact.namespace, fact.tool_call_id))
        called = ToolCalled(tool_name=asked[0], tool_call_id=clean_text(fact.tool_call_id), args=asked[1])
        place = self.tree.place(fact.ts, owner, call_id, self.tree.agent_of(owner))
        start = ToolStart(**place, payload=called)
        yield start
        yield from self._ended(start, fact.ts, fact.output, fact.failed)

    def failed(self, start: ToolStart, fact: CallFailed) -> Iterator[Envelope]:
        failure = Failure(message=clean_text(fact.message)[:ERROR_TEXT], code="tool_raised", class_=fact.kind)
        yield from self._end(start, fact.ts, None, failure)

    def pause(self, fact: CallPaused) -> Iterable[Envelope]:
        start = self.tree.close(fact.run)
        if isinstance(start, ToolStart):
            self.paused[start.call_id] = start
            for ask_id in fact.ask_ids:
                self.asked_by.setdefault(ask_id, start.call_id)
        return ()

    def waiting_for_user(self) -> set[str]:
        """What asked, and everything around it, whether or not the framework says that it waits as well."""
        found, around = set(self.paused), [start.parent_id or "" for start in self.paused.values()]
        while around:
            if (call := self.tree.tools.get(around.pop())) is not None:
                found.add(call.call_id)
                around.append(call.parent_id or "")
        return found

    def want(self, owner: str | None, calls: Iterable[Wanted]) -> None:
        for name, tool_call_id, args in calls:
            safe = canonical(args, depth=PAYLOAD_DEPTH)
            self.tree.blobs += safe.blobs
            given = safe.value if isinstance(safe.value, dict) else {}
            self.wanted[self._key(owner), tool_call_id] = (clean_text(name), given)

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
        yield from self._cut_off(start.call_id, ts)
        inside = self.inside.pop(start.call_id, None)
        if inside is not None:
            if (outer := self.inside.get(start.parent_id or "")) is not None:
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
        yield ToolEnd(**self.tree.place(ts, start.parent_id, start.call_id, start.agent), payload=ended)

    def _cut_off(self, call_id: str, ts: float) -> Iterator[Envelope]:
        """What is open inside: the framework tells no end of what it cancels, or of what asks and is not heard."""
        for run, call in self.tree.inside(call_id, [*self.paused.values(), *self.waiting.values()]):
            yield from self.models.refused(ts, call.call_id)
            if run is None:
                self._give_up(call.call_id)
            else:
                self.tree.close(run)
            if run is None or not self.models.forget(run):
                yield abandoned(call, ts, self.tree.run_id)
            self.inside.pop(call.call_id, None)
        yield from self.models.refused(ts, call_id)

    def _give_up(self, call_id: str) -> None:
        """Whoever called it went on without the answer; nobody waits for it any more."""
        self.paused.pop(call_id, None)
        self.waiting = {first: start for first, start in self.waiting.items() if start.call_id != call_id}
        self.given_up |= {ask_id for ask_id, who in self.asked_by.items() if who == call_id}

    def _signal(self, start: ToolStart, ts: float, inside: Inside) -> Iterator[Envelope]:
        """The call by which an agent says that it is done, if it was told to say so."""
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
        about = file.document_id, file.filename, file.mime, file.size
        filed = Filed.of(*about, message_id=self._message_around(start))
        if (owner := self.inside.get(start.parent_id or "")) is not None:
            owner.file(file)
        return Document(**self.tree.place(ts, start.call_id, call_id, start.agent), payload=filed)

    def _message_around(self, call: ToolStart | None) -> str | None:
        """The message that will tell what came of the innermost call around that has one."""
        while call is not None:
            if isinstance(call.payload.meta, dict) and _MESSAGE in call.payload.meta:
                return str(call.payload.meta[_MESSAGE])
            call = self.tree.tools.get(call.parent_id or "")
        return None

    def _key(self, owner: str | None) -> str:
        return "" if owner is None or owner in self.tree.runs else owner
