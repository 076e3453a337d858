"""The workflow view: a session folded for polling: status, messages, log entries, statistics.

It depends only on the session's envelopes, fed from the first one on. A message of status ``last``
becomes visible together with the end of its run, so that a client never sees one without the other.
"""

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Generic, Literal, NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from stellwerk.envelope import model as m
from stellwerk.envelope.payloads import Filed, FilePart, Level, Problem
from stellwerk.ids import digest_id
from stellwerk.views.rounds import Rounds, run_starts
from stellwerk.views.status import SAME_TRACE, still_failed

TYPES = (
    *("run_start", "run_end", "message", "ask_user", "user_answer"),
    *("log", "warning", "error", "document"),
    *("llm_end", "tool_end", "subgraph_checkpoint", "subgraph_resume"),
)
"""Envelope types that the view depends on."""
NAME = 60
"""Characters of the first prompt that make the name."""
_SYSTEM = "system"
_OVERHEAD = 600
"""Bytes that a message or entry takes in addition to its text, about."""
_ENDS = {"completed": "Workflow completed successfully", "stopped": "Workflow stopped by user"}

WorkflowState = Literal["running", "completed", "stopped", "failed"]
Role = Literal["user", "assistant", "system"]
Step = Literal["first", "step", "last"]


class LogEntry(Struct, frozen=True, kw_only=True, rename="camel"):
    id: str
    workflow_id: str
    message: str
    type: Level
    timestamp: str
    agent_name: str
    status: WorkflowState
    """Of the workflow at that time."""
    progress: int | None
    mandate_id: int
    user_id: int


class FileReference(Struct, frozen=True, kw_only=True):
    """A document of a message; its bytes are elsewhere."""

    document_id: str
    name: str
    ext: str
    mime: str
    size: int


class DataStats(Struct, frozen=True, kw_only=True, rename="camel"):
    bytes_sent: int = 0
    """Of messages and documents that were delivered."""
    bytes_received: int = 0
    """Of the user's messages and their files."""
    tokens_used: int = 0
    processing_time: float = 0.0
    """Seconds of work, without those in which it waited for an answer."""


D = TypeVar("D")


class GenericMessage(Struct, Generic[D], frozen=True, kw_only=True, rename="camel"):
    """A message, generic over the form of its documents."""

    id: str
    workflow_id: str
    parent_message_id: str | None
    started_at: str
    finished_at: str | None
    sequence_no: int
    status: Step
    role: Role
    data_stats: DataStats
    documents: tuple[D, ...]
    content: str
    agent_name: str


MessageView = GenericMessage[FileReference]
Files = tuple[FileReference, ...]


class Line(NamedTuple):
    """A log entry before it has an id."""

    message: str
    type: Level = "info"
    progress: int | None = None


def lines(envelope: m.Envelope, *, is_explained: bool, cut_off: bool) -> list[Line]:
    """The log entries of an envelope.

    ``is_explained``: the log has an error of this run. ``cut_off``: the run had lost its server.
    """
    match envelope:
        case m.RunStart(payload=started) if started.trigger != "stop":
            begun = ["Workflow initialized"]
            if started.round > 1:
                begun = ["Running workflow", f"Resuming workflow, round {started.round}"]
            return [Line(text, progress=0) for text in (*begun, "Workflow processing started")]
        case m.SubgraphResume() if cut_off:
            return [Line("Workflow goes on after a restart of the server")]
        case m.Log(payload=said):
            return [Line(said.message, said.level, said.progress)]
        case m.Warning(payload=problem):
            return [Line(problem.message, "warning")]
        case m.Error(payload=problem):
            return [_went_wrong(problem)]
        case m.AskUser(payload=asked):
            question = f": {asked.question}" if asked.question else ""
            return [Line(f"Waiting for an answer{question}")]
        case m.RunEnd(payload=ended) if ended.status in _ENDS:
            return [Line(_ENDS[ended.status], progress=100)]
        case m.RunEnd(payload=ended) if ended.status == "failed":
            reason = Line(ended.reason or "the run has failed", "error", 100)
            reported = Line("Workflow failure reported", "error", 100)
            return [reported] if is_explained else [reason, reported]
    return []


def _went_wrong(problem: Problem) -> Line:
    if problem.code == "call_failed" and problem.name:  # the caller may continue without it
        return Line(f"A call of {problem.name} has failed", "warning")
    return Line(problem.message, "error", 100 if problem.fatal else None)


