"""What LangChain's and LangGraph's objects hold, in plain values: the only place that knows their shapes."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from langchain_core.messages import BaseMessage, ToolCallChunk, ToolMessage
from langchain_core.outputs import ChatGenerationChunk, GenerationChunk
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command, Interrupt

from stellwerk.agents.images import without_data
from stellwerk.agents.middleware.validation import HELD, NOSTREAM
from stellwerk.agents.tools import ARTIFACT_KEY
from stellwerk.stream.facts import Voice


def payload_of(output: Any) -> Any:
    """What is worth keeping of a tool's output: the typed result, what an MCP server structured, or its text."""
    artifact = getattr(output, "artifact", None)
    if isinstance(artifact, dict):
        if artifact.get(ARTIFACT_KEY) == 1:
            return artifact.get("result")
        if artifact.get("structured_content") is not None:
            return artifact["structured_content"]
    return getattr(output, "content", output)


def notes_of(output: Any) -> tuple[str, ...]:
    """What our wrapper had to change in the result."""
    artifact = getattr(output, "artifact", None)
    ours = isinstance(artifact, dict) and artifact.get(ARTIFACT_KEY) == 1
    return tuple(map(str, artifact.get("notes", ()))) if ours and isinstance(artifact, dict) else ()


def answer_in(output: Any) -> Any:
    """The message in which a tool answers; one that changes the state has it inside its command."""
    if not isinstance(output, Command):
        return output
    found = output.update.get("messages") if isinstance(output.update, dict) else None
    given = found if isinstance(found, list) else [found]
    return next((message for message in given if isinstance(message, ToolMessage)), "")


def agent_behind(name: str, args: dict[str, Any], ours: dict[str, Any]) -> tuple[str | None, str | None]:
    """The agent that a tool stands for, and the signal by which it ends; None if it is only a tool."""
    if "agent" in ours:
        return str(ours["agent"]), ours.get("signal")
    if name == "task" and "subagent_type" in args:  # how Deep Agents calls its sub-agents
        return str(args["subagent_type"]), None
    return None, None


def voice_of(tags: Sequence[str]) -> Voice:
    return "held" if HELD in tags else "silent" if NOSTREAM in tags else "open"


def ask_ids(error: GraphBubbleUp) -> tuple[str, ...]:
    found = error.args[0] if error.args and isinstance(error.args[0], tuple | list) else ()
    return tuple(str(asked.id) for asked in found if isinstance(asked, Interrupt))


def plain_message(message: BaseMessage) -> dict[str, Any]:
    told: dict[str, Any] = {"role": message.type, "content": without_data(message.content)}
    calls = getattr(message, "tool_calls", None)
    return {**told, "tool_calls": calls} if calls else told


def given_to(inputs: Any) -> Any:
    """What a graph was given; of a conversation the last message, for the others are known."""
    if not isinstance(inputs, dict):
        return None
    messages = inputs.get("messages")
    last = messages[-1] if isinstance(messages, list) and messages else None
    asked = {"messages": [plain_message(last)]} if isinstance(last, BaseMessage) else {}
    return {**{name: value for name, value in inputs.items() if name != "messages"}, **asked}


def spoken_in(
    blocks: str | list[str | dict[str, Any]], chunk: GenerationChunk | ChatGenerationChunk | None
) -> Iterator[tuple[Literal["text", "reasoning"], int, str]]:
    """Kind, block and text of what a model said in content blocks, or thought beside its content."""
    for block in blocks if isinstance(blocks, list) else ():
        if isinstance(block, str):
            yield "text", 0, block
        elif isinstance(block.get("text"), str):
            yield "text", _index(block), block["text"]
        else:
            thought = block.get("reasoning") or block.get("thinking")
            if isinstance(thought, str):
                yield "reasoning", _index(block), thought
    beside = getattr(getattr(chunk, "message", None), "additional_kwargs", {}).get("reasoning_content")
    if beside and isinstance(beside, str):
        yield "reasoning", 0, beside


def written_in(chunk: GenerationChunk | ChatGenerationChunk | None) -> Sequence[ToolCallChunk]:
    """Pieces of tool calls that a model is writing."""
    return getattr(getattr(chunk, "message", None), "tool_call_chunks", ())


def _index(block: dict[str, Any]) -> int:
    found = block.get("index")
    return found if type(found) is int else 0


def plain_id(message_id: str | None) -> str:
    """LangChain marks the message of a model that does not stream by a suffix; it is the same message."""
    given = message_id or ""
    return given.removesuffix("-0") if given.startswith("lc_run--") else given
