"""StreamAdapter: facts in, envelopes out, in order, each in its place.

Pure: time comes with the facts, ids follow from them, nothing is guessed. The
adapter knows which call belongs to which; counting (``seq``) is left to whoever
stores, because only he knows what is stored already.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

from msgspec.structs import replace

from stellwerk.envelope.canonical import clean_text
from stellwerk.envelope.model import (
    AskUser,
    Envelope,
    Error,
    LlmEnd,
    LlmStart,
    Message,
    RunStart,
    ToolEnd,
    ToolStart,
)
from stellwerk.envelope.payloads import Problem, Said, TextPart, Usage
from stellwerk.envelope.shapes import Blob
from stellwerk.ids import digest_id
from stellwerk.stream import facts as f
from stellwerk.stream.model_calls import ModelCalls
from stellwerk.stream.states import States
from stellwerk.stream.tool_calls import ToolCalls
from stellwerk.stream.tree import Tree


class StreamAdapter:
    """The facts of one run. ``agent`` is the name of the outermost agent."""

    def __init__(self, *, trace_id: str, run_id: str, agent: str) -> None:
        self._tree = Tree(trace_id, run_id, agent)
        self._models, self._tools = ModelCalls(self._tree), ToolCalls(self._tree)
        self._states = States(self._tree, self._tools)
        self.answer = ""
        """The text of the last model call of the outermost agent that asked for no tool."""
        self._held: Message | None = None
        self._spoken: set[str] = set()
        self._ts = 0.0
        self._mapping: dict[type[f.Fact], Callable[[Any], Iterable[Envelope]]] = {
            f.ModelSpoke: self._models.spoke,
            f.ModelBegan: self._model_began,
            f.ModelDone: self._model_done,
            f.ToolBegan: self._tools.began,
            f.ToolDone: self._tools.done,
            f.ToolAnswered: self._tools.answered,
            f.CallFailed: self._call_failed,
            f.CallPaused: self._tools.pause,
            f.Linked: self._linked,
            f.StepEnded: self._tools.graph_ended,
            f.Interrupted: self._states.interrupted,
            f.MessageReturned: self._message_returned,
            f.AnswerAccepted: self._answer_accepted,
            f.NodeUpdated: self._states.updated,
            f.Emitted: self._states.emitted,
            f.CheckpointSaved: self._states.saved,
        }

    @property
    def agent(self) -> str:
        return self._tree.agent

    @agent.setter
    def agent(self, name: str) -> None:
        self._tree.agent = name

    @property
    def usage(self) -> dict[str, Usage]:
        """Tokens per model so far."""
        return self._models.usage

    @property
    def asks(self) -> list[AskUser]:
        """Questions of this run, which nobody has answered yet."""
        return list(self._states.asks.values())

    @property
    def paused(self) -> set[str]:
        """Calls on the path to those questions; they stay open."""
        return self._tools.paused

    def blobs(self) -> list[Blob]:
        """What must be stored before the envelopes that were given since the last time; each is given once."""
        found, self._tree.blobs = self._tree.blobs, []
        return found

    def seed(self, history: Iterable[Envelope]) -> None:
        """Take up the trace where an earlier run of it asked the user; what it left open goes on."""
        self._states.resumed = True
        for envelope in history:
            match envelope:
                case RunStart(run_id=str(run_id)):
                    self._tree.runs.add(run_id)
                case ToolStart(payload=called):
                    self._tools.waiting[envelope.call_id] = envelope
                    self._tools.take(envelope.parent_id, called.tool_call_id)
                    self._tools.attempts[envelope.call_id] = 1
                case ToolEnd():
                    self._tools.waiting.pop(envelope.call_id, None)
                case LlmEnd(payload=ended):
                    calls: list[tuple[str, str, Any]] = [
                        (call.name, call.tool_call_id, {}) for call in ended.tool_calls or ()
                    ]
                    self._tools.want(envelope.parent_id or "", calls)
                case AskUser(payload=asked) if asked.tool_name and asked.tool_call_id:
                    self._tools.want(envelope.parent_id or "", [(asked.tool_name, asked.tool_call_id, asked.args)])

    def feed(self, fact: f.Fact) -> Iterable[Envelope]:
        return self._mapping[type(fact)](fact)

    def finish(self) -> Iterator[Envelope]:
        """The answer, now that no step can follow it."""
        yield from self._models.refused(self._ts)
        yield from self._release("step" if self._states.asks else "last")

    def _linked(self, fact: f.Linked) -> Iterator[Envelope]:
        above = self._tree.steps.get(fact.parent or "")
        self._tree.steps[fact.run] = fact
        self._states.step_began(fact)
        # A step one level below the one around it: that one is a graph, and no tool's or agent's own.
        if above is not None and above.namespace and fact.namespace.startswith(above.namespace + "|"):
            if above.run not in self._tree.calls and above.namespace not in self._tree.spaces:
                yield from self._tools.graph_began(above)

    def _model_began(self, fact: f.ModelBegan) -> Iterator[Envelope]:
        parent = self._tree.owner(fact.parent)
        if parent == self._tree.run_id and fact.voice != "silent":
            yield from self._release("step")
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
        used = Usage(model=start.payload.model, input_tokens=fact.input_tokens, output_tokens=fact.output_tokens)
        held = voice == "held" and not fact.tool_calls
        self._tools.said(owner, fact.message_id, "" if held or voice == "silent" else fact.text, used)
        if held:
            self._spoken.add(fact.message_id)
        elif owner in self._tree.runs and voice != "silent":
            yield from self._said(fact.ts, fact.message_id, fact.text, start.agent, bool(fact.tool_calls))

    def _answer_accepted(self, fact: f.AnswerAccepted) -> Iterator[Envelope]:
        start, told = self._models.accepted(fact.message_id, fact.text, fact.ts)
        yield from told
        if start is None:
            return
        owner = start.parent_id or ""
        self._tools.said(owner, fact.message_id, fact.text, Usage(model=start.payload.model))
        if owner in self._tree.runs:
            yield from self._said(fact.ts, fact.message_id, fact.text, start.agent, False)

    def _call_failed(self, fact: f.CallFailed) -> Iterator[Envelope]:
        start = self._tree.calls.pop(fact.run, None)
        if start is None:
            return
        if isinstance(start, LlmStart):
            yield from self._models.failed(start, fact.run, fact.ts)
            name = start.payload.model
        else:
            yield from self._tools.failed(start, fact)
            name = start.payload.tool_name
        # What a model or tool says when it fails is for its caller; the public line only says that it did.
        problem = Problem(code="call_failed", message=f"{name} raised {fact.kind}", name=name, class_=fact.kind)
        yield Error(**self._tree.place(fact.ts, None, self._tree.run_id, start.agent), payload=problem)

    def _message_returned(self, fact: f.MessageReturned) -> Iterator[Envelope]:
        """A message that no model call of ours has told already."""
        if fact.message_id not in self._spoken:
            # The framework gives an id to those without one only later.
            message_id = fact.message_id or digest_id(self._tree.run_id, "returned", str(len(self._spoken)))
            yield from self._said(fact.ts, message_id, fact.text, fact.agent, fact.asks_for_tools)

    def _said(self, ts: float, message_id: str, text: str, agent: str | None, step: bool) -> Iterator[Envelope]:
        yield from self._release("step")
        self._spoken.add(message_id)
        message_id, clean = clean_text(message_id), clean_text(text)
        if not clean:
            return
        said = Said(
            message_id=message_id, role="assistant", content=[TextPart(text=clean)], status="step", author=agent
        )
        place = self._tree.place(ts, self._tree.run_id, digest_id("message", message_id), agent)
        message = Message(**place, payload=said)
        if step:
            yield message
        else:
            self.answer, self._held = clean, message

    def _release(self, status: Literal["step", "last"]) -> Iterator[Envelope]:
        held, self._held = self._held, None
        if held is not None:
            yield replace(held, payload=replace(held.payload, status=status))
