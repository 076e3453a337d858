"""Activity: envelopes in, marks out. Pure: it draws nothing and reads no clock."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from stellwerk.envelope import model as m
from stellwerk.envelope.payloads import TextPart, ToolEnded
from stellwerk.envelope.results import Table
from stellwerk.terminal import short
from stellwerk.terminal.lanes import ROOT, Lane, Lanes
from stellwerk.terminal.marks import Grid, Line, Mark, Part, Spoken, Style, Words
from stellwerk.terminal.plain import one_line, visible
from stellwerk.terminal.tasks import Tasks

_SILENT = ("ask_user", "plan_tasks", "update_tasks", "report_obstacles")
"""Tools whose call is shown by what it brings about: a question, a change of the list."""
_A_WHILE = 0.4
"""Seconds after which a call is worth a word; what is quicker would only flicker."""
_ROW = 80
"""Columns of a narrow terminal; an end that is longer is told in two lines, so that no number is torn from its noun."""
_ENDS: dict[str, Style] = {"failed": "bad", "stopped": "warn"}
_LEVELS: dict[str, Style] = {"info": "dim", "warning": "warn", "error": "bad"}


@dataclass(slots=True)
class _Open:
    """A call that is under way; like that of the whole, its time is without that in which the user thought."""

    name: str
    began: float
    lane: Lane
    news: str = ""
    spoke: bool = False
    thoughts: bool = False
    """Its reasoning is being shown."""


@dataclass
class _Total:
    """Of a message and the answers that continued it; the time in which the user thought is not counted."""

    seen: bool = False
    """From its beginning; else its time and its counts are not known."""
    began: float = 0.0
    took: float = 0.0
    models: int = 0
    tools: int = 0
    tokens: dict[str, Counter[str]] = field(default_factory=dict)

    def facts(self, status: str) -> Iterator[str]:
        if not self.seen:
            yield status
            return
        yield f"{status} in {short.seconds(self.took)}"
        for number, noun in ((self.models, "model call"), (self.tools, "tool call")):
            if number:
                yield f"{number} {noun}{'s' * (number != 1)}"

    def usage(self) -> Iterator[str]:
        for model, used in self.tokens.items():
            if used.total():
                yield f"{one_line(model)} {used['read']} → {used['written']} tokens"


class Activity:
    """``answer`` says whether the text of the outermost agent is shown as it comes.

    Where it is not, because the answer goes elsewhere, only those of its texts are shown that are not the answer.
    """

    def __init__(self, *, answer: bool) -> None:
        self._answer = answer
        self._lanes, self._tasks = Lanes(), Tasks()
        self._open: dict[str, _Open] = {}
        self._streamed: set[str] = set()
        self._spoke: set[Lane] = set()
        self._failed: set[str] = set()
        self._doubtful: tuple[tuple[str | None, Mark], ...] = ()
        """That calls of an agent failed: shown when it goes on all the same, else its own failure says it better."""
        self._total = _Total()
        self._running, self._latest, self._ended = False, 0.0, 0.0
        self._mapping: dict[type[m.Envelope], Callable[[Any], Iterable[Mark]]] = {
            m.RunStart: self._run_start,
            m.RunEnd: self._run_end,
            m.Message: self._message,
            m.LlmStart: self._llm_start,
            m.LlmToken: self._llm_token,
            m.LlmEnd: self._llm_end,
            m.ToolStart: self._tool_start,
            m.ToolUpdate: self._tool_update,
            m.ToolEnd: self._tool_end,
            m.State: self._state,
            m.Update: self._update,
            m.Log: self._log,
            m.Warning: self._warning,
        }

    def feed(self, envelope: m.Envelope) -> Iterable[Mark]:
        """What there is to see of it. Files show as results; questions are shown by whoever asks them."""
        self._latest = envelope.ts
        if isinstance(envelope, m.Error):
            return self._error(envelope)
        doubtful, self._doubtful = self._doubtful, ()
        if isinstance(envelope, m.RunEnd) and envelope.payload.status == "failed":
            doubtful = ()
        failed = envelope.payload.tool_name if isinstance(envelope, m.ToolEnd) and envelope.payload.error else ""
        before = [mark for agent, mark in doubtful if agent != failed]
        show = self._mapping.get(type(envelope))
        return tuple(before) if show is None else (*before, *show(envelope))

    def standing(self, now: float) -> str:
        """What has been going on for a while, in one line; nothing if nothing has."""
        if not self._running:
            return ""
        inner = [call for call in self._open.values() if not self._has_inside(call)]
        since = min((call.began for call in inner), default=self._latest)
        if now - since < _A_WHILE:
            return ""
        told = ", ".join(f"{call.name}{call.news and ' ' + call.news}" for call in inner)
        return f"{told or 'working'} · {int(now - since)} s"

    def _has_inside(self, call: _Open) -> bool:
        return any(other.lane.name == call.name for other in self._open.values())

    def _run_start(self, start: m.RunStart) -> Iterable[Mark]:
        if start.payload.trigger != "answer":
            self._total = _Total(seen=True)
        for call in self._open.values():  # those that waited for the answer
            call.began += start.ts - self._ended
        self._total.began, self._running = start.ts, True
        return ()

    def _run_end(self, end: m.RunEnd) -> Iterator[Mark]:
        ended, total = end.payload, self._total
        self._running, self._ended = False, end.ts
        total.took += end.ts - total.began
        for used in ended.usage:
            total.tokens[used.model] = total.tokens.get(used.model, Counter()) + Counter(
                read=used.input_tokens, written=used.output_tokens
            )
        if ended.status != "awaiting_user":  # then those calls go on that wait for the answer
            self._open.clear()
            facts = " · ".join(total.facts(ended.status))
            usage = " · ".join(total.usage())
            together = " · ".join(text for text in (facts, usage) if text)
            style = _ENDS.get(ended.status, "dim")
            for text in (together,) if len(together) < _ROW else (facts, usage):
                yield Line(ROOT, ((text, style),), whole=True)

    def _message(self, message: m.Message) -> Iterator[Mark]:
        """Only what no model call has told already: a node may return a message of its own."""
        said = message.payload
        unseen = said.message_id not in self._streamed if self._answer else said.status == "step"
        if said.role == "assistant" and unseen:
            text = "".join(part.text for part in said.content if isinstance(part, TextPart))
            yield from self._words(ROOT, said.message_id, text, "plain")
            yield Spoken(ROOT, said.message_id)

    def _llm_start(self, start: m.LlmStart) -> Iterable[Mark]:
        lane = self._lanes.inside(start.parent_id)
        self._open[start.call_id] = _Open(
            f"{lane.name or one_line(start.agent or '') or 'the agent'} is thinking", start.ts, lane
        )
        self._total.models += 1
        return ()

    def _llm_token(self, token: m.LlmToken) -> Iterable[Mark]:
        call = self._open.get(token.call_id)
        if call is None or (call.lane is ROOT and not self._answer):
            return ()
        if token.payload.kind == "reasoning":
            call.thoughts = True
            return self._words(call.lane, _thoughts(token.call_id), token.payload.text, "thought")
        call.spoke = True
        self._streamed.add(token.call_id)
        words = self._words(call.lane, token.call_id, token.payload.text, "plain")
        return (*self._thought(token.call_id, call), *words)

    def _thought(self, call_id: str, call: _Open) -> Iterable[Mark]:
        """The reasoning of a model is a text of its own, before the one that it says."""
        thoughts, call.thoughts = call.thoughts, False
        return (Spoken(call.lane, _thoughts(call_id)),) if thoughts else ()

    def _words(self, lane: Lane, call: str, text: str, style: Style) -> Iterable[Mark]:
        self._spoke.add(lane)
        return (Words(lane, call, visible(text), style),)

    def _llm_end(self, end: m.LlmEnd) -> Iterator[Mark]:
        call, ended = self._open.pop(end.call_id, None), end.payload
        if call is None:
            return
        yield from self._thought(end.call_id, call)
        if not call.spoke:
            return
        self._streamed.add(ended.message_id)
        took = short.seconds(end.ts - call.began)
        if ended.status == "ok":
            final = call.lane is ROOT and not ended.tool_calls
            yield Spoken(call.lane, end.call_id, "" if final else took)
        else:
            word = "stopped" if ended.synthesized else "failed" if ended.status == "error" else "given up"
            yield Spoken(call.lane, end.call_id, f"■ {word} after {took}", "warn")

    def _tool_start(self, start: m.ToolStart) -> Iterable[Mark]:
        called = start.payload
        lane, name = self._lanes.begin(start)
        self._open[start.call_id] = _Open(name, start.ts, lane)
        self._total.tools += called.kind == "tool"
        if called.tool_name in _SILENT or _is_signal(start):
            return ()
        again: tuple[Part, ...] = (("again ", "warn"),) if called.retry_of else ()
        return (Line(lane, (("→ ", "dim"), *again, (name, "bold"), _behind(short.arguments(called.args)))),)

    def _tool_update(self, update: m.ToolUpdate) -> Iterable[Mark]:
        call, news = self._open.get(update.call_id), update.payload
        if call is not None and news.phase == "output":
            told = news.data.get("text") or news.data.get("message") if isinstance(news.data, dict) else news.data
            call.news = short.value(news.text or told or "", 60)
        return ()

    def _tool_end(self, end: m.ToolEnd) -> Iterator[Mark]:
        call, ended = self._open.pop(end.call_id, None), end.payload
        inner = self._lanes.inside(end.call_id)
        lane, name = self._lanes.end(end.call_id)
        name = name or one_line(ended.tool_name)  # a reader that came later has not seen it begin
        duration = end.ts - call.began if call else ended.duration
        took = "" if duration is None else short.seconds(duration)
        if ended.status == "error":
            self._failed.add(ended.tool_name)
            reason = short.value(ended.error.message) if ended.error else "failed"
            yield Line(lane, (("✗ ", "bad"), (name, "bold"), _behind(took), _behind(reason, "bad")), whole=True)
        elif ended.status == "abandoned":
            yield Line(
                lane, (("■ ", "warn"), (name, "bold"), _behind(f"stopped after {took}" if took else "stopped", "warn"))
            )
        elif ended.tool_name not in _SILENT:
            yield from self._good(ended, lane, (name, took), told=inner in self._spoke)

    def _good(self, ended: ToolEnded, lane: Lane, what: tuple[str, str], *, told: bool) -> Iterator[Mark]:
        name, took = what
        result = None if told or ended.duration is None else ended.result
        line, below = ("", []) if result is None else short.result(result)
        yield Line(lane, (("✓ ", "good"), (name, "bold"), _behind(took), _behind(line, "plain")))
        for text in below:
            yield Line(lane, (("  " + text, "dim"),))
        if isinstance(result, Table):
            yield Grid(lane, result)

    def _state(self, state: m.State) -> Iterator[Mark]:
        lane = self._lanes.inside(state.parent_id)
        for parts in self._tasks.feed(state):
            yield Line(lane, parts)
        if state.payload.name == "files":
            names = [str(change.get("path", ""))[1:].replace("~1", "/") for change in state.payload.patch or ()]
            yield Line(lane, (("· files ", "dim"), (short.value(", ".join(names)), "plain")))

    def _update(self, update: m.Update) -> Iterator[Mark]:
        delta = update.payload.delta
        told = short.arguments(delta) if isinstance(delta, dict) else short.value(delta)
        node = f"{'  ' * len(update.payload.namespace)}· {one_line(update.payload.node)}"
        yield Line(self._lanes.inside(update.parent_id), ((node, "dim"), _behind(told)))

    def _log(self, log: m.Log) -> Iterator[Mark]:
        said = log.payload
        far = "" if said.progress is None else f" {said.progress} %"
        yield Line(ROOT, ((f"·{far} {short.value(said.message)}", _LEVELS[said.level]),))

    def _warning(self, warning: m.Warning) -> Iterator[Mark]:
        yield Line(ROOT, ((f"! {short.value(warning.payload.message)}", "warn"),), whole=True)

    def _error(self, error: m.Error) -> Iterable[Mark]:
        """A tool has told of its own failure; the end of the run is told by whoever gives the exit code."""
        problem = error.payload
        if problem.fatal:
            self._doubtful = ()
        elif problem.name not in self._failed:
            line = Line(ROOT, ((f"✗ {short.value(problem.message)}", "bad"),), whole=True)
            self._doubtful = (*self._doubtful, (error.agent, line))
        return ()


def _behind(text: str, style: Style = "dim") -> Part:
    return (f"  {text}" if text else "", style)


def _thoughts(call_id: str) -> str:
    return f"{call_id} thoughts"


def _is_signal(start: m.ToolStart) -> bool:
    """The call by which a sub-agent says that it is done is made up, and its own id is all that it has."""
    return start.payload.tool_call_id == start.call_id
