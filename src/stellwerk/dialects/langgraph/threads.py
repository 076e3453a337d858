"""LangGraph's thread protocol: one stream per thread, over all its runs, in channels.

It is read by ``client.threads.stream`` and @langchain/react. ``seq`` counts over
all channels and follows from the position in the log, so a reader that filters,
or resumes with ``since``, misses nothing. Text of an abandoned model call ends in
``error``; as clients drop only messages that they saw in ``values``, the message
is in one ``values`` and gone from the next.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, assert_never

import msgspec

from stellwerk.dialects.base import Chunk, Cursor, Dialect
from stellwerk.dialects.langgraph.namespaces import MODEL, START, Effect, Namespace, Namespaces, custom, node_of
from stellwerk.envelope import model as m
from stellwerk.envelope.ndjson import one_line
from stellwerk.envelope.payloads import ModelEnded, RunEnded
from stellwerk.views.values import Block, DraftMessage, Json, text_of, usage_of

PER_POSITION = 100_000
"""Numbers of ``seq`` per envelope: 1200003 is event 3 of position 12."""

_ENDS = {"completed": "completed", "failed": "failed", "stopped": "interrupted", "awaiting_user": "interrupted"}
_CUT_OFF = "the call was cut off before it ended"


@dataclass(frozen=True, slots=True)
class _Event:
    method: str
    namespace: Namespace
    data: Any
    node: str | None = None


@dataclass
class _StreamedMessage:
    """A message, and how much of it is sent."""

    draft: DraftMessage
    namespace: Namespace
    begun: bool = False
    blocks: int = 0
    """Blocks that were started."""
    ended: ModelEnded | None = None
    """Its end, though not all of it is sent yet."""

    @property
    def place(self) -> tuple[tuple[str, ...], str]:
        return self.namespace.path, self.draft.node


@dataclass
class _Messages:
    """Messages that are streamed from start to finish, block by block.

    The JavaScript client identifies open messages by graph and node only. So each node streams one
    message at a time; another that starts there meanwhile is streamed from its beginning once the
    first is finished.
    """

    _open: dict[str, _StreamedMessage] = field(default_factory=dict)
    """By message id, in the order of their first tokens."""

    def delta(self, namespace: Namespace, draft: DraftMessage, block: Block, text: str) -> Iterator[_Event]:
        """Send a piece of a block, which the message holds already."""
        streamed = self._open.setdefault(draft.message_id, _StreamedMessage(draft, namespace))
        if streamed is not self._first(streamed):
            return
        if block.index < streamed.blocks:
            yield _piece(streamed, "content-block-delta", index=block.index, delta=_delta(block, text))
        else:
            yield from _catch_up(streamed)

    def ends(self, namespace: Namespace, draft: DraftMessage, ended: ModelEnded) -> Iterator[_Event]:
        """Finish the message of a model call; then send the message that waited at its node."""
        streamed = self._open.setdefault(draft.message_id, _StreamedMessage(draft, namespace))
        streamed.ended = ended
        while (first := self._first(streamed)) is not None:
            unseen = first.ended is not None and first.ended.status != "ok" and not first.begun
            yield from () if unseen else _catch_up(first)
            if first.ended is None:
                return
            yield from _finish(first, first.ended)
            self._open = {call: other for call, other in self._open.items() if other is not first}

    def _first(self, streamed: _StreamedMessage) -> _StreamedMessage | None:
        return next((other for other in self._open.values() if other.place == streamed.place), None)


@dataclass
class ThreadsTranslator:
    session_id: str
    _namespaces: Namespaces = field(default_factory=Namespaces)
    _messages: _Messages = field(default_factory=_Messages)
    _asks: dict[str, Namespace] = field(default_factory=dict)
    _checkpoints: list[str] = field(default_factory=list)
    _system: str = ""

    def feed(self, position: int, envelope: m.Envelope) -> Iterator[Chunk]:
        for number, event in enumerate(self._events(envelope, self._namespaces.feed(envelope))):
            params = {
                "namespace": list(event.namespace.path),
                "timestamp": round(envelope.ts * 1000),
                "data": event.data,
                **({"node": event.node} if event.node is not None else {}),
            }
            yield {
                "type": "event",
                "event_id": f"{position}.{number}",
                "seq": position * PER_POSITION + number,
                "method": event.method,
                "params": params,
            }

    def _events(self, envelope: m.Envelope, effect: Effect) -> Iterator[_Event]:
        match envelope:
            case m.RunStart():
                yield from self._run_starts(envelope, effect)
            case m.RunEnd(payload=ended):
                yield from self._run_ends(ended)
            case m.LlmStart() | m.LlmToken() | m.LlmEnd() | m.ToolStart() | m.ToolUpdate() | m.ToolEnd():
                yield from self._call(envelope, effect)
            case m.Message():
                yield from _message(envelope, effect)
            case m.AskUser(payload=asked):
                self._asks[asked.ask_id] = effect.namespace
            case m.SubgraphCheckpoint():
                yield from self._checkpoint(envelope, effect.namespace)
            case m.State() | m.Update():
                yield from _changed(effect, node_of(envelope))
            case m.Document() | m.Log() | m.Warning() | m.Error():
                yield from _custom(envelope, effect.namespace)
            case m.UserAnswer() | m.SubgraphResume() | m.StopRequest():
                pass
            case _:
                assert_never(envelope)

    def _call(
        self,
        envelope: m.LlmStart | m.LlmToken | m.LlmEnd | m.ToolStart | m.ToolUpdate | m.ToolEnd,
        effect: Effect,
    ) -> Iterator[_Event]:
        match envelope:
            case m.LlmStart():
                yield from _enter(effect.namespace)
            case m.LlmToken(payload=token):
                yield from self._delta(effect, token.text)
            case m.LlmEnd():
                yield from self._model_ends(envelope, effect)
            case m.ToolStart():
                yield from _enter(effect.namespace)
                yield from _tool_starts(self._namespaces.open[envelope.call_id])
            case m.ToolUpdate(payload=update) if update.phase == "args":
                yield from self._delta(effect, update.text or "")
            case m.ToolUpdate():
                yield from self._tool_update(envelope, effect)
            case m.ToolEnd():
                yield from self._tool_ends(envelope, effect)

    def _run_starts(self, start: m.RunStart, effect: Effect) -> Iterator[_Event]:
        self._system = start.payload.system
        yield _Event("lifecycle", self._namespaces.root, {"event": "running", "graph_name": self._system})
        for namespace in self._namespaces.open.values():  # LangGraph starts resumed ones again
            namespace.entered = False
            yield from _tool_starts(namespace)
        yield from _changed(effect, START)

    def _run_ends(self, ended: RunEnded) -> Iterator[_Event]:
        root = self._namespaces.root
        if ended.status == "awaiting_user":
            for asked in root.values.interrupts:
                # The Python client reads the latter.
                value = {"payload": asked["value"], "value": asked["value"]}
                schema = {key: asked[key] for key in asked.keys() & {"response_schema"}}
                data = {"interrupt_id": asked["id"], **value, **schema}
                yield _Event("input.requested", self._asks.get(asked["id"], root), data)
            for namespace in reversed(self._namespaces.open.values()):
                if namespace.entered:
                    yield _Event("lifecycle", namespace, {"event": "interrupted"})
        failed = {"error": ended.reason or "the run failed"} if ended.status == "failed" else {}
        yield _Event("lifecycle", root, {"event": _ENDS[ended.status], "graph_name": self._system, **failed})

    def _delta(self, effect: Effect, text: str) -> Iterator[_Event]:
        if effect.draft is not None and effect.block is not None:
            yield from self._messages.delta(effect.namespace, effect.draft, effect.block, text)

    def _model_ends(self, end: m.LlmEnd, effect: Effect) -> Iterator[_Event]:
        draft = effect.draft
        if draft is None:
            return
        yield from self._messages.ends(effect.namespace, draft, end.payload)
        yield from _changed(effect, draft.node)
        if end.payload.status != "ok" and draft.blocks:
            yield from _retracted(effect.namespace, draft)

    def _tool_update(self, update: m.ToolUpdate, effect: Effect) -> Iterator[_Event]:
        call, said = self._namespaces.open.get(update.call_id), update.payload
        if call is not None and call.start is not None:
            delta = said.text if said.text is not None else msgspec.json.encode(said.data).decode()
            known = {"event": "tool-output-delta", "tool_call_id": call.start.payload.tool_call_id}
            yield _Event("tools", effect.namespace, {**known, "delta": delta}, call.node)

    def _tool_ends(self, end: m.ToolEnd, effect: Effect) -> Iterator[_Event]:
        inside, done = self._namespaces.leave(end.call_id), end.payload
        wrong = done.error.message if done.error is not None else _CUT_OFF
        if inside is not None and inside.entered:
            over = {"event": "completed"} if done.status == "ok" else {"event": "failed", "error": wrong}
            yield _Event("lifecycle", inside, over)
        if inside is None or effect.change is None:  # a graph, which no model called
            return
        call, known = effect.change["messages"][0], {"tool_call_id": done.tool_call_id}
        if done.status == "ok":
            yield _Event("tools", effect.namespace, {"event": "tool-finished", **known, "output": call}, inside.node)
        else:
            code = done.error.code if done.error is not None else done.status
            data = {"event": "tool-error", **known, "message": wrong} | ({"code": code} if code else {})
            yield _Event("tools", effect.namespace, data, inside.node)
        yield from _changed(effect, inside.node)

    def _checkpoint(self, envelope: m.SubgraphCheckpoint, namespace: Namespace) -> Iterator[_Event]:
        """Send a checkpoint and its values, from which clients learn its messages."""
        if namespace is not self._namespaces.root:  # clients cannot go back to the middle of a call
            return
        parent = {"parent_id": self._checkpoints[-1]} if self._checkpoints else {}
        step, saved = len(self._checkpoints) - 1, envelope.payload
        source = "input" if saved.node == START else "loop"
        self._checkpoints.append(saved.checkpoint_id)
        yield _Event("checkpoints", namespace, {"id": saved.checkpoint_id, **parent, "step": step, "source": source})
        yield _Event("values", namespace, namespace.values.snapshot())


def _enter(namespace: Namespace) -> Iterator[_Event]:
    """Send, once, the start of a namespace."""
    if namespace.start is None or namespace.entered:
        return
    namespace.entered = True
    called = namespace.start.payload
    cause = {"type": "toolCall", "tool_call_id": called.tool_call_id}
    started = {"event": "started", "graph_name": called.title or called.tool_name}
    yield _Event("lifecycle", namespace, started if called.kind == "graph" else {**started, "cause": cause})


def _tool_starts(namespace: Namespace) -> Iterator[_Event]:
    if namespace.start is None or namespace.around is None:
        return
    called = namespace.start.payload
    if called.kind != "graph":
        known = {"tool_call_id": called.tool_call_id, "tool_name": called.tool_name, "input": called.args}
        yield _Event("tools", namespace.around, {"event": "tool-started", **known}, namespace.node)
    if called.kind != "tool":
        yield from _enter(namespace)


def _message(envelope: m.Message, effect: Effect) -> Iterator[_Event]:
    node = START if envelope.payload.role == "user" else envelope.payload.author or MODEL
    for message in (effect.change or {}).get("messages", ()):
        if message["type"] == "ai" and not effect.streamed:
            yield from (_Event("messages", effect.namespace, data, node) for data in _whole_message(message))
    yield from _changed(effect, node)


def _changed(effect: Effect, node: str) -> Iterator[_Event]:
    if effect.change is not None:
        yield _Event("updates", effect.namespace, {"node": node, "values": effect.change}, node)
        yield _Event("values", effect.namespace, effect.namespace.values.snapshot())


def _retracted(namespace: Namespace, draft: DraftMessage) -> Iterator[_Event]:
    values = namespace.values.snapshot()
    partial: Json = {"type": "ai", "id": draft.message_id, "content": draft.content(), "tool_calls": []}
    yield _Event("values", namespace, {**values, "messages": [*values["messages"], partial]})
    yield _Event("values", namespace, values)


def _custom(envelope: m.Document | m.Log | m.Warning | m.Error, namespace: Namespace) -> Iterator[_Event]:
    found = custom(envelope)
    if found is not None:
        name, payload = found
        yield _Event("custom", namespace, {"payload": payload} if name is None else {"name": name, "payload": payload})


def _whole_message(message: Json) -> Iterator[Json]:
    """Yield the events of a whole message, which a node returned without a model call."""
    common = {"message_id": message["id"]}
    text = {"type": "text", "text": text_of(message["content"])}
    yield {"event": "message-start", "role": "ai", "id": message["id"]}
    yield {"event": "content-block-start", **common, "index": 0, "content": text | {"text": ""}}
    yield {"event": "content-block-finish", **common, "index": 0, "content": text}
    yield {"event": "message-finish", **common}


def _catch_up(streamed: _StreamedMessage) -> Iterator[_Event]:
    if not streamed.draft.blocks:
        return
    if not streamed.begun:
        streamed.begun = True
        node = streamed.draft.node
        start = {"event": "message-start", "role": "ai", "id": streamed.draft.message_id}
        yield _Event("messages", streamed.namespace, {**start, "metadata": {"langgraph_node": node}}, node)
    for block in list(streamed.draft.blocks.values())[streamed.blocks :]:
        streamed.blocks += 1
        yield _piece(streamed, "content-block-start", index=block.index, content=_empty(block))
        if block.text:
            yield _piece(streamed, "content-block-delta", index=block.index, delta=_delta(block, block.text))


def _finish(streamed: _StreamedMessage, ended: ModelEnded) -> Iterator[_Event]:
    if not streamed.begun:
        return
    for block in streamed.draft.blocks.values():
        content = _final(streamed.draft, block)
        yield _piece(streamed, "content-block-finish", index=block.index, content=content)
    if ended.status == "ok":
        used = {"usage": usage_of(ended)} if ended.usage is not None else {}
        yield _piece(streamed, "message-finish", **used)
    else:
        failed = "the model call failed" if ended.status == "error" else "the model call was abandoned"
        yield _piece(streamed, "error", message=failed, code=ended.status)


def _piece(streamed: _StreamedMessage, event: str, **more: object) -> _Event:
    data = {"event": event, "message_id": streamed.draft.message_id, **more}
    return _Event("messages", streamed.namespace, data, streamed.draft.node)


def _delta(block: Block, text: str) -> Json:
    if block.kind == "tool":
        return {"type": "tool-call-delta", "args": text}
    return {"type": f"{block.kind}-delta", block.kind: text}


def _empty(block: Block) -> Json:
    if block.kind == "tool":
        return {"type": "tool_call_chunk", "id": block.tool_call_id, "name": block.name, "args": ""}
    return {"type": block.kind, block.kind: ""}


def _final(draft: DraftMessage, block: Block) -> Json:
    if block.kind != "tool":
        return {"type": block.kind, block.kind: block.text}
    args = draft.arguments(block.tool_call_id)
    return {"type": "tool_call", "id": block.tool_call_id, "name": block.name, "args": args or {}}


def frame(cursor: Cursor, chunk: Chunk) -> bytes:
    method = str(chunk["method"]).encode()
    return b"event: %b\nid: %d\ndata: %b\n\n" % (method, chunk["seq"], one_line(msgspec.json.encode(chunk)))


DIALECT = Dialect(name="langgraph-threads", media_type="text/event-stream", translator=ThreadsTranslator, frame=frame)
