"""OpenAI responses: one run as the events of one response.

Each model call of the outermost agent that writes text is a message, of the phase ``commentary`` if it
calls tools afterwards, else ``final_answer``. Its reasoning is an item with a summary. A question is a
message: the next request in the conversation is its answer. Tools and sub-agents are not shown. What a
model call wrote that failed or was cut off is an incomplete item, which the response has only if nothing
follows it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from stellwerk.dialects.base import Chunk, Cursor, Dialect, failure_of
from stellwerk.envelope import model as m
from stellwerk.envelope.payloads import Usage
from stellwerk.envelope.to_json import one_line

_STATUS = {"completed": "completed", "awaiting_user": "completed", "failed": "failed", "stopped": "cancelled"}
_ENDS = {"completed": "response.completed", "failed": "response.failed", "cancelled": "response.incomplete"}
_PREFIX = {"message": "msg", "reasoning": "rs"}
"""Of the ids of items, by kind."""


def response_id(run_id: str) -> str:
    return f"resp_{run_id}"


def run_of(response_id: str) -> str:
    return response_id.removeprefix("resp_")


@dataclass
class _Item:
    """A message or a reasoning item under way."""

    id: str
    index: int
    kind: str
    texts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def content(self, status: str, phase: str | None = None) -> Chunk:
        if self.kind == "reasoning":
            summary = [] if status == "in_progress" else [{"type": "summary_text", "text": self.text}]
            return {"id": self.id, "type": "reasoning", "summary": summary, "status": status}
        said = [] if status == "in_progress" else [_text_part(self.text)]
        item = {"id": self.id, "type": "message", "role": "assistant", "content": said, "status": status}
        return item if phase is None else {**item, "phase": phase}


@dataclass
class Responses:
    _base: Chunk = field(default_factory=dict)
    """The response without what its events change."""
    _run: str = ""
    _calls: dict[str, str] = field(default_factory=dict)
    """Open model calls of the outermost agent, with the ids of their messages."""
    _open: dict[str, _Item] = field(default_factory=dict)
    """The item under way, by model call."""
    _output: list[Chunk] = field(default_factory=list)
    _incomplete: list[Chunk] = field(default_factory=list)
    """Items of the last model call, if it failed or was cut off."""
    _sequence: int = 0
    _count: int = 0
    """Items so far."""
    _texts: set[str] = field(default_factory=set)
    """Of all messages so far."""

    def feed(self, position: int, envelope: m.Envelope) -> Iterator[Chunk]:
        for kind, about in self._events(envelope):
            yield {"type": kind, **about, "sequence_number": self._sequence}
            self._sequence += 1

    def _events(self, envelope: m.Envelope) -> Iterator[tuple[str, Chunk]]:
        match envelope:
            case m.RunStart():
                yield from self._start(envelope)
            case m.LlmStart(payload=called) if envelope.parent_id == self._run:
                self._calls[envelope.call_id] = called.message_id
            case m.LlmToken() if envelope.call_id in self._calls and envelope.payload.text:
                yield from self._token(envelope)
            case m.LlmEnd(payload=ended) if envelope.call_id in self._calls:
                del self._calls[envelope.call_id]
                phase = "commentary" if ended.tool_calls else "final_answer"
                yield from self._close(envelope.call_id, phase, is_whole=ended.status == "ok")
            case m.AskUser(payload=asked):
                yield from self._message(asked.ask_id, asked.question)
            case m.RunEnd():
                yield from self._end(envelope)

    def _start(self, start: m.RunStart) -> Iterator[tuple[str, Chunk]]:
        self._run = start.call_id
        self._calls, self._open, self._output, self._incomplete = {}, {}, [], []
        self._sequence, self._count, self._texts = 0, 0, set()
        self._base = {
            "id": response_id(self._run),
            "object": "response",
            "created_at": int(start.ts),
            "model": start.payload.system,
            "parallel_tool_calls": True,
            "tool_choice": "none",
            "tools": [],
        }
        about = {"response": {**self._base, "status": "in_progress", "output": []}}
        yield "response.created", about
        yield "response.in_progress", about

    def _token(self, token: m.LlmToken) -> Iterator[tuple[str, Chunk]]:
        call, said = token.call_id, token.payload
        kind = "reasoning" if said.kind == "reasoning" else "message"
        item = self._open.get(call)
        if item is not None and item.kind != kind:
            yield from self._close(call, None)
            item = None
        if item is None:
            item = _Item(f"{_PREFIX[kind]}_{self._calls[call]}_{self._count}", self._count, kind)
            yield from self._begin(call, item)
        item.texts.append(said.text)
        place = {"item_id": item.id, "output_index": item.index}
        if kind == "reasoning":
            yield "response.reasoning_summary_text.delta", {**place, "summary_index": 0, "delta": said.text}
        else:
            yield "response.output_text.delta", {**place, "content_index": 0, "delta": said.text, "logprobs": []}

    def _begin(self, call: str, item: _Item) -> Iterator[tuple[str, Chunk]]:
        self._open[call] = item
        self._count += 1
        self._incomplete = []
        yield "response.output_item.added", {"output_index": item.index, "item": item.content("in_progress")}
        place = {"item_id": item.id, "output_index": item.index}
        if item.kind == "reasoning":
            part = {"type": "summary_text", "text": ""}
            yield "response.reasoning_summary_part.added", {**place, "summary_index": 0, "part": part}
        else:
            yield "response.content_part.added", {**place, "content_index": 0, "part": _text_part("")}

    def _close(self, call: str, phase: str | None, *, is_whole: bool = True) -> Iterator[tuple[str, Chunk]]:
        item = self._open.pop(call, None)
        if item is None:
            return
        place = {"item_id": item.id, "output_index": item.index}
        if item.kind == "reasoning":
            about = {**place, "summary_index": 0}
            yield "response.reasoning_summary_text.done", {**about, "text": item.text}
            part = {"type": "summary_text", "text": item.text}
            yield "response.reasoning_summary_part.done", {**about, "part": part}
        else:
            about = {**place, "content_index": 0}
            if is_whole:
                self._texts.add(item.text.strip())
            yield "response.output_text.done", {**about, "text": item.text, "logprobs": []}
            yield "response.content_part.done", {**about, "part": _text_part(item.text)}
        done = item.content("completed" if is_whole else "incomplete", phase)
        (self._output if is_whole else self._incomplete).append(done)
        yield "response.output_item.done", {"output_index": item.index, "item": done}

    def _message(self, message_id: str, text: str) -> Iterator[tuple[str, Chunk]]:
        """A message that was not streamed."""
        item = _Item(f"{_PREFIX['message']}_{message_id}_{self._count}", self._count, "message")
        yield from self._begin(message_id, item)
        item.texts.append(text)
        place = {"item_id": item.id, "output_index": item.index, "content_index": 0}
        yield "response.output_text.delta", {**place, "delta": text, "logprobs": []}
        yield from self._close(message_id, "final_answer")

    def _end(self, end: m.RunEnd) -> Iterator[tuple[str, Chunk]]:
        for call in list(self._open):
            yield from self._close(call, None, is_whole=False)
        ended = end.payload
        result = ended.result or ""
        if ended.status == "completed" and result.strip() not in self._texts:
            yield from self._message(self._run, result)  # the answer of a graph need not be what its models wrote
        status = _STATUS[ended.status]
        if status != "completed":
            self._output += self._incomplete
        response = {
            **self._base,
            "status": status,
            "completed_at": int(end.ts) if status == "completed" else None,
            "output": list(self._output),
            "usage": _usage(ended.usage),
        }
        if status == "failed":
            problem = failure_of(end)
            response["error"] = {"code": "server_error", "message": f"{problem['message']} ({problem['code']})"}
        yield _ENDS[status], {"response": response}


def _text_part(text: str) -> Chunk:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _usage(used: list[Usage]) -> Chunk:
    sent = sum(usage.input_tokens for usage in used)
    made = sum(usage.output_tokens for usage in used)
    return {
        "input_tokens": sent,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": made,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": sent + made,
    }


def _frame(cursor: Cursor, chunk: Chunk) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (chunk["type"].encode(), one_line(msgspec.json.encode(chunk)))


def _sequence_number(chunk: Chunk) -> Any:
    return chunk["sequence_number"]


DIALECT = Dialect(
    "openai-responses", "text/event-stream", lambda *_: Responses(), _frame, memory="trace", tag=_sequence_number
)