@dataclass
class Statistics:
    """Bytes received and sent, tokens used and seconds of work."""

    total: DataStats = field(default_factory=DataStats)
    """Without the time of the current run, which is added at its end."""
    _since: float | None = None
    """The start of the current stretch of work."""
    _seen: float = 0.0
    """The time of its last envelope."""
    _told: DataStats = field(default_factory=DataStats)
    """The totals at the previous message, or at the start of the run."""

    def feed(self, envelope: m.Envelope, *, cut_off: bool) -> None:
        """``cut_off``: a run that had lost its server resumes or ends here."""
        match envelope:
            case m.RunStart(ts=ts):
                self._since = self._seen = ts
                self._told = self.total
            case m.SubgraphResume(ts=ts) if cut_off:
                self._stop(self._seen)
                self._since = self._seen = ts
            case m.RunEnd(ts=ts):
                self._stop(self._seen if cut_off else ts)
            case m.LlmEnd(payload=ended, ts=ts) if not ended.synthesized:
                if ended.usage is not None:
                    used = ended.usage.input_tokens + ended.usage.output_tokens
                    self.total = replace(self.total, tokens_used=self.total.tokens_used + used)
                self._seen = ts
            case m.Message() | m.AskUser() | m.Log() | m.Warning() | m.SubgraphCheckpoint():
                if envelope.run_id is not None:
                    self._seen = max(self._seen, envelope.ts)

    def up_to(self, ts: float) -> DataStats:
        """The totals at this moment."""
        under_way = 0.0 if self._since is None else max(0.0, ts - self._since)
        return replace(self.total, processing_time=round(self.total.processing_time + under_way, 3))

    def deliver(self, message: DataStats) -> None:
        """Count the bytes of a message that became visible."""
        self.total = replace(
            self.total,
            bytes_received=self.total.bytes_received + message.bytes_received,
            bytes_sent=self.total.bytes_sent + message.bytes_sent,
        )

    def share(self, ts: float, size: int) -> DataStats:
        """Statistics of an assistant message: its size, and the usage since the previous one."""
        before, self._told = self._told, self.up_to(ts)
        return DataStats(
            bytes_sent=size,
            tokens_used=self._told.tokens_used - before.tokens_used,
            processing_time=round(max(0.0, self._told.processing_time - before.processing_time), 3),
        )

    def _stop(self, ts: float) -> None:
        self.total, self._since = self.up_to(ts), None


