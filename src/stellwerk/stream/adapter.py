"""StreamAdapter: facts in, envelopes out, in order, each in its place.

Pure: time comes with the facts, ids follow from them, nothing is guessed. The
adapter knows which call belongs to which; counting (``seq``) is left to whoever
stores, because only he knows what is stored already.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from stellwerk.envelope.canonical import clean_text
from stellwerk.envelope.model import (
    AskUser,
    CallStart,
    Envelope,
    Error,
    LlmStart,
    Message,
    SubgraphResume,
    ToolStart,
    Warning,
)
from stellwerk.envelope.payloads import Checkpointed, Problem, Resumed, Said, TextPart, Usage
from stellwerk.envelope.results import to_result
from stellwerk.envelope.shapes import Blob
from stellwerk.ids import digest_id
from stellwerk.stream import facts as f
from stellwerk.stream.answers import Answers
from stellwerk.stream.model_calls import ModelCalls
from stellwerk.stream.outcomes import used_by
from stellwerk.stream.resuming import Resuming
from stellwerk.stream.states import States
from stellwerk.stream.tool_calls import ToolCalls
from stellwerk.stream.tree import Tree, graph_of


class StreamAdapter:
    """The facts of one run. ``agent`` is the name of the outermost agent."""

    def __init__(self, *, trace_id: str, run_id: str, agent: str) -> None:
        self._tree = Tree(trace_id, run_id, agent)
        self._models = ModelCalls(self._tree)
        self._tools = ToolCalls(self._tree, self._models)
        self._states = States(self._tree, self._tools)
        self._answers = Answers()
        self.declined = False
        """The user said no at a breakpoint."""
        self._spoken: set[str] = set()
        self._ts = 0.0
        self._goes_on: Checkpointed | None = None
        """Where the outermost graph goes on, until that is told."""
        self._attempt = 1
        self._mapping: dict[type[f.Fact], Callable[[Any], Iterable[Envelope]]] = {
            f.ModelSpoke: self._models.spoke,
            f.ModelWrote: self._models.wrote,
            f.ModelBegan: self._model_began,
            f.ModelDone: self._model_done,
            f.ToolBegan: self._tools.began,
            f.ToolDone: self._tools.done,
            f.ToolAnswered: self._tools.answered,
            f.CallFailed: self._call_failed,
            f.CallPaused: self._tools.pause,
            f.Linked: self._linked,
            f.StepEnded: self._step_ended,
            f.Interrupted: self._states.interrupted,
            f.Declined: self._declined,
            f.MessageReturned: self._message_returned,
            f.AnswerAccepted: self._answer_accepted,
            f.StateDecides: self._state_decides,
            f.AnswerGiven: self._answer_given,
            f.OutputGiven: self._output_given,
            f.NodeUpdated: self._states.updated,
            f.ToolSpoke: self._states.tool_spoke,
            f.Emitted: self._states.emitted,
            f.CheckpointSaved: self._states.saved,
            f.Warned: self._warned,
            f.Unknown: self._unknown,
        }

    @property
    def agent(self) -> str:
        return self._tree.agent

    @agent.setter
    def agent(self, name: str) -> None:
        self._tree.agent = name

    @property
    def answer(self) -> str:
        """What the run answers, as far as is known."""
        return self._answers.text

    @property
    def usage(self) -> dict[str, Usage]:
        """Tokens per model so far."""
        return self._models.usage

    @property
    def asks(self) -> list[AskUser]:
        """Questions of this run, which nobody has answered yet."""
        return [ask for ask_id, ask in self._states.asks.items() if ask_id not in self._tools.given_up]

    @property
    def paused(self) -> Collection[str]:
        """Calls on the path to those questions; they stay open."""
        return self._tools.waiting_for_user()

    @property
    def suspended(self) -> Collection[str]:
        """Calls that are paused: those of this run, and those that it has yet to take up again."""
        return {*self._tools.waiting_for_user(), *(start.call_id for start in self._tools.waiting.values())}

    def blobs(self) -> list[Blob]:
        """What must be stored before the envelopes that were given since the last time; each is given once."""
        found, self._tree.blobs = self._tree.blobs, []
        return found

    @property
    def waiting(self) -> Sequence[Message]:
        """Messages that are recorded when it is known whether one of them is the answer."""
        return tuple(self._answers.waiting)

    def seed(self, history: Iterable[Envelope], waiting: Sequence[Message] = (), *, goes_on: bool = True) -> None:
        """Take up the trace where it asked the user, or where this run was cut off; what is open goes on.

        ``waiting`` waited when the last state was stored. What a model said later is said again if the run goes on.
        """
        self._states.resumed = True
        resuming = Resuming(self._tools, self._states)
        resuming.take_up(history)
        self._goes_on, self._attempt = resuming.checkpoint, resuming.attempts + 1
        self._spoken |= resuming.said
        self._answers.recorded |= resuming.said
        streamed = {end.payload.message_id for end, _ in resuming.answers}
        for kept in (each for each in waiting if each.payload.message_id not in self._spoken):
            self._spoken.add(kept.payload.message_id)
            self._answers.wait(kept, by_model=kept.payload.message_id in streamed)
        for end, text in resuming.answers[: resuming.in_state] if goes_on else resuming.answers:
            if end.payload.message_id not in self._spoken and end.run_id == self._tree.run_id:
                message = self._message(end.ts, end.payload.message_id, text, end.agent)
                if message is not None:
                    self._answers.wait(message, by_model=True)

    def feed(self, fact: f.Fact) -> Iterable[Envelope]:
        return self._mapping[type(fact)](fact)

    def finish(self) -> Iterator[Envelope]:
        """The answer, now that no step can follow it."""
        yield from self._models.refused(self._ts)
        yield from self._answers.release("step" if self.asks else "last")

    def cut_off(self) -> Iterable[Envelope]:
        """What was said in full and waits; the run ends here, and none of it is an answer."""
        return self._answers.release("step")

    def _linked(self, fact: f.Linked) -> Iterator[Envelope]:
        if self._goes_on is not None and fact.parent is None:
            yield self._resumed(fact.ts, self._goes_on)
        tree, above = self._tree, self._tree.steps.get(fact.parent or "")
        tree.steps[fact.run] = fact
        self._states.step_began(fact)
        # A step one level below the one around it: that one is a graph, and perhaps no tool's or agent's own.
        if above is not None and above.namespace and fact.namespace.startswith(above.namespace + "|"):
            if above.run not in tree.calls and tree.where.get(tree.owner(above.run)) != above.namespace:
                yield from self._tools.graph_began(above)
        tree.claim(graph_of(fact.namespace), tree.owner(fact.parent))

    def _resumed(self, ts: float, saved: Checkpointed) -> Envelope:
        self._goes_on = None
        payload = Resumed(checkpoint_id=saved.checkpoint_id, node=saved.node, attempt=self._attempt)
        return SubgraphResume(**self._tree.root(ts), payload=payload)

    def _step_ended(self, fact: f.StepEnded) -> Iterator[Envelope]:
        graph = self._tree.calls.get(fact.run)
        yield from self._tools.graph_ended(fact)
        self._tree.steps.pop(fact.run, None)
        if fact.failed is not None and isinstance(graph, ToolStart):
            yield self._raised(fact.ts, graph, graph.payload.tool_name, fact.failed)

    def _model_began(self, fact: f.ModelBegan) -> Iterator[Envelope]:
        parent = self._tree.owner(fact.parent)
        if parent == self._tree.run_id and fact.voice != "silent":
            yield from self._answers.model_begins()
        yield from self._models.began(fact, parent)

    def _model_done(self, fact: f.ModelDone) -> Iterator[Envelope]:
        found = self._models.done(fact)
        if found is None:
            return
        start, voice = found
        self._ts = fact.ts
        yield from self._models.ended(fact, start, voice)
        owner = start.parent_id or ""
        self._tools.want(owner, fact.tool_calls)
        used = used_by(start.payload.model, fact.input_tokens, fact.output_tokens)
        held = voice == "held" and not fact.tool_calls
        if (inside := self._tools.inside.get(owner)) is not None:
            inside.use(used)
            inside.say(fact.message_id, "" if held or voice == "silent" else fact.text)
        if held:
            self._spoken.add(fact.message_id)
        elif owner in self._tree.runs and voice != "silent":
            message = self._message(fact.ts, fact.message_id, fact.text, start.agent)
            yield from self._answers.said(message, step=bool(fact.tool_calls), by_model=True)

    def _answer_accepted(self, fact: f.AnswerAccepted) -> Iterator[Envelope]:
        start, told = self._models.accepted(fact.message_id, fact.text, fact.ts)
        yield from told
        if start is None:
            return
        owner = start.parent_id or ""
        if (inside := self._tools.inside.get(owner)) is not None:
            inside.say(fact.message_id, fact.text)
        if owner in self._tree.runs:
            message = self._message(fact.ts, fact.message_id, fact.text, start.agent)
            yield from self._answers.said(message, step=False, by_model=True)

    def _call_failed(self, fact: f.CallFailed) -> Iterator[Envelope]:
        start = self._tree.close(fact.run)
        if start is None:
            return
        if isinstance(start, LlmStart):
            yield from self._models.failed(start, fact.run, fact.ts)
            name = start.payload.model
        else:
            yield from self._tools.failed(start, fact)
            name = start.payload.tool_name
        yield self._raised(fact.ts, start, name, fact.kind)

    def _raised(self, ts: float, start: CallStart, name: str, kind: str) -> Envelope:
        """What a model or tool says when it fails is for its caller; the public line only says that it did."""
        problem = Problem(code="call_failed", message=f"{name} raised {kind}", name=name, class_=kind)
        return Error(**self._tree.place(ts, None, self._tree.run_id, start.agent), payload=problem)

    def _message_returned(self, fact: f.MessageReturned) -> Iterator[Envelope]:
        """A message in the state, which a model call of ours may have told already."""
        if fact.message_id in self._spoken:
            yield from self._answers.kept(clean_text(fact.message_id))
        else:
            # The framework gives an id to those without one only later.
            message_id = fact.message_id or digest_id(self._tree.run_id, "returned", str(len(self._spoken)))
            step = fact.asks_for_tools or fact.is_step
            message = self._message(fact.ts, message_id, fact.text, fact.agent, fact.documents)
            yield from self._answers.said(message, step=step, by_model=False)

    def _declined(self, fact: f.Declined) -> Iterable[Envelope]:
        self.declined = True
        return ()

    def _state_decides(self, fact: f.StateDecides) -> Iterable[Envelope]:
        self._answers.by_state = True
        return ()

    def _answer_given(self, fact: f.AnswerGiven) -> Iterable[Envelope]:
        """The answer of a graph that speaks in messages: the last one of its state."""
        message_id = fact.message_id
        if clean_text(message_id) in self._answers.recorded:
            message_id = digest_id(self._tree.run_id, "answer")
        self._decide(self._message(fact.ts, message_id, fact.text, fact.agent, fact.documents))
        return ()

    def _output_given(self, fact: f.OutputGiven) -> Iterable[Envelope]:
        """The answer of a graph that does not speak in messages: its output, as text."""
        if self.asks or (self.answer and not fact.value):
            return ()
        result, _, blobs = to_result(fact.value)
        self._tree.blobs += blobs
        self._decide(self._message(fact.ts, digest_id(self._tree.run_id, "output"), result.as_text(), None))
        return ()

    def _decide(self, answer: Message | None) -> None:
        if answer is not None and not self.asks:
            self._answers.decide(answer)

    def _warned(self, fact: f.Warned) -> Iterator[Envelope]:
        yield Warning(**self._tree.root(fact.ts), payload=Problem(code=fact.code, message=clean_text(fact.message)))

    def _unknown(self, fact: f.Unknown) -> Iterator[Envelope]:
        problem = Problem(code="unknown_event", message=f"not understood: {clean_text(fact.what)}")
        yield Warning(**self._tree.root(fact.ts), payload=problem)

    def _message(
        self, ts: float, message_id: str, text: str, agent: str | None, documents: Sequence[str] = ()
    ) -> Message | None:
        """None if there is no text in it."""
        self._spoken.add(message_id)
        if not (clean := clean_text(text)):
            return None
        said = Said(
            message_id=clean_text(message_id),
            role="assistant",
            content=[TextPart(text=clean)],
            status="step",
            author=agent,
            documents=[clean_text(each) for each in documents] or None,
        )
        call_id = digest_id("message", said.message_id)
        return Message(**self._tree.place(ts, self._tree.run_id, call_id, agent), payload=said)
