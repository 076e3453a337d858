"""What the readers of ``astream_events`` and of ``astream`` share.

Recordings hold plain JSON (``plain``). Its messages become LangChain's own again, so the functions
that read a live run also read a recording. A value of an unexpected shape is taken as absent.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any, TypeGuard

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, messages_from_dict
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command

from stellwerk.agents.runtime import shapes
from stellwerk.envelope.to_json import canonical
from stellwerk.stream import facts as f

_COMMAND = {"graph", "update", "resume", "goto"}
_PARAMS = {"ls_temperature": "temperature", "ls_max_tokens": "max_tokens", "ls_stop": "stop"}

Item = Mapping[str, Any]


def plain(value: Any) -> Any:
    """Turn the framework's objects into JSON: messages, commands, interrupts, errors by fields."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, BaseMessage):
        fields = value.model_dump()
        empty = [name for name in fields if name != "content" and fields[name] in (None, "", [], {})]
        return {name: plain(field) for name, field in fields.items() if name not in empty}
    if isinstance(value, GraphBubbleUp):
        return {"class": type(value).__name__, "interrupts": plain(value.args[0] if value.args else ())}
    if isinstance(value, BaseException):
        return {"class": type(value).__name__, "message": str(value)}
    if is_dataclass(value) and type(value).__module__.startswith("langgraph."):
        return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
    return canonical(value).value


def table(value: Any) -> Item:
    return value if isinstance(value, Mapping) else {}


def rows(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else () if value is None else (value,)


def message_from(recorded: Any) -> Any:
    """LangChain's message of a recorded one; any other value as it is."""
    if not isinstance(recorded, Mapping) or "type" not in recorded:
        return recorded
    try:
        return messages_from_dict([{"type": recorded["type"], "data": {"content": "", **recorded}}])[0]
    except ValueError:  # not a message
        return recorded


def messages_of(state: Any) -> list[BaseMessage]:
    """The messages in a recorded state or in a change of one."""
    return shapes.messages_in([message_from(each) for each in rows(table(state).get("messages"))])


def with_messages(state: Any) -> Any:
    """A recorded state, or a change of one, in which messages are LangChain's."""
    return {**state, "messages": messages_of(state)} if "messages" in table(state) else state


def requested_calls(given: Any) -> list[tuple[str, str]]:
    """Name and id of the tool calls in a step's input: alone, with their context, or in a state."""
    calls = given if isinstance(given, list) else rows(table(given).get("tool_call"))
    if not calls:
        for message in messages_of(given):
            calls = getattr(message, "tool_calls", None) or calls
    return [(str(call.get("name") or ""), str(call.get("id") or "")) for call in map(table, calls)]


def output_of(values: Any) -> Any:
    """The output of a graph without messages; None if it has some."""
    return None if not isinstance(values, dict) or rows(values.get("messages")) else values


def ask_ids(interrupts: Any) -> tuple[str, ...]:
    return tuple(str(asked["id"]) for asked in map(table, rows(interrupts)) if "id" in asked)


def is_command(value: Any) -> TypeGuard[Item]:
    return table(value).keys() >= _COMMAND


class StreamReader:
    """Reads one run, item by item. ``agent`` names the outermost agent."""

    def __init__(self, agent: str) -> None:
        self.ts = 0.0
        """The time of the item that is being read."""
        self._agent = agent
        self._spoken: set[str] = set()
        """Messages of model calls."""
        self._known: set[str] = set()
        """Messages in the outermost graph's state before; a node that returns them adds nothing."""

    def feed(self, item: Item) -> Iterator[f.Fact]:
        self.ts = float(item.get("ts", 0.0))
        return self._read(item)

    def finish(self) -> Iterator[f.Fact]:
        """Read what only the end of the stream decides."""
        return iter(())

    def now(self) -> float:
        """A reader is the clock of the functions that read live streams."""
        return self.ts

    steady = now

    def _read(self, item: Item) -> Iterator[f.Fact]:
        raise NotImplementedError

    def _unknown(self, kind: str) -> f.Warned:
        return f.Warned(self.ts, code="unknown_event", message=f"not understood: {kind}")

    def _know(self, state: Any) -> None:
        """Note the messages that the state holds from now on."""
        self._known |= {shapes.plain_id(message.id) for message in messages_of(state) if message.id}

    def _updates(self, space: str, data: Item) -> Iterator[f.Fact]:
        """Read the updates of a graph, by node, without its interrupts."""
        updates: dict[str, Any] = {"__metadata__": data.get("__metadata__")}
        for node, update in data.items():
            if not node.startswith("__"):
                changes = update if isinstance(update, list) else [update]
                updates[node] = [with_messages(change) for change in changes]
        part = {"type": "updates", "ns": [space] if space else [], "data": updates}
        for fact in shapes.facts_of(part, self, self._agent):
            if isinstance(fact, f.MessageReturned) and fact.message_id in self._known - self._spoken:
                continue
            yield fact

    def _deltas(self, run: str, message: AIMessageChunk) -> Iterator[f.ModelToken | f.ToolArgsDelta]:
        """Yield the tokens of a chunk, and the pieces of tool calls being written."""
        if isinstance(message.content, str) and message.content:
            yield f.ModelToken(self.ts, run, message.content)
        for kind, block, text in shapes.text_deltas(message.content, message):
            yield f.ModelToken(self.ts, run, text, kind, block)
        for piece in message.tool_call_chunks:
            args, tool_call_id, name = piece["args"] or "", piece["id"] or None, piece["name"] or None
            yield f.ToolArgsDelta(self.ts, run, piece["index"], args, tool_call_id, name)

    def _model_started(
        self, run: str, parent: str | None, model: Any, about: Item, voice: f.Voice = "open"
    ) -> f.ModelStarted:
        agent, node = about.get("lc_agent_name"), about.get("langgraph_node")
        params = {name: about[key] for key, name in _PARAMS.items() if about.get(key) is not None}
        return f.ModelStarted(self.ts, run, parent, str(model or "unknown"), agent, node, params, voice)

    def _model_finished(self, run: str, message: AIMessage) -> f.ModelFinished:
        finished = shapes.model_finished(self.ts, run, message, message.tool_calls)
        self._spoken.add(finished.message_id)
        return finished

    def _tool_finished(self, run: str, output: Any) -> f.ToolFinished:
        result = message_from(output)
        if is_command(output):
            result = Command(update={"messages": messages_of(output["update"])})
        return shapes.tool_finished(self.ts, run, result)
