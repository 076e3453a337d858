"""The view of a session on a terminal: envelopes in, rows of a ``Screen`` out."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from stellwerk.cli.render import text as short
from stellwerk.cli.render.screen import ROOT, Lane, Part, Screen, Style
from stellwerk.cli.render.text import one_line
from stellwerk.envelope import model as m
from stellwerk.envelope.payloads import Said, TextPart
from stellwerk.envelope.results import Table
from stellwerk.views import checklist

_QUIET_TOOLS = ("ask_user", "plan_tasks", "update_tasks", "report_obstacles")
"""Tools whose call is shown by its effect: a question, a change of the to-do list."""
_SHOWN_AFTER = 0.4
"""Seconds after which a call appears in the status line; a quicker one would only flicker."""
_END_STYLES: dict[str, Style] = {"failed": "bad", "stopped": "warn"}
_LEVEL_STYLES: dict[str, Style] = {"info": "dim", "warning": "warn", "error": "bad"}
_TASK_SIGNS: dict[str, Part] = {
    "pending": ("☐", "plain"),
    "in_progress": ("▸", "bold"),
    "completed": ("☑", "good"),
    "blocked": ("⚠", "warn"),
    "skipped": ("☒", "dim"),
}


@dataclass(slots=True)
class _Call:
    """An open call. Its time excludes the time in which the user considered a question."""

    name: str
    """The tool's; numbered if another of that name runs at the same time."""
    began: float
    lane: Lane
    """Where the call is shown; what happens inside a tool call is in a lane of its own."""
    inner: Lane | None = None
    activity: str = ""
    progress: str = ""
    has_text: bool = False


@dataclass
class _Summary:
    """Totals of a message and of the answers to its questions."""

    complete: bool = False
    """Seen from its beginning; otherwise its time and counts are unknown."""
    began: float = 0.0
    took: float = 0.0
    model_calls: int = 0
    tool_calls: int = 0
    tokens: dict[str, Counter[str]] = field(default_factory=dict)

    def text(self, status: str) -> str:
        parts = [f"{status} in {short.seconds(self.took)}" if self.complete else status]
        for number, noun in ((self.model_calls, "model call"), (self.tool_calls, "tool call")):
            if number and self.complete:
                parts.append(f"{number} {noun}{'s' * (number != 1)}")
        for model, used in self.tokens.items():
            if used.total():
                parts.append(f"{one_line(model)} {used['read']} → {used['written']} tokens")
        return " · ".join(parts)


