"""What recorded messages, commands and errors of the framework hold: plain dictionaries, known by their shape.

The live source reads the same things from the framework's own objects. Nothing
here is sure of its shape: what does not look as expected is taken as nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from stellwerk.stream.facts import ModelDone, ModelWrote, Voice

OURS = "stellwerk"
"""The key of what our own tools say about themselves and their results."""
HELD, NOSTREAM = "stellwerk_held", "nostream"
ACCEPTED = "validated_agent_output"
STEP, DOCUMENTS = "stellwerk_step", "stellwerk_documents"
_COMMAND = {"graph", "update", "resume", "goto"}
_ROLES = {"assistant": "ai", "user": "human"}
_PARAMS = {"ls_temperature": "temperature", "ls_max_tokens": "max_tokens", "ls_stop": "stop"}

Item = Mapping[str, Any]


def table(value: Any) -> Item:
    return value if isinstance(value, Mapping) else {}


def rows(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else () if value is None else (value,)


def number(value: Any) -> int:
    return value if isinstance(value, int) else 0


def time_of(item: Item) -> float:
    found = item.get("ts")
    return float(found) if isinstance(found, int | float) else 0.0


def text_of(message: Item) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "".join(text for kind, _, text in spoken_in(message) if kind == "text")


def spoken_in(message: Item) -> Iterator[tuple[Literal["text", "reasoning"], int, str]]:
    """Kind, block and text of what a model said, or thought beside it."""
    content = message.get("content")
    for block in rows(content):
        if isinstance(block, str):
            yield "text", 0, block
        elif isinstance(table(block).get("text"), str):
            yield "text", _index(block), block["text"]
        elif isinstance(thought := table(block).get("reasoning") or table(block).get("thinking"), str):
            yield "reasoning", _index(block), thought
    beside = table(message.get("additional_kwargs")).get("reasoning_content")
    if isinstance(beside, str):
        yield "reasoning", 0, beside


def written_in(ts: float, run: str, message: Item) -> Iterator[ModelWrote]:
    """Pieces of tool calls that a model is writing."""
    for piece in map(table, rows(message.get("tool_call_chunks"))):
        index, id_, name = piece.get("index"), piece.get("id"), piece.get("name")
        known = {"tool_call_id": str(id_) if id_ else None, "name": str(name) if name else None}
        yield ModelWrote(
            ts, run, index if isinstance(index, int | str) else None, str(piece.get("args") or ""), **known
        )


def _index(block: Item) -> int:
    found = block.get("index")
    return found if isinstance(found, int) else 0


def calls_of(value: Any) -> list[tuple[str, str, Any]]:
    """(name, tool_call_id, arguments) of tool calls."""
    return [
        (str(call.get("name") or ""), str(call.get("id") or ""), call.get("args") or {})
        for call in map(table, rows(value))
        if call.get("name")
    ]


def calls_given(task: Any) -> list[tuple[str, str, Any]]:
    """The tool calls that a step of a graph was begun with: by themselves, with their context, or in a state."""
    if isinstance(task, list | tuple):
        return calls_of(task)
    if "tool_call" in table(task):
        return calls_of(task["tool_call"])
    return next((found for m in reversed(messages_in(task)) if (found := calls_of(m.get("tool_calls")))), [])


def messages_in(change: Any) -> list[Item]:
    """Messages in the forms in which a node may return them."""
    return [found for found in map(_message, rows(table(change).get("messages"))) if found]


def _message(given: Any) -> Item:
    if isinstance(given, list | tuple) and len(given) == 2:
        role, content = given
        return {"type": _ROLES.get(str(role), role), "content": content}
    found = table(given)
    return {"type": _ROLES.get(str(found["role"]), found["role"]), **found} if "role" in found else found


def given_to(state: Any) -> Any:
    """What a graph was given; of a conversation the last message, for the others are known."""
    last = messages_in(state)[-1:]
    asked = {"messages": [_plain(message) for message in last]} if last else {}
    return {**{k: v for k, v in state.items() if k != "messages"}, **asked} if isinstance(state, Mapping) else None


def _plain(message: Item) -> dict[str, Any]:
    told = {"role": message.get("type"), "content": message.get("content")}
    return {**told, "tool_calls": message["tool_calls"]} if message.get("tool_calls") else told


def plain_id(message: Item) -> str:
    """LangChain marks the message of a model that does not stream by a suffix; it is the same message."""
    given = str(message.get("id") or "")
    return given.removesuffix("-0") if given.startswith("lc_run--") else given


def answer_in(output: Any) -> Any:
    """The message in which a tool answers; one that changes the state has it inside its command."""
    if not is_command(output):
        return output
    return next((m for m in messages_in(output["update"]) if m.get("type") == "tool"), "")


def is_command(value: Any) -> bool:
    return isinstance(value, Mapping) and value.keys() >= _COMMAND


def changes_in(output: Any) -> Iterator[Any]:
    """The changes of its state that a node returned, one by one."""
    for change in output if isinstance(output, list) else [output]:
        yield change["update"] if is_command(change) else change


def payload_of(answer: Any) -> Any:
    """What is worth keeping of a tool's output: the typed result, what an MCP server structured, or its text."""
    artifact = table(table(answer).get("artifact"))
    if artifact.get(OURS) == 1:
        return artifact.get("result")
    if artifact.get("structured_content") is not None:
        return artifact["structured_content"]
    return answer["content"] if "content" in table(answer) else answer


def notes_of(answer: Any) -> tuple[str, ...]:
    artifact = table(table(answer).get("artifact"))
    return tuple(map(str, rows(artifact.get("notes")))) if artifact.get(OURS) == 1 else ()


def failed(answer: Any) -> bool:
    return table(answer).get("status") == "error"


def agent_behind(name: str, args: Any, ours: Item) -> tuple[str | None, str | None]:
    """The agent that a tool stands for, and the signal by which it ends; None if it is only a tool."""
    if "agent" in ours:
        return str(ours["agent"]), ours.get("signal")
    if name == "task" and "subagent_type" in table(args):  # how Deep Agents calls its sub-agents
        return str(args["subagent_type"]), None
    return None, None


def voice_of(tags: Any) -> Voice:
    return "held" if HELD in rows(tags) else "silent" if NOSTREAM in rows(tags) else "open"


def params_of(metadata: Item) -> dict[str, Any]:
    return {name: metadata[key] for key, name in _PARAMS.items() if metadata.get(key) is not None}


def finish_of(message: Item) -> str | None:
    found = table(message.get("response_metadata")).get("finish_reason")
    return found if isinstance(found, str) else None


def ask_ids(interrupts: Any) -> tuple[str, ...]:
    return tuple(str(asked["id"]) for asked in map(table, rows(interrupts)) if "id" in asked)


def done(ts: float, run: str, message: Item) -> ModelDone:
    """The end of a model call, from the whole message that it gave."""
    usage = table(message.get("usage_metadata"))
    return ModelDone(
        ts=ts,
        run=run,
        message_id=plain_id(message) or f"lc_run--{run}",
        text=text_of(message),
        finish_reason=finish_of(message),
        input_tokens=number(usage.get("input_tokens")),
        output_tokens=number(usage.get("output_tokens")),
        tool_calls=calls_of(message.get("tool_calls")),
    )
