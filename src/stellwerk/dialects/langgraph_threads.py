"""LangGraph's thread protocol: one stream per thread, over all its runs, in channels.

It is what ``client.threads.stream`` and @langchain/react read. ``seq`` counts over
all channels and follows from the place in the log, so a reader that filters, or
comes back with ``since``, misses nothing. Text of an abandoned model call ends in
``error``; as clients drop only what they have seen in ``values``, the message is
shown there once and is gone from the next.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, assert_never

import msgspec

from stellwerk.dialects.base import Chunk, Cursor, Dialect
from stellwerk.dialects.langgraph_messages import Messages, Piece, whole
from stellwerk.dialects.langgraph_spaces import Space, Spaces, Told
from stellwerk.dialects.langgraph_words import MODEL, START, custom, node_of
from stellwerk.envelope import model as m
from stellwerk.envelope.lines import one_line
from stellwerk.envelope.payloads import RunEnded
from stellwerk.views.speech import Json, Speech

PER_POSITION = 100_000
"""What ``seq`` leaves for the events of one envelope: 1200003 is event 3 of position 12."""

_ENDS = {"completed": "completed", "failed": "failed", "stopped": "interrupted", "awaiting_user": "interrupted"}
_CUT_OFF = "the call was cut off before it ended"


@dataclass(frozen=True, slots=True)
class _Event:
    method: str
    space: Space
    data: Any
    node: str | None = None


@dataclass
class Translator:
    session_id: str
    _spaces: Spaces = field(default_factory=Spaces)
    _messages: Messages = field(default_factory=Messages)
    _asks: dict[str, Space] = field(default_factory=dict)
    _checkpoints: list[str] = field(default_factory=list)
    _system: str = ""

    def feed(self, position: int, envelope: m.Envelope) -> Iterator[Chunk]:
        for number, event in enumerate(self._events(envelope, self._spaces.feed(envelope))):
            params = {
                "namespace": list(event.space.namespace),
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

    def _events(self, envelope: m.Envelope, told: Told) -> Iterator[_Event]:
        match envelope:
            case m.RunStart():
                yield from self._run_starts(envelope, told)
            case m.RunEnd(payload=ended):
                yield from self._run_ends(ended)
            case m.LlmStart() | m.LlmToken() | m.LlmEnd() | m.ToolStart() | m.ToolUpdate() | m.ToolEnd():
                yield from self._call(envelope, told)
            case m.Message():
                yield from _message(envelope, told)
            case m.AskUser(payload=asked):
                self._asks[asked.ask_id] = told.space
            case m.SubgraphCheckpoint():
                yield from self._checkpoint(envelope, told.space)
            case m.State() | m.Update():
                yield from _changed(told, node_of(envelope))
            case m.Document() | m.Log() | m.Warning() | m.Error():
                yield from _custom(envelope, told.space)
            case m.UserAnswer() | m.SubgraphResume() | m.StopRequest():
                pass
            case _:
                assert_never(envelope)

    def _call(
        self, envelope: m.LlmStart | m.LlmToken | m.LlmEnd | m.ToolStart | m.ToolUpdate | m.ToolEnd, told: Told
    ) -> Iterator[_Event]:
        match envelope:
            case m.LlmStart():
                yield from _enter(told.space)
            case m.LlmToken(payload=token):
                yield from self._goes_on(envelope, told, token.text)
            case m.LlmEnd():
                yield from self._model_ends(envelope, told)
            case m.ToolStart():
                yield from _enter(told.space)
                yield from _changed(told, MODEL)
                yield from _tool_starts(self._spaces.open[envelope.call_id])
            case m.ToolUpdate(payload=update) if update.phase == "args":
                yield from self._goes_on(envelope, told, update.text or "")
            case m.ToolUpdate():
                yield from self._tool_speaks(envelope, told)
            case m.ToolEnd():
                yield from self._tool_ends(envelope, told)

    def _run_starts(self, start: m.RunStart, told: Told) -> Iterator[_Event]:
        self._system = start.payload.system
        yield _Event("lifecycle", self._spaces.root, {"event": "running", "graph_name": self._system})
        for space in self._spaces.open.values():  # an answer takes them up again; LangGraph tells them anew, too
            space.entered = False
            yield from _tool_starts(space)
        yield from _changed(told, START)

    def _run_ends(self, ended: RunEnded) -> Iterator[_Event]:
        root = self._spaces.root
        if ended.status == "awaiting_user":
            for asked in root.values.interrupts:
                value = {"payload": asked["value"], "value": asked["value"]}  # the Python client reads the latter
                schema = {key: asked[key] for key in asked.keys() & {"response_schema"}}
                data = {"interrupt_id": asked["id"], **value, **schema}
                yield _Event("input.requested", self._asks.get(asked["id"], root), data)
            for space in reversed(self._spaces.open.values()):
                if space.entered:
                    yield _Event("lifecycle", space, {"event": "interrupted"})
        failed = {"error": ended.reason or "the run failed"} if ended.status == "failed" else {}
        yield _Event("lifecycle", root, {"event": _ENDS[ended.status], "graph_name": self._system, **failed})

    def _goes_on(self, envelope: m.LlmToken | m.ToolUpdate, told: Told, text: str) -> Iterator[_Event]:
        if told.speech is not None and told.block is not None:
            call_id = told.speech.message_id
            yield from _pieces(self._messages.goes_on(call_id, told.space, told.speech, told.block, text))

    def _model_ends(self, end: m.LlmEnd, told: Told) -> Iterator[_Event]:
        speech = told.speech
        if speech is None:
            return
        yield from _pieces(self._messages.ends(speech.message_id, told.space, speech, end.payload))
        yield from _changed(told, speech.node)
        if end.payload.status != "ok" and speech.blocks:
            yield from _retracted(told.space, speech)

    def _tool_speaks(self, update: m.ToolUpdate, told: Told) -> Iterator[_Event]:
        call, said = self._spaces.open.get(update.call_id), update.payload
        if call is not None and call.start is not None:
            delta = said.text if said.text is not None else msgspec.json.encode(said.data).decode()
            known = {"event": "tool-output-delta", "tool_call_id": call.start.payload.tool_call_id}
            yield _Event("tools", told.space, {**known, "delta": delta}, call.node)

    def _tool_ends(self, end: m.ToolEnd, told: Told) -> Iterator[_Event]:
        inside, done = self._spaces.leave(end.call_id), end.payload
        wrong = done.error.message if done.error is not None else _CUT_OFF
        if inside is not None and inside.entered:
            over = {"event": "completed"} if done.status == "ok" else {"event": "failed", "error": wrong}
            yield _Event("lifecycle", inside, over)
        if inside is None or told.change is None:  # a graph, which no model called
            return
        call, known = told.change["messages"][0], {"tool_call_id": done.tool_call_id}
        if done.status == "ok":
            yield _Event("tools", told.space, {"event": "tool-finished", **known, "output": call}, inside.node)
        else:
            code = done.error.code if done.error is not None else done.status
            data = {"event": "tool-error", **known, "message": wrong} | ({"code": code} if code else {})
            yield _Event("tools", told.space, data, inside.node)
        yield from _changed(told, inside.node)

    def _checkpoint(self, envelope: m.SubgraphCheckpoint, space: Space) -> Iterator[_Event]:
        """Followed by the values it holds, from which clients learn which messages it has."""
        if space is not self._spaces.root:  # nobody can go back to the middle of a call
            return
        parent = {"parent_id": self._checkpoints[-1]} if self._checkpoints else {}
        step, saved = len(self._checkpoints) - 1, envelope.payload
        source = "input" if saved.node == START else "loop"
        self._checkpoints.append(saved.checkpoint_id)
        yield _Event("checkpoints", space, {"id": saved.checkpoint_id, **parent, "step": step, "source": source})
        yield _Event("values", space, space.values.snapshot())


def _enter(space: Space) -> Iterator[_Event]:
    """Tell, once, that there is something inside a call."""
    if space.start is None or space.entered:
        return
    space.entered = True
    called = space.start.payload
    cause = {"type": "toolCall", "tool_call_id": called.tool_call_id}
    started = {"event": "started", "graph_name": called.title or called.tool_name}
    yield _Event("lifecycle", space, started if called.kind == "graph" else {**started, "cause": cause})


def _tool_starts(space: Space) -> Iterator[_Event]:
    if space.start is None or space.around is None:
        return
    called = space.start.payload
    if called.kind != "graph":
        known = {"tool_call_id": called.tool_call_id, "tool_name": called.tool_name, "input": called.args}
        yield _Event("tools", space.around, {"event": "tool-started", **known}, space.node)
    if called.kind != "tool":
        yield from _enter(space)


def _message(envelope: m.Message, told: Told) -> Iterator[_Event]:
    node = START if envelope.payload.role == "user" else envelope.payload.author or MODEL
    for message in (told.change or {}).get("messages", ()):
        if message["type"] == "ai" and not told.heard:
            yield from (_Event("messages", told.space, data, node) for data in whole(message))
    yield from _changed(told, node)


def _changed(told: Told, node: str) -> Iterator[_Event]:
    if told.change is not None:
        yield _Event("updates", told.space, {"node": node, "values": told.change}, node)
        yield _Event("values", told.space, told.space.values.snapshot())


def _retracted(space: Space, speech: Speech) -> Iterator[_Event]:
    values = space.values.snapshot()
    partial: Json = {"type": "ai", "id": speech.message_id, "content": speech.content(), "tool_calls": []}
    yield _Event("values", space, {**values, "messages": [*values["messages"], partial]})
    yield _Event("values", space, values)


def _custom(envelope: m.Document | m.Log | m.Warning | m.Error, space: Space) -> Iterator[_Event]:
    found = custom(envelope)
    if found is not None:
        name, payload = found
        yield _Event("custom", space, {"payload": payload} if name is None else {"name": name, "payload": payload})


def _pieces(told: Iterator[Piece]) -> Iterator[_Event]:
    for telling, data in told:
        yield _Event("messages", telling.space, data, telling.speech.node)


def frame(cursor: Cursor, chunk: Chunk) -> bytes:
    method = str(chunk["method"]).encode()
    return b"event: %b\nid: %d\ndata: %b\n\n" % (method, chunk["seq"], one_line(msgspec.json.encode(chunk)))


DIALECT = Dialect(name="langgraph-threads", media_type="text/event-stream", translator=Translator, frame=frame)
