"""StreamAdapter: facts of one run in, envelopes out, in order, placed in the call tree.

Pure: times come with the facts, and ids follow from them. ``seq`` stays 0 here;
``calls.OpenCalls`` counts it, as it knows what is stored already.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from stellwerk.envelope import model as m
from stellwerk.envelope.introspection import Blob
from stellwerk.envelope.payloads import Checkpointed, Filed, FilePart, Problem, Resumed, Said, TextPart
from stellwerk.envelope.results import FileRef
from stellwerk.envelope.to_json import clean_text, to_result
from stellwerk.ids import digest_id
from stellwerk.stream import facts as f
from stellwerk.stream.calls import CallTree, graph_of, is_below
from stellwerk.stream.model_calls import ModelCalls
from stellwerk.stream.outcomes import AnswerCandidates, OutcomeBuilder, add_usage, used_by
from stellwerk.stream.states import States
from stellwerk.stream.tool_calls import ToolCalls


class StreamAdapter:
    """Turns the facts of one run into envelopes. ``agent`` is the name of the outermost agent."""

    def __init__(self, *, trace_id: str, run_id: str, agent: str) -> None:
        self.tree = CallTree(trace_id, run_id, agent)
        self._models = ModelCalls(self.tree)
        self._tools = ToolCalls(self.tree)
        self._states = States(self.tree, self._tools.requests)
        self._answers = AnswerCandidates()
        self.usage = self._models.usage
        self.declined = False
        """The user answered no at a breakpoint."""
        self._messages: set[str] = set()
        """Ids of the messages known so far."""
        self._ts = 0.0
        self._resumes_at: Checkpointed | None = None
        """The checkpoint that the outermost graph resumes from, until that is recorded."""
        self._attempt = 1
        self._mapping: dict[type[f.Fact], Callable[[Any], Iterable[m.Envelope]]] = {
            f.ModelToken: self._models.token,
            f.ToolArgsDelta: self._models.args_delta,
            f.ModelStarted: self._model_started,
            f.ModelFinished: self._model_finished,
            f.ToolStarted: self._tool_started,
            f.ToolFinished: self._tools.finished,
            f.ToolAnswered: self._tools.answered,
            f.CallFailed: self._call_failed,
            f.CallPaused: self._tools.paused,
            f.StepStarted: self._step_started,
            f.StepEnded: self._step_ended,
            f.Interrupted: self._interrupted,
            f.Declined: self._declined,
            f.MessageReturned: self._message_returned,
            f.MessageRemoved: self._message_removed,
            f.AnswerAccepted: self._answer_accepted,
            f.StateDecides: self._state_decides,
            f.AnswerGiven: self._answer_given,
            f.OutputGiven: self._output_given,
            f.NodeUpdated: self._states.updated,
            f.ToolOutputDelta: self._states.tool_output,
            f.CustomEvent: self._states.custom_event,
            f.CheckpointSaved: self._states.saved,
            f.Warned: self._warned,
        }

    @property
    def answer(self) -> str:
        """The answer of the run, as far as it is known."""
        return self._answers.text

    @property
    def asks(self) -> list[m.AskUser]:
        """Unanswered questions of this run."""
        open_ones: list[m.AskUser] = []
        for ask_id, ask in self._states.asks.items():
            if (ask.payload.interrupt_id or ask_id) not in self.tree.given_up:
                open_ones.append(ask)
        return open_ones

    @property
    def paused(self) -> Collection[str]:
        """Calls on the path to those questions; they stay open."""
        return self.tree.waiting_for_user()

    @property
    def suspended(self) -> Collection[str]:
        """Paused calls of this run, and those of earlier runs that it has not resumed yet."""
        return {*self.paused, *(start.call_id for start in self._tools.waiting.values())}

    def blobs(self) -> list[Blob]:
        """Return, once, the blobs to store before the envelopes since the last time."""
        found = self.tree.blobs
        self.tree.blobs = []
        return found

    @property
    def waiting(self) -> Sequence[m.Message]:
        """Messages that are recorded once it is known which of them is the answer."""
        return tuple(self._answers.waiting)

    def seed(
        self,
        history: Iterable[m.Envelope],
        waiting: Sequence[m.Message] = (),
        *,
        goes_on: bool = True,
    ) -> None:
        """Resume a trace after a question, or a run after a crash; open calls go on.

        ``waiting`` waited when the last checkpoint was stored. Later messages of models come again
        if the run goes on.
        """
        before = _ResumeState(self.tree, self._models, self._tools, self._states)
        before.fold(history)
        self._states.resumed = True
        self._resumes_at = before.checkpoint
        self._attempt = before.attempts + 1
        self._messages |= before.messages
        self._answers.recorded |= before.messages
        streamed = {end.payload.message_id for end, _ in before.answers} | before.drafts.keys()
        for kept in (each for each in waiting if each.payload.message_id not in self._messages):
            self._messages.add(kept.payload.message_id)
            self._answers.wait(kept, by_model=kept.payload.message_id in streamed)
        for end, text in before.answers[: before.in_state] if goes_on else before.answers:
            if end.payload.message_id not in self._messages and end.run_id == self.tree.run_id:
                message = self._message(end.ts, end.payload.message_id, text, end.agent)
                if message is not None:
                    self._answers.wait(message, by_model=True)
        drafts = before.drafts.items()
        self._answers.drafts = {id_: text for id_, text in drafts if id_ not in self._messages}

    def feed(self, fact: f.Fact) -> Iterable[m.Envelope]:
        return self._mapping[type(fact)](fact)

    def finish(self) -> Iterator[m.Envelope]:
        """Record the answer, now that no step can follow it."""
        yield from self.tree.abandon_held(self._ts)
        yield from self._answers.release("step" if self.asks else "last")

    def interrupt(self) -> Iterable[m.Envelope]:
        """Record the waiting messages of a run that ends here; none of them is an answer."""
        return self._answers.release("step")

    def _step_started(self, fact: f.StepStarted) -> Iterator[m.Envelope]:
        tree = self.tree
        if self._resumes_at is not None and fact.parent is None:
            saved = self._resumes_at
            self._resumes_at = None
            payload = Resumed(checkpoint_id=saved.checkpoint_id, node=saved.node, attempt=self._attempt)
            yield m.SubgraphResume(**tree.root(fact.ts), payload=payload)
        above = tree.steps.get(fact.parent or "")
        tree.steps[fact.run] = fact
        self._states.step_started(fact)
        # One level below its parent, which is a graph, perhaps without a tool or agent of its own.
        if above is not None and above.namespace and is_below(fact.namespace, above.namespace):
            if above.run not in tree.calls and tree.where.get(tree.owner(above.run)) != above.namespace:
                self._states.called(fact)
                yield from self._tools.graph_started(above)
        tree.claim(graph_of(fact.namespace), tree.owner(fact.parent))

    def _step_ended(self, fact: f.StepEnded) -> Iterator[m.Envelope]:
        graph = self.tree.calls.get(fact.run)
        yield from self._tools.graph_ended(fact)
        self.tree.steps.pop(fact.run, None)
        if fact.failed is not None and isinstance(graph, m.ToolStart):
            yield self._raised(fact.ts, graph, graph.payload.tool_name, fact.failed)

    def _model_started(self, fact: f.ModelStarted) -> Iterator[m.Envelope]:
        parent = self.tree.owner(fact.parent)
        self._states.called(fact)
        if parent == self.tree.run_id and fact.voice != "silent":
            yield from self._answers.model_starts()
        draft = self._answers.by_state and parent == self.tree.run_id and fact.voice == "open"
        yield from self._models.started(fact, parent, draft=draft)

    def _model_finished(self, fact: f.ModelFinished) -> Iterator[m.Envelope]:
        found = self._models.close(fact.run)
        if found is None:
            return
        start, voice = found
        self._ts = fact.ts
        yield from self._models.finished(fact, start, voice)
        self._tools.requests.add(start.parent_id, fact.tool_calls)
        if (inside := self._tools.outcomes.get(start.parent_id or "")) is not None:
            add_usage(inside.usage, used_by(start.payload.model, fact.input_tokens, fact.output_tokens))
        if voice == "held" and not fact.tool_calls:
            self._messages.add(fact.message_id)  # it is said when it is accepted
        elif voice != "silent":
            yield from self._said(start, fact, step=bool(fact.tool_calls))

    def _tool_started(self, fact: f.ToolStarted) -> Iterable[m.Envelope]:
        self._states.called(fact)
        return self._tools.started(fact)

    def _answer_accepted(self, fact: f.AnswerAccepted) -> Iterator[m.Envelope]:
        start, streamed = self._models.accepted(fact.message_id, fact.text, fact.ts)
        yield from streamed
        if start is not None:
            yield from self._said(start, fact, step=False)

    def _said(self, start: m.LlmStart, fact: f.ModelFinished | f.AnswerAccepted, *, step: bool) -> Iterator[m.Envelope]:
        owner = start.parent_id or ""
        if (inside := self._tools.outcomes.get(owner)) is not None:
            inside.say(fact.message_id, fact.text)
        if start.payload.draft:
            self._answers.drafts[fact.message_id] = clean_text(fact.text)
        elif owner in self.tree.runs:
            message = self._message(fact.ts, fact.message_id, fact.text, start.agent)
            yield from self._answers.said(message, step=step, by_model=True)

    def _call_failed(self, fact: f.CallFailed) -> Iterator[m.Envelope]:
        start = self.tree.close(fact.run)
        if start is None:
            return
        if isinstance(start, m.LlmStart):
            yield from self._models.failed(start, fact.run, fact.ts)
            name = start.payload.model
        else:
            yield from self._tools.failed(start, fact)
            name = start.payload.tool_name
        yield self._raised(fact.ts, start, name, fact.kind)

    def _raised(self, ts: float, start: m.CallStart, name: str, kind: str) -> m.Envelope:
        """The public error names only the class; the message is for the caller."""
        problem = Problem(code="call_failed", message=f"{name} raised {kind}", name=name, class_=kind)
        return m.Error(**self.tree.place(ts, None, self.tree.run_id, start.agent), payload=problem)

    def _message_returned(self, fact: f.MessageReturned) -> Iterator[m.Envelope]:
        """A message in the state, perhaps of a model call that is recorded already."""
        if fact.message_id in self._messages:
            return
        # The framework adds missing ids only later.
        message_id = fact.message_id or digest_id(self.tree.run_id, "returned", str(len(self._messages)))
        draft = self._answers.take_draft(message_id, clean_text(fact.text))
        step = fact.asks_for_tools or fact.is_step
        parts = yield from self._filed(fact, draft or message_id)
        message = self._message(fact.ts, draft or message_id, fact.text, fact.agent, fact.documents, parts)
        yield from self._answers.said(message, step=step, by_model=draft is not None)

    def _filed(
        self, fact: f.MessageReturned | f.AnswerGiven, message_id: str
    ) -> Generator[m.Envelope, None, list[FilePart]]:
        """Record the files in a message's content, and return the parts that refer to them."""
        parts: list[FilePart] = []
        for file in fact.files:
            result, _, blobs = to_result(file)
            if isinstance(result, FileRef):
                self.tree.blobs += blobs
                parts.append(FilePart(document_id=result.document_id, filename=result.filename, mime=result.mime))
                named = (result.document_id, result.filename, result.mime, result.size)
                call_id = digest_id("document", message_id, result.document_id)
                place = self.tree.place(fact.ts, self.tree.run_id, call_id, fact.agent)
                yield m.Document(**place, payload=Filed.of(*named, message_id=clean_text(message_id)))
        return parts

    def _message_removed(self, fact: f.MessageRemoved) -> Iterable[m.Envelope]:
        """What is recorded already stays: graphs also shorten their state by removing messages."""
        if self._answers.by_state:
            self._answers.take_back(clean_text(fact.message_id))
        return ()

    def _interrupted(self, fact: f.Interrupted) -> Iterator[m.Envelope]:
        """Record the messages from before the question, and then the question."""
        asked = list(self._states.interrupted(fact))
        if asked:
            yield from self._answers.release("step")
        yield from asked

    def _declined(self, fact: f.Declined) -> Iterable[m.Envelope]:
        self.declined = True
        return ()

    def _state_decides(self, fact: f.StateDecides) -> Iterable[m.Envelope]:
        self._answers.by_state = True
        self._states.shows_nodes = True
        return ()

    def _answer_given(self, fact: f.AnswerGiven) -> Iterator[m.Envelope]:
        """The answer of a graph with messages: the last one of its state."""
        if clean_text(fact.message_id) in self._answers.recorded:
            fact = replace(fact, message_id=digest_id(self.tree.run_id, "answer"))
        yield from self._decide(fact)

    def _output_given(self, fact: f.OutputGiven) -> Iterator[m.Envelope]:
        """The answer of a graph without messages: its output, as text, and as data unless it is one."""
        if self.asks or (self.answer and not fact.value):
            return
        result, _, blobs = to_result(fact.value)
        self.tree.blobs += blobs
        text = result.as_text()
        if not fact.value and self._answers.drafts:  # a graph without any output
            text = list(self._answers.drafts.values())[-1]
        data = None if isinstance(fact.value, str) or not fact.value else fact.value
        output_id = digest_id(self.tree.run_id, "output")
        yield from self._decide(f.AnswerGiven(fact.ts, output_id, text, None, output=data))

    def _decide(self, fact: f.AnswerGiven) -> Iterator[m.Envelope]:
        """The text is the answer, under the id of the model call that wrote it, if one did."""
        if self.asks:
            return
        text = clean_text(fact.text)
        parts: list[FilePart] = []
        message_id = fact.message_id
        if not self._answers.waits(clean_text(message_id), text):
            message_id = self._answers.take_draft(message_id, text) or message_id
            parts = yield from self._filed(fact, message_id)
        answer = self._message(fact.ts, message_id, text, fact.agent, fact.documents, parts)
        if answer is not None:
            data = self.tree.canonical(fact.output).value
            self._answers.decide(replace(answer, payload=replace(answer.payload, output=data)))

    def _warned(self, fact: f.Warned) -> Iterator[m.Envelope]:
        problem = Problem(code=fact.code, message=clean_text(fact.message))
        yield m.Warning(**self.tree.root(fact.ts), payload=problem)

    def _message(
        self,
        ts: float,
        message_id: str,
        text: str,
        agent: str | None,
        documents: Sequence[str] = (),
        files: Sequence[FilePart] = (),
    ) -> m.Message | None:
        """Return None if there is neither text nor a file in it."""
        self._messages.add(message_id)
        clean = clean_text(text)
        if not clean and not files:
            return None
        said = Said(
            message_id=clean_text(message_id),
            role="assistant",
            content=[*([TextPart(text=clean)] if clean else []), *files],
            status="step",
            author=agent,
            documents=[*map(clean_text, documents), *(file.document_id for file in files)] or None,
        )
        call_id = digest_id("message", said.message_id)
        return m.Message(**self.tree.place(ts, self.tree.run_id, call_id, agent), payload=said)


