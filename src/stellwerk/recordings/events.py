"""Recorded ``astream_events`` (version 2) dictionaries as facts.

Their run ids and parents are those that the live source sees, too. What they
lack: checkpoints, what a tool writes while it works, and the errors of models
and nodes. The id of a tool call is found in what its step was begun with.
"""

from collections.abc import Callable, Iterator
from typing import Any

from stellwerk.recordings.shapes import (
    OURS,
    Item,
    agent_behind,
    answer_in,
    ask_ids,
    calls_given,
    changes_in,
    done,
    failed,
    given_to,
    notes_of,
    params_of,
    payload_of,
    rows,
    spoken_in,
    table,
    time_of,
    voice_of,
    written_in,
)
from stellwerk.recordings.updates import Updates, output_of
from stellwerk.stream.facts import (
    CallFailed,
    CallPaused,
    Emitted,
    Fact,
    Interrupted,
    Linked,
    ModelBegan,
    ModelSpoke,
    OutputGiven,
    StepEnded,
    ToolBegan,
    ToolDone,
    Unknown,
)
from stellwerk.stream.tree import graph_of

_SILENT = {
    f"on_{kind}_{point}" for kind in ("llm", "retriever", "prompt", "parser") for point in ("start", "stream", "end")
} | {"on_tool_stream"}
"""Known, and of no interest."""


