"""LangChain's and LangGraph's objects as plain values, and parts of ``astream`` as facts.

The only module that knows their shapes.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage, convert_to_messages
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command, Interrupt

from stellwerk.agents.runtime.conversation import DOCUMENTS, STEP, TASK
from stellwerk.agents.runtime.images import without_data
from stellwerk.agents.tools.registry import ARTIFACT_KEY
from stellwerk.ids import Clock
from stellwerk.stream import facts
from stellwerk.stream.facts import Fact, Voice
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
_BREAKPOINT = {"question": BREAKPOINT, "options": [YES, NO], "default": YES}
ACCEPTED = "validated_agent_output"
"""The state key of a validated answer."""


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


def voice_of(tags: Sequence[str]) -> Voice:
    return "held" if HELD in tags else "silent" if NOSTREAM in tags else "open"


def ask_ids(error: GraphBubbleUp) -> tuple[str, ...]:
    found = error.args[0] if error.args and isinstance(error.args[0], tuple | list) else ()
    return tuple(str(asked.id) for asked in found if isinstance(asked, Interrupt))


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


def facts_of(part: Mapping[str, Any], clock: Clock, agent: str) -> Iterator[Fact]:
    """The facts in one part; AI messages that the outermost graph returned come last."""
    space, data = "|".join(part["ns"]), part["data"]
    match part["type"]:
        case "custom":
            named = data.get("tool_call_id") if isinstance(data, dict) else None
            yield facts.CustomEvent(clock.now(), space, data, named if isinstance(named, str) else None)
        case "updates":
            yield from _updates(space, data, clock)
            if not space:
                yield from _returned_messages(data, clock, agent)


def _updates(space: str, data: Mapping[str, Any], clock: Clock) -> Iterator[Fact]:
    repeated = bool((data.get("__metadata__") or {}).get("cached"))
    for node, update in data.items():
        if node == "__interrupt__":
            if not update:
                yield facts.Interrupted(clock.now(), "", dict(_BREAKPOINT), None, space)
            for asked in update:
                yield facts.Interrupted(clock.now(), str(asked.id), asked.value, _schema(asked.response_schema), space)
        elif node != "__metadata__":
            for change in update if isinstance(update, list) else [update]:
                yield from _change(space, node, change, clock, repeated)


def _change(space: str, node: str, change: Any, clock: Clock, repeated: bool) -> Iterator[Fact]:
    for message in _messages(change):
        if isinstance(message, ToolMessage) and not repeated:
            failed = message.status == "error"
            yield facts.ToolAnswered(clock.now(), space, message.tool_call_id, payload_of(message), failed)
    if isinstance(change, Mapping) and change.get(ACCEPTED):
        spoken = [m for m in _messages(change) if isinstance(m, AIMessage)]
        if spoken:
            yield facts.AnswerAccepted(clock.now(), plain_id(spoken[-1].id), str(change[ACCEPTED]))
    if isinstance(change, Mapping):
        change = {key: value for key, value in change.items() if key != "messages"}
    yield facts.NodeUpdated(clock.now(), node, space, change, repeated)


def _returned_messages(data: Mapping[str, Any], clock: Clock, agent: str) -> Iterator[facts.MessageReturned]:
    """AI messages in the updates, whether or not a model call produced them."""
    updates = [update for node, update in data.items() if not node.startswith("__")]
    changes = [change for update in updates for change in (update if isinstance(update, list) else [update])]
    for message in (message for change in changes for message in _messages(change)):
        if isinstance(message, AIMessage):
            notes = message.response_metadata
            yield facts.MessageReturned(
                clock.now(),
                plain_id(message.id),
                str(message.text),
                message.name or agent,
                bool(message.tool_calls),
                is_step=bool(notes.get(STEP)),
                documents=tuple(map(str, notes.get(DOCUMENTS) or ())),
            )


def _messages(change: Any) -> list[BaseMessage]:
    return messages_in(change.get("messages", [])) if isinstance(change, Mapping) else []


def messages_in(found: Any) -> list[BaseMessage]:
    """Messages in any form a node may return; LangGraph converts them when it applies them."""
    given = found if isinstance(found, list) else [found]
    try:
        return convert_to_messages(given)
    except (ValueError, NotImplementedError):  # the state key may hold something else
        return [message for message in given if isinstance(message, BaseMessage)]


def _schema(given: Any) -> Any:
    """The JSON Schema of a schema or a pydantic model."""
    return given.model_json_schema() if hasattr(given, "model_json_schema") else given
