"""LangChain callback handler of a run: model calls, tool calls and steps become facts, in order.

Each kind of fact has one source: calls come from this handler, which runs inline and costs no task
per token; node updates come from ``astream``; checkpoints come from the saver. With two sources for
one kind, tokens of an inner call could arrive before its start.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, GenerationChunk, LLMResult
from langchain_core.tracers._streaming import _StreamingCallbackHandler
from langgraph.errors import GraphBubbleUp, GraphInterrupt, ParentCommand
from langgraph.pregel import main as pregel_main

from stellwerk.agents.runtime import shapes
from stellwerk.agents.runtime.context import run_context
from stellwerk.agents.runtime.langgraph_features import GraphDrained, RunControl, ToolCallWriter, _tool_call_writer
from stellwerk.ids import Clock, digest_id
from stellwerk.stream import facts
from stellwerk.stream.facts import Fact, ModelToken, ToolArgsDelta
from stellwerk.stream.tool_requests import DIRECT

EmitFact = Callable[[Fact], None]
_PARAMS = ("temperature", "top_p", "max_tokens", "stop")


class _Inheriting(type):
    def __instancecheck__(cls, handler: object) -> bool:
        return _StreamingCallbackHandler in type(handler).__mro__


class _EventStreaming(metaclass=_Inheriting):
    """The handlers of ``astream_events``: those that inherit LangChain's class."""


# LangGraph before 1.2.19 takes every handler with ``tap_output`` for one of these, and runs whole nodes differently for
# it; from then on it looks as above. Private; a canary test pins what depends on it.
if hasattr(pregel_main, "_StreamingCallbackHandler"):
    pregel_main._StreamingCallbackHandler = _EventStreaming


class LoopCallbacks(BaseCallbackHandler):
    """Callbacks that LangChain calls in place: on the loop, or in a synchronous node's thread."""

    run_inline = True
    raise_error = True

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._usage = run_context().usage

    def _on_loop(self, function: Callable[..., None], *args: Any) -> None:
        if threading.get_ident() == self._thread:
            function(*args)
        else:
            self._loop.call_soon_threadsafe(function, *args)

    def _count_step(self) -> None:
        if self._usage is not None:
            self._usage.check()
            self._on_loop(self._usage.step)