class EventsReader:
    """Events of one run, one after the other."""

    def __init__(self, agent: str) -> None:
        self._updates = Updates(agent)
        self._open: dict[str, str] = {}
        """Steps that have not ended, and in which task each is."""
        self._wanted: dict[str, list[tuple[str, str, Any]]] = {}
        """Tool calls that a step was begun with, and which have not begun themselves."""
        self._asked: dict[str, Item] = {}
        self._readers: dict[str, Callable[[float, Item], Iterator[Fact]]] = {
            "on_chain_start": self._chain_start,
            "on_chain_stream": self._chain_stream,
            "on_chain_end": self._chain_end,
            "on_chain_error": self._chain_error,
            "on_chat_model_start": self._model_start,
            "on_chat_model_stream": self._model_stream,
            "on_chat_model_end": self._model_end,
            "on_chat_model_error": self._call_error,
            "on_llm_error": self._call_error,
            "on_tool_start": self._tool_start,
            "on_tool_end": self._tool_end,
            "on_tool_error": self._call_error,
            "on_custom_event": self._custom,
        }

    def feed(self, event: Item) -> Iterator[Fact]:
        kind, ts = str(event.get("event")), time_of(event)
        if kind in self._readers:
            yield from self._readers[kind](ts, event)
        elif kind not in _SILENT:
            yield Unknown(ts, f"event {kind[:100]}")

    def _chain_start(self, ts: float, event: Item) -> Iterator[Fact]:
        run, about, name = _run(event), table(event.get("metadata")), str(event.get("name") or "")
        space, node = str(about.get("langgraph_checkpoint_ns", "")), about.get("langgraph_node")
        self._open[run] = space
        self._wanted[run] = calls_given(_data(event).get("input"))
        if not _parent(event):
            self._updates.know(_data(event).get("input"))
        named, given = node if name == node else None, given_to(_data(event).get("input"))
        yield Linked(run, _parent(event), named, space, name, ts, given)

    def _chain_stream(self, ts: float, event: Item) -> Iterator[Fact]:
        """The outermost graph streams the updates of its nodes."""
        chunk = _data(event).get("chunk")
        if _parent(event) or not isinstance(chunk, dict):
            return
        self._asked |= {str(asked.get("id")): asked for asked in map(table, rows(chunk.get("__interrupt__")))}
        yield from self._updates.of(ts, "", chunk)

    def _chain_end(self, ts: float, event: Item) -> Iterator[Fact]:
        run, parent, output = _run(event), _parent(event), _data(event).get("output")
        space = self._open.pop(run, "")
        graph, node = graph_of(space), table(event.get("metadata")).get("langgraph_node")
        # The step that is a node itself, and not one inside the node; those of the outermost graph are streamed.
        if graph and event.get("name") == node and self._open.get(parent or "") != space:
            for change in changes_in(output):
                yield from self._updates.change(ts, graph, str(node), change)
        if parent is None and self._asked:
            yield from self._questions(ts)
        yield StepEnded(ts, run)
        if parent is None and not self._asked and (given := output_of(output)) is not None:
            yield OutputGiven(ts, given)

    def _questions(self, ts: float) -> Iterator[Fact]:
        """Steps that have not ended when the graph has are those that wait for an answer."""
        for run in reversed(self._open):
            yield CallPaused(run, tuple(self._asked))
        for ask_id, asked in self._asked.items():
            yield Interrupted(ts, ask_id, asked.get("value"), asked.get("response_schema"), "")

    def _model_start(self, ts: float, event: Item) -> Iterator[Fact]:
        about = table(event.get("metadata"))
        yield ModelBegan(
            ts,
            _run(event),
            _parent(event),
            str(about.get("ls_model_name") or event.get("name") or "unknown"),
            about.get("lc_agent_name"),
            about.get("langgraph_node"),
            params_of(about),
            voice_of(event.get("tags")),
        )

    def _model_stream(self, ts: float, event: Item) -> Iterator[Fact]:
        said = table(_data(event).get("chunk"))
        for kind, block, text in spoken_in(said):
            if text:
                yield ModelSpoke(ts, _run(event), text, kind, block)
        yield from written_in(ts, _run(event), said)

    def _model_end(self, ts: float, event: Item) -> Iterator[Fact]:
        ended = done(ts, _run(event), table(_data(event).get("output")))
        self._updates.spoken.add(ended.message_id)
        yield ended

    def _tool_start(self, ts: float, event: Item) -> Iterator[Fact]:
        about, name, args = table(event.get("metadata")), str(event.get("name") or "tool"), _data(event).get("input")
        ours = table(about.get(OURS))
        agent, signal = agent_behind(name, args, ours)
        yield ToolBegan(
            ts=ts,
            run=_run(event),
            parent=_parent(event),
            name=name,
            tool_call_id=self._call_id(event, name),
            namespace=str(about.get("langgraph_checkpoint_ns", "")),
            args=dict(table(args)),
            agent=about.get("lc_agent_name"),
            node=about.get("langgraph_node"),
            kind="tool" if agent is None else "agent",
            title=agent,
            signal=signal,
            idempotent=bool(ours.get("idempotent")),
        )

    def _call_id(self, event: Item, name: str) -> str:
        """The first call of this tool that its step was to make and has not made; else the run itself is the id."""
        wanted = self._wanted.get(_parent(event) or "", [])
        for number, (tool, tool_call_id, _) in enumerate(wanted):
            if tool == name:
                del wanted[number]
                return tool_call_id
        return _run(event)

    def _tool_end(self, ts: float, event: Item) -> Iterator[Fact]:
        answer = answer_in(_data(event).get("output"))
        yield ToolDone(ts, _run(event), payload_of(answer), failed(answer), notes_of(answer))

    def _chain_error(self, ts: float, event: Item) -> Iterator[Fact]:
        """LangChain does not stream these; whoever records callbacks beside has them."""
        error = table(_data(event).get("error"))
        self._open.pop(_run(event), None)
        if "interrupts" in error:
            yield CallPaused(_run(event), ask_ids(error["interrupts"]))
        else:
            yield StepEnded(ts, _run(event), str(error.get("class", "Exception")))

    def _call_error(self, ts: float, event: Item) -> Iterator[Fact]:
        error = table(_data(event).get("error"))
        if "interrupts" in error:
            yield CallPaused(_run(event), ask_ids(error["interrupts"]))
        else:
            yield CallFailed(ts, _run(event), str(error.get("class", "Exception")), str(error.get("message", "")))

    def _custom(self, ts: float, event: Item) -> Iterator[Fact]:
        yield Emitted(ts, "", {"name": event.get("name"), "data": event.get("data")}, run=_run(event))


def _run(event: Item) -> str:
    return str(event.get("run_id") or "")


def _parent(event: Item) -> str | None:
    parents = rows(event.get("parent_ids"))
    return str(parents[-1]) if parents else None


def _data(event: Item) -> Item:
    return table(event.get("data"))
