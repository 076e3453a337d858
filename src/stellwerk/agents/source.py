"""The source: a running graph, heard through an inline callback and its own stream, as facts in order.

Each kind of fact comes from one place only: model and tool calls from the
callback, which is called in place and costs no task per token; what nodes
return from ``astream``; checkpoints from the saver. Two places for one kind
would put inner tokens before the start of the call they belong to.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, ToolCallChunk
from langchain_core.outputs import ChatGenerationChunk, GenerationChunk, LLMResult
from langgraph.errors import GraphBubbleUp, GraphDrained, GraphInterrupt, ParentCommand

# Private, but what `runtime.emit_output_delta` reads; a canary test pins it.
from langgraph.pregel._tools import ToolCallWriter, _tool_call_writer

from stellwerk.agents.middleware.final_prompt import FINAL
from stellwerk.agents.middleware.speech import FirstWords
from stellwerk.agents.shapes import (
    agent_behind,
    answer_in,
    ask_ids,
    given_to,
    notes_of,
    payload_of,
    plain_id,
    plain_message,
    spoken_in,
    voice_of,
    written_in,
)
from stellwerk.agents.tools import ARTIFACT_KEY
from stellwerk.agents.turn import Pause
from stellwerk.ids import Clock, digest_id
from stellwerk.stream.facts import (
    CallFailed,
    CallPaused,
    Emitted,
    Fact,
    Linked,
    ModelBegan,
    ModelDone,
    ModelSpoke,
    ModelWrote,
    StepEnded,
    ToolBegan,
    ToolDone,
    ToolSpoke,
)
from stellwerk.stream.model_calls import message_id_of
from stellwerk.tenants.ledger import Meter

Tell = Callable[[Fact], None]
_PARAMS = ("temperature", "top_p", "max_tokens", "stop")


class Tap(BaseCallbackHandler):
    """Hears every model and tool call of a run, at any depth, and tells it at once.

    The two ``tap_output`` methods make LangChain stream also where a node only invokes its model; a canary test pins
    that. It must not inherit LangChain's class for it: LangGraph would then run whole nodes in another way.
    """

    run_inline = True
    raise_error = True

    def __init__(
        self,
        tell: Tell,
        clock: Clock,
        *,
        prompts: bool = False,
        meter: Meter | None = None,
        pause: Pause | None = None,
    ) -> None:
        self._prompts, self._meter, self._pause = prompts, meter, pause
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._steps: set[UUID] = set()
        """Graphs, nodes and other chains that are under way."""
        self._all_over = asyncio.Event()
        self._tell_here, self._clock = tell, clock
        self.spoken: set[str] = set()
        """Ids of the messages that model calls have ended with."""
        self.first_words: FirstWords = Counter()
        self._calls: dict[tuple[str, str], int] = {}
        """How often each node has called each tool by itself."""
        self._writers: dict[UUID, ToolCallWriter | None] = {}
        """For each open tool call, who had the word before it."""
        self._speaking: tuple[UUID | None, str] = (None, "")
        """The last call that spoke, and its name: making the name of an id costs as much as all the rest of a token."""
        self._writing: tuple[UUID | None, str] = (None, "")
        """The same of the last call that wrote arguments. Those are no first words: until a model speaks, a call that
        fails is tried again."""

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
        self._steps.add(run_id)
        about = metadata or {}
        node = about.get("langgraph_node")
        # A node is a chain of its own name; chains inside it carry the same metadata.
        name = str(kwargs.get("name") or "")
        named = node if name == node else None
        space = str(about.get("langgraph_checkpoint_ns", ""))
        given = given_to(inputs) if space and named is None else None
        self._tell(Linked(str(run_id), _name(parent_run_id), named, space, name, self._clock.now(), given))

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
        self._step_over(run_id)
        self._tell(StepEnded(self._clock.now(), str(run_id)))

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        self._step_over(run_id)
        if isinstance(error, GraphInterrupt | GraphDrained):
            self._tell(CallPaused(str(run_id), ask_ids(error)))
        elif not self._is_cut_off(error):  # a command for the graph around is no failure either
            failed = None if isinstance(error, GraphBubbleUp) else type(error).__name__
            self._tell(StepEnded(self._clock.now(), str(run_id), failed))

    def _step_over(self, run_id: UUID) -> None:
        self._steps.discard(run_id)
        if not self._steps:
            self._loop.call_soon_threadsafe(self._all_over.set)

    async def all_over(self) -> None:
        """Wait for graphs that go on although the run has ended: a tool may have started several at once."""
        while self._steps:
            self._all_over.clear()
            await self._all_over.wait()

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
        if self._meter is not None:
            self._count(self._meter.step)
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
                voice_of(kwargs.get("tags") or ()),
                [plain_message(message) for message in messages[0]] if self._prompts else None,
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
        if token and isinstance(token, str):
            self._tell(ModelSpoke(self._clock.now(), self._named(run_id, parent_run_id), token))
        else:
            for kind, block, text in spoken_in(token, chunk):
                self._tell(ModelSpoke(self._clock.now(), self._named(run_id, parent_run_id), text, kind, block))
        if (pieces := written_in(chunk)) and FINAL not in (kwargs.get("tags") or ()):
            self._write(run_id, pieces)

    def _write(self, run_id: UUID, pieces: Sequence[ToolCallChunk]) -> None:
        if run_id is not self._writing[0]:
            self._writing = (run_id, str(run_id))
        for piece in pieces:
            name, id_, text = piece["name"], piece["id"], piece["args"] or ""
            self._tell(ModelWrote(self._clock.now(), self._writing[1], piece["index"], text, id_, name))

    def _named(self, run_id: UUID, parent_run_id: UUID | None) -> str:
        """The name of the call that speaks; to be taken at once, as parallel threads may speak in between."""
        speaking = self._speaking
        if run_id is not speaking[0]:
            self._speaking = speaking = (run_id, str(run_id))
            self.first_words[parent_run_id] += 1
        return speaking[1]

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        made = response.generations[0] if response.generations else []
        message = getattr(made[0], "message", None) if made else None
        if not isinstance(message, AIMessage):
            self._tell(CallFailed(self._clock.now(), str(run_id), "EmptyAnswer", "the model gave no message"))
            return
        usage = message.usage_metadata
        if self._meter is not None and usage is not None:
            self._count(self._meter.spend, usage["input_tokens"] + usage["output_tokens"])
        message_id = plain_id(message.id) or message_id_of(str(run_id))
        # Without tools there is nothing to call; what a model asks for all the same is not done.
        calls = [] if FINAL in (kwargs.get("tags") or ()) else message.tool_calls
        self.spoken.add(message_id)
        self._tell(
            ModelDone(
                ts=self._clock.now(),
                run=str(run_id),
                message_id=message_id,
                text=str(message.text),
                finish_reason=message.response_metadata.get("finish_reason"),
                input_tokens=usage["input_tokens"] if usage else 0,
                output_tokens=usage["output_tokens"] if usage else 0,
                tool_calls=[(call["name"], call["id"] or "", call["args"]) for call in calls],
            )
        )

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        if not self._is_cut_off(error):
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
        about, run = metadata or {}, str(run_id)
        space = str(about.get("langgraph_checkpoint_ns", ""))
        name = str((serialized or {}).get("name") or "tool")
        # What `runtime.emit_output_delta` writes to; LangGraph's own listener for it would hear every token, too.
        self._writers[run_id] = _tool_call_writer.get()
        _tool_call_writer.set(lambda delta: self._tell(ToolSpoke(self._clock.now(), run, delta)))
        ours = about.get(ARTIFACT_KEY) or {}
        agent, signal = agent_behind(name, inputs or {}, ours)
        tool_call_id = str(kwargs.get("tool_call_id") or self._direct(space, name))
        self._tell(
            ToolBegan(
                ts=self._clock.now(),
                run=run,
                parent=_name(parent_run_id),
                name=name,
                tool_call_id=tool_call_id,
                namespace=space,
                args=inputs if inputs is not None else {"input": input_str} if input_str else {},
                agent=about.get("lc_agent_name"),
                node=about.get("langgraph_node"),
                kind="tool" if agent is None else "agent",
                title=agent,
                signal=signal,
                idempotent=bool(ours.get("idempotent")),
                message_id=tool_call_id if ours.get("is_task") else None,
            )
        )

    def _direct(self, space: str, name: str) -> str:
        """An id for a tool that a node calls itself; the same again when the node runs again after a question."""
        number = self._calls[space, name] = self._calls.get((space, name), 0) + 1
        return f"direct_{digest_id(space, name, str(number))[:12]}"

    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        _tool_call_writer.set(self._writers.pop(run_id, None))
        message = answer_in(output)
        failed = getattr(message, "status", None) == "error"
        self._tell(ToolDone(self._clock.now(), str(run_id), payload_of(message), failed, notes_of(message)))

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        _tool_call_writer.set(self._writers.pop(run_id, None))
        if isinstance(error, GraphInterrupt | GraphDrained):  # neither a question to the user nor a pause is an error
            self._tell(CallPaused(str(run_id), ask_ids(error)))
        elif isinstance(error, ParentCommand):
            self._tell(ToolDone(self._clock.now(), str(run_id), payload_of(answer_in(error.args[0]))))
        else:
            self._tell(CallFailed(self._clock.now(), str(run_id), type(error).__name__, str(error)))

    def on_custom_event(self, name: str, data: Any, *, run_id: UUID, **kwargs: Any) -> None:
        self._tell(Emitted(self._clock.now(), "", {"name": name, "data": data}, run=str(run_id)))

    def _is_cut_off(self, error: BaseException) -> bool:
        """Whether the call is cancelled because the server goes down: it stays open, the next server decides on it."""
        paused = self._pause is not None and self._pause.drain_requested
        return paused and isinstance(error, asyncio.CancelledError)

    def _tell(self, fact: Fact) -> None:
        if threading.get_ident() == self._thread:
            self._tell_here(fact)
        else:  # a synchronous node or sub-agent, on a thread of its own
            self._loop.call_soon_threadsafe(self._tell_here, fact)

    def _count(self, count: Callable[..., None], *amount: int) -> None:
        if threading.get_ident() == self._thread:
            count(*amount)
        else:
            self._loop.call_soon_threadsafe(count, *amount)


def _name(run_id: UUID | None) -> str | None:
    return None if run_id is None else str(run_id)