class RunCallbackHandler(LoopCallbacks):
    """Emits a fact for every model call, tool call and step of a run, at any depth.

    The two ``tap_output`` methods make LangChain stream even where a node only invokes its model; a
    canary test pins this. The class must not inherit LangChain's tracer for it: LangGraph would
    then run whole nodes differently.
    """

    def __init__(self, emit: EmitFact, clock: Clock, *, prompts: bool = False, pause: RunControl | None = None) -> None:
        super().__init__()
        self._emit_here, self._clock = emit, clock
        self._prompts, self._pause = prompts, pause
        self._steps: set[UUID] = set()
        """Graphs, nodes and other chains in progress."""
        self._all_over = asyncio.Event()
        self.idempotent_tools: frozenset[str] = frozenset()
        """Tools that the operator's file declares repeatable."""
        self.model_messages: set[str] = set()
        """Ids of the messages that model calls returned."""
        self.first_tokens: Counter[UUID | None] = Counter()
        """Model calls with a token, which cannot be retried, counted by their graph step."""
        self._calls: dict[tuple[str, str], int] = {}
        """How often each node has called each tool directly."""
        self._writers: dict[UUID, ToolCallWriter | None] = {}
        """The writer to restore at the end of each open tool call."""
        self._streaming: tuple[UUID | None, str] = (None, "")
        """The call of the last token, with its id as text: to convert it is half of the cost."""
        self._writing: tuple[UUID | None, str] = (None, "")
        """The same for the last tool arguments.

        They are no first token: a call that has written nothing but arguments is retried.
        """

    def tap_output_aiter(self, run_id: UUID, output: AsyncIterator[Any]) -> AsyncIterator[Any]:
        return output

    def tap_output_iter(self, run_id: UUID, output: Iterator[Any]) -> Iterator[Any]:
        return output

    def on_chain_start(self, serialized: Any, inputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
        self._steps.add(run_id)
        about, name = kwargs.get("metadata") or {}, str(kwargs.get("name") or "")
        run, parent = str(run_id), _parent(kwargs)
        self._emit(shapes.step_started(self._clock.now(), run, parent, name, about, inputs))

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
        self._step_over(run_id)
        self._emit(facts.StepEnded(self._clock.now(), str(run_id)))

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        self._step_over(run_id)
        if isinstance(error, GraphInterrupt | GraphDrained):
            self._emit(facts.CallPaused(str(run_id), shapes.ask_ids(error)))
        elif not self._is_cut_off(error):  # a command for the parent graph is no failure either
            failed = None if isinstance(error, GraphBubbleUp) else type(error).__name__
            self._emit(facts.StepEnded(self._clock.now(), str(run_id), failed))

    def _step_over(self, run_id: UUID) -> None:
        self._steps.discard(run_id)
        if not self._steps:
            self._loop.call_soon_threadsafe(self._all_over.set)

    async def all_over(self) -> None:
        """Wait for graphs that outlive the run: a tool may have started several at once."""
        while self._steps:
            self._all_over.clear()
            await self._all_over.wait()

    def on_chat_model_start(
        self, serialized: Any, messages: list[list[BaseMessage]], *, run_id: UUID, **kwargs: Any
    ) -> None:
        about = kwargs.get("metadata") or {}
        given = kwargs.get("invocation_params") or {}
        model = given.get("model") or about.get("ls_model_name") or given.get("_type") or "unknown"
        prompt = [shapes.plain_message(each) for each in messages[0]] if self._prompts else None
        self._emit(
            facts.ModelStarted(
                self._clock.now(),
                str(run_id),
                _parent(kwargs),
                str(model),
                about.get("lc_agent_name"),
                about.get("langgraph_node"),
                {key: given[key] for key in _PARAMS if given.get(key) is not None},
                shapes.voice_of(kwargs.get("tags") or ()),
                prompt,
            )
        )

    def on_llm_start(self, *_given: Any, **_about: Any) -> None:
        """A model for texts only. It is not recorded, but its calls count."""
        self._count_step()

    def on_llm_new_token(
        self,
        token: str | list[str | dict[str, Any]] = "",
        *,
        chunk: GenerationChunk | ChatGenerationChunk | None = None,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **kwargs: Any,
    ) -> None:
        message = getattr(chunk, "message", None)
        if token and isinstance(token, str):
            self._emit(ModelToken(self._clock.now(), self._named(run_id, parent_run_id), token))
        else:
            for kind, block, text in shapes.text_deltas(token, message):
                run = self._named(run_id, parent_run_id)
                self._emit(ModelToken(self._clock.now(), run, text, kind, block))
        pieces = getattr(message, "tool_call_chunks", ())
        if pieces and shapes.FINAL not in (kwargs.get("tags") or ()):
            if run_id is not self._writing[0]:
                self._writing = (run_id, str(run_id))
            run = self._writing[1]
            for piece in pieces:
                name, id_, args = piece["name"], piece["id"], piece["args"] or ""
                self._emit(ToolArgsDelta(self._clock.now(), run, piece["index"], args, id_, name))

    def _named(self, run_id: UUID, parent_run_id: UUID | None) -> str:
        """The call's id as text, read once: parallel threads may emit tokens in between."""
        streaming = self._streaming
        if run_id is not streaming[0]:
            self._streaming = streaming = (run_id, str(run_id))
            self.first_tokens[parent_run_id] += 1
        return streaming[1]

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        made = response.generations[0] if response.generations else []
        message = getattr(made[0], "message", None) if made else None
        if not isinstance(message, AIMessage):
            self._emit_failed(run_id, "EmptyAnswer", "the model gave no message")
            return
        usage = message.usage_metadata
        if self._usage is not None and usage is not None:
            self._on_loop(self._usage.spend, usage["input_tokens"] + usage["output_tokens"])
        # The final call offers no tools; tool calls that the model makes regardless are dropped.
        calls = [] if shapes.FINAL in (kwargs.get("tags") or ()) else message.tool_calls
        finished = shapes.model_finished(self._clock.now(), str(run_id), message, calls)
        self.model_messages.add(finished.message_id)
        self._emit(finished)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        if not self._is_cut_off(error):
            self._emit_failed(run_id, type(error).__name__, str(error))

    def on_tool_start(self, serialized: Any, input_str: str, *, run_id: UUID, **kwargs: Any) -> None:
        if self._usage is not None:
            self._usage.check()  # before the call is recorded
        about = kwargs.get("metadata") or {}
        run = str(run_id)
        space = str(about.get("langgraph_checkpoint_ns", ""))
        name = str((serialized or {}).get("name") or "tool")

        def write(delta: Any) -> None:
            self._emit(facts.ToolOutputDelta(self._clock.now(), run, delta))

        # `runtime.emit_output_delta` writes to it; LangGraph's own listener would get all tokens.
        self._writers[run_id] = _tool_call_writer.get()
        _tool_call_writer.set(write)
        called = {"name": name, "tool_call_id": str(kwargs.get("tool_call_id") or self._direct(space, name))}
        args = kwargs.get("inputs")
        if args is None:
            args = {"input": input_str} if input_str else {}
        if name in self.idempotent_tools:
            about = shapes.as_idempotent(about)
        now, parent = self._clock.now(), _parent(kwargs)
        self._emit(shapes.tool_started(now, run, args, about, parent=parent, **called))

    def _direct(self, space: str, name: str) -> str:
        """The id of a tool call made directly by a node; the same when the node runs again."""
        number = self._calls[space, name] = self._calls.get((space, name), 0) + 1
        return f"{DIRECT}{digest_id(space, name, str(number))[:12]}"

    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        _tool_call_writer.set(self._writers.pop(run_id, None))
        self._emit(shapes.tool_finished(self._clock.now(), str(run_id), output))

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        _tool_call_writer.set(self._writers.pop(run_id, None))
        if isinstance(error, GraphInterrupt | GraphDrained):  # interrupt or pause, no error
            self._emit(facts.CallPaused(str(run_id), shapes.ask_ids(error)))
        elif isinstance(error, ParentCommand):
            self._emit(shapes.tool_finished(self._clock.now(), str(run_id), error.args[0]))
        else:
            self._emit_failed(run_id, type(error).__name__, str(error))

    def on_custom_event(self, name: str, data: Any, *, run_id: UUID, **kwargs: Any) -> None:
        event = {"name": name, "data": data}
        self._emit(facts.CustomEvent(self._clock.now(), "", event, run=str(run_id)))

    def _is_cut_off(self, error: BaseException) -> bool:
        """Whether a shutdown cancelled the call: it stays open, and the next start decides."""
        paused = self._pause is not None and self._pause.drain_requested
        return paused and isinstance(error, asyncio.CancelledError)

    def _emit_failed(self, run_id: UUID, kind: str, message: str) -> None:
        self._emit(facts.CallFailed(self._clock.now(), str(run_id), kind, message))

    def _emit(self, fact: Fact) -> None:
        if threading.get_ident() == self._thread:
            self._emit_here(fact)
        else:  # a synchronous node, tool or sub-agent in another thread
            self._loop.call_soon_threadsafe(self._emit_here, fact)


def _parent(given: dict[str, Any]) -> str | None:
    run_id = given.get("parent_run_id")
    return None if run_id is None else str(run_id)
