"""Model calls: begun, speaking, ended; told as they speak, or once their answer is accepted."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from msgspec.structs import replace

from stellwerk.envelope.canonical import PAYLOAD_DEPTH, canonical, clean_text
from stellwerk.envelope.model import Envelope, LlmEnd, LlmStart, LlmToken
from stellwerk.envelope.payloads import ModelCalled, ModelEnded, Token, ToolCallRef, Usage
from stellwerk.stream.facts import ModelBegan, ModelDone, ModelSpoke, Voice
from stellwerk.stream.tree import Tree, cleaned

_WORD = re.compile(r"\s*\S+\s*")


def message_id_of(run: str) -> str:
    """The id LangChain gives to the message of a model call."""
    return f"lc_run--{run}"


@dataclass
class ModelCalls:
    tree: Tree
    usage: dict[str, Usage] = field(default_factory=dict)
    """Tokens per model so far."""
    _voices: dict[str, Voice] = field(default_factory=dict)
    """Of calls that are not heard as they speak."""
    _held: dict[str, tuple[LlmStart, LlmEnd]] = field(default_factory=dict)
    """Ended calls whose answer nobody has accepted yet, by message id."""

    def began(self, fact: ModelBegan, parent: str) -> Iterator[Envelope]:
        message_id = message_id_of(fact.run)
        params = canonical(fact.params, depth=PAYLOAD_DEPTH)
        prompt = None if fact.prompt is None else canonical(fact.prompt, depth=PAYLOAD_DEPTH)
        if prompt is not None:
            self.tree.blobs += prompt.blobs
        called = ModelCalled(
            model=clean_text(fact.model),
            message_id=message_id,
            params=params.value,
            node=cleaned(fact.node),
            messages=None if prompt is None else prompt.value if isinstance(prompt.value, list) else [prompt.value],
        )
        start = LlmStart(**self.tree.place(fact.ts, parent, message_id, fact.agent), payload=called)
        self.tree.calls[fact.run] = start
        if fact.voice != "open":
            self._voices[fact.run] = fact.voice
        if fact.voice != "held":
            yield start

    def spoke(self, fact: ModelSpoke) -> Iterator[Envelope]:
        start = self.tree.calls.get(fact.run)
        if isinstance(start, LlmStart) and fact.text and fact.run not in self._voices:
            yield _token(start, fact)

    def done(self, fact: ModelDone) -> tuple[LlmStart, Voice] | None:
        """The call that ended, and how it is heard; None if it never began."""
        start = self.tree.calls.pop(fact.run, None)
        return (start, self._voices.pop(fact.run, "open")) if isinstance(start, LlmStart) else None

    def ended(self, fact: ModelDone, start: LlmStart, voice: Voice) -> Iterator[Envelope]:
        used = Usage(model=start.payload.model, input_tokens=fact.input_tokens, output_tokens=fact.output_tokens)
        self.usage[used.model] = sum_of(self.usage.get(used.model), used)
        wanted = [ToolCallRef(name=clean_text(n), tool_call_id=clean_text(id_)) for n, id_, _ in fact.tool_calls]
        payload = ModelEnded(
            message_id=clean_text(fact.message_id),
            status="ok",
            usage=used,
            finish_reason=cleaned(fact.finish_reason),
            tool_calls=wanted or None,
        )
        end = LlmEnd(**self.tree.place(fact.ts, start.parent_id, start.call_id, start.agent), payload=payload)
        if voice == "held" and not fact.tool_calls:
            self._held[fact.message_id] = (start, end)
        elif voice == "held":  # a step on the way to the answer; only answers are judged
            yield from _whole(start, end, fact.text, fact.ts)
        else:
            yield end

    def accepted(self, message_id: str, text: str, ts: float) -> tuple[LlmStart | None, list[Envelope]]:
        """Tell the call whose answer was accepted, and that those before it were not."""
        found = self._held.pop(message_id, None)
        told = list(self.refused(ts))
        return (None, told) if found is None else (found[0], [*told, *_whole(*found, text, ts)])

    def refused(self, ts: float) -> Iterator[Envelope]:
        """Held calls whose answers nobody will see: that they were made, and what they cost."""
        for start, end in self._held.values():
            yield replace(start, ts=ts)
            yield replace(end, ts=ts, payload=replace(end.payload, status="abandoned"))
        self._held.clear()

    def failed(self, start: LlmStart, run: str, ts: float) -> Iterator[Envelope]:
        if self._voices.pop(run, None) == "held":
            yield replace(start, ts=ts)
        ended = ModelEnded(message_id=start.call_id, status="error")
        yield LlmEnd(**self.tree.place(ts, start.parent_id, start.call_id, start.agent), payload=ended)


def sum_of(before: Usage | None, used: Usage) -> Usage:
    if before is None:
        return used
    return Usage(
        model=used.model,
        input_tokens=before.input_tokens + used.input_tokens,
        output_tokens=before.output_tokens + used.output_tokens,
    )


def _whole(start: LlmStart, end: LlmEnd, text: str, ts: float) -> Iterator[Envelope]:
    """A finished call, told at once: its words one by one, as if it were speaking now."""
    yield replace(start, ts=ts)
    for word in _WORD.findall(text):
        yield _token(start, ModelSpoke(ts, "", word))
    yield replace(end, ts=ts)


def _token(start: LlmStart, fact: ModelSpoke) -> LlmToken:
    return LlmToken(
        ts=fact.ts,
        trace_id=start.trace_id,
        run_id=start.run_id,
        parent_id=start.parent_id,
        call_id=start.call_id,
        seq=0,
        agent=start.agent,
        payload=Token(text=fact.text, kind=fact.kind, block=fact.block),
    )
