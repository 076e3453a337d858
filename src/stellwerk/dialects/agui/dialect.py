"""AG-UI 1.x: the protocol of CopilotKit, assistant-ui and other AG-UI clients.

It is fed from the start of a trace and recalls what was before: a run shares the state
of earlier runs, and a snapshot of the messages holds the whole conversation. Every log
in valid order gives a stream in valid order; ``docs/reference/ag-ui.md`` has the mapping.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, assert_never

import msgspec

from stellwerk.dialects.agui import events
from stellwerk.dialects.agui.calls import Drafts, ModelMessages, ToolCallEvents
from stellwerk.dialects.agui.client_state import MessageList, SharedState
from stellwerk.dialects.agui.events import event, text_of
from stellwerk.dialects.base import Chunk, Dialect, sse
from stellwerk.envelope import model as m
from stellwerk.views.rounds import Rounds, run_starts

PROTOCOL_VERSION = "1.0"
RECALLED = (
    "run_start",
    "run_end",
    "message",
    "llm_start",
    "llm_end",
    "tool_start",
    "tool_end",
    "state",
    "document",
    "ask_user",
    "user_answer",
)
"""All that a client has is made of these. Streamed text is not among them: messages have it, too."""
_Call = m.LlmStart | m.LlmEnd | m.ToolStart | m.ToolUpdate | m.ToolEnd


@dataclass(frozen=True, slots=True)
class AguiOptions:
    """What differs between clients."""

    thread_id: str | None = None
    """The name by which the client knows the session."""
    run: tuple[str, str] | None = None
    """The id of a run, and the one that the client gave to it."""
    known: frozenset[str] | None = None
    """The messages that the client of this run has; it gets a snapshot if it lacks others."""
    is_before_1: bool = False
    """The client has an older protocol version: results are text, and to be stopped is an error."""


@dataclass
class AguiTranslator:
    session_id: str
    options: AguiOptions = AguiOptions()
    _running: bool = False
    _starting: m.RunStart | None = None
    """A run whose RUN_STARTED waits for its input."""
    _given: dict[str, Chunk] = field(default_factory=dict)
    """Messages and answers of the user that no run has started with yet, by id."""
    _own: list[str] = field(default_factory=list)
    """Those with the run_id of the run that starts."""
    _earlier: list[Chunk] = field(default_factory=list)
    """Messages from before the session."""
    _later: list[Chunk] = field(default_factory=list)
    """Events between runs, which clients do not accept; they are sent in the next run."""
    _asks: dict[str, tuple[str | None, Chunk]] = field(default_factory=dict)
    """Open interrupts by id, each with its trace."""
    _broken: dict[str | None, list[str]] = field(default_factory=dict)
    """Messages of model calls that failed or were interrupted, by the call around them.

    They are retracted when the next model call starts there, or when the run completes;
    otherwise the client keeps the partial text.
    """
    _drafts: Drafts = field(default_factory=Drafts)
    _calls: ToolCallEvents = field(init=False)
    _models: ModelMessages = field(default_factory=ModelMessages)
    _state: SharedState = field(default_factory=SharedState)
    _messages_sent: MessageList = field(default_factory=MessageList)
    _rounds: Rounds = ()
    _removed: bool = False
    """A message was removed since the last recalled run."""
    _recalled: list[m.Envelope] = field(default_factory=list)
    """What happened before the trace; the messages of it are added to the others when a snapshot needs them."""

    def __post_init__(self) -> None:
        self._calls = ToolCallEvents(only_text=self.options.is_before_1)

    def recall(self, envelope: m.Envelope) -> None:
        self._recalled.append(envelope)
        match envelope:
            case m.ToolStart() | m.ToolEnd() | m.AskUser():
                self._calls.recall(envelope)
            case m.Message():
                self._recall_message(envelope)
            case m.State():
                list(self._state.feed(envelope, self._calls.owner(envelope.parent_id)))
            case m.Document(run_id=None):
                self._later += self._happened(envelope)
            case m.RunStart():
                self._rounds, _ = run_starts(self._rounds, envelope)
                self._earlier, self._later, self._removed = [], [], False
                for id_ in _input_ids(envelope):
                    self._given.pop(id_, None)

    def _recall_message(self, message: m.Message) -> None:
        said = message.payload
        if said.action == "removed":
            was_waiting = self._given.pop(said.message_id, None) is not None
            self._removed |= message.run_id is None and not was_waiting
        elif message.run_id is None:
            self._take_input(message)
        else:
            self._models.recall(said.message_id)

    def feed(self, position: int, envelope: m.Envelope) -> Iterator[Chunk]:
        for chunk in self._translated(envelope):
            if self._running:
                self._messages_sent.take(chunk)
                yield chunk
            else:
                self._later.append(chunk)

    def _translated(self, envelope: m.Envelope) -> Iterator[Chunk]:
        is_input = self._take_input(envelope)
        start = self._starting
        if start is not None and not (is_input and self._lacks_input(start)):
            self._starting = None
            yield from self._run_starts(start)
        if not is_input:
            yield from self._happened(envelope)

    def _take_input(self, envelope: m.Envelope) -> bool:
        """Collect the input of a run: RUN_STARTED repeats it for clients that did not send it."""
        match envelope:
            case m.RunStart():
                self._starting = envelope
            case m.Message(run_id=None, payload=said) if said.status != "first" and said.action == "added":
                self._earlier.append(events.whole_message(said))
            case m.Message(payload=said) if said.role == "user" and said.action == "added":
                self._given[said.message_id] = events.whole_message(said)
                self._own += [said.message_id] * (envelope.run_id is not None)
            case m.Document() if self._starting is not None and self._lacks_input(self._starting):
                self._later += self._happened(envelope)  # a file of the message, which comes next
            case m.UserAnswer(payload=answered):
                self._given[answered.ask_id] = events.resume_entry(answered)
                self._asks.pop(answered.ask_id, None)
            case _:
                return False
        return True

    def _lacks_input(self, start: m.RunStart) -> bool:
        named = _input_ids(start)
        return any(id_ not in self._given for id_ in named) or (
            start.payload.trigger == "message" and not named and not self._own
        )

    def _happened(self, envelope: m.Envelope) -> Iterator[Chunk]:
        if isinstance(envelope, m.LlmToken):
            yield from self._models.token(envelope)
            return
        owner = self._calls.owner(envelope.parent_id)
        match envelope:
            case m.LlmStart() | m.LlmEnd() | m.ToolStart() | m.ToolUpdate() | m.ToolEnd():
                yield from self._call(envelope, owner)
            case m.Message():
                yield from self._said(envelope, owner)
            case m.AskUser(payload=asked):
                tool_call_id, announcement = self._calls.asked(envelope)
                interrupt = events.interrupt(asked, owner, tool_call_id)
                self._asks[asked.ask_id] = (envelope.trace_id, interrupt)
                self._drafts.called(asked.tool_call_id)
                yield from announcement
            case m.State():
                yield from self._state.feed(envelope, owner)
            case m.Document(payload=filed):
                place = {"messageId": f"artifact-{filed.document_id}", "activityType": "ARTIFACT"}
                content = events.artifact(filed)
                yield event("ACTIVITY_SNAPSHOT", envelope, owner, **place, content=content, replace=True)
            case m.Log() | m.Warning() | m.Error():
                yield from _remark(envelope, owner)
            case m.RunEnd():
                yield from self._run_ends(envelope)
            case (
                m.RunStart()
                | m.UserAnswer()
                | m.StopRequest()
                | m.Update()
                | m.SubgraphCheckpoint()
                | m.SubgraphResume()
            ):
                pass  # taken as input, or covered by state, sub-agents and outcome
            case _:
                assert_never(envelope)

    def _call(self, envelope: _Call, owner: str | None) -> Iterator[Chunk]:
        match envelope:
            case m.LlmStart():
                yield from self._retract(self._broken.pop(envelope.parent_id, []), envelope)
                self._models.started(envelope, owner)
                self._drafts.started(envelope)
            case m.LlmEnd():
                yield from self._model_ends(envelope)
            case m.ToolStart(payload=called):
                self._drafts.called(called.tool_call_id)
                yield from self._calls.started(envelope)
            case m.ToolUpdate(payload=update) if update.phase == "args":
                yield from self._calls.written(envelope, self._models.message_of(envelope.call_id))
            case m.ToolUpdate():
                yield from self._calls.updated(envelope)
            case m.ToolEnd():
                yield from self._calls.ended(envelope)

    def _run_starts(self, start: m.RunStart) -> Iterator[Chunk]:
        self._running = True
        self._broken.clear()
        ids = self._ids(start)
        named = dict.fromkeys([*_input_ids(start), *self._own])
        given = self._earlier + [self._given.pop(id_) for id_ in named if id_ in self._given]
        self._earlier, self._own = [], []
        messages = [message for message in given if "role" in message]
        # Clients before 1.0 want the lists of tools and context, though they are empty.
        repeated = {**ids, "messages": messages, "tools": [], "context": []}
        if answers := [answer for answer in given if "role" not in answer]:
            repeated["resume"] = answers
        about = {**ids, "protocolVersion": PROTOCOL_VERSION}
        yield event("RUN_STARTED", start, **about, input=repeated if given else None)
        yield from self._history(start)
        yield from self._state.run_starts(start)
        yield from self._calls.run_starts(start)
        self._rounds, replaced = run_starts(self._rounds, start)
        if replaced.runs:
            ours, given_id = self.options.run or ("", "")
            runs = {given_id if run == ours else run for run in replaced.runs}
            self._removed |= self._all_messages().drop_rounds(runs, kept=start.payload.message_id)
        if self._removed:
            self._removed = False
            yield self._messages(start)
        later, self._later = self._later, []
        yield from later

    def _run_ends(self, end: m.RunEnd) -> Iterator[Chunk]:
        asks = [ask for trace, ask in self._asks.values() if trace == end.trace_id]
        if end.payload.status in ("completed", "awaiting_user"):
            yield from self._retract(list(chain.from_iterable(self._broken.values())), end)
        yield from self._calls.run_ends(end, [(ask["id"], ask.get("subagentRunId")) for ask in asks])
        left_out = self._drafts.left_out(end)
        self._models.forget(left_out)
        yield from self._retract(list(left_out.values()), end)
        yield self._last(end, asks)
        self._running = False

    def _ids(self, cause: m.RunStart | m.RunEnd) -> dict[str, str]:
        ours, given = self.options.run or ("", "")
        run_id = given if cause.call_id == ours else cause.call_id
        return {"threadId": self.options.thread_id or self.session_id, "runId": run_id}

    def _history(self, start: m.RunStart) -> Iterator[Chunk]:
        """Send the messages to a client that lacks some.

        It leaves those that it has where they are and appends the others. So the first snapshot makes
        it drop what belongs behind them, and the second one appends that again.
        """
        if self.options.known is None or self.options.run is None or self.options.run[0] != start.call_id:
            return
        messages = self._all_messages().snapshot()
        missing = [number for number, each in enumerate(messages) if each["id"] not in self.options.known]
        if not missing:
            return
        is_one_piece = missing[-1] - missing[0] == len(missing) - 1
        first = messages[: missing[-1] + 1 if is_one_piece else missing[0]]
        if len(first) < len(messages):
            yield event("MESSAGES_SNAPSHOT", start, messages=first)
        yield event("MESSAGES_SNAPSHOT", start, messages=messages)

    def _last(self, end: m.RunEnd, asks: list[Chunk]) -> Chunk:
        done, usage = end.payload, events.usage_entries(end.payload.usage)
        if done.status == "stopped" and self.options.is_before_1:
            return event("RUN_ERROR", end, message="The run was stopped.", code="cancelled", usage=usage)
        if done.status == "failed":
            message = done.reason or "The run failed."
            return event("RUN_ERROR", end, message=message, code=done.code, usage=usage)
        outcome: Chunk = {"type": "cancelled" if done.status == "stopped" else "success"}
        if done.status == "awaiting_user" and asks:
            outcome = {"type": "interrupt", "interrupts": asks}
        return event("RUN_FINISHED", end, **self._ids(end), outcome=outcome, result=done.result, usage=usage)

    def _model_ends(self, end: m.LlmEnd) -> Iterator[Chunk]:
        done = end.payload
        message_id = self._models.message_of(end.call_id) or done.message_id
        yield from self._models.ended(end)
        yield from self._calls.wanted(end, message_id)
        self._drafts.ended(end, message_id)
        if done.status == "error" or done.synthesized:
            self._broken.setdefault(end.parent_id, []).append(message_id)
        elif done.status == "abandoned":
            yield from self._retract([message_id], end)

    def _said(self, message: m.Message, owner: str | None) -> Iterator[Chunk]:
        said, text = message.payload, text_of(message.payload)
        self._drafts.said(said.message_id)
        if said.action == "removed":
            yield from self._retract([said.message_id], message)
        elif said.role != "tool" and text and not self._models.was_sent(said.message_id):
            # A node returned it without a model call, or an operator wrote it.
            id_ = self._models.shown_id(said.message_id)
            yield event("TEXT_MESSAGE_START", message, owner, messageId=id_, role=said.role)
            yield event("TEXT_MESSAGE_CONTENT", message, owner, messageId=id_, delta=text)
            yield event("TEXT_MESSAGE_END", message, owner, messageId=id_)
        if said.output is not None:
            yield event("CUSTOM", message, owner, name="output", value=said.output)

    def _retract(self, message_ids: list[str], cause: m.Envelope) -> Iterator[Chunk]:
        gone = [message_id for message_id in message_ids if self._all_messages().drop(message_id)]
        if gone:
            yield self._messages(cause)

    def _messages(self, cause: m.Envelope) -> Chunk:
        return event("MESSAGES_SNAPSHOT", cause, messages=self._all_messages().snapshot())

    def _all_messages(self) -> MessageList:
        if self._recalled:
            earlier = AguiTranslator(self.session_id, AguiOptions(is_before_1=self.options.is_before_1))
            earlier._models.is_textless = True
            for envelope in self._recalled:
                for _ in earlier.feed(0, envelope):
                    pass
            self._messages_sent.put_before(earlier._messages_sent)
            self._recalled = []
        return self._messages_sent


def _remark(envelope: m.Log | m.Warning | m.Error, owner: str | None) -> Iterator[Chunk]:
    if isinstance(envelope, m.Error) and envelope.payload.fatal:
        return  # the end of the run has it
    value = msgspec.to_builtins(envelope.payload)
    yield event("CUSTOM", envelope, owner, name=m.type_of(envelope), value=value)


def _input_ids(start: m.RunStart) -> list[str]:
    given = start.payload
    return given.ask_ids or ([given.message_id] if given.message_id is not None else [])


def _translator(session_id: str, options: Any) -> AguiTranslator:
    return AguiTranslator(session_id, options or AguiOptions())


DIALECT = Dialect("ag-ui", "text/event-stream", _translator, sse, memory="trace", recalls=RECALLED)
