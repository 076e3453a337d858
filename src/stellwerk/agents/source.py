"""The source: a running graph, heard through an inline callback and its own stream, as facts in order.

Each kind of fact comes from one place only: model and tool calls from the
callback, which is called in place and costs no task per token; what nodes
return from ``astream``; checkpoints from the saver. Two places for one kind
would put inner tokens before the start of the call they belong to.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, GenerationChunk, LLMResult

# Private, but the only way to make `ainvoke` stream; a canary test pins it.
from langchain_core.tracers._streaming import _StreamingCallbackHandler
from langgraph.errors import GraphBubbleUp

from stellwerk.agents.tools import ARTIFACT_KEY
from stellwerk.ids import Clock
from stellwerk.stream.adapter import message_id_of
from stellwerk.stream.facts import (
    CallFailed,
    Fact,
    Linked,
    MessageReturned,
    ModelBegan,
    ModelDone,
    ModelSpoke,
    ToolBegan,
    ToolDone,
)

Tell = Callable[[Fact], None]
_PARAMS = ("temperature", "top_p", "max_tokens", "stop")


class Tap(BaseCallbackHandler, _StreamingCallbackHandler[Any]):
    """Hears every model and tool call of a run, at any depth, and tells it at once."""

    run_inline = True
    raise_error = True

    def __init__(self, tell: Tell, clock: Clock) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._tell_here, self._clock = tell, clock
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
        named = node if kwargs.get("name") == node else None
        self._tell(Linked(str(run_id), _name(parent_run_id), named, str(about.get("langgraph_checkpoint_ns", ""))))

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
        self._tell(
            ModelDone(
                ts=self._clock.now(),
                run=str(run_id),
                message_id=message.id or message_id_of(str(run_id)),
                text=str(message.text),
                finish_reason=message.response_metadata.get("finish_reason"),
                input_tokens=usage["input_tokens"] if usage else 0,
                output_tokens=usage["output_tokens"] if usage else 0,
                tool_calls=[(call["name"], call["id"] or "") for call in message.tool_calls],
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
        self._tell(
            ToolBegan(
                ts=self._clock.now(),
                run=str(run_id),
                parent=_name(parent_run_id),
                name=str((serialized or {}).get("name") or "tool"),
                tool_call_id=str(kwargs.get("tool_call_id") or run_id),
                namespace=str(about.get("langgraph_checkpoint_ns", "")),
                args=inputs or {},
                agent=about.get("lc_agent_name"),
                node=about.get("langgraph_node"),
            )
        )

    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        failed = getattr(output, "status", None) == "error"
        self._tell(ToolDone(self._clock.now(), str(run_id), _payload(output), failed))

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        if not isinstance(error, GraphBubbleUp):  # a question to the user is no error
            self._tell(CallFailed(self._clock.now(), str(run_id), type(error).__name__, str(error)))

    def _tell(self, fact: Fact) -> None:
        if threading.get_ident() == self._thread:
            self._tell_here(fact)
        else:  # a synchronous node or sub-agent, on a thread of its own
            self._loop.call_soon_threadsafe(self._tell_here, fact)


def messages_returned(data: dict[str, Any], clock: Clock, agent: str) -> Iterator[MessageReturned]:
    """AI messages in an ``updates`` part of the outermost graph; those a model spoke are known already."""
    for update in data.values():
        found = update.get("messages", []) if isinstance(update, dict) else []
        for message in found if isinstance(found, list) else [found]:
            if isinstance(message, AIMessage) and message.id:
                yield MessageReturned(
                    clock.now(), message.id, str(message.text), message.name or agent, bool(message.tool_calls)
                )


def _payload(output: Any) -> Any:
    """What is worth keeping of a tool's output: the typed result, the artifact's, or the text the model sees."""
    artifact = getattr(output, "artifact", None)
    if isinstance(artifact, dict) and artifact.get(ARTIFACT_KEY) == 1:
        return artifact.get("result")
    return getattr(output, "content", output)


def _text_of(blocks: list[str | dict[str, Any]]) -> str:
    return "".join(b if isinstance(b, str) else str(b.get("text", "")) for b in blocks)


def _name(run_id: UUID | None) -> str | None:
    return None if run_id is None else str(run_id)
