"""The dialect ``chunks``: a stream of StreamChunks, one JSON object per line.

An envelope becomes chunks, and a chunk becomes lines. ``text_final`` of the outer
agent is the answer and nothing else, once its model call is over, in fragments.
``LIVE`` also has the text while it is written: its ``text_delta`` lines are a
preview, which the first final line of the message replaces.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, assert_never

from pydantic import ValidationError

from stellwerk.dialects.base import Chunk, Dialect, failure_of, form_of, fragments, ndjson
from stellwerk.envelope import model as m
from stellwerk.envelope.chunk import StreamChunk, StreamEvent, StreamLevel
from stellwerk.envelope.payloads import ToolEnded
from stellwerk.envelope.results import Json, Text, ToolResult

_CARRIED = (
    *("tool_name", "toolcall_id", "message_id", "ask_id", "question"),
    *("failed", "aborted", "abortion_reason"),
)
"""Fields that a line copies from its chunk, if they are set."""
_PLAIN = {
    StreamEvent.STEP: "text_step",
    StreamEvent.QUESTION: "text_step",
    StreamEvent.TOOL_RESULT: "tool_results",
    StreamEvent.OUTPUT: "output",
    StreamEvent.ERROR: "error",
}
"""Types of lines whose data is that of the chunk."""


def lines(chunk: StreamChunk) -> Iterator[Chunk]:
    """Return the lines of a chunk.

    Raises:
        ValueError: there is no rule for this pair of level and event.
    """
    carried = {name: value for name in _CARRIED if (value := getattr(chunk, name))}
    for number, (kind, data) in enumerate(_typed(chunk)):
        line = {"level": chunk.level.value, "type": kind, "data": data, "agent_name": chunk.agent_name}
        yield {**line, **carried, "seq": chunk.seq + number, "ts": chunk.ts}


def _typed(chunk: StreamChunk) -> Iterator[tuple[str, Any]]:
    match chunk.level, chunk.event:
        case StreamLevel.OUTER, StreamEvent.FINAL:
            for fragment in fragments(chunk.final_answer or ""):
                yield "text_final", fragment
        case StreamLevel.INNER, StreamEvent.FINAL:
            yield "text_final", chunk.final_answer
        case _, StreamEvent.START:
            yield "text_step", f"[{chunk.level}] START: {chunk.agent_name}"
        case _, StreamEvent.TOOL_REQUEST:
            yield "text_step", f"[{chunk.level}] CALLING TOOL: {chunk.tool_name}"
        case _, StreamEvent.ABORTED:
            yield "text_step", f"[{chunk.level}] ABORTED: {chunk.abortion_reason}"
            yield "aborted", {"reason": chunk.abortion_reason}
        case _, event if event in _PLAIN:
            yield _PLAIN[event], chunk.data
        case StreamLevel.OUTER, StreamEvent.DELTA:
            yield "text_delta", chunk.data
        case _:
            raise ValueError(f"no rule says how {chunk.event} of the {chunk.level} looks as a line; add one here")


OUTER, INNER = StreamLevel.OUTER, StreamLevel.INNER

_OURS = {StreamEvent.OUTPUT, StreamEvent.DELTA, StreamEvent.QUESTION, StreamEvent.ERROR}
_THEIRS = frozenset(StreamEvent) - _OURS
"""Events that a tool may write; the others are made here only."""

_FIELDS = {"tool_name", "data", "failed", "final_answer", "abortion_reason"}
RETRACTED = "this text did not become part of the conversation"

_Model = m.LlmStart | m.LlmToken | m.LlmEnd
_Work = m.ToolStart | m.ToolUpdate | m.ToolEnd | m.Log | m.Error


@dataclass(frozen=True, slots=True)
class _Call:
    """An open tool, agent or graph."""

    level: StreamLevel
    """The level of its caller."""
    kind: str
    name: str
    """The name of the agent inside, or of the tool."""
    tool_call_id: str


@dataclass
class _Trace:
    """Open calls of a trace; a run that asks leaves them to the next run."""

    runs: set[str | None] = field(default_factory=lambda: {None})
    agent: str = ""
    """The name of the outermost agent, or of its system until the agent is known."""
    calls: dict[str, _Call] = field(default_factory=dict)
    texts: dict[str, list[str]] = field(default_factory=dict)
    """Texts of inner model calls so far."""
    held: dict[str | None, StreamChunk] = field(default_factory=dict)
    """The last text inside a call, which may be its answer."""


@dataclass
class _Run:
    started: bool = False
    failed: bool = False
    """A fatal error was sent."""
    lines: int = 0
    previews: dict[str, str] = field(default_factory=dict)
    """Model calls whose text was previewed, by message id, until the message is final."""


@dataclass
class Chunks:
    """Translates one session, from the run_start of any trace on."""

    live: bool = False
    _trace: _Trace = field(default_factory=_Trace)
    _run: _Run = field(default_factory=_Run)

    def feed(self, position: int, envelope: m.Envelope) -> Iterator[Chunk]:
        number = 0
        for chunk in self._chunks(envelope):
            for line in lines(chunk):
                self._run.lines += 1
                yield {"id": f"{position}.{number}", **line}
                number += 1

    def _chunks(self, envelope: m.Envelope) -> Iterator[StreamChunk]:
        if isinstance(envelope, m.RunStart):
            self._begin(envelope)
        elif envelope.agent and envelope.run_id and not self._run.started:
            self._run.started, self._trace.agent = True, envelope.agent
            yield self._chunk(StreamEvent.START, envelope, OUTER)
        match envelope:
            case m.LlmStart() | m.LlmToken() | m.LlmEnd():
                yield from self._model(envelope)
            case m.ToolStart() | m.ToolUpdate() | m.ToolEnd() | m.Log() | m.Error():
                yield from self._work(envelope)
            case m.Message():
                yield from self._said(envelope)
            case m.AskUser():
                yield self._asked(envelope)
            case m.RunEnd():
                yield from self._run_ends(envelope)
            case m.RunStart() | m.SubgraphCheckpoint() | m.SubgraphResume() | m.State() | m.Update() | m.Document():
                pass  # inner workings; the results of tools name documents
            case m.UserAnswer() | m.StopRequest() | m.Warning():
                pass  # the reader's own actions, and warnings for the operator
            case _:
                assert_never(envelope)

    def _model(self, envelope: _Model) -> Iterator[StreamChunk]:
        outer = self._level(envelope) is OUTER
        match envelope:
            case m.LlmStart():
                yield from self._release(envelope.parent_id)
            case m.LlmToken(payload=token) if token.kind == "text" and not outer:
                self._trace.texts.setdefault(envelope.call_id, []).append(token.text)
            case m.LlmToken(payload=token) if token.kind == "text" and self.live:
                call_id = envelope.call_id
                self._run.previews[call_id] = call_id
                yield self._chunk(StreamEvent.DELTA, envelope, OUTER, data=token.text, message_id=call_id)
            case m.LlmEnd() if outer:
                yield from self._outer_model_ended(envelope)
            case m.LlmEnd():
                yield from self._inner_model_ended(envelope)

    def _outer_model_ended(self, end: m.LlmEnd) -> Iterator[StreamChunk]:
        preview = self._run.previews.pop(end.call_id, None)
        if preview is not None and end.payload.status == "ok":
            self._run.previews[end.payload.message_id] = preview  # its message has this id
        elif preview is not None:
            yield self._aborted(end, OUTER, RETRACTED, message_id=preview)

    def _inner_model_ended(self, end: m.LlmEnd) -> Iterator[StreamChunk]:
        text = "".join(self._trace.texts.pop(end.call_id, ()))
        if not text or end.payload.status != "ok":
            return
        said = self._chunk(StreamEvent.STEP, end, INNER, data=text, message_id=end.payload.message_id)
        yield from self._release(end.parent_id)
        if end.payload.tool_calls:
            yield said
        else:
            self._trace.held[end.parent_id] = said

    def _work(self, envelope: _Work) -> Iterator[StreamChunk]:
        match envelope:
            case m.ToolStart():
                yield from self._tool_starts(envelope)
            case m.ToolUpdate(payload=update) if update.phase == "output":
                yield from self._written(envelope, update.data, INNER)
            case m.ToolEnd():
                yield from self._tool_ends(envelope)
            case m.Log(payload=logged):
                yield from self._written(envelope, logged.data, OUTER)
            case m.Error():
                yield self._error(envelope)

    def _tool_starts(self, start: m.ToolStart) -> Iterator[StreamChunk]:
        level, called = self._level(start), start.payload
        call = _Call(level, called.kind, called.title or called.tool_name, called.tool_call_id)
        self._trace.calls[start.call_id] = call
        if called.kind != "graph":  # a graph is a part of the one around it; no model requested it
            yield self._chunk(StreamEvent.TOOL_REQUEST, start, level, **_tool(start))
        if called.kind != "tool":
            yield self._chunk(StreamEvent.START, start, INNER, agent_name=call.name, **_tool(start))

    def _tool_ends(self, end: m.ToolEnd) -> Iterator[StreamChunk]:
        ended = end.payload
        call = self._trace.calls.pop(end.call_id, None) or _Call(self._level(end), **_guess(ended))
        if call.kind != "tool":
            yield from self._agent_ends(end, call)
        yield from self._release(end.call_id)
        if ended.status == "abandoned":
            yield self._call_aborted(end, call, f"{call.name} was cut off")
        elif call.kind != "graph":
            fields = {"data": _result(ended), "failed": ended.status == "error", **_tool(end)}
            yield self._chunk(StreamEvent.TOOL_RESULT, end, call.level, **fields)

    def _agent_ends(self, end: m.ToolEnd, call: _Call) -> Iterator[StreamChunk]:
        ended, held = end.payload, self._trace.held.get(end.call_id)
        if ended.status == "error":
            yield from self._release(end.call_id)
            reason = ended.error.message if ended.error else f"{call.name} failed"
            yield self._call_aborted(end, call, reason)
        if ended.status != "ok":
            return
        last = held.data if held else ""
        final = ended.result.as_text() if ended.result else last
        if final.strip() == last.strip():
            self._trace.held.pop(end.call_id, None)  # this text is the answer
        else:
            yield from self._release(end.call_id)
        if final:
            fields = {"agent_name": call.name, "final_answer": final, **_tool(end)}
            yield self._chunk(StreamEvent.FINAL, end, INNER, **fields)

    def _call_aborted(self, end: m.ToolEnd, call: _Call, reason: str) -> StreamChunk:
        if call.kind == "tool":
            return self._aborted(end, call.level, reason, **_tool(end))
        return self._aborted(end, INNER, reason, agent_name=call.name, **_tool(end))

    def _written(self, envelope: m.ToolUpdate | m.Log, data: Any, level: StreamLevel) -> Iterator[StreamChunk]:
        """Translate a chunk that a tool or node wrote; level, agent and order come from the log."""
        if not isinstance(data, dict) or "event" not in data:
            return
        try:
            given = StreamChunk.model_validate(data)
        except ValidationError:
            return  # not a chunk of ours
        if given.event is StreamEvent.FINAL and level is OUTER:
            # Only the log decides which text is the answer.
            yield self._chunk(StreamEvent.STEP, envelope, level, data=given.final_answer)
        elif given.event in _THEIRS:
            said = given.model_dump(include=_FIELDS, exclude_defaults=True)
            said["aborted"] = given.event is StreamEvent.ABORTED
            call = self._trace.calls.get(envelope.call_id)
            if call is not None:
                said["toolcall_id"] = call.tool_call_id
                said["agent_name"] = None if call.kind == "tool" else call.name
            yield self._chunk(given.event, envelope, level, **said)

    def _asked(self, ask: m.AskUser) -> StreamChunk:
        asked = ask.payload
        call = self._trace.calls.get(ask.parent_id or "")
        level = call.level if call and call.kind == "tool" else self._level(ask)
        fields: dict[str, Any] = {"ask_id": asked.ask_id, "question": form_of(asked)}
        return self._chunk(StreamEvent.QUESTION, ask, level, data=asked.question, **fields)

    def _error(self, error: m.Error) -> StreamChunk:
        problem = error.payload
        self._run.failed = self._run.failed or problem.fatal
        inner = {call.name for call in self._trace.calls.values() if call.kind != "tool"}
        level = INNER if error.agent in inner else OUTER
        data = {"code": problem.code, "message": problem.message, "fatal": problem.fatal}
        return self._chunk(StreamEvent.ERROR, error, level, data=data)

    def _begin(self, start: m.RunStart) -> None:
        self._run = _Run()
        if start.payload.trigger != "answer":
            self._trace = _Trace()
        self._trace.runs |= {start.run_id, start.trace_id}
        self._trace.agent = self._trace.agent or start.payload.system

    def _said(self, message: m.Message) -> Iterator[StreamChunk]:
        said, text = message.payload, message.payload.text
        if said.role != "assistant" or not message.run_id or said.action != "added":
            return
        shown = self._run.previews.pop(said.message_id, said.message_id)
        if said.status == "last":
            fields = {"final_answer": text, "message_id": shown}
            yield self._chunk(StreamEvent.FINAL, message, OUTER, **fields)
            if said.output is not None:
                yield self._chunk(StreamEvent.OUTPUT, message, OUTER, data=said.output, message_id=shown)
        else:
            yield self._chunk(StreamEvent.STEP, message, OUTER, data=text, message_id=shown)

    def _run_ends(self, end: m.RunEnd) -> Iterator[StreamChunk]:
        for shown in self._run.previews.values():
            yield self._aborted(end, OUTER, RETRACTED, message_id=shown)
        if end.payload.status == "stopped":
            yield self._aborted(end, OUTER, end.payload.reason or "the run was stopped")
        if end.payload.status == "failed" and not self._run.failed:
            error = {**failure_of(end), "fatal": True}
            yield self._chunk(StreamEvent.ERROR, end, OUTER, data=error)

    def _release(self, owner: str | None) -> Iterator[StreamChunk]:
        """Release the last text inside a call as a step, as more follows."""
        held = self._trace.held.pop(owner, None)
        if held is not None:
            yield held.model_copy(update={"seq": self._run.lines + 1})

    def _level(self, envelope: m.Envelope) -> StreamLevel:
        return OUTER if envelope.parent_id in self._trace.runs else INNER

    def _aborted(self, envelope: m.Envelope, level: StreamLevel, reason: str, **fields: Any) -> StreamChunk:
        return self._chunk(StreamEvent.ABORTED, envelope, level, aborted=True, abortion_reason=reason, **fields)

    def _chunk(self, event: StreamEvent, envelope: m.Envelope, level: StreamLevel, **fields: Any) -> StreamChunk:
        name = fields.pop("agent_name", None) or envelope.agent or self._trace.agent
        place = {"agent_name": name, "seq": self._run.lines + 1, "ts": envelope.ts}
        return StreamChunk(level=level, event=event, **place, **fields)


def _tool(envelope: m.ToolStart | m.ToolEnd) -> dict[str, str]:
    return {"tool_name": envelope.payload.tool_name, "toolcall_id": envelope.payload.tool_call_id}


def _guess(ended: ToolEnded) -> dict[str, str]:
    """Guess the kind of a call for a reader that did not see its start."""
    kind = "tool" if ended.outcome is None else "agent" if ended.result else "graph"
    return {"kind": kind, "name": ended.tool_name, "tool_call_id": ended.tool_call_id}


def _result(ended: ToolEnded) -> ToolResult:
    if ended.result is not None:
        return ended.result
    return Json(data=None) if ended.error is None else Text(text=ended.error.message)


DIALECT = Dialect("chunks", "application/x-ndjson", lambda *_: Chunks(), ndjson, memory="trace")
LIVE = Dialect("chunks", "application/x-ndjson", lambda *_: Chunks(live=True), ndjson, memory="trace")
"""With ``text_delta`` lines, as the tokens come."""
