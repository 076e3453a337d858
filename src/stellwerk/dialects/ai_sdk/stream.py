"""The dialect ``ai-sdk``: the UI message stream of the AI SDK, major versions 6 and 7.

A trace is one message of the assistant, whose id is the trace_id: the run of a message and those of the
answers to its questions. So a client that reads the stream of a trace from its start rebuilds the
whole message, and one that has it up to a question continues it. A step is a model call of the outermost
agent and the tool calls it requested; model calls that overlap share one.

Graphs inside the graph are transparent: what they say belongs to the message. What an agent says inside
a tool call is a part of its own, and what happens inside a plain tool is not shown.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, assert_never

import msgspec

from stellwerk.dialects.agui.calls import Drafts
from stellwerk.dialects.ai_sdk.agents import AgentParts
from stellwerk.dialects.ai_sdk.texts import Texts, retracted, whole
from stellwerk.dialects.ai_sdk.tools import ToolParts
from stellwerk.dialects.base import Chunk, Cursor, Dialect, failure_of
from stellwerk.envelope import model as m
from stellwerk.envelope import payloads as p
from stellwerk.envelope.to_json import one_line
from stellwerk.views import checklist
from stellwerk.views.values import after, todos_of

_Call = m.LlmStart | m.LlmEnd | m.ToolStart | m.ToolUpdate | m.ToolEnd
_TODOS = ("todos", checklist.NAME)
_FINISHED = {"completed": "stop", "awaiting_user": "tool-calls"}


@dataclass
class _Places:
    """Where each call is: in the message (""), in a sub-agent (its id), or inside a tool (None)."""

    _inside: dict[str, str | None] = field(default_factory=dict)

    def of(self, parent_id: str | None) -> str | None:
        return self._inside.get(parent_id or "", "")

    def is_inner_graph(self, parent_id: str | None) -> bool:
        return parent_id in self._inside and self._inside[parent_id] != parent_id

    def enter(self, start: m.ToolStart) -> None:
        kind = start.payload.kind
        inside = {"tool": None, "agent": start.call_id, "graph": self.of(start.parent_id)}
        self._inside[start.call_id] = inside[kind]

    def leave(self, end: m.ToolEnd) -> None:
        self._inside.pop(end.call_id, None)


@dataclass
class _Message:
    """The message of one trace."""

    trace_id: str | None
    files: str
    tools: ToolParts = field(init=False)
    _texts: dict[str, Texts] = field(default_factory=dict)
    """Open model calls of the message itself."""
    _inner: dict[str, str] = field(default_factory=dict)
    """The agent of each open model call inside an agent."""
    _places: _Places = field(default_factory=_Places)
    _agents: AgentParts = field(default_factory=AgentParts)
    _drafts: Drafts = field(default_factory=Drafts)
    _in_step: bool = False
    _approving: bool = False
    """The step is of approvals of sub-agents: clients wait until all calls in the last step are complete, and those of
    the sub-agents are not."""
    _sent: dict[str, str] = field(default_factory=dict)
    """The id that the client has, by message id: the provider may rename a message."""
    _broken: dict[str | None, list[str]] = field(default_factory=dict)
    """Texts of model calls that failed, by the call around them; retracted when the next one starts there."""
    _shown: set[str] = field(default_factory=set)
    """Tool parts that the client has."""
    _states: dict[str, Any] = field(default_factory=dict)
    _inputs: set[str] = field(default_factory=set)
    """Ids of messages and questions of the user: their files are not parts of the answer."""
    _usage: dict[str, list[int]] = field(default_factory=dict)
    _fatal: p.Problem | None = None

    def __post_init__(self) -> None:
        self.tools = ToolParts(self.files)

    def feed(self, envelope: m.Envelope) -> Iterator[Chunk]:
        match envelope:
            case m.LlmToken():
                yield from self._token(envelope)
            case m.LlmStart() | m.LlmEnd() | m.ToolStart() | m.ToolUpdate() | m.ToolEnd():
                yield from self._call(envelope, self._places.of(envelope.parent_id))
            case m.UserAnswer(payload=answer):
                yield from self.tools.answered(answer)
            case m.Message() | m.AskUser() | m.State() | m.Document() if envelope.run_id is not None:
                yield from self._part(envelope, self._places.of(envelope.parent_id))
            case m.Log() | m.Warning() | m.Error():
                yield from self._remark(envelope)
            case m.RunStart():
                yield from self._run_starts(envelope)
            case m.RunEnd():
                yield from self._run_ends(envelope)
            case m.Message() | m.AskUser() | m.State() | m.Document():
                pass  # between runs: an enqueued message, or a change by a client
            case m.StopRequest() | m.Update() | m.SubgraphCheckpoint() | m.SubgraphResume():
                pass  # the end of the run, and inner workings
            case _:
                assert_never(envelope)

    def _token(self, token: m.LlmToken) -> Iterator[Chunk]:
        texts = self._texts.get(token.call_id)
        if texts is not None:
            yield from texts.token(token)
        elif token.call_id in self._inner:
            yield from self._agents.token(self._inner[token.call_id], token)

    def _call(self, envelope: _Call, place: str | None) -> Iterator[Chunk]:
        match envelope:
            case m.LlmStart():
                yield from self._model_starts(envelope, place)
            case m.LlmEnd():
                yield from self._model_ends(envelope)
            case m.ToolStart():
                yield from self._tool_starts(envelope, place)
            case m.ToolUpdate(payload=said) if said.phase == "args":
                if envelope.call_id in self._texts:
                    yield from self._texts[envelope.call_id].end()
                    yield from self.tools.written(envelope)
            case m.ToolUpdate():
                yield from self.tools.updated(envelope)
            case m.ToolEnd():
                self._places.leave(envelope)
                yield from self.tools.ended(envelope)
                yield from self._agents.ends(envelope)
                if place:
                    yield from self._agents.calls(place, envelope)

    def _model_starts(self, start: m.LlmStart, place: str | None) -> Iterator[Chunk]:
        if place:
            self._inner[start.call_id] = place
        if place != "":
            return
        yield from map(retracted, self._broken.pop(start.parent_id, []))
        if not self._texts:
            yield from self._end_step()
            yield from self._step()
        self._texts[start.call_id] = Texts(start.payload.message_id)
        self._drafts.started(start)

    def _model_ends(self, end: m.LlmEnd) -> Iterator[Chunk]:
        if end.call_id in self._inner:
            yield from self._agents.model_ends(self._inner.pop(end.call_id), end)
        texts, done = self._texts.pop(end.call_id, None), end.payload
        if texts is None:
            return
        yield from texts.end(done.status)
        if texts.has_text:
            self._sent[texts.message_id] = self._sent[done.message_id] = texts.message_id
        yield from self._in_a_step(self.tools.wanted(end))
        self._drafts.ended(end, texts.message_id)
        if done.status == "error" or done.synthesized:
            self._broken.setdefault(end.parent_id, []).append(texts.message_id)
        elif done.status == "abandoned":
            yield retracted(texts.message_id)

    def _tool_starts(self, start: m.ToolStart, place: str | None) -> Iterator[Chunk]:
        self._places.enter(start)
        self._drafts.called(start.payload.tool_call_id)
        if place == "":
            yield from self._in_a_step(self.tools.started(start))
        elif place:
            yield from self._agents.calls(place, start)
        if start.payload.kind == "agent":
            yield from self._step()
            yield self._agents.starts(start, self.tools.id_of(start.call_id), place)

    def _part(self, envelope: m.Message | m.AskUser | m.State | m.Document, place: str | None) -> Iterator[Chunk]:
        match envelope:
            case m.Message():
                yield from self._said(envelope, place)
            case m.AskUser(payload=asked):
                self._inputs.add(asked.ask_id)
                self._drafts.called(asked.tool_call_id)
                if asked.kind == "approval" and place != "" and not self._approving:
                    self._approving = True
                    yield from self._end_step()
                yield from self._in_a_step(self.tools.asked(envelope, at_root=place == ""))
            case m.State() if not self._places.is_inner_graph(envelope.parent_id):
                yield from self._state(envelope.payload, place)
            case m.Document(payload=filed) if filed.message_id not in self._inputs:
                yield from self._document(filed)

    def _said(self, message: m.Message, place: str | None) -> Iterator[Chunk]:
        said = message.payload
        self._drafts.said(said.message_id)
        text = "".join(part.text for part in said.content if isinstance(part, p.TextPart))
        if said.role == "user":
            self._inputs.add(said.message_id)
        elif said.action == "removed":
            yield retracted(self._sent.get(said.message_id, said.message_id))
        elif place and text and said.role == "assistant":
            yield from self._agents.says(place, text)
        elif place == "" and text and said.role == "assistant" and said.message_id not in self._sent:
            # A node returned it without a model call, or an operator wrote it.
            self._sent[said.message_id] = said.message_id
            yield from self._step()
            yield from whole(said.message_id, text)
        if said.output is not None and place == "":
            yield {"type": "data-output", "id": said.message_id, "data": said.output}

    def _state(self, changed: p.StateChanged, place: str | None) -> Iterator[Chunk]:
        name = changed.name
        if place is None or (place and name not in _TODOS):
            return  # of a sub-agent only its to-dos
        key = f"{place}/{name}"
        value, operations = after(self._states.get(key), changed)
        self._states[key] = value
        if name in _TODOS:
            todos = value if name == "todos" else todos_of(value).get("todos", [])
            if place:
                yield from self._agents.plans(place, todos)
            else:
                yield {"type": "data-todos", "id": name, "data": {"todos": todos}}
        elif changed.patch is None:
            yield {"type": "data-state", "id": name, "data": {"name": name, "value": value}}
        else:
            for operation in operations:
                yield _entry(name, operation)

    def _document(self, filed: p.Filed) -> Iterator[Chunk]:
        url = f"{self.files}{filed.document_id}"
        about = {"documentId": filed.document_id, "name": filed.name, "mediaType": filed.mime, "size": filed.size}
        yield from self._step()
        if filed.action == "added":
            yield {"type": "file", "url": url, "mediaType": filed.mime}
        yield {"type": "data-document", "id": filed.document_id, "data": {**about, "url": url, "action": filed.action}}

    def _remark(self, envelope: m.Log | m.Warning | m.Error) -> Iterator[Chunk]:
        if isinstance(envelope, m.Error) and envelope.payload.fatal:
            self._fatal = envelope.payload
            return
        data = {"level": m.type_of(envelope), **msgspec.to_builtins(envelope.payload)}
        if isinstance(envelope, m.Log):
            data["level"] = envelope.payload.level
        if envelope.agent:
            data["agent"] = envelope.agent
        yield {"type": "data-log", "data": data, "transient": True}

    def _run_starts(self, start: m.RunStart) -> Iterator[Chunk]:
        self._fatal, self._approving = None, False
        if start.payload.message_id is not None:
            self._inputs.add(start.payload.message_id)
        metadata = {"runId": start.call_id, "startedAt": round(start.ts * 1000)}
        yield {"type": "start", "messageId": self.trace_id, "messageMetadata": metadata}
        yield from self._agents.waits(waiting=False)

    def _run_ends(self, end: m.RunEnd) -> Iterator[Chunk]:
        done = end.payload
        for texts in self._texts.values():
            yield from texts.end("abandoned")
        self._texts.clear()
        yield from self.tools.run_ends(end)
        waits = done.status == "awaiting_user"
        if waits:
            yield from self._agents.waits(waiting=True)
        gone = list(self._drafts.left_out(end).values())
        if waits or done.status == "completed":
            gone += [id_ for broken in self._broken.values() for id_ in broken]
        self._broken.clear()
        yield from map(retracted, gone)
        yield from self._end_step()
        yield from self._last(end)

    def _last(self, end: m.RunEnd) -> Iterator[Chunk]:
        done = end.payload
        metadata: Chunk = {"status": done.status, "finishedAt": round(end.ts * 1000), "usage": self._used(done.usage)}
        if done.status in _FINISHED:
            yield {"type": "finish", "finishReason": _FINISHED[done.status], "messageMetadata": metadata}
            return
        if done.status == "failed":
            failed = failure_of(end)
            if self._fatal is not None:
                failed = {"code": self._fatal.code, "message": self._fatal.message}
            yield {"type": "message-metadata", "messageMetadata": {**metadata, "error": failed}}
            yield {"type": "error", "errorText": failed["message"]}
            return
        yield {"type": "message-metadata", "messageMetadata": metadata}
        yield {"type": "abort", "reason": done.reason or "The run was stopped."}

    def _used(self, usage: list[p.Usage]) -> Chunk:
        """Return the tokens of all runs of the message so far."""
        for used in usage:
            tokens = self._usage.setdefault(used.model, [0, 0])
            tokens[0] += used.input_tokens
            tokens[1] += used.output_tokens
        read, written = (sum(tokens[place] for tokens in self._usage.values()) for place in (0, 1))
        return {"inputTokens": read, "outputTokens": written, "totalTokens": read + written}

    def _in_a_step(self, chunks: Iterable[Chunk]) -> Iterator[Chunk]:
        """Put new tool parts into a step; one that the client has is updated only in the step that it is in."""
        for chunk in chunks:
            if chunk["type"] == "tool-input-available" and chunk["toolCallId"] not in self._shown:
                self._shown.add(chunk["toolCallId"])
                yield from self._step()
            yield chunk

    def _step(self) -> Iterator[Chunk]:
        if not self._in_step:
            self._in_step = True
            yield {"type": "start-step"}

    def _end_step(self) -> Iterator[Chunk]:
        if self._in_step:
            self._in_step = False
            yield {"type": "finish-step"}


@dataclass(frozen=True, slots=True)
class UIStreamOptions:
    files: str = "/files/"
    """The URL of documents, without their ids."""
    apart: str | None = None
    """The run from which on a trace is another message, with the id of this run: it has the answer of a user who wrote
    a message, and the client shows that behind the question."""


@dataclass
class AiSdkTranslator:
    """Translates a session, from the run_start of any trace on."""

    options: UIStreamOptions
    message: _Message | None = None
    _apart: bool = False
    _own: set[str] = field(default_factory=set)
    """The tool parts of a message apart."""

    def feed(self, position: int, envelope: m.Envelope) -> Iterator[Chunk]:
        message = self.message
        if isinstance(envelope, m.RunStart) and (message is None or message.trace_id != envelope.trace_id):
            message = self.message = _Message(envelope.trace_id, self.options.files)
        if message is None:
            return
        self._apart = self._apart or (envelope.call_id == self.options.apart and isinstance(envelope, m.RunStart))
        yield from self._of_this_message(message.feed(envelope)) if self._apart else message.feed(envelope)

    def _of_this_message(self, chunks: Iterable[Chunk]) -> Iterator[Chunk]:
        """Leave out what belongs to tool parts of the message before."""
        for chunk in chunks:
            if chunk["type"] == "start":
                chunk["messageId"] = self.options.apart
            if chunk["type"] in ("tool-input-start", "tool-input-available"):
                self._own.add(chunk["toolCallId"])
            if not chunk["type"].startswith("tool-") or chunk["toolCallId"] in self._own:
                yield chunk


def _entry(name: str, operation: Chunk) -> Chunk:
    """Return one changed entry of a state that is a mapping, as files are."""
    key = operation["path"][1:].replace("~1", "/").replace("~0", "~")
    data: Chunk = {"name": name, "key": key}
    if operation["op"] == "add":
        data["value"] = operation["value"]
    else:
        data["removed"] = True
    return {"type": "data-state", "id": f"{name}/{key}", "data": data}


def frame(cursor: Cursor, chunk: Chunk) -> bytes:
    """Encode a chunk; clients of this protocol resume without a cursor, so it is left out."""
    return b"data: %b\n\n" % one_line(msgspec.json.encode(chunk))


def new_translator(session_id: str, options: UIStreamOptions | None) -> AiSdkTranslator:
    return AiSdkTranslator(options or UIStreamOptions())


DIALECT = Dialect(
    "ai-sdk",
    "text/event-stream",
    new_translator,
    frame,
    memory="trace",
    options=UIStreamOptions(),
    closing=b"data: [DONE]\n\n",
)
