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
from stellwerk.dialects.langgraph.namespaces import RECALLED, START, Call, Effect, Namespace, Namespaces
from stellwerk.envelope import model as m
from stellwerk.envelope.payloads import Checkpointed, ModelEnded, RunEnded, ToolEnded
from stellwerk.envelope.to_json import one_line
from stellwerk.views.values import Block, DraftMessage, Json, Values, text_of, usage_of

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
    ended: ModelEnded | None = None
    """Its end, though not all of it is sent yet."""

    @property
    def place(self) -> tuple[tuple[str, ...], str]:
        return self.namespace.path, self.draft.node

    def catch_up(self) -> Iterator[_Event]:
        """Send the start of the message, and the blocks that were not started."""
        if not self.draft.blocks:
            return
        if not self.begun:
            self.begun = True
            about = {"role": "ai", "id": self.draft.message_id, "metadata": {"langgraph_node": self.draft.node}}
            yield self._event({"event": "message-start", **about})
        for block in list(self.draft.blocks.values())[self.blocks :]:
            self.blocks += 1
            yield self._piece("content-block-start", index=block.index, content=_empty(block))
            if block.text:
                yield self.delta(block, block.text)

    def delta(self, block: Block, text: str) -> _Event:
        if block.kind == "tool":
            delta = {"type": "tool-call-delta", "args": text}
        else:
            delta = {"type": f"{block.kind}-delta", block.kind: text}
        return self._piece("content-block-delta", index=block.index, delta=delta)

    def finish(self, ended: ModelEnded) -> Iterator[_Event]:
        for block in self.draft.blocks.values():
            content = _final(self.draft, block)
            yield self._piece("content-block-finish", index=block.index, content=content)
        if ended.status == "ok":
            used = {"usage": usage_of(ended.usage)} if ended.usage is not None else {}
            yield self._piece("message-finish", **used)
        else:
            over = "failed" if ended.status == "error" else "was abandoned"
            yield self._piece("error", message=f"the model call {over}", code=ended.status)

    def _piece(self, event: str, **more: object) -> _Event:
        return self._event({"event": event, "message_id": self.draft.message_id, **more})

    def _event(self, data: Json) -> _Event:
        return _Event("messages", self.namespace, data, self.draft.node)


@dataclass
class _Messages:
    """Messages that are streamed from start to finish, block by block.

    The JavaScript client identifies open messages by graph and node only. So each node streams one
    message at a time; another that starts there meanwhile is streamed from its beginning once the
    first is finished.
    """

    _open: dict[str, _StreamedMessage] = field(default_factory=dict)
    """By message id, in the order of their first tokens."""

    def delta(self, effect: Effect, text: str) -> Iterator[_Event]:
        """Send a piece of a block, which the message holds already."""
        draft, block = effect.draft, effect.block
        if draft is None or block is None:
            return
        streamed = self._opened(draft, effect.namespace)
        if streamed is not self._first(streamed):
            return
        if block.index < streamed.blocks:
            yield streamed.delta(block, text)
        else:
            yield from streamed.catch_up()

    def ends(self, namespace: Namespace, draft: DraftMessage, ended: ModelEnded) -> Iterator[_Event]:
        """Finish the message of a model call; then send the message that waited at its node."""
        streamed = self._opened(draft, namespace)
        streamed.ended = ended
        while (first := self._first(streamed)) is not None:
            if first.begun or first.ended is None or first.ended.status == "ok":
                yield from first.catch_up()
            if first.ended is None:
                return
            if first.begun:
                yield from first.finish(first.ended)
            del self._open[first.draft.message_id]

    def _opened(self, draft: DraftMessage, namespace: Namespace) -> _StreamedMessage:
        return self._open.setdefault(draft.message_id, _StreamedMessage(draft, namespace))

    def _first(self, streamed: _StreamedMessage) -> _StreamedMessage | None:
        return next((other for other in self._open.values() if other.place == streamed.place), None)


@dataclass(frozen=True, slots=True)
class ThreadsOptions:
    agents: frozenset[str] = frozenset()
    """Names of sub-agents that are called by their own names."""


