"""Logs written by hand: each method tells one thing, in the order of the log, and stamps it like the recorder."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from stellwerk.envelope import model as m
from stellwerk.envelope import payloads as p
from stellwerk.envelope.results import Text, ToolResult
from stellwerk.stream.calls import OpenCalls
from stellwerk.testing.order import order_problems

Call = tuple[str, str, dict[str, Any]]
"""What a model wants called: name, tool_call_id, arguments."""


@dataclass
class Story:
    log: list[m.Envelope] = field(default_factory=list)
    run: str = "r0"
    trace: str = "t1"
    _calls: OpenCalls = field(default_factory=OpenCalls)
    _rounds: int = 0

    def begin(self, text: str | None = "hello", **started: Any) -> "Story":
        """A run: of a message, or without one the continuation of the trace by an answer."""
        self._rounds += 1
        self.run = f"r{self._rounds}"
        self.trace = f"t{self._rounds}" if text is not None else self.trace
        trigger: Literal["message", "answer"] = "answer" if text is None else "message"
        begun = p.RunStarted(round=self._rounds, trigger=trigger, system="desk", system_version=1, **started)
        self._tell(m.RunStart, self.run, None, begun)
        if text is not None:
            self.says("user", text, f"m{self._rounds}", "first")
        return self

    def says(self, role: Any, text: str, message_id: str, status: Any = "last", **said: Any) -> "Story":
        part = p.Said(message_id=message_id, role=role, content=[p.TextPart(text=text)], status=status, **said)
        return self._tell(m.Message, f"say-{message_id}-{part.action}", self.run, part)

    def think(self, call: str, *, parent: str | None = None, node: str | None = "model") -> "Story":
        called = p.ModelCalled(model="scripted", message_id=call, node=node)
        return self._tell(m.LlmStart, call, parent or self.run, called)

    def token(self, call: str, text: str, kind: Any = "text", block: int = 0, parent: str | None = None) -> "Story":
        return self._tell(m.LlmToken, call, parent or self.run, p.Token(text=text, kind=kind, block=block))

    def thought(self, call: str, *wanted: Call, parent: str | None = None, status: Any = "ok", **ended: Any) -> "Story":
        refs = [p.ToolCallRef(name=n, tool_call_id=i, args=a) for n, i, a in wanted]
        used = p.Usage(model="scripted", input_tokens=3, output_tokens=5) if status == "ok" else None
        ended = {"message_id": call, **ended}
        done = p.ModelEnded(status=status, usage=used, tool_calls=refs or None, **ended)
        return self._tell(m.LlmEnd, call, parent or self.run, done)

    def speak(self, call: str, text: str, *wanted: Call, parent: str | None = None) -> "Story":
        """A whole model call, a word at a time."""
        self.think(call, parent=parent)
        for word in text.split(" ") if text else ():
            self.token(call, word + " ", parent=parent)
        return self.thought(call, *wanted, parent=parent)

    def use(self, name: str, call: str, args: dict[str, Any], parent: str | None = None, **called: Any) -> "Story":
        """A tool begins; its call_id is that of the tool call with ``#`` in front."""
        called = {"tool_call_id": call, "node": "tools", **called}
        start = p.ToolCalled(tool_name=name, args=args, **called)
        return self._tell(m.ToolStart, f"#{call}", parent or self.run, start)

    def used(
        self, name: str, call: str, result: ToolResult | str | None = None, parent: str | None = None, **ended: Any
    ) -> "Story":
        given = Text(text=result) if isinstance(result, str) else result
        ended = {"tool_call_id": call, "status": "ok", **ended}
        done = p.ToolEnded(tool_name=name, result=given, **ended)
        return self._tell(m.ToolEnd, f"#{call}", parent or self.run, done)

    def update(self, call: str, text: str | None = None, data: Any = None, parent: str | None = None) -> Any:
        said = p.ToolUpdated(phase="output", text=text, data=data)
        return self._tell(m.ToolUpdate, f"#{call}", parent or self.run, said)

    def write(self, model: str, name: str, call: str, text: str, parent: str | None = None) -> "Story":
        """A model goes on with the arguments of a call."""
        said = p.ToolUpdated(phase="args", text=text, tool_name=name, tool_call_id=call)
        return self._tell(m.ToolUpdate, model, parent or self.run, said)

    def ask(self, ask_id: str, question: str, parent: str | None = None, **asked: Any) -> "Story":
        put = p.Asked(ask_id=ask_id, question=question, **asked)
        return self._tell(m.AskUser, f"ask-{ask_id}", parent or self.run, put)

    def answer(self, ask_id: str, text: str) -> "Story":
        return self._tell(m.UserAnswer, f"answer-{ask_id}", self.run, p.Answered(ask_id=ask_id, text=text))

    def state(self, name: str, version: int, parent: str | None = None, **changed: Any) -> "Story":
        news = p.StateChanged(name=name, version=version, **changed)
        return self._tell(m.State, f"state-{len(self.log)}", parent or self.run, news)

    def other(self, kind: Any, payload: Any) -> "Story":
        """What belongs to the run itself: update, log, warning, error, checkpoint …"""
        return self._tell(kind, self.run, None, payload)

    def inside(self, call: str, kind: Any, payload: Any) -> "Story":
        """What the graph of a call says of its own state."""
        return self._tell(kind, f"#{call}", self.run, payload)

    def end(self, status: Any = "completed", **ended: Any) -> "Story":
        return self._tell(m.RunEnd, self.run, None, p.RunEnded(status=status, **ended))

    def _tell(self, kind: Any, call: str, parent: str | None, payload: Any) -> "Story":
        envelope = kind(
            ts=1000 + len(self.log) / 10,
            trace_id=self.trace,
            run_id=self.run,
            parent_id=parent,
            call_id=call,
            seq=0,
            agent="desk",
            payload=payload,
        )
        self.log.append(self._calls.stamp(envelope))
        return self

    def checked(self) -> list[m.Envelope]:
        assert order_problems(self.log) == []
        return self.log


