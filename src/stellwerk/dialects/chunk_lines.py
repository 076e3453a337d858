"""How a StreamChunk looks as NDJSON: the one place that knows, for each pair of level and event."""

from collections.abc import Iterator
from typing import Any

from stellwerk.dialects.base import Chunk
from stellwerk.dialects.wording import fragments
from stellwerk.envelope.chunk import StreamChunk, StreamEvent, StreamLevel

_CARRIED = ("tool_name", "toolcall_id", "message_id", "ask_id", "question", "failed", "aborted", "abortion_reason")
"""What a line repeats of its chunk, where there is something to repeat."""


def lines(chunk: StreamChunk) -> Iterator[Chunk]:
    """How a chunk looks on the wire.

    Raises:
        ValueError: there is no rule for this pair of level and event.
    """
    carried = {name: value for name in _CARRIED if (value := getattr(chunk, name))}
    for number, (kind, data) in enumerate(_typed(chunk)):
        line = {"level": chunk.level.value, "type": kind, "data": data, "agent_name": chunk.agent_name}
        yield {**line, **carried, "seq": chunk.seq + number, "ts": chunk.ts}


def _typed(chunk: StreamChunk) -> Iterator[tuple[str, Any]]:
    match chunk.level, chunk.event:
        case _, StreamEvent.TOOL_RESULT:
            yield "tool_results", chunk.data
        case StreamLevel.OUTER, StreamEvent.FINAL:
            for fragment in fragments(chunk.final_answer or ""):
                yield "text_final", fragment
        case StreamLevel.INNER, StreamEvent.FINAL:
            yield "text_final", chunk.final_answer
        case _, StreamEvent.START | StreamEvent.TOOL_REQUEST:
            yield "text_step", _marker(chunk)
        case _, StreamEvent.ABORTED:
            yield "text_step", _marker(chunk)
            yield "aborted", {"reason": chunk.abortion_reason}
        case _, StreamEvent.STEP | StreamEvent.QUESTION:
            yield "text_step", chunk.data
        case StreamLevel.OUTER, StreamEvent.DELTA:
            yield "text_delta", chunk.data
        case _, StreamEvent.ERROR:
            yield "error", chunk.data
        case _:
            raise ValueError(f"no rule says how {chunk.event} of the {chunk.level} looks as a line; add one here")


def _marker(chunk: StreamChunk) -> str:
    words = {
        StreamEvent.START: f"START: {chunk.agent_name}",
        StreamEvent.TOOL_REQUEST: f"CALLING TOOL: {chunk.tool_name}",
        StreamEvent.ABORTED: f"ABORTED: {chunk.abortion_reason}",
    }
    return f"[{chunk.level}] {words[chunk.event]}"
