"""Clients of LangGraph's two streams: the SDK's own parsers and decoders, fed with the bytes that we would send."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import langchain_protocol as protocol
from langchain_core.language_models.chat_model_stream import ChatModelStream
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph_sdk.schema import StreamPart
from langgraph_sdk.sse import BytesLineDecoder, SSEDecoder
from langgraph_sdk.stream.decoders import MessagesDecoder, SubgraphsDecoder, ToolCallsDecoder
from langgraph_sdk.stream.subscription import infer_channel
from pydantic import TypeAdapter

from stellwerk.dialects.base import Dialect, translate
from stellwerk.dialects.langgraph import runs, threads
from stellwerk.envelope.model import Envelope
from tests.dialects.sample_logs import positions

Json = dict[str, Any]

_DATA: dict[str, TypeAdapter[Any]] = {
    "lifecycle": TypeAdapter(protocol.LifecycleData),
    "messages": TypeAdapter(protocol.MessagesData),
    "tools": TypeAdapter(protocol.ToolsData),
    "input.requested": TypeAdapter(protocol.InputRequestedData),
    "updates": TypeAdapter(protocol.UpdatesData),
    "checkpoints": TypeAdapter(protocol.Checkpoint),
    "custom": TypeAdapter(protocol.CustomData),
    "values": TypeAdapter(dict[str, Any]),
}
_EVENT: TypeAdapter[Any] = TypeAdapter(protocol.Event)


_KINDS: dict[str, type[BaseMessage]] = {
    "human": HumanMessage,
    "ai": AIMessage,
    "AIMessageChunk": AIMessageChunk,
    "tool": ToolMessage,
    "system": SystemMessage,
}


def message_of(given: Json) -> BaseMessage:
    return _KINDS[given["type"]](**given)


def received(dialect: Dialect, log: Sequence[Envelope]) -> list[StreamPart]:
    """What the SDK reads from the bytes of a session."""
    told = translate(dialect.translator("s1"), positions(log))
    lines, parser = BytesLineDecoder(), SSEDecoder()
    found = [
        part
        for cursor, chunk in told
        for line in lines.decode(dialect.frame(cursor, chunk))
        if (part := parser.decode(bytes(line))) is not None
    ]
    assert lines.flush() == []
    return found


@dataclass
class Hook:
    """How ``useStream`` sees a run: chunks are joined by id, and the next values replace all."""

    messages: dict[str, BaseMessage] = field(default_factory=dict)
    spoken: dict[str, BaseMessage] = field(default_factory=dict)
    """Messages as their chunks gave them, whatever values said later."""
    values: Json = field(default_factory=dict)
    error: Json | None = None

    def read(self, parts: Sequence[StreamPart], namespace: str = "") -> "Hook":
        for event, data, _ in parts:
            mode, _, space = event.partition("|")
            self.error = None if mode == "metadata" else self.error  # of another run, in a stream of its own
            assert self.error is None, "nothing comes after an error"
            told = self._message(*data) if mode == "messages" else None
            if space == namespace:
                self._take(mode, data, told)
        return self

    def _take(self, mode: str, data: Any, told: BaseMessage | None) -> None:
        if mode == "error":
            self.error = data
        elif mode == "values":
            self.values = data
            self.messages = {message["id"]: message_of(message) for message in data["messages"]}
        elif told is not None:
            self.messages[str(told.id)] = told
        elif mode == "messages":
            del self.messages[data[0]["id"]]

    def _message(self, message: Json, about: Json) -> BaseMessage | None:
        """The message as far as it is told, in whichever graph; None if it is to be removed."""
        assert {"langgraph_node", "langgraph_checkpoint_ns", "run_id"} <= about.keys()
        if message["type"] == "remove":
            self.spoken.pop(message["id"], None)
            return None
        told, before = message_of(message), self.spoken.get(message["id"])
        if isinstance(before, AIMessageChunk) and isinstance(told, AIMessageChunk):
            told = before + told
        self.spoken[message["id"]] = told
        return told


def chunks_of(hook: Hook) -> Iterator[tuple[AIMessage, AIMessage]]:
    """Every AI message as its chunks gave it, and as the last values have it."""
    for message in map(message_of, hook.values["messages"]):
        if isinstance(message, AIMessage):
            spoken = hook.spoken[str(message.id)]
            assert isinstance(spoken, AIMessage)
            yield spoken, message


@dataclass
class Tool:
    """What a client keeps of a tool call; the SDK's own handle needs an event loop."""

    tool_call_id: str
    name: str
    input: Any
    namespace: list[str]
    pieces: list[str] = field(default_factory=list)
    output: Any = None
    error: BaseException | None = None

    def _push_delta(self, delta: str) -> None:
        self.pieces.append(delta)

    def _finish(self, output: Any) -> None:
        self.output = output

    def _fail(self, error: BaseException) -> None:
        self.error = error