@dataclass
class Workflow:
    id: str
    mandate_id: int = 0
    user_id: int = 0
    name: str = ""
    status: WorkflowState | None = None
    """None before the first message."""
    awaiting_user_input: bool = False
    started_at: float = 0.0
    last_activity: float = 0.0
    round: int = 0
    messages: list[MessageView] = field(default_factory=list)
    logs: list[LogEntry] = field(default_factory=list)
    removed: set[str] = field(default_factory=set)
    """Removed messages; their ids stay valid as cursors."""
    removals: int = 0
    """How often the log was rewritten because a message or file was removed."""
    changes: int = 0
    """How often the messages changed."""
    weight: int = 0
    """Its size in bytes, about."""
    _failed: tuple[str, ...] = ()
    """Failed tasks of this round."""
    _files: dict[str, FileReference] = field(default_factory=dict)
    _given: dict[str, list[FileReference]] = field(default_factory=dict)
    """Files by the message that they belong to, or by the question that they answer."""
    _held: list[MessageView] = field(default_factory=list)
    """Messages of status ``last`` of the current run, not visible yet."""
    _runs: dict[str, list[str]] = field(default_factory=dict)
    """Ids of the messages of each run, without the one that it answers. An answer may only have a trace."""
    _rounds: Rounds = ()
    _places: dict[str, int] = field(default_factory=dict)
    """Numbers of all messages, removed ones included, and of all entries, counted from 1."""
    _asked: dict[str, str] = field(default_factory=dict)
    """Messages of questions by ask_id."""
    _prompt: str | None = None
    _count: int = 0
    _figures: Statistics = field(default_factory=Statistics)
    _is_explained: bool = False
    _takes_up: bool = False
    """A run continued by answers resumes its graph once; any other resume means a lost server."""

    def feed(self, envelope: m.Envelope) -> None:
        cut_off = self._was_cut_off(envelope)
        self._figures.feed(envelope, cut_off=cut_off)
        self._turn(envelope)
        self._log(envelope, cut_off=cut_off)
        self._tell(envelope)

    @property
    def figures(self) -> DataStats:
        """Current totals; the time of the current run is counted up to its last visible change."""
        return self._figures.up_to(self.last_activity)

    @property
    def failed_tasks(self) -> int:
        """Failed tasks of a finished round."""
        return 0 if self.status == "running" else len(self._failed)

    def logs_after(self, id_: str | None) -> Sequence[LogEntry] | None:
        """The entries after this one; None if this workflow has no such entry."""
        place = 0 if id_ is None else self._place(id_, "log_")
        return None if place is None else self.logs[place:]

    def messages_after(self, id_: str | None) -> Sequence[MessageView] | None:
        """The messages after this one, removed or not; None if this workflow never had it."""
        place = 0 if id_ is None else self._place(id_, "msg_")
        if place is None:
            return None
        first = bisect_right(self.messages, place, key=lambda message: message.sequence_no)
        return self.messages[first:]

    def knows(self, id_: str) -> bool:
        """Whether it is, or was, the id of an entry or message."""
        return id_ in self._places

    def _place(self, id_: str, kind: str) -> int | None:
        return self._places.get(id_) if id_.startswith(kind) else None

    def _was_cut_off(self, envelope: m.Envelope) -> bool:
        """Whether a run that had lost its server resumes, or ends because of that."""
        match envelope:
            case m.RunStart(payload=started):
                self._takes_up = started.trigger == "answer"
            case m.SubgraphResume():
                expected, self._takes_up = self._takes_up, False
                return not expected
            case m.RunEnd(payload=ended):
                return ended.code == "crashed"
        return False

    def _turn(self, envelope: m.Envelope) -> None:
        match envelope:
            case m.RunStart(payload=started, ts=ts):
                self.status, self.round = "running", started.round
                self.awaiting_user_input, self._is_explained = False, False
                self.started_at = self.started_at or ts
                if started.message_id is not None:
                    self._prompt = message_id(started.message_id)
                if started.trigger not in SAME_TRACE:
                    self._failed = ()
                self._rounds, replaced = run_starts(self._rounds, envelope)
                if replaced.runs:
                    shown = [shown for run in sorted(replaced.runs) for shown in self._runs.get(run, ())]
                    self._take_back([*shown, *(message_id(each) for each in replaced.messages)])
            case m.ToolEnd():
                self._failed = still_failed(self._failed, envelope)
            case m.RunEnd(payload=ended):
                if ended.status == "awaiting_user":
                    self.awaiting_user_input = True
                else:
                    self.status = ended.status

    def _log(self, envelope: m.Envelope, *, cut_off: bool) -> None:
        found = lines(envelope, is_explained=self._is_explained, cut_off=cut_off)
        for n, line in enumerate(found):
            entry = LogEntry(
                id=f"log_{digest_id('log', self.id, envelope.call_id, str(envelope.seq), str(n))}",
                workflow_id=self.id,
                message=line.message,
                type=line.type,
                timestamp=iso(envelope.ts),
                agent_name=envelope.agent or _SYSTEM,
                status=self.status or "running",
                progress=line.progress,
                mandate_id=self.mandate_id,
                user_id=self.user_id,
            )
            self.logs.append(entry)
            self._places[entry.id] = len(self.logs)
            self.weight += _OVERHEAD + len(entry.message)
            self.last_activity = envelope.ts
        if isinstance(envelope, m.Error) and envelope.payload.fatal:
            self._is_explained = True

    def _tell(self, envelope: m.Envelope) -> None:
        match envelope:
            case m.Document(payload=filed) if filed.action == "added":
                self._files[filed.document_id] = file = _file(filed)
                if filed.message_id is not None:
                    self._given.setdefault(filed.message_id, []).append(file)
            case m.Document(payload=filed):
                self._drop_file(filed.document_id, filed.message_id)
                self.removals += 1
                self.last_activity = envelope.ts
            case m.Message(payload=said) if said.action == "removed":
                self._take_back({message_id(said.message_id), f"msg_{said.message_id}"})
                self.removals += 1
                self.last_activity = envelope.ts
            case m.Message(payload=said) if said.role != "tool":
                self._message(envelope, said.role)
            case m.AskUser(payload=asked):
                self._asked[asked.ask_id] = f"msg_{envelope.call_id}"
                self._say(envelope, asked.question, "assistant", self._prompt)
            case m.UserAnswer(payload=answered):
                files = tuple(self._given.pop(answered.ask_id, ()))
                self._say(envelope, answered.text or "", "user", self._asked.get(answered.ask_id), files)
                self._prompt = f"msg_{envelope.call_id}"
            case m.RunEnd():
                held, self._held = self._held, []
                for message in held:
                    self._show(message, envelope.run_id)
                self.last_activity = envelope.ts

    def _message(self, envelope: m.Message, role: Role) -> None:
        said = envelope.payload
        if role == "user":
            self.name = self.name or said.text[:NAME]
        files = list(said.documents or ())
        files += [part.document_id for part in said.content if isinstance(part, FilePart)]
        documents = tuple(self._files[each] for each in dict.fromkeys(files) if each in self._files)
        parent = None if role == "user" or envelope.run_id is None else self._prompt
        shown = self._shown(envelope, said.text, role, said.status, parent, documents)
        shown = replace(shown, started_at=iso(said.started_at or envelope.ts))
        if said.status == "last" and role == "assistant" and envelope.run_id is not None:
            self._held.append(shown)
        else:
            self._show(shown, None if said.status == "first" else envelope.run_id)
            self.last_activity = envelope.ts

    def _say(
        self, envelope: m.AskUser | m.UserAnswer, text: str, role: Role, parent: str | None, files: Files = ()
    ) -> None:
        """A question or an answer. A question that is asked again after a resume is shown once."""
        if f"msg_{envelope.call_id}" not in self._places:
            status: Step = "first" if role == "user" else "step"
            self._show(self._shown(envelope, text, role, status, parent, files), envelope.run_id or envelope.trace_id)
            self.last_activity = envelope.ts

    def _shown(
        self, envelope: m.Envelope, text: str, role: Role, status: Step, parent: str | None, files: Files
    ) -> MessageView:
        size = len(text.encode()) + sum(file.size for file in files)
        is_user = role == "user"
        stats = DataStats(bytes_received=size) if is_user else self._figures.share(envelope.ts, size)
        return MessageView(
            id=f"msg_{envelope.call_id}",
            workflow_id=self.id,
            parent_message_id=parent,
            started_at=iso(envelope.ts),
            finished_at=iso(envelope.ts),
            sequence_no=0,
            status=status,
            role=role,
            data_stats=stats,
            documents=files,
            content=text,
            agent_name=envelope.agent or ("user" if is_user else _SYSTEM),
        )

    def _show(self, message: MessageView, run_id: str | None) -> None:
        self._count += 1
        self.changes += 1
        self._figures.deliver(message.data_stats)
        self.messages.append(replace(message, sequence_no=self._count))
        self._places[message.id] = self._count
        self.weight += _OVERHEAD * (1 + len(message.documents)) + len(message.content)
        if run_id is not None:
            self._runs.setdefault(run_id, []).append(message.id)

    def _take_back(self, ids: Collection[str]) -> None:
        self.changes += 1
        self.removed.update(ids)
        self.messages = [message for message in self.messages if message.id not in self.removed]

    def _drop_file(self, document_id: str, message: str | None) -> None:
        """Remove a file from one message, or from all if none is named."""
        self.changes += 1
        ids = () if message is None else (message_id(message), f"msg_{digest_id('answer', message)}")
        for n, shown in enumerate(self.messages):
            if message is None or shown.id in ids:
                left = tuple(file for file in shown.documents if file.document_id != document_id)
                self.messages[n] = replace(shown, documents=left)


def message_id(said: str) -> str:
    """Of a message, by the id that the log has for it."""
    return f"msg_{digest_id('message', said)}"


def iso(ts: float) -> str:
    return datetime.fromtimestamp(ts, UTC).isoformat(timespec="milliseconds")


def _file(filed: Filed) -> FileReference:
    name, dot, ext = filed.name.rpartition(".")
    return FileReference(
        document_id=filed.document_id,
        name=name if dot else filed.name,
        ext=filed.ext or (ext if dot else ""),
        mime=filed.mime,
        size=filed.size,
    )
