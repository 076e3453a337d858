"""Recorded ``astream`` (version 2) parts as facts.

Parts have no run ids: a task is known by its own id, a tool by the task that
runs it, a model call by the id of its message. Namespaces name the tasks around
and so give the parents.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk

from stellwerk.agents.recorded import reader
from stellwerk.agents.recorded.reader import Item, StreamReader, rows, table
from stellwerk.agents.runtime import shapes
from stellwerk.agents.tools.registry import ARTIFACT_KEY
from stellwerk.envelope.to_json import canonical, canonical_json
from stellwerk.ids import digest_id
from stellwerk.stream import facts as f
from stellwerk.stream.calls import graph_of
from stellwerk.stream.model_calls import message_id_of

MODES = ("messages", "updates", "custom", "tools", "tasks", "checkpoints")
"""Stream modes that are read; together they give all facts."""
_BY_MODEL = message_id_of("")
"""The prefix of ids of messages that a model call made."""


@dataclass
class _Task:
    id: str
    space: str
    node: str
    agent: str | None
    tools: dict[str, str] = field(default_factory=dict)
    """Running tools, by tool_call_id."""
    models: set[str] = field(default_factory=set)

    @property
    def metadata(self) -> Item:
        """What LangGraph states about a call inside it."""
        return {"langgraph_checkpoint_ns": self.space, "langgraph_node": self.node, "lc_agent_name": self.agent}


class PartsReader(StreamReader):
    """Reads parts of ``subgraphs=True``; ``tools``: metadata of tools that run agents, by name."""

    def __init__(self, agent: str, tools: Mapping[str, Item]) -> None:
        super().__init__(agent)
        self._about = tools
        self._tasks: dict[str, _Task] = {}
        """Running tasks, by their namespace."""
        self._ran: dict[tuple[str, str], _Task] = {}
        """The task of a tool call, by the graph's namespace and the call's id."""
        self._models: dict[str, list[AIMessageChunk]] = {}
        """The chunks of each model call."""
        self._saved: set[str] = set()
        self._output: Any = None

    def _read(self, part: Item) -> Iterator[f.Fact]:
        space, data = "|".join(map(str, rows(part.get("ns")))), part.get("data")
        match part.get("type"):
            case "tasks":
                yield from self._task(space, table(data))
            case "tools":
                yield from self._tool(space, table(data))
            case "messages":
                yield from self._message(data)
            case "updates":
                yield from self._update(space, table(data))
            case "checkpoints":
                yield from self._checkpoint(space, table(data))
            case "custom":
                yield from shapes.facts_of({**part, "ns": [space]}, self, self._agent)
            case other:
                yield self._unknown(f"part {str(other)[:100]}")

    def finish(self) -> Iterator[f.Fact]:
        if self._output is not None:
            yield f.OutputGiven(self.ts, self._output)

    def _around(self, space: str) -> _Task | None:
        """Return the task around a graph; the namespace of its second graph ends in a number."""
        while space and space not in self._tasks:
            space = graph_of(space)
        return self._tasks.get(space)

    def _parent(self, space: str) -> str | None:
        """Return the tool that runs in the task, if it is the only one; else the task itself."""
        task = self._around(space)
        if task is None:
            return None
        return next(iter(task.tools.values())) if len(task.tools) == 1 else task.id

    def _task(self, space: str, found: Item) -> Iterator[f.Fact]:
        node = str(found.get("name") or "")
        task_id = str(found.get("id") or "")
        own = f"{space}|{node}:{task_id}" if space else f"{node}:{task_id}"
        if "input" not in found:
            ended = self._tasks.pop(own, None)
            if ended is not None:
                yield from self._task_ended(space, ended, found)
            return
        agent = table(found.get("metadata")).get("lc_agent_name")
        task = self._tasks[own] = _Task(task_id, own, node, agent)
        for _, tool_call_id in reader.requested_calls(found["input"]):
            self._ran[space, tool_call_id] = task
        given = shapes.graph_input_of(reader.with_messages(found["input"]))
        yield f.StepStarted(task_id, self._parent(space), node, own, node, self.ts, given)

    def _task_ended(self, space: str, task: _Task, data: Item) -> Iterator[f.Fact]:
        asked = rows(data.get("interrupts"))
        for run in (*task.tools.values(), task.id) if asked else ():
            yield f.CallPaused(run, reader.ask_ids(asked))
        for question in map(table, asked):
            ask_id, value = str(question.get("id") or ""), question.get("value")
            yield f.Interrupted(self.ts, ask_id, value, question.get("response_schema"), space)
        if asked:
            return
        failed = None
        if data.get("error") is not None:
            error = table(data["error"])
            failed = str(error.get("class", "Exception"))
            for run in sorted(task.models):
                yield f.CallFailed(self.ts, run, failed, str(error.get("message", "")))
        yield f.StepEnded(self.ts, task.id, failed)

    def _tool(self, space: str, found: Item) -> Iterator[f.Fact]:
        tool_call_id = str(found.get("tool_call_id") or "")
        task = self._ran.get((space, tool_call_id))
        running = self._in_graph(space)
        if task is None and running:  # the task that started last calls a tool of its own accord
            task = running[-1]
        run = f"{task.id if task else space} {tool_call_id}"
        match found.get("event"):
            case "tool-started":
                yield self._tool_started(run, task, tool_call_id, found)
                if task:
                    task.tools[tool_call_id] = run
                return
            case "tool-output-delta":
                yield f.ToolOutputDelta(self.ts, run, found.get("delta"))
                return
            case "tool-finished":
                yield self._tool_finished(run, found.get("output"))
            case "tool-error":
                yield f.CallFailed(self.ts, run, "Exception", str(found.get("message") or ""))
            case other:
                yield self._unknown(f"tools part {str(other)[:100]}")
        if task:
            task.tools.pop(tool_call_id, None)

    def _in_graph(self, space: str) -> list[_Task]:
        return [task for task in self._tasks.values() if graph_of(task.space) == space]

    def _tool_started(self, run: str, task: _Task | None, tool_call_id: str, data: Item) -> f.ToolStarted:
        called = {"name": str(data.get("tool_name") or "tool"), "tool_call_id": tool_call_id}
        about = {ARTIFACT_KEY: self._about.get(called["name"]), **(task.metadata if task else {})}
        args = dict(table(data.get("input")))
        parent = task.id if task else None
        return shapes.tool_started(self.ts, run, args, about, parent=parent, **called)

    def _message(self, data: Any) -> Iterator[f.Fact]:
        found, about = (data[0], table(data[1])) if len(rows(data)) == 2 else (None, {})
        message = reader.message_from(found)
        if not isinstance(message, AIMessage):
            return
        run = _run_of(message)
        model = about.get("ls_model_name") or message.response_metadata.get("model_name")
        if isinstance(message, AIMessageChunk):
            if run not in self._models:
                yield self._model_began(run, model, about)
            yield from self._deltas(run, message)
            chunks = self._models[run]
            chunks.append(message)
            if message.chunk_position == "last":
                yield self._model_ended(run, chunks[0] + chunks[1:] if len(chunks) > 1 else message)
        # A whole message of a model that does not stream; messages of nodes have no model metadata.
        elif "ls_model_type" in about and run not in self._models:
            yield self._model_began(run, model, about)
            yield self._model_ended(run, message)

    def _model_began(self, run: str, model: Any, about: Item) -> f.ModelStarted:
        space = str(about.get("langgraph_checkpoint_ns", ""))
        self._models[run] = []
        task = self._around(space)
        if task:
            task.models.add(run)
        return self._model_started(run, self._parent(space), model, about)

    def _model_ended(self, run: str, message: AIMessage) -> f.ModelFinished:
        for task in self._tasks.values():
            task.models.discard(run)
        return self._model_finished(run, message)

    def _update(self, space: str, data: Item) -> Iterator[f.Fact]:
        # Questions wait for the end of their task: only then is it known which tool asks.
        for node, update in data.items():
            changes = update if isinstance(update, list) else [update]
            is_held = any(shapes.ACCEPTED in table(change) for change in changes)
            for change in changes:
                for message in reader.messages_of(change):
                    if isinstance(message, AIMessage):
                        yield from self._unstreamed(space, str(node), message, is_held)
        yield from self._updates(space, data)

    def _unstreamed(self, space: str, node: str, message: AIMessage, is_held: bool) -> Iterator[f.Fact]:
        """Read a message of a model call that was not streamed: held, or silent."""
        run = _run_of(message)
        message_id = shapes.plain_id(message.id)
        running = [task for task in self._in_graph(space) if task.node == node]
        if run == message_id or run in self._models or message_id in self._known or not running:
            return
        task = running[0]
        self._models[run] = []
        model = message.response_metadata.get("model_name")
        voice: f.Voice = "held" if is_held else "silent"
        yield self._model_started(run, self._parent(task.space), model, task.metadata, voice)
        yield self._model_finished(run, message)

    def _checkpoint(self, space: str, found: Item) -> Iterator[f.Fact]:
        is_first = space not in self._saved
        self._saved.add(space)
        values = found.get("values")
        if not space:
            self._know(values)
            self._output = None if found.get("next") else reader.output_of(values)
        # A resumed graph first reports the checkpoint it resumes from, recorded before.
        if is_first and table(found.get("metadata")).get("source") != "input":
            return
        id_ = table(table(found.get("config")).get("configurable")).get("checkpoint_id")
        digest = digest_id(canonical_json(canonical(values).value).decode())
        yield f.CheckpointSaved(self.ts, str(id_ or ""), space, digest)


def _run_of(message: AIMessage) -> str:
    """The id of the model call; that of the message if no model call made it."""
    return shapes.plain_id(message.id).removeprefix(_BY_MODEL)
