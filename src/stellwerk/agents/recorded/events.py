"""Recorded ``astream_events`` (version 2) dictionaries as facts.

Their run ids and parents are those of the live callback handler. They lack
checkpoints, the output of a tool while it runs, and the errors of models and
nodes. The id of a tool call is found in the input of its step.
"""

from collections.abc import Iterator

from langchain_core.messages import AIMessage, AIMessageChunk

from stellwerk.agents.recorded import reader
from stellwerk.agents.recorded.reader import Item, StreamReader, rows, table
from stellwerk.agents.runtime import shapes
from stellwerk.stream import facts as f
from stellwerk.stream.calls import graph_of

_IGNORED = ("on_llm_", "on_retriever_", "on_prompt_", "on_parser_", "on_tool_stream")


class EventsReader(StreamReader):
    """Has a method for each kind of event, of the same name."""

    def __init__(self, agent: str) -> None:
        super().__init__(agent)
        self._open: dict[str, str] = {}
        """Running steps, and the task of each."""
        self._requested: dict[str, list[tuple[str, str]]] = {}
        """Tool calls in the input of a step that have not started."""
        self._asked: dict[str, Item] = {}

    def _read(self, event: Item) -> Iterator[f.Fact]:
        kind = str(event.get("event"))
        read = getattr(self, kind, None) if kind.startswith("on_") else None
        if read is not None:
            yield from read(str(event.get("run_id") or ""), event)
        elif not kind.startswith(_IGNORED):
            yield self._unknown(f"event {kind[:100]}")

    def on_chain_start(self, run: str, event: Item) -> Iterator[f.Fact]:
        about, parent = table(event.get("metadata")), _parent(event)
        given = _data(event).get("input")
        self._open[run] = str(about.get("langgraph_checkpoint_ns", ""))
        self._requested[run] = reader.requested_calls(given)
        if not parent:
            self._know(given)
        name = str(event.get("name") or "")
        yield shapes.step_started(self.ts, run, parent, name, about, reader.with_messages(given))

    def on_chain_stream(self, run: str, event: Item) -> Iterator[f.Fact]:
        """The outermost graph streams the updates of its nodes."""
        chunk = _data(event).get("chunk")
        if _parent(event) or not isinstance(chunk, dict):
            return
        for asked in map(table, rows(chunk.get("__interrupt__"))):
            self._asked[str(asked.get("id"))] = asked
        yield from self._updates("", chunk)

    def on_chain_end(self, run: str, event: Item) -> Iterator[f.Fact]:
        parent = _parent(event)
        output = _data(event).get("output")
        space = self._open.pop(run, "")
        node = table(event.get("metadata")).get("langgraph_node")
        # Only the step that is the node, not one inside; nodes of the outermost graph are streamed.
        if graph_of(space) and event.get("name") == node and self._open.get(parent or "") != space:
            changes = output if isinstance(output, list) else [output]
            applied = [change["update"] if reader.is_command(change) else change for change in changes]
            yield from self._updates(graph_of(space), {str(node): applied})
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

    def on_chat_model_start(self, run: str, event: Item) -> Iterator[f.Fact]:
        about = table(event.get("metadata"))
        model = about.get("ls_model_name") or event.get("name")
        voice = shapes.voice_of(rows(event.get("tags")))
        yield self._model_started(run, _parent(event), model, about, voice)

    def on_chat_model_stream(self, run: str, event: Item) -> Iterator[f.Fact]:
        chunk = reader.message_from({"type": "AIMessageChunk", **table(_data(event).get("chunk"))})
        if isinstance(chunk, AIMessageChunk):
            yield from self._deltas(run, chunk)

    def on_chat_model_end(self, run: str, event: Item) -> Iterator[f.Fact]:
        message = reader.message_from({"type": "ai", **table(_data(event).get("output"))})
        yield self._model_finished(run, message if isinstance(message, AIMessage) else AIMessage(""))

    def on_tool_start(self, run: str, event: Item) -> Iterator[f.Fact]:
        parent = _parent(event)
        name = str(event.get("name") or "tool")
        requested = self._requested.get(parent or "", [])
        # The first call of this tool that its step has not started.
        found = next((call for call in requested if call[0] == name), (name, run))
        if found in requested:
            requested.remove(found)
        args = dict(table(_data(event).get("input")))
        about = table(event.get("metadata"))
        yield shapes.tool_started(self.ts, run, args, about, parent=parent, name=name, tool_call_id=found[1])

    def on_tool_end(self, run: str, event: Item) -> Iterator[f.Fact]:
        yield self._tool_finished(run, _data(event).get("output"))

    def on_chain_error(self, run: str, event: Item) -> Iterator[f.Fact]:
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

    on_llm_error = on_chat_model_error = on_tool_error = on_chain_error

    def on_custom_event(self, run: str, event: Item) -> Iterator[f.Fact]:
        yield f.CustomEvent(self.ts, "", {"name": event.get("name"), "data": event.get("data")}, run=run)


def _parent(event: Item) -> str | None:
    parents = rows(event.get("parent_ids"))
    return str(parents[-1]) if parents else None


def _data(event: Item) -> Item:
    return table(event.get("data"))
