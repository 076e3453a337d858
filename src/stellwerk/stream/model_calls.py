"""Model calls: start, tokens, tool-call arguments and end; streamed, or held until accepted."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from msgspec.structs import replace

from stellwerk.envelope.model import Envelope, LlmEnd, LlmStart, LlmToken, ToolUpdate
from stellwerk.envelope.payloads import ModelCalled, ModelEnded, Token, ToolCallRef, ToolUpdated, Usage
from stellwerk.envelope.to_json import clean_text
from stellwerk.stream.calls import CallTree, cleaned, during
from stellwerk.stream.facts import ModelFinished, ModelStarted, ModelToken, ToolArgsDelta, Voice
from stellwerk.stream.outcomes import add_usage, used_by

_WORD = re.compile(r"\s*\S+\s*")


def message_id_of(run: str) -> str:
    """Return the id that LangChain gives to the message of a model call."""
    return f"lc_run--{run}"


@dataclass
class ModelCalls:
    tree: CallTree
    usage: dict[str, Usage] = field(default_factory=dict)
    """Tokens per model so far."""
    _streamed: set[str] = field(default_factory=set)
    """Calls that sent tokens; a call that does not stream has all of its text in its end."""
    _writing: dict[tuple[str, int | str | None], tuple[str, str]] = field(default_factory=dict)
    """Name and tool_call_id of the arguments being written, by the model's run and the index."""

    def started(self, fact: ModelStarted, parent: str, *, draft: bool = False) -> Iterator[Envelope]:
        message_id = message_id_of(fact.run)
        params = self.tree.canonical(fact.params).value
        prompt = self.tree.canonical(fact.prompt).value
        called = ModelCalled(
            model=clean_text(fact.model),
            message_id=message_id,
            params=params if isinstance(params, dict) else {},
            node=cleaned(fact.node),
            messages=prompt if isinstance(prompt, list) or prompt is None else [prompt],
            draft=draft,
        )
        start = LlmStart(**self.tree.place(fact.ts, parent, message_id, fact.agent), payload=called)
        self.tree.open(fact.run, start)
        if fact.voice != "open":
            self.tree.voices[fact.run] = fact.voice
        if fact.voice != "held":
            yield start

    def token(self, fact: ModelToken) -> Iterable[Envelope]:
        start = self.tree.calls.get(fact.run)
        if not isinstance(start, LlmStart) or not fact.text or fact.run in self.tree.voices:
            return ()
        self._streamed.add(fact.run)
        return (_token(start, fact),)

    def args_delta(self, fact: ToolArgsDelta) -> Iterable[Envelope]:
        """Stream arguments under the model call; the start of the tool has them whole."""
        start = self.tree.calls.get(fact.run)
        place = (fact.run, fact.index)
        if not isinstance(start, LlmStart) or fact.run in self.tree.voices:
            return ()
        if fact.name and fact.tool_call_id:
            self._writing[place] = (clean_text(fact.name), clean_text(fact.tool_call_id))
        called = self._writing.get(place)
        # Without an index every piece is a call of its own; one without a name cannot be streamed.
        if called is None or not fact.text or (fact.index is None and not fact.tool_call_id):
            return ()
        name, tool_call_id = called
        written = ToolUpdated(phase="args", text=fact.text, tool_call_id=tool_call_id, tool_name=name)
        return (during(start, fact.ts, ToolUpdate, written),)

    def close(self, run: str) -> tuple[LlmStart, Voice] | None:
        """Close a finished call; None if it never started."""
        start = self.tree.close(run)
        return (start, self._forget(run)) if isinstance(start, LlmStart) else None

    def finished(self, fact: ModelFinished, start: LlmStart, voice: Voice) -> Iterator[Envelope]:
        used = used_by(start.payload.model, fact.input_tokens, fact.output_tokens)
        add_usage(self.usage, used)
        payload = ModelEnded(
            message_id=clean_text(fact.message_id),
            status="ok",
            usage=used,
            finish_reason=cleaned(fact.finish_reason),
            tool_calls=[self._requested(*call) for call in fact.tool_calls] or None,
        )
        end = LlmEnd(**self.tree.in_call(fact.ts, start), payload=payload)
        if voice == "held" and not fact.tool_calls:
            self.tree.held[fact.message_id] = (start, end)
        elif voice == "held":  # a step on the way to the answer; only answers are validated
            yield from _whole(start, end, fact.text, fact.ts)
        else:
            if voice == "open" and fact.text and fact.run not in self._streamed:
                yield _token(start, ModelToken(fact.ts, fact.run, fact.text))
            yield end
        self._streamed.discard(fact.run)

    def accepted(self, message_id: str, text: str, ts: float) -> tuple[LlmStart | None, list[Envelope]]:
        """Stream the call whose answer was accepted; abandon earlier ones of the same agent."""
        found = self.tree.held.pop(message_id, None)
        if found is None:
            return None, []
        start, end = found
        return start, [*self.tree.abandon_held(ts, start.parent_id), *_whole(start, end, text, ts)]

    def failed(self, start: LlmStart, run: str, ts: float) -> Iterator[Envelope]:
        if self._forget(run) == "held":
            yield replace(start, ts=ts)
        ended = ModelEnded(message_id=start.call_id, status="error")
        yield LlmEnd(**self.tree.in_call(ts, start), payload=ended)

    def _forget(self, run: str) -> Voice:
        if self._writing:
            self._writing = {place: called for place, called in self._writing.items() if place[0] != run}
        return self.tree.voices.pop(run, "open")

    def _requested(self, name: str, tool_call_id: str, args: object) -> ToolCallRef:
        given = self.tree.canonical(args).value
        return ToolCallRef(
            name=clean_text(name),
            tool_call_id=clean_text(tool_call_id),
            args=given if isinstance(given, dict) else None,
        )


def _whole(start: LlmStart, end: LlmEnd, text: str, ts: float) -> Iterator[Envelope]:
    """Replay a finished call at once, word by word, as if it were streaming now."""
    yield replace(start, ts=ts)
    for word in _WORD.findall(text):
        yield _token(start, ModelToken(ts, "", word))
    yield replace(end, ts=ts)


def _token(start: LlmStart, fact: ModelToken) -> LlmToken:
    return during(start, fact.ts, LlmToken, Token(text=fact.text, kind=fact.kind, block=fact.block))