@dataclass
class ThreadsTranslator:
    session_id: str
    options: ThreadsOptions = ThreadsOptions()
    _namespaces: Namespaces = field(init=False)
    _messages: _Messages = field(default_factory=_Messages)
    _asks: dict[str, Namespace] = field(default_factory=dict)
    _checkpoints: list[str] = field(default_factory=list)
    _system: str = ""

    def __post_init__(self) -> None:
        self._namespaces = Namespaces(Namespace(values=Values(agents=self.options.agents)))

    def recall(self, envelope: m.Envelope) -> None:
        self._namespaces.recall(envelope)
        match envelope:
            case m.RunStart(payload=started):
                self._system = started.system
            case m.SubgraphCheckpoint(payload=saved) if envelope.call_id not in self._namespaces.open:
                self._checkpoints.append(saved.checkpoint_id)

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
            case m.RunStart() | m.RunEnd():
                yield from self._run(envelope, effect)
            case m.LlmStart() | m.LlmToken() | m.LlmEnd():
                yield from self._model_call(envelope, effect)
            case m.ToolStart() | m.ToolUpdate() | m.ToolEnd():
                yield from self._tool_call(envelope, effect)
            case m.Message():
                yield from _message(effect)
            case m.AskUser(payload=asked):
                self._asks[asked.interrupt_id or asked.ask_id] = effect.namespace
            case m.SubgraphCheckpoint(payload=saved) if effect.namespace is self._namespaces.root:
                yield from self._checkpoint(saved)
            case m.State() | m.Update():
                yield from _changed(effect)
            case m.Document() | m.Log() | m.Warning() | m.Error():
                yield from _custom(effect)
            case m.UserAnswer() | m.SubgraphCheckpoint() | m.SubgraphResume() | m.StopRequest():
                pass  # clients cannot go back to the middle of a call
            case _:
                assert_never(envelope)

    def _run(self, envelope: m.RunStart | m.RunEnd, effect: Effect) -> Iterator[_Event]:
        if isinstance(envelope, m.RunEnd):
            yield from _changed(effect)
            yield from self._run_ends(envelope.payload)
            return
        self._system = envelope.payload.system
        running = {"event": "running", "graph_name": self._system}
        yield _Event("lifecycle", self._namespaces.root, running)
        for call in self._namespaces.open.values():  # LangGraph starts resumed ones again
            call.entered = False
            yield from _tool_starts(call)
        yield from _changed(effect)

    def _run_ends(self, ended: RunEnded) -> Iterator[_Event]:
        root = self._namespaces.root
        if ended.status == "awaiting_user":
            for asked in root.values.interrupts:
                # The Python client reads ``value``.
                data = {"interrupt_id": asked["id"], "payload": asked["value"], "value": asked["value"]}
                if "response_schema" in asked:
                    data["response_schema"] = asked["response_schema"]
                yield _Event("input.requested", self._asks.get(asked["id"], root), data)
            for call in reversed(self._namespaces.open.values()):
                if call.entered:
                    yield _Event("lifecycle", call, {"event": "interrupted"})
        failed = {"error": ended.reason or "the run failed"} if ended.status == "failed" else {}
        yield _Event("lifecycle", root, {"event": _ENDS[ended.status], "graph_name": self._system, **failed})

    def _model_call(self, envelope: m.LlmStart | m.LlmToken | m.LlmEnd, effect: Effect) -> Iterator[_Event]:
        match envelope:
            case m.LlmStart():
                yield from _enter(effect.namespace)
            case m.LlmToken(payload=token):
                yield from self._messages.delta(effect, token.text)
            case m.LlmEnd(payload=ended) if effect.draft is not None:
                yield from self._messages.ends(effect.namespace, effect.draft, ended)
                yield from _changed(effect)
                if ended.status != "ok" and effect.draft.blocks:
                    yield from _retracted(effect.namespace, effect.draft)

    def _tool_call(self, envelope: m.ToolStart | m.ToolUpdate | m.ToolEnd, effect: Effect) -> Iterator[_Event]:
        call = effect.call
        match envelope:
            case m.ToolUpdate(payload=update) if update.phase == "args":
                yield from self._messages.delta(effect, update.text or "")
            case _ if call is None:
                return
            case m.ToolStart():
                yield from _enter(effect.namespace)
                yield from _tool_starts(call)
            case m.ToolUpdate(payload=update):
                delta = update.text if update.text is not None else msgspec.json.encode(update.data).decode()
                yield _tool_event(call, "tool-output-delta", delta=delta)
            case m.ToolEnd(payload=done):
                yield from _tool_ends(call, done, effect)

    def _checkpoint(self, saved: Checkpointed) -> Iterator[_Event]:
        """Send a checkpoint and its values, from which clients learn its messages."""
        root = self._namespaces.root
        parent = {"parent_id": self._checkpoints[-1]} if self._checkpoints else {}
        place = {"step": len(self._checkpoints) - 1, "source": "input" if saved.node == START else "loop"}
        self._checkpoints.append(saved.checkpoint_id)
        yield _Event("checkpoints", root, {"id": saved.checkpoint_id, **parent, **place})
        yield _Event("values", root, root.values.snapshot())


