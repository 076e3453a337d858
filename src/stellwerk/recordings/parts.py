"""Recorded ``astream`` (version 2) parts as facts.

Parts know no run ids: a task is known by its own id, a tool by the task that
runs it, a model call by the id of its message. What belongs to what is told by
the namespaces, which name the tasks around.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from stellwerk.envelope.canonical import canonical, canonical_json
from stellwerk.ids import digest_id
from stellwerk.recordings.shapes import (
    ACCEPTED,
    Item,
    agent_behind,
    answer_in,
    ask_ids,
    calls_given,
    done,
    failed,
    given_to,
    messages_in,
    notes_of,
    params_of,
    payload_of,
    plain_id,
    rows,
    spoken_in,
    table,
    time_of,
    written_in,
)
from stellwerk.recordings.speech import Task, Words
from stellwerk.recordings.updates import Updates, output_of
from stellwerk.stream.facts import (
    CallFailed,
    CallPaused,
    CheckpointSaved,
    Emitted,
    Fact,
    Interrupted,
    Linked,
    ModelBegan,
    ModelDone,
    ModelSpoke,
    OutputGiven,
    StepEnded,
    ToolBegan,
    ToolDone,
    ToolSpoke,
    Unknown,
)
from stellwerk.stream.model_calls import message_id_of

_BY_MODEL = message_id_of("")
"""How the ids of messages begin that a model call made."""


class PartsReader:
    """Parts of one run, one after the other. ``tools`` says which tools are agents: parts know nothing of tools."""

    def __init__(self, agent: str, tools: Mapping[str, Item]) -> None:
        self._updates, self._about = Updates(agent), tools
        self._tasks: dict[str, Task] = {}
        """By their namespace; those that have not ended."""
        self._ran: dict[tuple[str, str], Task] = {}
        """Who makes a tool call, by the graph's namespace and the call's id."""
        self._speaking: dict[str, Words] = {}
        self._saved: set[str] = set()
        self._output: Any = None
        self._readers: dict[str, Callable[[float, str, Any], Iterator[Fact]]] = {
            "tasks": self._task,
            "tools": self._tool,
            "messages": self._message,
            "updates": self._update,
            "custom": self._custom,
            "checkpoints": self._checkpoint,
        }

    def feed(self, part: Item) -> Iterator[Fact]:
        kind, ts = str(part.get("type")), time_of(part)
        if kind in self._readers:
            yield from self._readers[kind](ts, "|".join(map(str, rows(part.get("ns")))), part.get("data"))
        else:
            yield Unknown(ts, f"part {kind[:100]}")

    def finish(self, ts: float) -> Iterator[Fact]:
        if self._output is not None:
            yield OutputGiven(ts, self._output)

    def _around(self, space: str) -> Task | None:
        """The task in which a graph, or what it calls, stands; a second graph of a task has a number behind it."""
        while space and space not in self._tasks:
            space = space.rpartition("|")[0]
        return self._tasks.get(space)

    def _parent(self, space: str) -> str | None:
        """The tool that runs in the task, if there is only one to think of; else the task itself."""
        task = self._around(space)
        if task is None:
            return None
        return next(iter(task.tools.values())) if len(task.tools) == 1 else task.id

    def _task(self, ts: float, space: str, data: Any) -> Iterator[Fact]:
        found = table(data)
        node, id_ = str(found.get("name") or ""), str(found.get("id") or "")
        own = f"{space}|{node}:{id_}" if space else f"{node}:{id_}"
        if "input" not in found:
            yield from self._task_ended(ts, space, own, found)
            return
        agent = table(found.get("metadata")).get("lc_agent_name")
        task = self._tasks[own] = Task(id_, own, node, agent)
        for _, tool_call_id, _ in calls_given(found["input"]):
            self._ran[space, tool_call_id] = task
        yield Linked(id_, self._parent(space), node, own, node, ts, given_to(found["input"]))

    def _task_ended(self, ts: float, space: str, own: str, data: Item) -> Iterator[Fact]:
        task, asked = self._tasks.pop(own, None), rows(data.get("interrupts"))
        if task is None:
            return
        if asked:
            for run in (*task.tools.values(), task.id):
                yield CallPaused(run, ask_ids(asked))
            for question in map(table, asked):
                value, schema = question.get("value"), question.get("response_schema")
                yield Interrupted(ts, str(question.get("id") or ""), value, schema, space)
            return
        error = table(data.get("error"))
        kind = str(error.get("class", "Exception")) if data.get("error") is not None else None
        for run in sorted(task.models) if kind else ():
            yield CallFailed(ts, run, kind or "", str(error.get("message", "")))
        yield StepEnded(ts, task.id, kind)

    def _tool(self, ts: float, space: str, data: Any) -> Iterator[Fact]:
        found = table(data)
        tool_call_id = str(found.get("tool_call_id") or "")
        task = self._ran.get((space, tool_call_id)) or self._last_in(space)
        run = f"{task.id if task else space} {tool_call_id}"
        match found.get("event"):
            case "tool-started":
                yield self._began(ts, run, task, tool_call_id, found)
                if task:
                    task.tools[tool_call_id] = run
                return
            case "tool-output-delta":
                yield ToolSpoke(ts, run, found.get("delta"))
                return
            case "tool-finished":
                answer = answer_in(found.get("output"))
                yield ToolDone(ts, run, payload_of(answer), failed(answer), notes_of(answer))
            case "tool-error":
                yield CallFailed(ts, run, "Exception", str(found.get("message") or ""))
            case other:
                yield Unknown(ts, f"tools part {str(other)[:100]}")
        if task:
            task.tools.pop(tool_call_id, None)

    def _last_in(self, space: str) -> Task | None:
        """A tool that no step was begun for: whoever began last calls it himself."""
        return next((t for t in reversed(self._tasks.values()) if t.space.rpartition("|")[0] == space), None)

    def _began(self, ts: float, run: str, task: Task | None, tool_call_id: str, data: Item) -> ToolBegan:
        name, args = str(data.get("tool_name") or "tool"), data.get("input")
        ours = self._about.get(name, {})
        agent, signal = agent_behind(name, args, ours)
        return ToolBegan(
            ts=ts,
            run=run,
            parent=task.id if task else None,
            name=name,
            tool_call_id=tool_call_id,
            namespace=task.space if task else "",
            args=dict(table(args)),
            agent=task.agent if task else None,
            node=task.node if task else None,
            kind="tool" if agent is None else "agent",
            title=agent,
            signal=signal,
            idempotent=bool(ours.get("idempotent")),
        )

    def _message(self, ts: float, space: str, data: Any) -> Iterator[Fact]:
        message, about = (table(data[0]), table(data[1])) if len(rows(data)) == 2 else ({}, {})
        run = plain_id(message).removeprefix(_BY_MODEL)
        if message.get("type") == "AIMessageChunk":
            yield from self._words(ts, run, message, about)
        # Whole, by a model that does not stream; one that a node returned comes without a word about a model.
        elif message.get("type") == "ai" and "ls_model_type" in about and run not in self._speaking:
            yield self._model(ts, run, message, about)
            yield self._whole(ts, run, message)

    def _words(self, ts: float, run: str, message: Item, about: Item) -> Iterator[Fact]:
        if run not in self._speaking:
            yield self._model(ts, run, message, about)
        words = self._speaking[run]
        words.hear(message)
        for kind, block, text in spoken_in(message):
            if text:
                words.texts += [text] if kind == "text" else []
                yield ModelSpoke(ts, run, text, kind, block)
        yield from written_in(ts, run, message)
        if message.get("chunk_position") == "last":
            if words.task:
                words.task.models.discard(run)
            self._updates.spoken.add(plain_id(message))
            yield words.done(ts, run, message)

    def _model(self, ts: float, run: str, message: Item, about: Item) -> ModelBegan:
        space = str(about.get("langgraph_checkpoint_ns", ""))
        task = self._around(space)
        self._speaking[run] = Words(task)
        if task:
            task.models.add(run)
        named = about.get("ls_model_name") or table(message.get("response_metadata")).get("model_name")
        agent, node = about.get("lc_agent_name"), about.get("langgraph_node")
        return ModelBegan(ts, run, self._parent(space), str(named or "unknown"), agent, node, params_of(about))

    def _whole(self, ts: float, run: str, message: Item) -> ModelDone:
        words = self._speaking[run]
        if words.task:
            words.task.models.discard(run)
        self._updates.spoken.add(plain_id(message))
        return done(ts, run, message)

    def _update(self, ts: float, space: str, data: Any) -> Iterator[Fact]:
        # Questions in it are told when their task ends: only then is it known which tool asks.
        for node, update in table(data).items():
            changes = update if isinstance(update, list) else [update]
            for message in (m for change in changes for m in messages_in(change) if m.get("type") == "ai"):
                yield from self._unheard(ts, space, str(node), message, any(ACCEPTED in table(c) for c in changes))
        yield from self._updates.of(ts, space, table(data))

    def _unheard(self, ts: float, space: str, node: str, message: Item, held: bool) -> Iterator[Fact]:
        """A message by a model that nobody heard speak: its words were held back, or are for nobody."""
        run = plain_id(message).removeprefix(_BY_MODEL)
        task = next((t for t in self._tasks.values() if (t.space.rpartition("|")[0], t.node) == (space, node)), None)
        if run == plain_id(message) or run in self._speaking or plain_id(message) in self._updates.known or not task:
            return
        self._speaking[run] = Words(task)
        model = str(table(message.get("response_metadata")).get("model_name") or "unknown")
        voice: Any = "held" if held else "silent"
        yield ModelBegan(ts, run, self._parent(task.space), model, task.agent, node, {}, voice)
        yield self._whole(ts, run, message)

    def _custom(self, ts: float, space: str, data: Any) -> Iterator[Fact]:
        named = table(data).get("tool_call_id")
        yield Emitted(ts, space, data, named if isinstance(named, str) else None)

    def _checkpoint(self, ts: float, space: str, data: Any) -> Iterator[Fact]:
        found, first = table(data), space not in self._saved
        self._saved.add(space)
        values = found.get("values")
        if not space:
            self._updates.know(values)
            self._output = None if found.get("next") else output_of(values)
        # A graph that goes on tells first where from; that was saved, and told, before.
        if first and table(found.get("metadata")).get("source") != "input":
            return
        id_ = table(table(found.get("config")).get("configurable")).get("checkpoint_id")
        digest = digest_id(canonical_json(canonical(values).value).decode())
        yield CheckpointSaved(ts, str(id_ or ""), space, digest)
