"""Model calls: begun, speaking, ended; told as they speak, or once their answer is accepted."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from msgspec.structs import replace

from stellwerk.envelope.canonical import PAYLOAD_DEPTH, canonical, clean_text
from stellwerk.envelope.model import Envelope, LlmEnd, LlmStart, LlmToken, ToolUpdate
from stellwerk.envelope.payloads import ModelCalled, ModelEnded, Token, ToolCallRef, ToolUpdated, Usage
from stellwerk.stream.facts import ModelBegan, ModelDone, ModelSpoke, ModelWrote, Voice
from stellwerk.stream.outcomes import sum_of, used_by
from stellwerk.stream.tree import Tree, cleaned

T = TypeVar("T")
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
    _spoke: set[str] = field(default_factory=set)
    """Calls that were heard; one that does not stream says all at its end."""
    _writing: dict[tuple[str, int | str | None], tuple[str, str]] = field(default_factory=dict)
    """Name and tool_call_id of what is being written, by the model's run and the index."""
    _held: dict[str, tuple[LlmStart, LlmEnd]] = field(default_factory=dict)
    """Ended calls whose answer nobody has accepted yet, by message id."""

    def began(self, fact: ModelBegan, parent: str) -> Iterator[Envelope]:
        message_id = message_id_of(fact.run)
        params, prompt = canonical(fact.params, depth=PAYLOAD_DEPTH), canonical(fact.prompt, depth=PAYLOAD_DEPTH)
        self.tree.blobs += params.blobs + prompt.blobs
        asked = prompt.value if isinstance(prompt.value, list) else [prompt.value]
        called = ModelCalled(
            model=clean_text(fact.model),
            message_id=message_id,
            params=params.value if isinstance(params.value, dict) else {},
            node=cleaned(fact.node),
            messages=None if fact.prompt is None else asked,
        )
        start = LlmStart(**self.tree.place(fact.ts, parent, message_id, fact.agent), payload=called)
        self.tree.open(fact.run, start)
        if fact.voice != "open":
            self._voices[fact.run] = fact.voice
        if fact.voice != "held":
            yield start

    def spoke(self, fact: ModelSpoke) -> Iterable[Envelope]:
        start = self.tree.calls.get(fact.run)
        if not isinstance(start, LlmStart) or not fact.text or fact.run in self._voices:
            return ()
        self._spoke.add(fact.run)
        return (_token(start, fact),)

    def wrote(self, fact: ModelWrote) -> Iterable[Envelope]:
        """Arguments are told under the model call, and whole once more when the tool begins."""
        start, place = self.tree.calls.get(fact.run), (fact.run, fact.index)
        if not isinstance(start, LlmStart) or fact.run in self._voices:
            return ()
        if fact.name and fact.tool_call_id:
            self._writing[place] = (clean_text(fact.name), clean_text(fact.tool_call_id))
        called = self._writing.get(place)
        # Without an index every piece is a call of its own; one that is not named cannot be told.
        if called is None or not fact.text or (fact.index is None and not fact.tool_call_id):
            return ()
        return (_piece(start, fact, *called),)

    def done(self, fact: ModelDone) -> tuple[LlmStart, Voice] | None:
        """The call that ended, and how it is heard; None if it never began."""
        start = self.tree.close(fact.run)
        self._hush(fact.run)
        return (start, self._voices.pop(fact.run, "open")) if isinstance(start, LlmStart) else None

    def ended(self, fact: ModelDone, start: LlmStart, voice: Voice) -> Iterator[Envelope]:
        used = used_by(start.payload.model, fact.input_tokens, fact.output_tokens)
        self.use(used)
        wanted = [self._wanted(*call) for call in fact.tool_calls]
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
            if voice == "open" and fact.text and fact.run not in self._spoke:
                yield _token(start, ModelSpoke(fact.ts, fact.run, fact.text))
            yield end
        self._spoke.discard(fact.run)

    def use(self, used: Usage) -> None:
        self.usage[used.model] = sum_of(self.usage.get(used.model), used)

    def _hush(self, run: str) -> None:
        if self._writing:
            self._writing = {place: called for place, called in self._writing.items() if place[0] != run}

    def _wanted(self, name: str, tool_call_id: str, args: object) -> ToolCallRef:
        safe = canonical(args, depth=PAYLOAD_DEPTH)
        self.tree.blobs += safe.blobs
        given = safe.value if isinstance(safe.value, dict) else None
        return ToolCallRef(name=clean_text(name), tool_call_id=clean_text(tool_call_id), args=given)

    def accepted(self, message_id: str, text: str, ts: float) -> tuple[LlmStart | None, list[Envelope]]:
        """Tell the call whose answer was accepted, and that those before it of the same agent were not."""
        found = self._held.pop(message_id, None)
        if found is None:
            return None, []
        return found[0], [*self.refused(ts, found[0].parent_id), *_whole(*found, text, ts)]

    def refused(self, ts: float, owner: str | None = None) -> Iterator[Envelope]:
        """Held calls, of one owner or of all, whose answers nobody will see: that they were made, what they cost."""
        for message_id, (start, end) in list(self._held.items()):
            if owner is None or start.parent_id == owner:
                del self._held[message_id]
                yield replace(start, ts=ts)
                yield replace(end, ts=ts, payload=replace(end.payload, status="abandoned"))

    def forget(self, run: str) -> bool:
        """A call that was cut off; True if it was held, so that nobody was told of it."""
        self._hush(run)
        return self._voices.pop(run, None) == "held"

    def failed(self, start: LlmStart, run: str, ts: float) -> Iterator[Envelope]:
        self._hush(run)
        if self._voices.pop(run, None) == "held":
            yield replace(start, ts=ts)
        ended = ModelEnded(message_id=start.call_id, status="error")
        yield LlmEnd(**self.tree.place(ts, start.parent_id, start.call_id, start.agent), payload=ended)


def _whole(start: LlmStart, end: LlmEnd, text: str, ts: float) -> Iterator[Envelope]:
    """A finished call, told at once: its words one by one, as if it were speaking now."""
    yield replace(start, ts=ts)
    for word in _WORD.findall(text):
        yield _token(start, ModelSpoke(ts, "", word))
    yield replace(end, ts=ts)


def _token(start: LlmStart, fact: ModelSpoke) -> LlmToken:
    return _during(start, fact.ts, LlmToken, Token(text=fact.text, kind=fact.kind, block=fact.block))


def _piece(start: LlmStart, fact: ModelWrote, name: str, tool_call_id: str) -> ToolUpdate:
    written = ToolUpdated(phase="args", text=fact.text, tool_call_id=tool_call_id, tool_name=name)
    return _during(start, fact.ts, ToolUpdate, written)


def _during(start: LlmStart, ts: float, kind: Callable[..., T], payload: Token | ToolUpdated) -> T:
    """By name and not from a dictionary, which takes three times as long: this is done for each token."""
    return kind(
        ts=ts,
        trace_id=start.trace_id,
        run_id=start.run_id,
        parent_id=start.parent_id,
        call_id=start.call_id,
        seq=0,
        agent=start.agent,
        payload=payload,
    )