def simple() -> Story:
    """A tool is used, and the answer given."""
    asked = ("look", "c1", {"at": "sky"})
    story = Story().begin("what is up?").speak("a", "let me see", asked)
    story.says("assistant", "let me see ", "a", "step")
    story.use("look", "c1", {"at": "sky"}).used("look", "c1", "blue")
    story.speak("b", "it is blue").says("assistant", "it is blue ", "b")
    return story.end()


def parallel() -> Story:
    """Two sub-agents at once, one of them with an agent of its own, words and tools interleaved."""
    story = Story().begin("compare")
    story.speak("a", "", ("task", "c1", {"description": "left"}), ("task", "c2", {"description": "right"}))
    story.use("task", "c1", {"description": "left"}, kind="agent", title="scout")
    story.use("task", "c2", {"description": "right"}, kind="agent", title="scout")
    story.think("l", parent="#c1").think("r", parent="#c2")
    story.token("l", "le", parent="#c1").token("r", "ri", parent="#c2").token("l", "ft", parent="#c1")
    story.thought("l", ("task", "c3", {"task": "dig"}), parent="#c1")
    story.token("r", "ght", parent="#c2").thought("r", parent="#c2")
    story.use("task", "c3", {"task": "dig"}, parent="#c1", kind="agent", title="mole")
    story.use("grep", "c4", {}, parent="#c3").used("grep", "c4", "3 hits", parent="#c3")
    story.speak("d", "deep down", parent="#c3")
    story.used("task", "c2", "right").used("task", "c3", "deep down", parent="#c1")
    story.speak("l2", "left it is", parent="#c1").used("task", "c1", "left it is")
    return story.speak("b", "both").says("assistant", "both ", "b").end()


def questions() -> Story:
    """Two questions at once, one from inside a sub-agent; both are answered, and what waited goes on."""
    story = Story().begin("book it")
    story.speak("a", "", ("task", "c1", {"description": "hotel"}), ("ask_user", "c2", {"question": "Window?"}))
    story.use("task", "c1", {"description": "hotel"}, kind="agent", title="booker")
    story.use("ask_user", "c2", {"question": "Window?"})
    story.speak("i", "", ("ask_user", "c3", {"question": "Town?"}), parent="#c1")
    story.use("ask_user", "c3", {"question": "Town?"}, parent="#c1")
    story.ask("q1", "Window?", "#c2", options=["yes", "no"]).ask("q2", "Town?", "#c3", data={"form": "own"})
    story.end("awaiting_user").begin(None, ask_ids=["q1", "q2"]).answer("q1", "yes").answer("q2", "Ulm")
    story.used("ask_user", "c2", "yes").used("ask_user", "c3", "Ulm", parent="#c1")
    story.speak("i2", "booked in Ulm", parent="#c1").used("task", "c1", "booked in Ulm")
    return story.speak("b", "all booked").says("assistant", "all booked ", "b").end()


