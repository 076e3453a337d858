"""LangChain's and LangGraph's objects as plain values, and parts of ``astream`` as facts.

The only module that knows their shapes.
"""

import mimetypes
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    RemoveMessage,
    ToolCall,
    ToolMessage,
    convert_to_messages,
)
from langgraph.errors import GraphBubbleUp
from langgraph.pregel import _algo
from langgraph.types import Command, Interrupt

from stellwerk.agents.runtime.conversation import DOCUMENTS, STEP, TASK
from stellwerk.agents.runtime.images import without_data
from stellwerk.agents.tools.spec import ARTIFACT_KEY
from stellwerk.ids import Clock
from stellwerk.stream import facts
from stellwerk.stream.model_calls import message_id_of
from stellwerk.views.questions import BREAKPOINT, NO, YES

# Tags of a model call.
NOSTREAM = "nostream"
"""LangGraph's own: no tokens of this call in the ``messages`` stream."""
HELD = "stellwerk_held"
"""The tokens of this call are held back; its message is shown when validation has accepted it."""
FINAL = "stellwerk_final"
"""Tool calls in the answer are ignored."""

MODES = ("custom", "updates")
_FILES = ("image", "audio", "video", "file")
"""Types of content blocks."""
MESSAGES = "messages"
_BREAKPOINT = {"question": BREAKPOINT, "options": [YES, NO], "default": YES}
ACCEPTED = "validated_agent_output"
"""The state key of a validated answer."""
_NO_ID = "placeholder-id"
_SHARED_IDS = not hasattr(_algo, "_interrupt_id")
"""Whether all questions of one node have the same id: so in LangGraph before 1.2.20."""
SCHEMA_KEY = "stellwerk_schema"
"""Where a question has the schema of its answer if LangGraph is too old to take one with an interrupt."""


def payload_of(output: Any) -> Any:
    """The recorded tool output: typed result, an MCP server's structured content, or text."""
    artifact = _artifact(output)
    if artifact.get(ARTIFACT_KEY) == 1:
        return artifact.get("result")
    if artifact.get("structured_content") is not None:
        return artifact["structured_content"]
    return getattr(output, "content", output)


def _artifact(output: Any) -> dict[str, Any]:
    found = getattr(output, "artifact", None)
    return found if isinstance(found, dict) else {}


def agent_behind(name: str, args: dict[str, Any], ours: dict[str, Any]) -> tuple[str | None, str | None]:
    """The agent behind a tool call and its completion signal; None for an ordinary tool."""
    if "agent" in ours:
        return str(ours["agent"]), ours.get("signal")
    if name == TASK and "subagent_type" in args:  # how Deep Agents calls its sub-agents
        return str(args["subagent_type"]), None
    return None, None


def step_started(
    ts: float, run: str, parent: str | None, name: str, about: Mapping[str, Any], inputs: Any
) -> facts.StepStarted:
    """The start of a chain with this name and metadata."""
    # A node is the chain that has the node's name; chains inside it carry the same metadata.
    node = name if name == about.get("langgraph_node") else None
    space = str(about.get("langgraph_checkpoint_ns", ""))
    given = graph_input_of(inputs) if space and node is None else None
    return facts.StepStarted(run, parent, node, space, name, ts, given)


def tool_started(
    ts: float, run: str, args: dict[str, Any], about: Mapping[str, Any], *, parent: str | None, **called: str
) -> facts.ToolStarted:
    """The start of a tool call: ``called`` has name and tool_call_id, ``about`` is metadata."""
    ours = about.get(ARTIFACT_KEY) or {}
    agent, signal = agent_behind(called["name"], args, ours)
    return facts.ToolStarted(
        ts=ts,
        run=run,
        parent=parent,
        namespace=str(about.get("langgraph_checkpoint_ns", "")),
        args=args,
        agent=about.get("lc_agent_name"),
        node=about.get("langgraph_node"),
        kind="tool" if agent is None else "agent",
        title=agent,
        signal=signal,
        idempotent=bool(ours.get("idempotent")),
        message_id=called["tool_call_id"] if ours.get("is_task") else None,
        **called,
    )


