"""LangGraph's runs/stream protocol of ``client.runs.stream`` and ``useStream``, in their modes.

An SSE event is named by its mode and the namespace of its graph. Clients join
the chunks of a message by its id, and the next ``values`` replaces everything:
so ``values`` without the text takes back an abandoned model call, and a message
of type ``remove`` does so for clients without ``values``. Feed it the whole
session, as ``values`` holds the whole conversation; a client of one run reads
that run's part.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, assert_never

from stellwerk.dialects.base import Chunk, Dialect, named_sse
from stellwerk.dialects.langgraph.namespaces import MODEL, START, Effect, Namespace, Namespaces, custom, node_of
from stellwerk.envelope import model as m
from stellwerk.envelope.payloads import RunEnded
from stellwerk.views.values import Block, DraftMessage, Json, closing_of

Mode = Literal["values", "updates", "messages-tuple", "custom"]
MODES: frozenset[Mode] = frozenset({"values", "updates", "messages-tuple", "custom"})
"""The modes that exist; any other mode of a client stays empty."""

Event = tuple[str, Namespace, Any]
_ALWAYS = {"metadata", "error"}


@dataclass
class RunsTranslator:
    session_id: str
    modes: frozenset[Mode] = MODES
    subgraphs: bool = True
    """Include the events inside agents and graphs."""
    _namespaces: Namespaces = field(default_factory=Namespaces)

    def feed(self, position: int, envelope: m.Envelope) -> Iterator[Chunk]:
        for mode, namespace, data in self._events(envelope, self._namespaces.feed(envelope)):
            if (mode in _ALWAYS or mode in self.modes) and (self.subgraphs or not namespace.path):
                yield {"event": "|".join((mode.removesuffix("-tuple"), *namespace.path)), "data": data}

    def _events(self, envelope: m.Envelope, effect: Effect) -> Iterator[Event]:
        match envelope:
            case m.RunStart() | m.SubgraphResume():
                yield from self._run_goes(envelope, effect)
            case m.RunEnd(payload=ended):
                yield from self._run_ends(ended)
            case m.LlmToken() | m.LlmEnd() | m.ToolUpdate() | m.ToolEnd():
                yield from self._call(envelope, effect)
            case m.Message(payload=said):
                yield from self._message(envelope, effect, START if said.role == "user" else said.author or MODEL)
            case m.State() | m.Update():
                yield from _changed(effect, node_of(envelope))
            case m.Document() | m.Log() | m.Warning() | m.Error():
                yield from _custom(envelope, effect.namespace)
            case m.LlmStart() | m.ToolStart() | m.SubgraphCheckpoint() | m.StopRequest():
                pass  # no output yet
            case m.AskUser() | m.UserAnswer():
                pass  # all questions are sent together when the run ends
            case _:
                assert_never(envelope)

    def _call(
        self,
        envelope: m.LlmToken | m.LlmEnd | m.ToolUpdate | m.ToolEnd,
        effect: Effect,
    ) -> Iterator[Event]:
        match envelope:
            case m.LlmToken(payload=token):
                yield from self._token(envelope, effect, token.text)
            case m.LlmEnd():
                yield from self._model_ends(envelope, effect)
            case m.ToolUpdate():
                yield from self._tool_update(envelope, effect)
            case m.ToolEnd():
                yield from self._tool_ends(envelope, effect)

    def _run_goes(self, envelope: m.RunStart | m.SubgraphResume, effect: Effect) -> Iterator[Event]:
        attempt = envelope.payload.attempt if isinstance(envelope, m.SubgraphResume) else 1
        if isinstance(envelope, m.RunStart) or attempt > 1:
            yield "metadata", self._namespaces.root, {"run_id": envelope.run_id, "attempt": attempt}
        yield from _changed(effect, START)

    def _run_ends(self, ended: RunEnded) -> Iterator[Event]:
        root = self._namespaces.root
        if ended.status == "awaiting_user":
            asked = {"__interrupt__": root.values.interrupts}
            yield "updates", root, asked
            yield "values", root, root.values.snapshot() | asked
        if ended.status == "failed":
            yield "error", root, {"error": ended.code or "failed", "message": ended.reason or "the run failed"}

    def _token(self, token: m.LlmToken, effect: Effect, text: str) -> Iterator[Event]:
        draft, block = effect.draft, effect.block
        if draft is not None and block is not None:
            content = text if draft.plain else [block.content() | {block.kind: text}]
            yield self._said(token, effect, draft, {"content": content})

    def _model_ends(self, end: m.LlmEnd, effect: Effect) -> Iterator[Event]:
        draft = effect.draft
        if draft is None or not draft.blocks:
            return
        if end.payload.status == "ok":
            new = [_piece(draft, block, whole=True) for block in draft.calls() if block.index >= effect.known]
            last = closing_of(end) | {"tool_call_chunks": new, "chunk_position": "last"}
            yield self._said(end, effect, draft, last)
            yield from _changed(effect, draft.node)
        else:
            yield from self._removed(end, effect.namespace, draft.message_id, draft.node)
            yield "values", effect.namespace, effect.namespace.values.snapshot()

    def _tool_update(self, update: m.ToolUpdate, effect: Effect) -> Iterator[Event]:
        said, call = update.payload, self._namespaces.open.get(update.call_id)
        if effect.draft is not None and effect.block is not None:
            piece = _piece(effect.draft, effect.block, whole=effect.block.index >= effect.known, text=said.text or "")
            yield self._said(update, effect, effect.draft, {"tool_call_chunks": [piece]})
        elif said.data is not None:
            yield "custom", effect.namespace, said.data
        elif call is not None and call.start is not None:
            whose = {"type": "tool_output", "tool_call_id": call.start.payload.tool_call_id}
            yield "custom", effect.namespace, {**whose, "text": said.text}

    def _tool_ends(self, end: m.ToolEnd, effect: Effect) -> Iterator[Event]:
        inside = self._namespaces.leave(end.call_id)
        if inside is None or inside.start is None:
            return
        if inside.start.payload.retry_of is not None and effect.change is not None:
            yield from self._removed(end, effect.namespace, effect.change["messages"][0]["id"], inside.node)
        yield from self._message(end, effect, inside.node)

    def _message(self, envelope: m.Message | m.ToolEnd, effect: Effect, node: str) -> Iterator[Event]:
        """Send a whole message, or its removal."""
        for message in (effect.change or {}).get("messages", ()):
            if message["type"] == "remove":
                yield from self._removed(envelope, effect.namespace, message["id"], node)
            elif message["type"] != "human" and not effect.streamed:
                yield "messages-tuple", effect.namespace, [message, self._about(envelope, effect.namespace, node)]
        yield from _changed(effect, node)

    def _removed(
        self,
        envelope: m.Envelope,
        namespace: Namespace,
        message_id: str,
        node: str,
    ) -> Iterator[Event]:
        """Remove a message for clients without values: they would join the next of its id to it."""
        if "values" not in self.modes:
            gone = {"type": "remove", "id": message_id, "content": ""}
            yield "messages-tuple", namespace, [gone, self._about(envelope, namespace, node)]

    def _said(self, envelope: m.Envelope, effect: Effect, draft: DraftMessage, parts: Json) -> Event:
        empty: str | list[Json] = "" if draft.plain else []
        chunk = {"type": "AIMessageChunk", "id": draft.message_id, "content": empty, "tool_call_chunks": []}
        return "messages-tuple", effect.namespace, [chunk | parts, self._about(envelope, effect.namespace, draft.node)]

    def _about(self, envelope: m.Envelope, namespace: Namespace, node: str) -> Json:
        """Return the metadata of a message: node, namespace, run and agent."""
        return {
            "thread_id": self.session_id,
            "run_id": envelope.run_id,
            "langgraph_node": node,
            "langgraph_checkpoint_ns": "|".join(namespace.path),
            "tags": [],
            **({"lc_agent_name": envelope.agent} if envelope.agent else {}),
        }


def _changed(effect: Effect, node: str) -> Iterator[Event]:
    if effect.change is not None:
        yield "updates", effect.namespace, {node: effect.change}
        yield "values", effect.namespace, effect.namespace.values.snapshot()


def _custom(envelope: m.Document | m.Log | m.Warning | m.Error, namespace: Namespace) -> Iterator[Event]:
    found = custom(envelope)
    if found is not None:
        name, data = found
        yield "custom", namespace, data if name is None else {"type": name, **data}


def _piece(draft: DraftMessage, block: Block, *, whole: bool, text: str | None = None) -> Json:
    """Return a piece of a tool call; the first, or only one, has name and id."""
    index = draft.calls().index(block)
    given = block.text if text is None else text
    return _chunk(index, given, block.tool_call_id, block.name) if whole else _chunk(index, given)


def _chunk(index: int, args: str, tool_call_id: str | None = None, name: str | None = None) -> Json:
    return {"type": "tool_call_chunk", "index": index, "id": tool_call_id, "name": name, "args": args}


DIALECT = Dialect(name="langgraph", media_type="text/event-stream", translator=RunsTranslator, frame=named_sse)
