"""The source: a running graph, heard through an inline callback and its own stream, as facts in order.

Each kind of fact comes from one place only: model and tool calls from the
callback, which is called in place and costs no task per token; what nodes
return from ``astream``; checkpoints from the saver. Two places for one kind
would put inner tokens before the start of the call they belong to.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGenerationChunk, GenerationChunk, LLMResult
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command, Interrupt

from stellwerk.agents.middleware.validation import HELD, NOSTREAM
from stellwerk.agents.tools import ARTIFACT_KEY
from stellwerk.ids import Clock
from stellwerk.stream.facts import (
    CallFailed,
    CallPaused,
    Fact,
    Linked,
    ModelBegan,
    ModelDone,
    ModelSpoke,
    StepEnded,
    ToolBegan,
    ToolDone,
    Voice,
)
from stellwerk.stream.model_calls import message_id_of

Tell = Callable[[Fact], None]
_PARAMS = ("temperature", "top_p", "max_tokens", "stop")


class Tap(BaseCallbackHandler):
    """Hears every model and tool call of a run, at any depth, and tells it at once.

    The two ``tap_output`` methods make LangChain stream also where a node only invokes its model; a canary test pins
    that. It must not inherit LangChain's class for it: LangGraph would then run whole nodes in another way.
    """

    run_inline = True
    raise_error = True

    def __init__(self, tell: Tell, clock: Clock, *, prompts: bool = False) -> None:
        self._prompts = prompts
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._tell_here, self._clock = tell, clock
        self.spoken: set[str] = set()
        """Ids of the messages that model calls have ended with."""
        self._speaking: tuple[UUID | None, str] = (None, "")
        """The last call that spoke, and its name: making the name of an id costs as much as all the rest of a token."""

    def tap_output_aiter(self, run_id: UUID, output: AsyncIterator[Any]) -> AsyncIterator[Any]:
        return output

    def tap_output_iter(self, run_id: UUID, output: Iterator[Any]) -> Iterator[Any]:
        return output

    def on_chain_start(
        self,
        serialized: dict[str, Any],
        inputs: dict[str, Any],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        about = metadata or {}
        node = about.get("langgraph_node")
        # A node is a chain of its own name; chains inside it carry the same metadata.
        name = str(kwargs.get("name") or "")
        named = node if name == node else None
        space = str(about.get("langgraph_checkpoint_ns", ""))
        self._tell(Linked(str(run_id), _name(parent_run_id), named, space, name, self._clock.now()))

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
        self._tell(StepEnded(self._clock.now(), str(run_id)))

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        if isinstance(error, GraphBubbleUp):
            self._tell(CallPaused(str(run_id), _ask_ids(error)))
        else:
            self._tell(StepEnded(self._clock.now(), str(run_id), type(error).__name__))

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        about = metadata or {}
        given = kwargs.get("invocation_params") or {}
        model = given.get("model") or about.get("ls_model_name") or given.get("_type") or "unknown"
        self._tell(
            ModelBegan(
                self._clock.now(),
                str(run_id),
                _name(parent_run_id),
                str(model),
                about.get("lc_agent_name"),
                about.get("langgraph_node"),
                {key: given[key] for key in _PARAMS if given.get(key) is not None},
                _voice(kwargs.get("tags") or ()),
                [_plain(message) for message in messages[0]] if self._prompts else None,
            )
        )

    def on_llm_new_token(
        self,
        token: str | list[str | dict[str, Any]] = "",
        *,
        chunk: GenerationChunk | ChatGenerationChunk | None = None,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **kwargs: Any,
    ) -> None:
        text = token if isinstance(token, str) else _text_of(token)
        if text:
            if run_id is not self._speaking[0]:
                self._speaking = (run_id, str(run_id))
            self._tell(ModelSpoke(self._clock.now(), self._speaking[1], text))

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        message = getattr(response.generations[0][0], "message", None)
        if not isinstance(message, AIMessage):
            return
        usage = message.usage_metadata
        self.spoken.add(message.id or message_id_of(str(run_id)))
        self._tell(
            ModelDone(
                ts=self._clock.now(),
                run=str(run_id),
                message_id=message.id or message_id_of(str(run_id)),
                text=str(message.text),
                finish_reason=message.response_metadata.get("finish_reason"),
                input_tokens=usage["input_tokens"] if usage else 0,
                output_tokens=usage["output_tokens"] if usage else 0,
                tool_calls=[(call["name"], call["id"] or "", call["args"]) for call in message.tool_calls],
            )
        )

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        self._tell(CallFailed(self._clock.now(), str(run_id), type(error).__name__, str(error)))

    def on_tool_start(
        self,
        serialized: dict[str, Any],
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        metadata: dict[str, Any] | None = None,
        inputs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        about = metadata or {}
        name = str((serialized or {}).get("name") or "tool")
        agent, signal = _agent_behind(name, inputs or {}, about.get(ARTIFACT_KEY) or {})
        self._tell(
            ToolBegan(
                ts=self._clock.now(),
                run=str(run_id),
                parent=_name(parent_run_id),
                name=name,
                tool_call_id=str(kwargs.get("tool_call_id") or run_id),
                namespace=str(about.get("langgraph_checkpoint_ns", "")),
                args=inputs or {},
                agent=about.get("lc_agent_name"),
                node=about.get("langgraph_node"),
                kind="tool" if agent is None else "agent",
                title=agent,
                signal=signal,
            )
        )

    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        message = answer_in(output)
        failed = getattr(message, "status", None) == "error"
        self._tell(ToolDone(self._clock.now(), str(run_id), payload_of(message), failed, notes_of(message)))

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        if isinstance(error, GraphBubbleUp):  # a question to the user is no error
            self._tell(CallPaused(str(run_id), _ask_ids(error)))
        else:
            self._tell(CallFailed(self._clock.now(), str(run_id), type(error).__name__, str(error)))

    def _tell(self, fact: Fact) -> None:
        if threading.get_ident() == self._thread:
            self._tell_here(fact)
        else:  # a synchronous node or sub-agent, on a thread of its own
            self._loop.call_soon_threadsafe(self._tell_here, fact)


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
    if isinstance(output, Command):
        found = output.update.get("messages", []) if isinstance(output.update, dict) else []
        return next((m for m in found if isinstance(m, ToolMessage)), "")
    return output


def _agent_behind(name: str, args: dict[str, Any], ours: dict[str, Any]) -> tuple[str | None, str | None]:
    """The agent that a tool stands for, and the signal by which it ends; None if it is only a tool."""
    if "agent" in ours:
        return str(ours["agent"]), ours.get("signal")
    if name == "task" and "subagent_type" in args:  # how Deep Agents calls its sub-agents
        return str(args["subagent_type"]), None
    return None, None


def _voice(tags: Sequence[str]) -> Voice:
    return "held" if HELD in tags else "silent" if NOSTREAM in tags else "open"


def _ask_ids(error: GraphBubbleUp) -> tuple[str, ...]:
    found = error.args[0] if error.args and isinstance(error.args[0], tuple | list) else ()
    return tuple(str(asked.id) for asked in found if isinstance(asked, Interrupt))


def _plain(message: BaseMessage) -> dict[str, Any]:
    told: dict[str, Any] = {"role": message.type, "content": message.content}
    calls = getattr(message, "tool_calls", None)
    return {**told, "tool_calls": calls} if calls else told


def _text_of(blocks: list[str | dict[str, Any]]) -> str:
    return "".join(b if isinstance(b, str) else str(b.get("text", "")) for b in blocks)


def _name(run_id: UUID | None) -> str | None:
    return None if run_id is None else str(run_id)
