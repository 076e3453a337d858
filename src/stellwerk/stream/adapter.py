"""StreamAdapter: facts in, envelopes out, in order, each in its place.

Pure: time comes with the facts, ids follow from them, nothing is guessed. The
adapter knows which call belongs to which; counting (``seq``) is left to whoever
stores, because only he knows what is stored already.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, assert_never

from msgspec.structs import replace

from stellwerk.envelope.canonical import PAYLOAD_DEPTH, canonical, clean_text
from stellwerk.envelope.model import (
    Envelope,
    Error,
    LlmEnd,
    LlmStart,
    LlmToken,
    Message,
    SubgraphCheckpoint,
    ToolEnd,
    ToolStart,
)
from stellwerk.envelope.payloads import (
    Checkpointed,
    Failure,
    ModelCalled,
    ModelEnded,
    Problem,
    Said,
    TextPart,
    Token,
    ToolCalled,
    ToolCallRef,
    ToolEnded,
    Usage,
)
from stellwerk.envelope.results import to_result
from stellwerk.ids import digest_id
from stellwerk.stream.facts import (
    CallFailed,
    CheckpointSaved,
    Fact,
    Linked,
    MessageReturned,
    ModelBegan,
    ModelDone,
    ModelSpoke,
    ToolBegan,
    ToolDone,
)

ERROR_TEXT = 2000
"""Characters of an error that are kept."""


def message_id_of(run: str) -> str:
    """The id LangChain gives to the message of a model call."""
    return f"lc_run--{run}"


@dataclass
class StreamAdapter:
    """The facts of one run. ``agent`` is the name of the outermost agent."""

    trace_id: str
    run_id: str
    agent: str
    usage: dict[str, Usage] = field(default_factory=dict)
    """Tokens per model so far."""
    answer: str = ""
    """The text of the last model call of the outermost agent that asked for no tool."""
    _parents: dict[str, str | None] = field(default_factory=dict)
    _calls: dict[str, LlmStart | ToolStart] = field(default_factory=dict)
    _ran: dict[str, list[str]] = field(default_factory=dict)
    """Nodes that began since the last checkpoint of their graph, by its namespace."""
    _held: Message | None = None
    _spoken: set[str] = field(default_factory=set)

    def feed(self, fact: Fact) -> Iterator[Envelope]:
        match fact:
            case ModelSpoke():
                yield from self._model_spoke(fact)
            case Linked():
                self._linked(fact)
            case ModelBegan():
                yield from self._model_began(fact)
            case ModelDone():
                yield from self._model_done(fact)
            case ToolBegan():
                yield from self._tool_began(fact)
            case ToolDone():
                yield from self._tool_done(fact)
            case CallFailed():
                yield from self._call_failed(fact)
            case MessageReturned():
                yield from self._message_returned(fact)
            case CheckpointSaved():
                yield from self._checkpoint_saved(fact)
            case _:
                assert_never(fact)

    def finish(self) -> Iterator[Envelope]:
        """The answer, now that no step can follow it."""
        yield from self._release("last")

    def _linked(self, fact: Linked) -> None:
        self._parents[fact.run] = fact.parent
        if fact.node is not None:
            above, _, _ = fact.namespace.rpartition("|")
            ran = self._ran.setdefault(above, [])
            if fact.node not in ran:
                ran.append(fact.node)

    def _model_began(self, fact: ModelBegan) -> Iterator[Envelope]:
        parent = self._owner(fact.parent)
        if parent == self.run_id:
            yield from self._release("step")
        message_id = message_id_of(fact.run)
        params = canonical(fact.params, depth=PAYLOAD_DEPTH)
        called = ModelCalled(
            model=clean_text(fact.model), message_id=message_id, params=params.value, node=_clean(fact.node)
        )
        start = LlmStart(
            **self._place(fact.ts, parent, message_id, fact.agent),
            payload=called,
        )
        self._calls[fact.run] = start
        yield start

    def _model_spoke(self, fact: ModelSpoke) -> Iterator[Envelope]:
        start = self._calls.get(fact.run)
        if start is None or not fact.text:
            return
        yield LlmToken(
            ts=fact.ts,
            trace_id=self.trace_id,
            run_id=self.run_id,
            parent_id=start.parent_id,
            call_id=start.call_id,
            seq=0,
            agent=start.agent,
            payload=Token(text=fact.text, kind=fact.kind, block=fact.block),
        )

    def _model_done(self, fact: ModelDone) -> Iterator[Envelope]:
        start = self._calls.pop(fact.run, None)
        if not isinstance(start, LlmStart):
            return
        used = Usage(model=start.payload.model, input_tokens=fact.input_tokens, output_tokens=fact.output_tokens)
        self._count(used)
        wanted = [ToolCallRef(name=clean_text(name), tool_call_id=clean_text(id_)) for name, id_ in fact.tool_calls]
        ended = ModelEnded(
            message_id=clean_text(fact.message_id),
            status="ok",
            usage=used,
            finish_reason=_clean(fact.finish_reason),
            tool_calls=wanted or None,
        )
        yield LlmEnd(**self._place(fact.ts, start.parent_id, start.call_id, start.agent), payload=ended)
        if start.parent_id == self.run_id:
            yield from self._said(fact.ts, fact.message_id, fact.text, start.agent, bool(fact.tool_calls))

    def _tool_began(self, fact: ToolBegan) -> Iterator[Envelope]:
        parent = self._owner(fact.parent)
        call_id = digest_id(self.trace_id, fact.namespace, fact.tool_call_id)
        args = canonical(fact.args, depth=PAYLOAD_DEPTH)
        called = ToolCalled(
            tool_name=clean_text(fact.name),
            tool_call_id=clean_text(fact.tool_call_id),
            args=args.value,
            node=_clean(fact.node),
            sanitized=list(args.notes) or None,
        )
        start = ToolStart(**self._place(fact.ts, parent, call_id, fact.agent), payload=called)
        self._calls[fact.run] = start
        yield start

    def _tool_done(self, fact: ToolDone) -> Iterator[Envelope]:
        start = self._calls.pop(fact.run, None)
        if not isinstance(start, ToolStart):
            return
        result, notes, blobs = to_result(fact.output)
        notes += tuple(f"document {blob.document_id}: its content is not kept" for blob in blobs)
        failure = Failure(message=result.as_text()[:ERROR_TEXT], code="tool_error") if fact.failed else None
        ended = ToolEnded(
            tool_name=start.payload.tool_name,
            tool_call_id=start.payload.tool_call_id,
            status="error" if fact.failed else "ok",
            result=result,
            error=failure,
            duration=round(fact.ts - start.ts, 6),
            sanitized=list(notes) or None,
        )
        yield ToolEnd(**self._place(fact.ts, start.parent_id, start.call_id, start.agent), payload=ended)

    def _call_failed(self, fact: CallFailed) -> Iterator[Envelope]:
        start = self._calls.pop(fact.run, None)
        if start is None:
            return
        place = self._place(fact.ts, start.parent_id, start.call_id, start.agent)
        if isinstance(start, LlmStart):
            yield LlmEnd(**place, payload=ModelEnded(message_id=start.call_id, status="error"))
            name = start.payload.model
        else:
            failure = Failure(message=clean_text(fact.message)[:ERROR_TEXT], code="tool_raised", class_=fact.kind)
            called = start.payload
            yield ToolEnd(
                **place,
                payload=ToolEnded(
                    tool_name=called.tool_name, tool_call_id=called.tool_call_id, status="error", error=failure
                ),
            )
            name = called.tool_name
        # What a model or tool says when it fails is for its caller; the public line only says that it did.
        problem = Problem(code="call_failed", message=f"{name} raised {fact.kind}", name=name, class_=fact.kind)
        yield Error(**self._place(fact.ts, None, self.run_id, start.agent), payload=problem)

    def _message_returned(self, fact: MessageReturned) -> Iterator[Envelope]:
        """A message that no model call of ours has told already."""
        if fact.message_id not in self._spoken:
            yield from self._said(fact.ts, fact.message_id, fact.text, fact.agent, fact.asks_for_tools)

    def _checkpoint_saved(self, fact: CheckpointSaved) -> Iterator[Envelope]:
        ran = ",".join(self._ran.pop(fact.namespace, ["__start__"]))
        saved = Checkpointed(checkpoint_id=fact.checkpoint_id, node=ran, state_digest=fact.state_digest)
        yield SubgraphCheckpoint(**self._place(fact.ts, None, self.run_id, None), payload=saved)

    def _said(self, ts: float, message_id: str, text: str, agent: str | None, step: bool) -> Iterator[Envelope]:
        yield from self._release("step")
        self._spoken.add(message_id)
        message_id, clean = clean_text(message_id), clean_text(text)
        if not clean:
            return
        said = Said(
            message_id=message_id, role="assistant", content=[TextPart(text=clean)], status="step", author=agent
        )
        message = Message(**self._place(ts, self.run_id, digest_id("message", message_id), agent), payload=said)
        if step:
            yield message
        else:
            self.answer, self._held = clean, message

    def _release(self, status: Literal["step", "last"]) -> Iterator[Envelope]:
        held, self._held = self._held, None
        if held is not None:
            yield replace(held, payload=replace(held.payload, status=status))

    def _count(self, used: Usage) -> None:
        before = self.usage.get(used.model, Usage(model=used.model))
        self.usage[used.model] = Usage(
            model=used.model,
            input_tokens=before.input_tokens + used.input_tokens,
            output_tokens=before.output_tokens + used.output_tokens,
        )

    def _owner(self, run: str | None) -> str:
        """The nearest call around: a tool that is open, else the run itself."""
        while run is not None:
            call = self._calls.get(run)
            if isinstance(call, ToolStart):
                return call.call_id
            run = self._parents.get(run)
        return self.run_id

    def _place(self, ts: float, parent: str | None, call_id: str, agent: str | None) -> dict[str, Any]:
        return {
            "ts": ts,
            "trace_id": self.trace_id,
            "run_id": self.run_id,
            "parent_id": parent,
            "call_id": call_id,
            "seq": 0,
            "agent": clean_text(agent or self.agent),
        }


def _clean(text: str | None) -> str | None:
    return None if text is None else clean_text(text)