@dataclass
class Child:
    path: tuple[str, ...]
    graph_name: str | None
    trigger_call_id: str | None
    events: list[Any] = field(default_factory=list)

    def _push_event(self, event: Any) -> None:
        self.events.append(event)


@dataclass
class Thread:
    """A thread stream as the SDK decodes it, in one namespace."""

    events: list[Json]
    namespace: list[str] = field(default_factory=list)
    messages: list[ChatModelStream] = field(default_factory=list)
    tools: list[Tool] = field(default_factory=list)
    children: list[Child] = field(default_factory=list)

    def __post_init__(self) -> None:
        decoders: list[tuple[Any, list[Any]]] = [
            (MessagesDecoder(self.namespace, ChatModelStream), self.messages),
            (ToolCallsDecoder(self.namespace, Tool), self.tools),
            (SubgraphsDecoder(tuple(self.namespace), Child), self.children),
        ]
        for event in self.events:
            for decoder, found in decoders:
                found.extend(decoder.feed(event))

    def data(self, method: str) -> list[Any]:
        found = [e["params"] for e in self.events if e["method"] == method]
        return [params["data"] for params in found if params["namespace"] == self.namespace]


def thread_events(dialect: Dialect, log: Sequence[Envelope]) -> list[Json]:
    """Events as the SDK parses them, each checked against the protocol's types."""
    found: list[Json] = []
    for part in received(dialect, log):
        event: Json = part.data
        _EVENT.validate_python(event)
        _DATA[event["method"]].validate_python(event["params"]["data"])
        assert infer_channel(event) is not None  # type: ignore[arg-type]
        assert (part.event, part.id) == (event["method"], str(event["seq"]))
        found.append(event)
    return found


def faults(events: Sequence[Json]) -> list[str]:
    """What breaks the order of the thread protocol: all that begins ends, and the root has the first and last word."""
    wrong: list[str] = []
    begun: dict[tuple[Any, ...], str] = {}
    for event in events:
        wrong += _fault(event, begun)
    seqs = [event["seq"] for event in events]
    wrong += ["seq does not rise"] * (seqs != sorted(set(seqs)))
    wrong += ["an event_id twice"] * (len({event["event_id"] for event in events}) != len(events))
    return wrong


def _fault(event: Json, begun: dict[tuple[Any, ...], str]) -> Iterator[str]:
    data, place, method = event["params"]["data"], tuple(event["params"]["namespace"]), event["method"]
    what = data.get("event", "") if method in ("messages", "tools", "lifecycle") else ""
    if not place and what == "running":
        begun[("root",)] = what
    elif ("root",) not in begun:
        yield f"{method} {what} outside of a run"
    if method == "lifecycle" and not place and what != "running":
        begun.pop(("root",), None)
        yield from (f"{key} still open at the end" for key in begun if what != "interrupted" or key[0] == "message")
    elif method == "lifecycle" and place:
        yield from _bracket(begun, ("graph", place), what, "started", ("completed", "failed", "interrupted"))
    elif method == "tools":
        key = ("tool", place, data["tool_call_id"])
        yield from _bracket(begun, key, what, "tool-started", ("tool-finished", "tool-error"))
    elif method == "messages":
        message = ("message", place, data.get("message_id") or data["id"])
        block = ("message", "block", message, data.get("index"))
        if "block" in what:
            yield from _bracket(begun, block, what, "content-block-start", ("content-block-finish",))
        else:
            yield from _bracket(begun, message, what, "message-start", ("message-finish", "error"))


def _bracket(
    begun: dict[tuple[Any, ...], str], key: tuple[Any, ...], what: str, start: str, ends: tuple[str, ...]
) -> Iterator[str]:
    if what == start:
        if key in begun and key[0] != "tool":  # a tool that waited for its user is told anew
            yield f"{key} begins twice"
        begun[key] = what
    elif key not in begun:
        yield f"{key} {what} without its start"
    elif what in ends:
        del begun[key]


def check(log: Sequence[Envelope]) -> None:
    """Both streams are whole, and what the one shows as it comes is what its values say."""
    parts = received(runs.DIALECT, log)
    spaces = {part.event.partition("|")[2] for part in parts}
    for space in spaces:
        hook = Hook().read(parts, space)
        if not hook.values:
            continue
        assert list(hook.messages) == [message["id"] for message in hook.values["messages"]]
        for spoken, held in chunks_of(hook):
            assert (spoken.text, spoken.tool_calls) == (held.text, held.tool_calls)
    events = thread_events(threads.DIALECT, log)
    assert faults(events) == []
    assert (events[-1]["method"], events[-1]["params"]["namespace"]) == ("lifecycle", [])
