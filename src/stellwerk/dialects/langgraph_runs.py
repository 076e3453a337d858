"""LangGraph's runs/stream: what ``client.runs.stream`` and ``useStream`` read, by the modes they asked for.

An SSE event is named by its mode and the namespace of its graph. Chunks of a
message are joined by its id, and the next ``values`` replaces all: so text of a
model call that was abandoned is taken back by ``values`` without it, and for
clients that want no values by a message of type ``remove``. Feed it the whole
session, because ``values`` holds the whole conversation; a client of one run is
shown that run's part.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, assert_never

import msgspec

from stellwerk.dialects.base import Chunk, Dialect, named_sse
from stellwerk.dialects.langgraph_spaces import Space, Spaces, Told
from stellwerk.dialects.langgraph_words import MODEL, START, custom, node_of
from stellwerk.envelope import model as m
from stellwerk.envelope.payloads import RunEnded
from stellwerk.views.speech import Block, Json, Speech
from stellwerk.views.values import closing_of

Mode = Literal["values", "updates", "messages-tuple", "custom"]
MODES: frozenset[Mode] = frozenset({"values", "updates", "messages-tuple", "custom"})
"""Those that there are; any other that a client asks for has nothing to say."""

Event = tuple[str, Space, Any]
_ALWAYS = {"metadata", "error"}


@dataclass
class Translator:
    session_id: str
    modes: frozenset[Mode] = MODES
    subgraphs: bool = True
    """Whether it also tells what happens inside agents and graphs."""
    _spaces: Spaces = field(default_factory=Spaces)

    def feed(self, position: int, envelope: m.Envelope) -> Iterator[Chunk]:
        for mode, space, data in self._events(envelope, self._spaces.feed(envelope)):
            if (mode in _ALWAYS or mode in self.modes) and (self.subgraphs or not space.namespace):
                yield {"event": "|".join((mode.removesuffix("-tuple"), *space.namespace)), "data": data}

    def _events(self, envelope: m.Envelope, told: Told) -> Iterator[Event]:
        match envelope:
            case m.RunStart() | m.SubgraphResume():
                yield from self._run_goes(envelope, told)
            case m.RunEnd(payload=ended):
                yield from self._run_ends(ended)
            case m.LlmToken() | m.LlmEnd() | m.ToolStart() | m.ToolUpdate() | m.ToolEnd():
                yield from self._call(envelope, told)
            case m.Message(payload=said):
                yield from self._message(envelope, told, START if said.role == "user" else said.author or MODEL)
            case m.State() | m.Update():
                yield from _changed(told, node_of(envelope))
            case m.Document() | m.Log() | m.Warning() | m.Error():
                yield from _custom(envelope, told.space)
            case m.LlmStart() | m.AskUser() | m.UserAnswer() | m.SubgraphCheckpoint() | m.StopRequest():
                pass  # nothing is said yet; a question is told when the run ends, for all of them at once
            case _:
                assert_never(envelope)

    def _call(
        self, envelope: m.LlmToken | m.LlmEnd | m.ToolStart | m.ToolUpdate | m.ToolEnd, told: Told
    ) -> Iterator[Event]:
        match envelope:
            case m.LlmToken(payload=token):
                yield from self._token(envelope, told, token.text)
            case m.LlmEnd():
                yield from self._model_ends(envelope, told)
            case m.ToolStart():
                yield from self._arguments(envelope, told)
            case m.ToolUpdate():
                yield from self._tool_speaks(envelope, told)
            case m.ToolEnd():
                yield from self._tool_ends(envelope, told)

    def _run_goes(self, envelope: m.RunStart | m.SubgraphResume, told: Told) -> Iterator[Event]:
        attempt = envelope.payload.attempt if isinstance(envelope, m.SubgraphResume) else 1
        if isinstance(envelope, m.RunStart) or attempt > 1:
            yield "metadata", self._spaces.root, {"run_id": envelope.run_id, "attempt": attempt}
        yield from _changed(told, START)

    def _run_ends(self, ended: RunEnded) -> Iterator[Event]:
        root = self._spaces.root
        if ended.status == "awaiting_user":
            asked = {"__interrupt__": root.values.interrupts}
            yield "updates", root, asked
            yield "values", root, root.values.snapshot() | asked
        if ended.status == "failed":
            yield "error", root, {"error": ended.code or "failed", "message": ended.reason or "the run failed"}

    def _token(self, token: m.LlmToken, told: Told, text: str) -> Iterator[Event]:
        speech, block = told.speech, told.block
        if speech is not None and block is not None:
            content = text if speech.plain else [block.content() | {block.kind: text}]
            yield self._said(token, told, speech, {"content": content})

    def _model_ends(self, end: m.LlmEnd, told: Told) -> Iterator[Event]:
        speech = told.speech
        if speech is None or not speech.blocks:
            return
        if end.payload.status == "ok":
            new = [_piece(speech, block, whole=True) for block in speech.calls() if block.index >= told.known]
            last = closing_of(end) | {"tool_call_chunks": new, "chunk_position": "last"}
            yield self._said(end, told, speech, last)
            yield from _changed(told, speech.node)
        else:
            yield from self._removed(end, told.space, speech.message_id, speech.node)
            yield "values", told.space, told.space.values.snapshot()

    def _tool_speaks(self, update: m.ToolUpdate, told: Told) -> Iterator[Event]:
        said, call = update.payload, self._spaces.open.get(update.call_id)
        if told.speech is not None and told.block is not None:
            piece = _piece(told.speech, told.block, whole=told.block.index >= told.known, text=said.text or "")
            yield self._said(update, told, told.speech, {"tool_call_chunks": [piece]})
        elif said.data is not None:
            yield "custom", told.space, said.data
        elif call is not None and call.start is not None:
            whose = {"type": "tool_output", "tool_call_id": call.start.payload.tool_call_id}
            yield "custom", told.space, {**whose, "text": said.text}

    def _arguments(self, start: m.ToolStart, told: Told) -> Iterator[Event]:
        """Of a call of which its model's end said only the name."""
        for message in (told.change or {}).get("messages", ()):
            ids = [call["id"] for call in message["tool_calls"]]
            args = msgspec.json.encode(start.payload.args).decode()
            piece = _chunk(ids.index(start.payload.tool_call_id), args)
            chunk = {"type": "AIMessageChunk", "id": message["id"], "content": "", "tool_call_chunks": [piece]}
            yield "messages-tuple", told.space, [chunk, self._about(start, told.space, MODEL)]
            yield "values", told.space, told.space.values.snapshot()

    def _tool_ends(self, end: m.ToolEnd, told: Told) -> Iterator[Event]:
        inside = self._spaces.leave(end.call_id)
        if inside is None or inside.start is None:
            return
        if inside.start.payload.retry_of is not None and told.change is not None:
            yield from self._removed(end, told.space, told.change["messages"][0]["id"], inside.node)
        yield from self._message(end, told, inside.node)

    def _message(self, envelope: m.Message | m.ToolEnd, told: Told, node: str) -> Iterator[Event]:
        """One that came as a whole, or went."""
        for message in (told.change or {}).get("messages", ()):
            if message["type"] == "remove":
                yield from self._removed(envelope, told.space, message["id"], node)
            elif message["type"] != "human" and not told.heard:
                yield "messages-tuple", told.space, [message, self._about(envelope, told.space, node)]
        yield from _changed(told, node)

    def _removed(self, envelope: m.Envelope, space: Space, message_id: str, node: str) -> Iterator[Event]:
        """For clients without values: they would go on showing it, and join what comes under its id."""
        if "values" not in self.modes:
            gone = {"type": "remove", "id": message_id, "content": ""}
            yield "messages-tuple", space, [gone, self._about(envelope, space, node)]

    def _said(self, envelope: m.Envelope, told: Told, speech: Speech, parts: Json) -> Event:
        empty: str | list[Json] = "" if speech.plain else []
        chunk = {"type": "AIMessageChunk", "id": speech.message_id, "content": empty, "tool_call_chunks": []}
        return "messages-tuple", told.space, [chunk | parts, self._about(envelope, told.space, speech.node)]

    def _about(self, envelope: m.Envelope, space: Space, node: str) -> Json:
        """What clients ask of a message: at which node it was said, inside of what, in which run, by whom."""
        return {
            "thread_id": self.session_id,
            "run_id": envelope.run_id,
            "langgraph_node": node,
            "langgraph_checkpoint_ns": "|".join(space.namespace),
            "tags": [],
            **({"lc_agent_name": envelope.agent} if envelope.agent else {}),
        }


def _changed(told: Told, node: str) -> Iterator[Event]:
    if told.change is not None:
        yield "updates", told.space, {node: told.change}
        yield "values", told.space, told.space.values.snapshot()


def _custom(envelope: m.Document | m.Log | m.Warning | m.Error, space: Space) -> Iterator[Event]:
    found = custom(envelope)
    if found is not None:
        name, data = found
        yield "custom", space, data if name is None else {"type": name, **data}


def _piece(speech: Speech, block: Block, *, whole: bool, text: str | None = None) -> Json:
    """A piece of a tool call; the first, or only one, says whose arguments they are."""
    index = speech.calls().index(block)
    given = block.text if text is None else text
    return _chunk(index, given, block.tool_call_id, block.name) if whole else _chunk(index, given)


def _chunk(index: int, args: str, tool_call_id: str | None = None, name: str | None = None) -> Json:
    return {"type": "tool_call_chunk", "index": index, "id": tool_call_id, "name": name, "args": args}


DIALECT = Dialect(name="langgraph", media_type="text/event-stream", translator=Translator, frame=named_sse)
