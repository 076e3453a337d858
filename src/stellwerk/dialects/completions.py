"""OpenAI chat completions: one run as the chunks of one completion.

Text of the outermost agent is the content, while it is written. What the agent writes before it calls
a tool is content as well, because only the end of the model call tells the two apart; a blank line
separates them. Reasoning, tools and sub-agents are not part of this protocol. A question is content:
the next message is its answer.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from stellwerk.dialects.base import Chunk, Cursor, Dialect, failure_of
from stellwerk.envelope import model as m
from stellwerk.envelope.payloads import Usage
from stellwerk.envelope.to_json import one_line

_BETWEEN = "\n\n"


class Options(NamedTuple):
    include_usage: bool = False
    reasoning: bool = False
    """Also reasoning, as ``reasoning_content``: several clients show it, the protocol does not have it."""


def completion_id(run_id: str) -> str:
    return f"chatcmpl-{run_id}"


def usage_of(used: list[Usage]) -> dict[str, int]:
    sent = sum(usage.input_tokens for usage in used)
    made = sum(usage.output_tokens for usage in used)
    return {"prompt_tokens": sent, "completion_tokens": made, "total_tokens": sent + made}


def failure(end: m.RunEnd) -> dict[str, Any]:
    """The error of a run that failed."""
    problem = failure_of(end)
    return {"message": problem["message"], "type": "server_error", "param": None, "code": problem["code"]}


@dataclass
class Completions:
    options: Options
    _base: Chunk = field(default_factory=dict)
    """What all chunks of the run have."""
    _run: str = ""
    _outer: set[str] = field(default_factory=set)
    """Model calls of the outermost agent under way."""
    _texts: dict[str, list[str]] = field(default_factory=dict)
    """The content so far, by model call or question, in pieces."""
    _speaker: str = ""
    """The call or question of the latest piece."""

    def feed(self, position: int, envelope: m.Envelope) -> Iterator[Chunk]:
        match envelope:
            case m.RunStart(payload=started):
                created = int(envelope.ts)
                about = {"object": "chat.completion.chunk", "created": created, "model": started.system}
                self._base = {"id": completion_id(envelope.call_id), **about}
                self._run, self._texts, self._speaker = envelope.call_id, {}, ""
                yield self._choice({"role": "assistant", "content": ""})
            case m.LlmStart() if envelope.parent_id == self._run:
                self._outer.add(envelope.call_id)
            case m.LlmToken() if envelope.call_id in self._outer:
                yield from self._token(envelope)
            case m.LlmEnd():
                self._outer.discard(envelope.call_id)
            case m.AskUser(payload=asked):
                yield from self._content(envelope.call_id, asked.question)
            case m.RunEnd():
                yield from self._end(envelope)

    def _token(self, token: m.LlmToken) -> Iterator[Chunk]:
        said = token.payload
        if said.kind == "reasoning":
            if self.options.reasoning and said.text:
                yield self._choice({"reasoning_content": said.text})
            return
        yield from self._content(token.call_id, said.text)

    def _content(self, speaker: str, text: str) -> Iterator[Chunk]:
        if not text:
            return
        between = _BETWEEN if self._texts and speaker != self._speaker else ""
        self._speaker = speaker
        self._texts.setdefault(speaker, []).append(text)
        yield self._choice({"content": between + text})

    def _end(self, end: m.RunEnd) -> Iterator[Chunk]:
        ended = end.payload
        self._outer.clear()
        if ended.status == "failed":
            yield {"error": failure(end)}
            return
        result = ended.result or ""
        sent = {"".join(pieces).strip() for pieces in self._texts.values()}
        if ended.status == "completed" and result.strip() not in sent:
            yield from self._content(self._run, result)  # the answer of a graph need not be what its models wrote
        yield self._choice({}, finish="stop")
        if self.options.include_usage:
            yield {**self._base, "choices": [], "usage": usage_of(ended.usage)}

    def _choice(self, delta: Chunk, finish: str | None = None) -> Chunk:
        return {**self._base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def _frame(cursor: Cursor, chunk: Chunk) -> bytes:
    return b"data: %b\n\n" % one_line(msgspec.json.encode(chunk))


def _translator(session_id: str, options: Any) -> Completions:
    return Completions(options or Options())


DIALECT = Dialect(
    "openai-completions", "text/event-stream", _translator, _frame, memory="trace", closing=b"data: [DONE]\n\n"
)