def _enter(namespace: Namespace) -> Iterator[_Event]:
    """Send, once, the start of a namespace."""
    if not isinstance(namespace, Call) or namespace.entered:
        return
    namespace.entered = True
    called = namespace.called
    started: Json = {"event": "started", "graph_name": called.title or called.tool_name}
    if called.kind != "graph":
        started["cause"] = {"type": "toolCall", "tool_call_id": called.tool_call_id}
    yield _Event("lifecycle", namespace, started)


def _tool_starts(call: Call) -> Iterator[_Event]:
    called = call.called
    if called.kind != "graph":
        yield _tool_event(call, "tool-started", tool_name=call.name, input=call.args)
    if called.kind != "tool":
        yield from _enter(call)


def _tool_ends(call: Call, done: ToolEnded, effect: Effect) -> Iterator[_Event]:
    wrong = done.error.message if done.error is not None else _CUT_OFF
    if call.entered:
        over = {"event": "completed"} if done.status == "ok" else {"event": "failed", "error": wrong}
        yield _Event("lifecycle", call, over)
    if effect.change is None:  # a graph, which no model called
        return
    if done.status == "ok":
        yield _tool_event(call, "tool-finished", output=effect.change["messages"][0])
    else:
        code = done.error.code if done.error is not None else done.status
        yield _tool_event(call, "tool-error", message=wrong, **({"code": code} if code else {}))
    yield from _changed(effect)


def _tool_event(call: Call, event: str, **more: Any) -> _Event:
    data = {"event": event, "tool_call_id": call.called.tool_call_id, **more}
    return _Event("tools", call.around, data, call.node)


def _message(effect: Effect) -> Iterator[_Event]:
    for message in (effect.change or {}).get("messages", ()):
        if message["type"] == "ai" and not effect.streamed:
            for data in _whole_message(message):
                yield _Event("messages", effect.namespace, data, effect.node)
    yield from _changed(effect)


def _changed(effect: Effect) -> Iterator[_Event]:
    if effect.change is not None:
        data = {"node": effect.node, "values": effect.change}
        yield _Event("updates", effect.namespace, data, effect.node)
        yield _Event("values", effect.namespace, effect.namespace.values.snapshot())


def _retracted(namespace: Namespace, draft: DraftMessage) -> Iterator[_Event]:
    values = namespace.values.snapshot()
    partial: Json = {"type": "ai", "id": draft.message_id, "content": draft.content(), "tool_calls": []}
    yield _Event("values", namespace, {**values, "messages": [*values["messages"], partial]})
    yield _Event("values", namespace, values)


def _custom(effect: Effect) -> Iterator[_Event]:
    found = effect.custom()
    if found is not None:
        name, payload = found
        data = {"payload": payload} if name is None else {"name": name, "payload": payload}
        yield _Event("custom", effect.namespace, data)


def _whole_message(message: Json) -> Iterator[Json]:
    """Yield the events of a whole message, which a node returned without a model call."""
    common = {"message_id": message["id"]}
    text = {"type": "text", "text": text_of(message["content"])}
    yield {"event": "message-start", "role": "ai", "id": message["id"]}
    yield {"event": "content-block-start", **common, "index": 0, "content": text | {"text": ""}}
    yield {"event": "content-block-finish", **common, "index": 0, "content": text}
    yield {"event": "message-finish", **common}


def _empty(block: Block) -> Json:
    if block.kind == "tool":
        return {"type": "tool_call_chunk", "id": block.tool_call_id, "name": block.name, "args": ""}
    return {"type": block.kind, block.kind: ""}


def _final(draft: DraftMessage, block: Block) -> Json:
    if block.kind != "tool":
        return {"type": block.kind, block.kind: block.text}
    args = draft.arguments(block.tool_call_id)
    return {"type": "tool_call", "id": block.tool_call_id, "name": block.name, "args": args or {}}


def _place(chunk: Chunk) -> tuple[str, tuple[str, ...]]:
    """The method and the namespace of an event, by which clients subscribe."""
    return chunk["method"], tuple(chunk["params"]["namespace"])


def _frame(cursor: Cursor, chunk: Chunk) -> bytes:
    method = str(chunk["method"]).encode()
    return b"event: %b\nid: %d\ndata: %b\n\n" % (method, chunk["seq"], one_line(msgspec.json.encode(chunk)))


DIALECT = Dialect(
    "langgraph-threads",
    "text/event-stream",
    ThreadsTranslator,
    _frame,
    memory="trace",
    recalls=(*RECALLED, "subgraph_checkpoint"),
    options=ThreadsOptions(),
    tag=_place,
)
