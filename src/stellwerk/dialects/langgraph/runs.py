"""LangGraph's runs/stream protocol of ``client.runs.stream`` and ``useStream``, in their modes.

An SSE event is named by its mode and the namespace of its graph. Clients join
the chunks of a message by its id, and the next ``values`` replaces everything:
so ``values`` without the text takes back an abandoned model call. It is fed from
the start of a trace and recalls what was before, as ``values`` holds the whole
conversation; a client of one run reads that run's part. The modes events, debug,
tasks and checkpoints have no events.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, assert_never

from stellwerk.dialects.base import Chunk, Dialect, named_sse
from stellwerk.dialects.langgraph.namespaces import RECALLED, Effect, Namespace, Namespaces
from stellwerk.envelope import model as m
from stellwerk.envelope.payloads import RunEnded, ToolUpdated
from stellwerk.views.values import Block, DraftMessage, Json, Values, closing_of

Event = tuple[str, Namespace, Any]
ALL_MODES = frozenset({"values", "updates", "messages-tuple", "custom"})
_MODES = {"values": "values", "updates": "updates", "messages": "messages-tuple", "custom": "custom"}
"""The mode that an event belongs to; the others are sent in every mode."""


@dataclass(frozen=True, slots=True)
class RunsOptions:
    modes: frozenset[str] = ALL_MODES
    subgraphs: bool = True
    agents: frozenset[str] = frozenset()
    """Names of sub-agents that are called by their own names."""
    thread_id: str | None = None
    """The name by which the client knows the session."""


@dataclass
class RunsTranslator:
    session_id: str
    options: RunsOptions = RunsOptions()
    _namespaces: Namespaces = field(init=False)
    _whole: dict[str, Json] = field(default_factory=dict)
    """In the mode ``messages``: open messages as far as they were sent."""

    def __post_init__(self) -> None:
        self._namespaces = Namespaces(Namespace(values=Values(agents=self.options.agents)))

    def recall(self, envelope: m.Envelope) -> None:
        self._namespaces.recall(envelope)

    def feed(self, position: int, envelope: m.Envelope) -> Iterator[Chunk]:
        effect = self._namespaces.feed(envelope)
        for name, namespace, data in self._events(envelope, effect):
            if namespace.path and not self.options.subgraphs:
                continue
            for shown, content in self._in_modes(name, data, effect):
                yield {"event": "|".join((shown, *namespace.path)), "data": content}

    def _in_modes(self, name: str, data: Any, effect: Effect) -> Iterator[tuple[str, Any]]:
        mode, modes = _MODES.get(name), self.options.modes
        if mode is None or mode in modes:
            yield name, data
        elif name == "messages" and "messages" in modes:
            message, metadata = data
            yield from self._so_far(message, metadata, effect)

    def _so_far(self, message: Json, metadata: Json, effect: Effect) -> Iterator[tuple[str, Any]]:
        """Send whole messages in place of their chunks: partial ones, and then the complete one."""
        message_id, draft = message["id"], effect.draft
        if message_id not in self._whole:
            self._whole[message_id] = message
            yield "messages/metadata", {message_id: {"metadata": metadata}}
        if draft is None or "chunk_position" in message:
            known = effect.change["messages"][0] if effect.change else message
            self._whole.pop(message_id)
            yield "messages/complete", [known]
        else:
            calls = [draft.called(call) for call in draft.calls()]
            yield (
                "messages/partial",
                [{"type": "ai", "id": message_id, "content": draft.content(), "tool_calls": calls}],
            )

    def _events(self, envelope: m.Envelope, effect: Effect) -> Iterator[Event]:
        match envelope:
            case m.RunStart() | m.SubgraphResume():
                yield from self._run_goes(envelope, effect)
            case m.RunEnd(payload=ended):
                yield from _changed(effect)
                yield from self._run_ends(ended)
            case m.LlmToken(payload=token):
                yield from self._token(effect, token.text)
            case m.LlmEnd():
                yield from self._model_ends(envelope, effect)
            case m.ToolUpdate(payload=update):
                yield from self._tool_update(update, effect)
            case m.Message() | m.ToolEnd():
                yield from self._message(effect)
            case m.State() | m.Update():
                yield from _changed(effect)
            case m.Document() | m.Log() | m.Warning() | m.Error():
                yield from _custom(effect)
            case m.LlmStart() | m.ToolStart() | m.SubgraphCheckpoint() | m.StopRequest() | m.AskUser() | m.UserAnswer():
                pass  # no output yet; all questions are sent together when the run ends
            case _:
                assert_never(envelope)

    def _run_goes(self, envelope: m.RunStart | m.SubgraphResume, effect: Effect) -> Iterator[Event]:
        attempt = envelope.payload.attempt if isinstance(envelope, m.SubgraphResume) else 1
        if isinstance(envelope, m.RunStart) or attempt > 1:
            yield "metadata", self._namespaces.root, {"run_id": envelope.run_id, "attempt": attempt}
        yield from _changed(effect)

    def _run_ends(self, ended: RunEnded) -> Iterator[Event]:
        root = self._namespaces.root
        if ended.status == "awaiting_user":
            asked = {"__interrupt__": root.values.interrupts}
            yield "updates", root, asked
            yield "values", root, root.values.snapshot() | asked
        if ended.status == "failed":
            yield "error", root, {"error": ended.code or "failed", "message": ended.reason or "the run failed"}

    def _token(self, effect: Effect, text: str) -> Iterator[Event]:
        draft, block = effect.draft, effect.block
        if draft is not None and block is not None:
            content = text if draft.plain else [block.content() | {block.kind: text}]
            yield self._piece(effect, draft, {"content": content})

    def _model_ends(self, end: m.LlmEnd, effect: Effect) -> Iterator[Event]:
        draft = effect.draft
        if draft is None or not draft.blocks:
            return
        if end.payload.status == "ok":
            calls = draft.calls()
            new = [_call_chunk(draft, call, call.text, first=True) for call in calls if call.index >= effect.known]
            yield self._piece(effect, draft, closing_of(end) | {"tool_call_chunks": new, "chunk_position": "last"})
            yield from _changed(effect)
        else:
            yield "values", effect.namespace, effect.namespace.values.snapshot()

    def _tool_update(self, update: ToolUpdated, effect: Effect) -> Iterator[Event]:
        draft, block = effect.draft, effect.block
        if draft is not None and block is not None:
            chunk = _call_chunk(draft, block, update.text or "", first=block.index >= effect.known)
            yield self._piece(effect, draft, {"tool_call_chunks": [chunk]})
        elif update.data is not None:
            yield "custom", effect.namespace, update.data
        elif effect.call is not None:
            whose = {"type": "tool_output", "tool_call_id": effect.call.called.tool_call_id}
            yield "custom", effect.namespace, {**whose, "text": update.text}

    def _message(self, effect: Effect) -> Iterator[Event]:
        for message in (effect.change or {}).get("messages", ()):
            if message["type"] not in ("human", "remove") and not effect.streamed:
                yield "messages", effect.namespace, [message, self._metadata(effect)]
        yield from _changed(effect)

    def _piece(self, effect: Effect, draft: DraftMessage, parts: Json) -> Event:
        empty: str | list[Json] = "" if draft.plain else []
        chunk = {"type": "AIMessageChunk", "id": draft.message_id, "content": empty, "tool_call_chunks": []}
        return "messages", effect.namespace, [chunk | parts, self._metadata(effect)]

    def _metadata(self, effect: Effect) -> Json:
        envelope = effect.envelope
        return {
            "thread_id": self.options.thread_id or self.session_id,
            "run_id": envelope.run_id,
            "langgraph_node": effect.node,
            "langgraph_checkpoint_ns": "|".join(effect.namespace.path),
            "tags": [],
            **({"lc_agent_name": envelope.agent} if envelope.agent else {}),
        }


def _changed(effect: Effect) -> Iterator[Event]:
    if effect.change is not None:
        yield "updates", effect.namespace, {effect.node: effect.change}
        yield "values", effect.namespace, effect.namespace.values.snapshot()


def _custom(effect: Effect) -> Iterator[Event]:
    found = effect.custom()
    if found is not None:
        name, data = found
        yield "custom", effect.namespace, data if name is None else {"type": name, **data}


def _call_chunk(draft: DraftMessage, block: Block, args: str, *, first: bool) -> Json:
    """Return a piece of a tool call; the first, or only one, has name and id."""
    return {
        "type": "tool_call_chunk",
        "index": draft.calls().index(block),
        "id": block.tool_call_id if first else None,
        "name": block.name if first else None,
        "args": args,
    }


DIALECT = Dialect(
    "langgraph",
    "text/event-stream",
    RunsTranslator,
    named_sse,
    memory="trace",
    recalls=RECALLED,
    options=RunsOptions(),
)