def as_idempotent(about: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata of a tool call, as if the tool were declared idempotent."""
    return {**about, ARTIFACT_KEY: {**(about.get(ARTIFACT_KEY) or {}), "idempotent": True}}


def tool_finished(ts: float, run: str, output: Any) -> facts.ToolFinished:
    """The end of a tool call; a tool that changes the state returns its message in a command."""
    message = output
    if isinstance(output, Command):
        found = output.update.get("messages") if isinstance(output.update, dict) else None
        given = found if isinstance(found, list) else [found]
        message = next((message for message in given if isinstance(message, ToolMessage)), "")
    artifact = _artifact(message)
    notes = artifact.get("notes", ()) if artifact.get(ARTIFACT_KEY) == 1 else ()
    failed = getattr(message, "status", None) == "error"
    return facts.ToolFinished(ts, run, payload_of(message), failed, tuple(map(str, notes)))


def model_finished(ts: float, run: str, message: AIMessage, calls: Sequence[ToolCall]) -> facts.ModelFinished:
    usage = message.usage_metadata
    return facts.ModelFinished(
        ts=ts,
        run=run,
        message_id=plain_id(message.id) or message_id_of(run),
        text=str(message.text),
        finish_reason=message.response_metadata.get("finish_reason"),
        input_tokens=usage["input_tokens"] if usage else 0,
        output_tokens=usage["output_tokens"] if usage else 0,
        tool_calls=[(call["name"], call["id"] or "", call["args"]) for call in calls],
    )


def voice_of(tags: Sequence[str]) -> facts.Voice:
    return "held" if HELD in tags else "silent" if NOSTREAM in tags else "open"


def ask_ids(error: GraphBubbleUp) -> tuple[str, ...]:
    found = error.args[0] if error.args and isinstance(error.args[0], tuple | list) else ()
    return tuple(_id_of(asked) for asked in found if isinstance(asked, Interrupt))


def _id_of(asked: Interrupt) -> str:
    """The id; nothing for ``NodeInterrupt``, to all of which LangGraph gives the same one."""
    return "" if asked.id == _NO_ID else str(asked.id)


def plain_message(message: BaseMessage) -> dict[str, Any]:
    plain: dict[str, Any] = {"role": message.type, "content": without_data(message.content)}
    calls = getattr(message, "tool_calls", None)
    return {**plain, "tool_calls": calls} if calls else plain


def graph_input_of(inputs: Any) -> Any:
    """A graph's input; of a conversation the last message, as the others are recorded already."""
    if not isinstance(inputs, dict):
        return None
    messages = inputs.get("messages")
    last = messages[-1] if isinstance(messages, list) and messages else None
    asked = {"messages": [plain_message(last)]} if isinstance(last, BaseMessage) else {}
    return {**{name: value for name, value in inputs.items() if name != "messages"}, **asked}


def text_deltas(
    blocks: str | list[str | dict[str, Any]], message: BaseMessage | None
) -> Iterator[tuple[Literal["text", "reasoning"], int, str]]:
    """Kind, block index and text of each text or reasoning delta in a chunk and its message."""
    for block in blocks if isinstance(blocks, list) else ():
        if isinstance(block, str):
            yield "text", 0, block
        elif isinstance(block.get("text"), str):
            yield "text", _index(block), block["text"]
        else:
            thought = block.get("reasoning") or block.get("thinking")
            if isinstance(thought, str):
                yield "reasoning", _index(block), thought
    beside = message.additional_kwargs.get("reasoning_content") if message is not None else None
    if beside and isinstance(beside, str):
        yield "reasoning", 0, beside


def _index(block: dict[str, Any]) -> int:
    found = block.get("index")
    return found if type(found) is int else 0


def plain_id(message_id: str | None) -> str:
    """The message id without the suffix that LangChain adds for models that do not stream."""
    given = message_id or ""
    return given.removesuffix("-0") if given.startswith("lc_run--") else given


def facts_of(part: Mapping[str, Any], clock: Clock, agent: str, key: str = MESSAGES) -> Iterator[facts.Fact]:
    """The facts in one part; AI messages that the outermost graph returned come last.

    ``key`` is where the outermost graph has its conversation.
    """
    space, data = "|".join(part["ns"]), part["data"]
    if part["type"] == "custom":
        named = data.get("tool_call_id") if isinstance(data, dict) else None
        yield facts.CustomEvent(clock.now(), space, data, named if isinstance(named, str) else None)
        return
    if "__interrupt__" in data:
        yield from _questions(space, data["__interrupt__"], clock)
    repeated = bool((data.get("__metadata__") or {}).get("cached"))
    returned: list[BaseMessage] = []
    updates = {node: data[node] for node in data if node not in ("__interrupt__", "__metadata__")}
    for node, update in updates.items():
        for change in update if isinstance(update, list) else [update]:
            if not space and key != MESSAGES and isinstance(change, Mapping) and key in change:
                change = {**{name: change[name] for name in change if name != key}, MESSAGES: change[key]}
            messages = messages_in(change.get(MESSAGES, [])) if isinstance(change, Mapping) else []
            returned += messages
            yield from _change(space, node, change, messages, clock, repeated)
    for message in returned if not space else ():
        if isinstance(message, AIMessage):
            yield _returned(message, clock, agent)
        elif isinstance(message, RemoveMessage) and not repeated:
            yield facts.MessageRemoved(plain_id(message.id))


def _questions(space: str, asked: Sequence[Interrupt], clock: Clock) -> Iterator[facts.Fact]:
    if not asked:
        yield facts.Interrupted(clock.now(), "", dict(_BREAKPOINT), None, space)
    for each in asked:
        value: Any = each.value
        schema: Any = getattr(each, "response_schema", None)
        if isinstance(value, dict) and SCHEMA_KEY in value:
            value = dict(value)
            schema = value.pop(SCHEMA_KEY)
        if hasattr(schema, "model_json_schema"):
            schema = schema.model_json_schema()
        yield facts.Interrupted(clock.now(), _id_of(each), value, schema, space)


def asked_next(fact: facts.Interrupted, answered: Collection[str]) -> facts.Interrupted:
    """The question, with an id of its own if its node asked one before that was answered just now."""
    for ask_id in answered if _SHARED_IDS else ():
        first, _, number = ask_id.partition("~")
        if first == fact.ask_id:
            return msgspec.structs.replace(fact, ask_id=f"{first}~{int(number or 1) + 1}")
    return fact


def langgraph_id(ask_id: str) -> str:
    return ask_id.partition("~")[0] if _SHARED_IDS else ask_id


def _change(
    space: str, node: str, change: Any, messages: Sequence[BaseMessage], clock: Clock, repeated: bool
) -> Iterator[facts.Fact]:
    for message in messages:
        if isinstance(message, ToolMessage) and not repeated:
            output, failed = payload_of(message), message.status == "error"
            yield facts.ToolAnswered(clock.now(), space, message.tool_call_id, output, failed)
    if isinstance(change, Mapping):
        spoken = [message for message in messages if isinstance(message, AIMessage)]
        if change.get(ACCEPTED) and spoken:
            yield facts.AnswerAccepted(clock.now(), plain_id(spoken[-1].id), str(change[ACCEPTED]))
        change = {key: value for key, value in change.items() if key != MESSAGES}
    yield facts.NodeUpdated(clock.now(), node, space, change, repeated)


def _returned(message: AIMessage, clock: Clock, agent: str) -> facts.MessageReturned:
    notes = message.response_metadata
    return facts.MessageReturned(
        clock.now(),
        plain_id(message.id),
        str(message.text),
        message.name or agent,
        bool(message.tool_calls),
        is_step=bool(notes.get(STEP)),
        documents=tuple(map(str, notes.get(DOCUMENTS) or ())),
        files=files_in(message),
    )


def files_in(message: AIMessage) -> tuple[dict[str, Any], ...]:
    """Images and other files in a message's content, in the form of a tool's result."""
    found: list[dict[str, Any]] = []
    for block in message.content_blocks if isinstance(message.content, list) else ():
        if block["type"] in _FILES and isinstance(data := block.get("base64"), str):
            mime = str(block.get("mime_type") or "")
            extension = mimetypes.guess_extension(mime) or ""
            found.append({"kind": "file_ref", "bytes_b64": data, "mime": mime, "filename": block["type"] + extension})
    return tuple(found)


def messages_in(found: Any) -> list[BaseMessage]:
    """Messages in any form a node may return; LangGraph converts them when it applies them."""
    given = found if isinstance(found, list) else [found]
    try:
        return convert_to_messages(given)
    except (ValueError, NotImplementedError):  # the state key may hold something else
        return [message for message in given if isinstance(message, BaseMessage)]