class SessionView:
    """Shows agents, their calls and their texts as they happen, and a status line below.

    Without ``answer``, because the answer goes elsewhere, texts of the outermost agent are shown
    only if they are not the answer. With ``watching`` the session is that of other users: what they
    say is shown as well.
    """

    def __init__(
        self, screen: Screen, now: Callable[[], float], *, answer: bool = True, watching: bool = False
    ) -> None:
        self.screen = screen
        self._now = now
        self._answer = answer
        self._watching = watching
        self._note = ""
        self._calls: dict[str, _Call] = {}
        self._lanes = 0
        self._checklist = checklist.Checklist()
        self._tasks: dict[tuple[str, str], tuple[str, str]] = {}
        """Title and status of tasks and notices as they were last shown."""
        self._streamed: set[str] = set()
        self._speakers: set[Lane] = set()
        self._failed_tools: set[str] = set()
        self._summary = _Summary()
        self._running = False
        self._latest = 0.0
        self._ended = 0.0

    def feed(self, envelope: m.Envelope) -> None:
        """Show an envelope by the method with the name of its type. Files are shown as results."""
        self._latest = envelope.ts
        show: Callable[[m.Envelope], None] | None = getattr(self, f"_show_{m.type_of(envelope)}", None)
        if show is not None:
            show(envelope)
        self.tick()

    def tick(self) -> None:
        self.screen.status(" · ".join(text for text in (self._note, self._activity()) if text))

    def note(self, text: str) -> None:
        """Put a text in front of the status line until the run ends or another replaces it."""
        self._note = text
        self.tick()

    def _activity(self) -> str:
        now = self._now()
        occupied = {call.lane for call in self._calls.values()}
        inner = [call for call in self._calls.values() if call.inner not in occupied]
        since = min((call.began for call in inner), default=self._latest)
        if not self._running or now - since < _SHOWN_AFTER:
            return ""
        calls = ", ".join(f"{call.activity} {call.progress}".rstrip() for call in inner)
        return f"{calls or 'working'} · {int(now - since)} s"

    def _lane_inside(self, call_id: str | None) -> Lane:
        """The lane inside an open call; elsewhere that of the outermost agent."""
        call = self._calls.get(call_id or "")
        if call is None:
            return ROOT
        if call.inner is None:
            self._lanes += 1
            call.inner = Lane(call.name, call.lane.depth + 1, self._lanes)
        return call.inner

    def _show_run_start(self, start: m.RunStart) -> None:
        if start.payload.trigger != "answer":
            self._summary = _Summary(complete=True)
        for call in self._calls.values():  # those that waited for the answer
            call.began += start.ts - self._ended
        self._summary.began = start.ts
        self._running = True

    def _show_run_end(self, end: m.RunEnd) -> None:
        ended, summary = end.payload, self._summary
        self._running = False
        self._ended = end.ts
        self._note = ""
        summary.took += end.ts - summary.began
        for used in ended.usage:
            counted = Counter(read=used.input_tokens, written=used.output_tokens)
            summary.tokens[used.model] = summary.tokens.get(used.model, Counter()) + counted
        if ended.status != "awaiting_user":  # then the calls that wait for the answer stay open
            self._calls.clear()
            self.screen.say(summary.text(ended.status), _END_STYLES.get(ended.status, "dim"))
        self.screen.settle()
        if self._watching and ended.status == "failed" and ended.reason:
            self.screen.say(f"✗ {ended.reason}", "bad")

    def _show_message(self, message: m.Message) -> None:
        """Show a message that no model call has streamed: a node may return one of its own."""
        said = message.payload
        if said.role == "user":
            if self._watching:
                withdrawn = said.action == "removed"
                text = "(a message was withdrawn)" if withdrawn else _text_of(said)
                self.screen.say(f"> {text}", "bold")
            return
        unseen = said.message_id not in self._streamed if self._answer else said.status == "step"
        if said.role == "assistant" and unseen:
            self.screen.stream(ROOT, said.message_id, _text_of(said))
            self.screen.end_stream(said.message_id)

    def _show_ask_user(self, ask: m.AskUser) -> None:
        if self._watching:
            options = " | ".join(short.value(option) for option in ask.payload.options or ())
            self.screen.say(f"? {ask.payload.question}{options and f'  {options}'}", "warn")

    def _show_user_answer(self, answer: m.UserAnswer) -> None:
        if self._watching:
            answered = answer.payload
            given = answered.text if answered.text is not None else short.value(answered.data)
            self.screen.say("> (refused)" if answered.refused else f"> {given}", "bold")

    def _show_llm_start(self, start: m.LlmStart) -> None:
        lane = self._lane_inside(start.parent_id)
        agent = lane.name or one_line(start.agent or "") or "the agent"
        self._calls[start.call_id] = _Call("", start.ts, lane, activity=f"{agent} is thinking")
        self._summary.model_calls += 1

    def _show_llm_token(self, token: m.LlmToken) -> None:
        call = self._calls.get(token.call_id)
        if call is None or (call.lane is ROOT and not self._answer):
            return
        self._speakers.add(call.lane)
        if token.payload.kind == "reasoning":
            self.screen.stream(call.lane, _thoughts(token.call_id), token.payload.text, "thought")
            return
        call.has_text = True
        self._streamed.add(token.call_id)
        self.screen.end_stream(_thoughts(token.call_id))
        self.screen.stream(call.lane, token.call_id, token.payload.text)

    def _show_llm_end(self, end: m.LlmEnd) -> None:
        call, ended = self._calls.pop(end.call_id, None), end.payload
        self.screen.end_stream(_thoughts(end.call_id))
        if call is None or not call.has_text:
            return
        self._streamed.add(ended.message_id)
        took = short.seconds(end.ts - call.began)
        if ended.status == "ok":
            is_answer = call.lane is ROOT and not ended.tool_calls
            self.screen.end_stream(end.call_id, "" if is_answer else took)
        else:
            word = "stopped" if ended.synthesized else "failed" if ended.status == "error" else "given up"
            self.screen.end_stream(end.call_id, f"■ {word} after {took}", "warn")

    def _show_tool_start(self, start: m.ToolStart) -> None:
        called = start.payload
        lane = self._lane_inside(start.parent_id)
        name = self._unique(one_line(called.title or called.tool_name))
        self._calls[start.call_id] = _Call(name, start.ts, lane, activity=name)
        self._summary.tool_calls += called.kind == "tool"
        # A sub-agent's signal that it is done is a call without a call id of the model's.
        if called.tool_name not in _QUIET_TOOLS and called.tool_call_id != start.call_id:
            again: Part = ("again " if called.retry_of else "", "warn")
            args = _after(short.arguments(called.args))
            self.screen.line(lane, ("→ ", "dim"), again, (name, "bold"), args)

    def _unique(self, title: str) -> str:
        taken = {call.name for call in self._calls.values()}
        name, number = title, 1
        while name in taken:
            number += 1
            name = f"{title} {number}"
        return name

    def _show_tool_update(self, update: m.ToolUpdate) -> None:
        call, progress = self._calls.get(update.call_id), update.payload
        if call is not None and progress.phase == "output":
            data = progress.data
            text = data.get("text") or data.get("message") if isinstance(data, dict) else data
            call.progress = short.value(progress.text or text or "", 60)

    def _show_tool_end(self, end: m.ToolEnd) -> None:
        ended = end.payload
        call = self._calls.pop(end.call_id, None)
        # A reader that came later has not seen the call begin.
        lane = call.lane if call else ROOT
        name = call.name if call else one_line(ended.tool_name)
        duration = end.ts - call.began if call else ended.duration
        took = "" if duration is None else short.seconds(duration)
        if ended.status == "error":
            self._failed_tools.add(ended.tool_name)
            reason = short.value(ended.error.message) if ended.error else "failed"
            parts = (("✗ ", "bad"), (name, "bold"), _after(took), _after(reason, "bad"))
            self.screen.line(lane, *parts, wrap=True)
        elif ended.status == "abandoned":
            stopped = f"stopped after {took}" if took else "stopped"
            self.screen.line(lane, ("■ ", "warn"), (name, "bold"), _after(stopped, "warn"))
        elif ended.tool_name not in _QUIET_TOOLS:
            has_spoken = call is not None and call.inner in self._speakers  # its text is the result
            result = None if has_spoken or ended.duration is None else ended.result
            line, below = ("", []) if result is None else short.result(result)
            self.screen.line(lane, ("✓ ", "good"), (name, "bold"), _after(took), _after(line, "plain"))
            for text in below:
                self.screen.line(lane, (f"  {text}", "dim"))
            if isinstance(result, Table):
                self.screen.table(lane, result)

    def _show_state(self, state: m.State) -> None:
        """Show what has changed: tasks of the checklist, to-do lists of deep agents, files."""
        lane = self._lane_inside(state.parent_id)
        changed = state.payload
        if changed.name == checklist.NAME:
            self._checklist = checklist.fold(self._checklist, state)
            for task in self._checklist.tasks:
                key = (checklist.NAME, task.id)
                self._show_task(lane, key, f"{task.id} {task.title}", task.status)
            for notice in self._checklist.notices:
                status = "blocked" if notice.is_open else "completed"
                self._show_task(lane, (notice.kind, notice.text), notice.text, status)
        elif changed.name == "todos" and isinstance(changed.snapshot, list):
            for number, todo in enumerate(changed.snapshot):
                if isinstance(todo, dict) and isinstance(todo.get("content"), str):
                    key = (changed.owner or "", str(number))
                    self._show_task(lane, key, todo["content"], str(todo.get("status")))
        elif changed.name == "files":
            paths = [str(change.get("path", ""))[1:] for change in changed.patch or ()]
            names = ", ".join(paths).replace("~1", "/")
            self.screen.line(lane, ("· files ", "dim"), (short.value(names), "plain"))

    def _show_task(self, lane: Lane, key: tuple[str, str], title: str, status: str) -> None:
        if self._tasks.get(key) != (title, status):
            self._tasks[key] = (title, status)
            sign, style = _TASK_SIGNS.get(status, ("·", "plain"))
            text_style = "dim" if status in ("completed", "skipped") else "plain"
            self.screen.line(lane, (f"{sign} ", style), (one_line(title), text_style))

    def _show_update(self, update: m.Update) -> None:
        delta = update.payload.delta
        values = short.arguments(delta) if isinstance(delta, dict) else short.value(delta)
        node = f"{'  ' * len(update.payload.namespace)}· {one_line(update.payload.node)}"
        self.screen.line(self._lane_inside(update.parent_id), (node, "dim"), _after(values))

    def _show_log(self, log: m.Log) -> None:
        entry = log.payload
        percent = "" if entry.progress is None else f" {entry.progress} %"
        text = f"·{percent} {short.value(entry.message)}"
        self.screen.line(ROOT, (text, _LEVEL_STYLES[entry.level]))

    def _show_warning(self, warning: m.Warning) -> None:
        self.screen.say(f"! {short.value(warning.payload.message)}", "warn")

    def _show_error(self, error: m.Error) -> None:
        """Show the failure of a model. Those of tools and of the run are shown by their ends."""
        problem = error.payload
        if not problem.fatal and problem.name not in self._failed_tools:
            self.screen.say(f"✗ {short.value(problem.message)}", "bad")


def _after(text: str, style: Style = "dim") -> Part:
    return (f"  {text}" if text else "", style)


def _thoughts(call_id: str) -> str:
    """The id of the stream of a model's reasoning, which precedes its text."""
    return f"{call_id} thoughts"


def _text_of(said: Said) -> str:
    return "".join(part.text for part in said.content if isinstance(part, TextPart))