def troubled() -> Story:
    """A model call abandoned after its first words, a tool tried twice, another that fails, and a run that fails."""
    story = Story().begin("try").think("a").token("a", "half a sen").thought("a", status="abandoned")
    story.speak("b", "again", ("look", "c1", {}), ("look", "c2", {"at": 2}))
    story.use("look", "c1", {}).used("look", "c1", status="error", error=p.Failure(message="busy", code="tool_raised"))
    again = p.ToolCalled(tool_name="look", tool_call_id="c1", retry_of="#c1", node="tools")
    story._tell(m.ToolStart, "#c1-2", story.run, again)
    done = p.ToolEnded(tool_name="look", tool_call_id="c1", status="ok", result=Text(text="seen"))
    story._tell(m.ToolEnd, "#c1-2", story.run, done)
    story.use("look", "c2", {"at": 2})
    story.used("look", "c2", status="error", error=p.Failure(message="no such place"))
    story.think("e").token("e", "so").thought("e", status="error")
    story.other(m.Error, p.Problem(code="call_failed", message="scripted raised TimeoutError"))
    story.other(m.Error, p.Problem(code="failed", message="the model is gone", fatal=True))
    return story.end("failed", reason="the model is gone", code="failed")


def inner_graphs() -> Story:
    """A graph inside a node of a graph, a tool that calls a model, and states of all kinds."""
    story = Story().begin("go").other(m.Update, p.Updated(node="plan", delta={"plan": ["one"], "tries": 1}))
    story.use("Reviewer", "0f3c", {}, kind="graph", node="review").speak("g", "inside", parent="#0f3c")
    story.state("todos", 1, parent="#0f3c", snapshot=[{"content": "inner", "status": "pending"}])
    story.used("Reviewer", "0f3c").says("assistant", "inside ", "g", "step")
    story.speak("a", "", ("sum", "c1", {})).use("sum", "c1", {})
    story.update("c1", data={"progress": 40}).update("c1", text="nearly")
    story.speak("t", "a model in a tool", parent="#c1").used("sum", "c1", "short")
    story.state("todos", 1, snapshot=[{"content": "write", "status": "in_progress"}])
    story.state("files", 1, patch=[{"op": "add", "path": "/a~1b.md", "value": "# A"}])
    story.state("files", 2, patch=[{"op": "add", "path": "/c", "value": "C"}, {"op": "remove", "path": "/a~1b.md"}])
    story.other(m.Log, p.Logged(message="40 %", data={"progress": 40}))
    story.other(m.SubgraphCheckpoint, p.Checkpointed(checkpoint_id="k1", node="__start__", state_digest="0"))
    story.other(m.SubgraphCheckpoint, p.Checkpointed(checkpoint_id="k2", node="model", state_digest="1"))
    return story.speak("b", "done").says("assistant", "done ", "b").end()


def reasoning() -> Story:
    """A model that thinks aloud, writes the arguments of a call piece by piece, and goes on in a second round."""
    story = Story().begin("think").think("a").token("a", "hm", "reasoning").token("a", "…", "reasoning")
    story.token("a", "I ", block=1).token("a", "see", block=1)
    story.write("a", "look", "c1", '{"at": ').write("a", "look", "c1", '"sky"}')
    story.thought("a", ("look", "c1", {"at": "sky"})).use("look", "c1", {"at": "sky"}).used("look", "c1", "blue")
    story.speak("b", "blue").says("assistant", "blue ", "b").end()
    return story.begin("more").speak("c", "that is all").says("assistant", "that is all ", "c").end("stopped")


STORIES = {make.__name__: make for make in (simple, parallel, questions, troubled, inner_graphs, reasoning)}


def positions(log: Sequence[m.Envelope]) -> list[tuple[int, m.Envelope]]:
    return list(enumerate(log, start=1))