@dataclass
class _ResumeState:
    """A fold over the log of a trace, from which an adapter goes on after a question or a crash.

    It fills the parts of the adapter; its own fields are what the adapter decides about. Calls that
    the earlier run left open go on under the same ids, events that the framework repeats are
    dropped, and the usage inside open calls still counts.
    """

    tree: CallTree
    models: ModelCalls
    tools: ToolCalls
    states: States
    attempts: int = 1
    """Runs of the trace so far, the first included."""
    checkpoint: Checkpointed | None = None
    """The last one of the outermost graph, from which it goes on."""
    messages: set[str] = field(default_factory=set)
    """Messages of the trace; a step that is not over returns them again."""
    answers: list[tuple[m.LlmEnd, str]] = field(default_factory=list)
    """The last texts of the outermost agent; a graph's state may choose the answer among them."""
    in_state: int = 0
    """How many of them the checkpoint has."""
    drafts: dict[str, str] = field(default_factory=dict)
    """Texts of models that become messages only if the graph puts them into its state."""
    _drafting: set[str] = field(default_factory=set)
    _first: dict[str, str] = field(default_factory=dict)
    """The first attempt of each call."""
    _texts: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    _parents: dict[str, str | None] = field(default_factory=dict)

    def fold(self, history: Iterable[m.Envelope]) -> None:
        for envelope in history:
            match envelope:
                case m.SubgraphCheckpoint(payload=saved, parent_id=None):
                    self.checkpoint = saved
                    self.in_state = len(self.answers)
                case m.RunStart(run_id=str(run_id)):
                    self.tree.runs.add(run_id)
                    self.answers = []
                    self.in_state = 0
                case m.SubgraphResume():
                    self.attempts += 1
                case m.Message(payload=said):
                    if envelope.run_id == self.tree.run_id or said.role == "assistant":
                        self.messages.add(said.message_id)
                case m.State(payload=changed):
                    self.states.versions[changed.name] = changed.version
                    self.states.changes += envelope.run_id == self.tree.run_id
                case m.AskUser():
                    self._asked(envelope)
                case _:
                    self._call(envelope)

    def _asked(self, ask: m.AskUser) -> None:
        asked = ask.payload
        if asked.tool_name and asked.tool_call_id:
            self.tools.requests.add(ask.parent_id, [(asked.tool_name, asked.tool_call_id, asked.args)])
        if ask.run_id == self.tree.run_id:  # questions of earlier runs are answered
            self.states.asks[asked.ask_id] = ask

    def _call(self, envelope: m.Envelope) -> None:
        match envelope:
            case m.ToolStart():
                self._tool_started(envelope)
            case m.ToolEnd():
                self._tool_ended(envelope)
            case m.LlmToken(payload=token) if token.kind == "text":
                self._texts[envelope.call_id].append(token.text)
            case m.LlmStart(payload=called) if called.draft:
                self._drafting.add(envelope.call_id)
            case m.LlmEnd():
                self._model_ended(envelope)
            case m.Document(payload=filed, parent_id=str(call)):
                inside = self.tools.outcomes.get(self._parents.get(call) or "")
                if inside is not None:
                    inside.file(filed.name, filed.document_id, filed.mime, filed.size)

    def _tool_started(self, start: m.ToolStart) -> None:
        before = start.payload.retry_of
        first = self._first[start.call_id] = self._first.get(before, before) if before else start.call_id
        self.tools.attempts[first] = self.tools.attempts.get(first, 0) + 1
        self.tools.waiting[first] = start
        self.tools.requests.take(start.parent_id, start.payload.tool_call_id)
        self.tools.requests.started(first, start)
        self._parents[start.call_id] = start.parent_id
        if start.payload.kind != "tool":
            self.tools.outcomes[start.call_id] = OutcomeBuilder()

    def _tool_ended(self, end: m.ToolEnd) -> None:
        self.tools.waiting.pop(self._first.get(end.call_id, end.call_id), None)
        inside = self.tools.outcomes.pop(end.call_id, None)
        outer = self.tools.outcomes.get(end.parent_id or "")
        if inside is not None and outer is not None:
            outer.take_over(inside)

    def _model_ended(self, end: m.LlmEnd) -> None:
        text = "".join(self._texts.pop(end.call_id, ()))
        done = end.payload
        if end.run_id == self.tree.run_id and done.usage is not None:
            add_usage(self.models.usage, done.usage)
        if done.status == "ok" and text and end.call_id in self._drafting:
            self.drafts[done.message_id] = text
        elif done.status == "ok" and text and end.parent_id in self.tree.runs:
            self.answers = [] if done.tool_calls else [*self.answers, (end, text)]
            self.in_state = min(self.in_state, len(self.answers))
        requested = [(call.name, call.tool_call_id, call.args) for call in done.tool_calls or ()]
        self.tools.requests.add(end.parent_id, requested)
        inside = self.tools.outcomes.get(end.parent_id or "")
        if inside is not None and done.usage is not None:
            add_usage(inside.usage, done.usage)
            inside.say(done.message_id, text if done.status == "ok" else "")
