"""Recorded ``astream_events`` (version 2) dictionaries as facts.

Their run ids and parents are those of the live callback handler. They lack
checkpoints, the output of a tool while it runs, and the errors of models and
nodes. The id of a tool call is found in the input of its step.
"""

from collections.abc import Callable, Iterator

from langchain_core.messages import AIMessage, AIMessageChunk

from stellwerk.agents.recorded import reader
from stellwerk.agents.recorded.reader import Item, StreamReader, rows, table
from stellwerk.agents.runtime.shapes import tool_started, voice_of
from stellwerk.stream import facts as f
from stellwerk.stream.calls import graph_of

_IGNORED = {
    f"on_{kind}_{point}" for kind in ("llm", "retriever", "prompt", "parser") for point in ("start", "stream", "end")
} | {"on_tool_stream"}


class EventsReader(StreamReader):
    def __init__(self, agent: str) -> None:
        super().__init__(agent)
        self._open: dict[str, str] = {}
        """Running steps, and the task of each."""
        self._requested: dict[str, list[tuple[str, str]]] = {}
        """Tool calls in the input of a step that have not started."""
        self._asked: dict[str, Item] = {}
        self._readers: dict[str, Callable[[str, Item], Iterator[f.Fact]]] = {
            "on_chain_start": self._chain_start,
            "on_chain_stream": self._chain_stream,
            "on_chain_end": self._chain_end,
            "on_chain_error": self._error,
            "on_chat_model_start": self._model_start,
            "on_chat_model_stream": self._model_stream,
            "on_chat_model_end": self._model_end,
            "on_chat_model_error": self._error,
            "on_llm_error": self._error,
            "on_tool_start": self._tool_start,
            "on_tool_end": self._tool_end,
            "on_tool_error": self._error,
            "on_custom_event": self._custom,
        }

    def _read(self, event: Item) -> Iterator[f.Fact]:
        kind = str(event.get("event"))
        if kind in self._readers:
            yield from self._readers[kind](str(event.get("run_id") or ""), event)
        elif kind not in _IGNORED:
            yield self._unknown(f"event {kind[:100]}")

    def _chain_start(self, run: str, event: Item) -> Iterator[f.Fact]:
        about = table(event.get("metadata"))
        name = str(event.get("name") or "")
        space = str(about.get("langgraph_checkpoint_ns", ""))
        node = about.get("langgraph_node")
        given = _data(event).get("input")
        self._open[run] = space
        self._requested[run] = reader.requested_calls(given)
        if not _parent(event):
            self._know(given)
        step = node if name == node else None
        yield f.StepStarted(run, _parent(event), step, space, name, self.ts, reader.step_input(given))

    def _chain_stream(self, run: str, event: Item) -> Iterator[f.Fact]:
        """The outermost graph streams the updates of its nodes."""
        chunk = _data(event).get("chunk")
        if _parent(event) or not isinstance(chunk, dict):
            return
        self._asked |= {str(asked.get("id")): asked for asked in map(table, rows(chunk.get("__interrupt__")))}
        yield from self._updates("", chunk)

    def _chain_end(self, run: str, event: Item) -> Iterator[f.Fact]:
        parent = _parent(event)
        output = _data(event).get("output")
        space = self._open.pop(run, "")
        node = table(event.get("metadata")).get("langgraph_node")
        # Only the step that is the node, not one inside; nodes of the outermost graph are streamed.
        if graph_of(space) and event.get("name") == node and self._open.get(parent or "") != space:
            yield from self._updates(graph_of(space), {str(node): reader.changes_in(output)})
        if parent is None and self._asked:
            yield from self._questions()
        yield f.StepEnded(self.ts, run)
        if parent is None and not self._asked and (given := reader.output_of(output)) is not None:
            yield f.OutputGiven(self.ts, given)

    def _questions(self) -> Iterator[f.Fact]:
        """Steps that are open when the graph has ended wait for an answer."""
        for run in reversed(self._open):
            yield f.CallPaused(run, tuple(self._asked))
        for ask_id, asked in self._asked.items():
            yield f.Interrupted(self.ts, ask_id, asked.get("value"), asked.get("response_schema"), "")

    def _model_start(self, run: str, event: Item) -> Iterator[f.Fact]:
        about = table(event.get("metadata"))
        yield f.ModelStarted(
            self.ts,
            run,
            _parent(event),
            str(about.get("ls_model_name") or event.get("name") or "unknown"),
            about.get("lc_agent_name"),
            about.get("langgraph_node"),
            reader.params_of(about),
            voice_of(rows(event.get("tags"))),
        )

    def _model_stream(self, run: str, event: Item) -> Iterator[f.Fact]:
        chunk = reader.message_from({"type": "AIMessageChunk", **table(_data(event).get("chunk"))})
        if isinstance(chunk, AIMessageChunk):
            yield from self._deltas(run, chunk)

    def _model_end(self, run: str, event: Item) -> Iterator[f.Fact]:
        message = reader.message_from({"type": "ai", **table(_data(event).get("output"))})
        yield self._model_finished(run, message if isinstance(message, AIMessage) else AIMessage(""))

    def _tool_start(self, run: str, event: Item) -> Iterator[f.Fact]:
        name = str(event.get("name") or "tool")
        called = {"name": name, "tool_call_id": self._call_id(event, name) or run}
        args = dict(table(_data(event).get("input")))
        yield tool_started(self.ts, run, args, table(event.get("metadata")), parent=_parent(event), **called)

    def _call_id(self, event: Item, name: str) -> str | None:
        """Return the first call of this tool that its step has not started."""
        requested = self._requested.get(_parent(event) or "", [])
        for number, (tool, tool_call_id) in enumerate(requested):
            if tool == name:
                del requested[number]
                return tool_call_id
        return None

    def _tool_end(self, run: str, event: Item) -> Iterator[f.Fact]:
        yield self._tool_finished(run, _data(event).get("output"))

    def _error(self, run: str, event: Item) -> Iterator[f.Fact]:
        """LangChain streams no errors of chains; a recording of callbacks has them."""
        error = table(_data(event).get("error"))
        is_step = self._open.pop(run, None) is not None
        kind = str(error.get("class", "Exception"))
        if "interrupts" in error:
            yield f.CallPaused(run, reader.ask_ids(error["interrupts"]))
        elif is_step:
            yield f.StepEnded(self.ts, run, kind)
        else:
            yield f.CallFailed(self.ts, run, kind, str(error.get("message", "")))

    def _custom(self, run: str, event: Item) -> Iterator[f.Fact]:
        yield f.CustomEvent(self.ts, "", {"name": event.get("name"), "data": event.get("data")}, run=run)


def _parent(event: Item) -> str | None:
    parents = rows(event.get("parent_ids"))
    return str(parents[-1]) if parents else None


def _data(event: Item) -> Item:
    return table(event.get("data"))
