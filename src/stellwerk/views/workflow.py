"""A workflow: a session seen by a client that polls. One object with a status, messages, log entries and figures.

It is fed the session's envelopes from the first one on, and what it says then
follows from them alone. An answer of status ``last`` is shown together with the
end of its run, so that whoever sees the one sees the other.
"""

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from msgspec.structs import replace

from stellwerk.envelope.model import (
    AskUser,
    Document,
    Envelope,
    Error,
    Message,
    RunEnd,
    RunStart,
    SubgraphResume,
    ToolEnd,
    UserAnswer,
)
from stellwerk.envelope.payloads import Filed, FilePart
from stellwerk.ids import digest_id
from stellwerk.views.status import SAME_TRACE, still_failed
from stellwerk.views.workflow_figures import Figures
from stellwerk.views.workflow_logs import Standing, lines
from stellwerk.views.workflow_shapes import DataStats, FileNamed, LogEntry, MessageShown, Role, Step

TYPES = (
    *("run_start", "run_end", "message", "ask_user", "user_answer"),
    *("log", "warning", "error", "document", "llm_end", "tool_end", "subgraph_checkpoint", "subgraph_resume"),
)
"""The types that change anything here."""
NAME = 60
"""Letters of the first prompt that make the name."""
_NOBODY = "system"
Files = tuple[FileNamed, ...]
_OVERHEAD = 600
"""About as many bytes as a message or entry takes beside its text."""


@dataclass
class Workflow:
    id: str
    mandate_id: int = 0
    user_id: int = 0
    name: str = ""
    status: Standing | None = None
    """None before the first message."""
    awaiting_user_input: bool = False
    started_at: float = 0.0
    last_activity: float = 0.0
    round: int = 0
    messages: list[MessageShown] = field(default_factory=list)
    logs: list[LogEntry] = field(default_factory=list)
    removed: set[str] = field(default_factory=set)
    """Messages that were taken back; their ids stay valid as cursors."""
    removals: int = 0
    """How often the log was rewritten because a message or a file was removed."""
    changes: int = 0
    """How often anything about the messages has changed."""
    weight: int = 0
    """About as many bytes as it holds."""
    _failed: tuple[str, ...] = ()
    """The tasks of this round that have failed."""
    _files: dict[str, FileNamed] = field(default_factory=dict)
    _given: dict[str, list[FileNamed]] = field(default_factory=dict)
    """Files that go with a message or an answer, by the id of the message or of the question."""
    _held: list[MessageShown] = field(default_factory=list)
    """Last words of the run that is under way."""
    _runs: dict[str, list[str]] = field(default_factory=dict)
    """The ids of what was said in each run beside its input."""
    _places: dict[str, int] = field(default_factory=dict)
    """Of all messages that there were, and of all entries: their numbers, counted from 1."""
    _asked: dict[str, str] = field(default_factory=dict)
    """The messages of questions, by the questions' own ids."""
    _prompt: str | None = None
    """The message that the run under way answers."""
    _count: int = 0
    _figures: Figures = field(default_factory=Figures)
    _is_explained: bool = False
    _takes_up: bool = False
    """A run that goes on with answers takes up its graph, once; whoever does so unasked has lost its server."""

    def feed(self, envelope: Envelope) -> None:
        cut_off = self._was_cut_off(envelope)
        self._figures.feed(envelope, cut_off=cut_off)
        self._turn(envelope)
        self._log(envelope, cut_off=cut_off)
        self._tell(envelope)

    @property
    def figures(self) -> DataStats:
        """What is known today; of a run under way, the time up to the last thing that was shown of it."""
        return self._figures.up_to(self.last_activity)

    @property
    def failed_tasks(self) -> int:
        """Of a round that is over."""
        return 0 if self.status == "running" else len(self._failed)

    def logs_after(self, id_: str | None) -> Sequence[LogEntry] | None:
        """The entries behind this one; None if it is none of ours."""
        place = self._place(id_, "log_")
        return None if place is None else self.logs[place:]

    def messages_after(self, id_: str | None) -> Sequence[MessageShown] | None:
        """The messages behind this one, which may have been removed; None if it is none of ours."""
        place = self._place(id_, "msg_")
        if place is None:
            return None
        return self.messages[bisect_right(self.messages, place, key=lambda message: message.sequence_no) :]

    def knows(self, id_: str) -> bool:
        """Whether it is, or was, the id of an entry or message."""
        return id_ in self._places

    def _place(self, id_: str | None, kind: str) -> int | None:
        if id_ is None:
            return 0
        return self._places.get(id_) if id_.startswith(kind) else None

    def _was_cut_off(self, envelope: Envelope) -> bool:
        """Whether it tells of a run that had lost its server: the run goes on, or has ended by that."""
        match envelope:
            case RunStart(payload=started):
                self._takes_up = started.trigger == "answer"
            case SubgraphResume():
                expected, self._takes_up = self._takes_up, False
                return not expected
            case RunEnd(payload=ended):
                return ended.code == "crashed"
        return False

    def _turn(self, envelope: Envelope) -> None:
        match envelope:
            case RunStart(payload=started, ts=ts):
                self.status, self.round = "running", started.round
                self.awaiting_user_input, self._is_explained = False, False
                self._prompt = self._prompt if started.message_id is None else message_id(started.message_id)
                self.started_at = self.started_at or ts
                self._failed = self._failed if started.trigger in SAME_TRACE else ()
                if started.replaces is not None:
                    self._take_back(self._runs.get(started.replaces, ()))
            case ToolEnd():
                self._failed = still_failed(self._failed, envelope)
            case RunEnd(payload=ended):
                if ended.status == "awaiting_user":
                    self.awaiting_user_input = True
                else:
                    self.status = ended.status

    def _log(self, envelope: Envelope, *, cut_off: bool) -> None:
        for n, line in enumerate(lines(envelope, is_explained=self._is_explained, cut_off=cut_off)):
            entry = LogEntry(
                id=f"log_{digest_id('log', self.id, envelope.call_id, str(envelope.seq), str(n))}",
                workflow_id=self.id,
                message=line.message,
                type=line.type,
                timestamp=iso(envelope.ts),
                agent_name=envelope.agent or _NOBODY,
                status=self.status or "running",
                progress=line.progress,
                mandate_id=self.mandate_id,
                user_id=self.user_id,
            )
            self.logs.append(entry)
            self._places[entry.id] = len(self.logs)
            self.weight += _OVERHEAD + len(entry.message)
            self.last_activity = envelope.ts
        self._is_explained = self._is_explained or (isinstance(envelope, Error) and envelope.payload.fatal)

    def _tell(self, envelope: Envelope) -> None:
        match envelope:
            case Document(payload=filed) if filed.action == "added":
                self._files[filed.document_id] = file = _file(filed)
                if filed.message_id is not None:
                    self._given.setdefault(filed.message_id, []).append(file)
            case Document(payload=filed):
                self._drop_file(filed.document_id, filed.message_id)
                self.removals += 1
                self.last_activity = envelope.ts
            case Message(payload=said) if said.action == "removed":
                self._take_back({message_id(said.message_id), f"msg_{said.message_id}"})
                self.removals += 1
                self.last_activity = envelope.ts
            case Message(payload=said) if said.role != "tool":
                self._message(envelope, said.role)
            case AskUser(payload=asked):
                self._asked[asked.ask_id] = f"msg_{envelope.call_id}"
                self._say(envelope, asked.question, "assistant", self._prompt)
            case UserAnswer(payload=answered):
                files = tuple(self._given.pop(answered.ask_id, ()))
                self._say(envelope, answered.text or "", "user", self._asked.get(answered.ask_id), files)
                self._prompt = f"msg_{envelope.call_id}"
            case RunEnd():
                held, self._held = self._held, []
                for message in held:
                    self._show(message, envelope.run_id)
                self.last_activity = envelope.ts

    def _message(self, envelope: Message, role: Role) -> None:
        said = envelope.payload
        if role == "user":
            self.name = self.name or said.text[:NAME]
        files = [*(said.documents or ()), *(part.document_id for part in said.content if isinstance(part, FilePart))]
        parent = None if role == "user" or envelope.run_id is None else self._prompt
        documents = tuple(self._files[each] for each in dict.fromkeys(files) if each in self._files)
        shown = self._shown(envelope, said.text, role, said.status, parent, documents)
        shown = replace(shown, started_at=iso(said.started_at or envelope.ts))
        if said.status == "last" and role == "assistant" and envelope.run_id is not None:
            self._held.append(shown)
        else:
            self._show(shown, None if said.status == "first" else envelope.run_id)
            self.last_activity = envelope.ts

    def _say(
        self, envelope: AskUser | UserAnswer, text: str, role: Role, parent: str | None, files: Files = ()
    ) -> None:
        """A question or an answer. A question may be asked again when its run goes on; it is shown once."""
        if f"msg_{envelope.call_id}" not in self._places:
            status: Step = "first" if role == "user" else "step"
            self._show(self._shown(envelope, text, role, status, parent, files), envelope.run_id)
            self.last_activity = envelope.ts

    def _shown(
        self, envelope: Envelope, text: str, role: Role, status: Step, parent: str | None, files: Files
    ) -> MessageShown:
        size = len(text.encode()) + sum(file.size for file in files)
        return MessageShown(
            id=f"msg_{envelope.call_id}",
            workflow_id=self.id,
            parent_message_id=parent,
            started_at=iso(envelope.ts),
            finished_at=iso(envelope.ts),
            sequence_no=0,
            status=status,
            role=role,
            data_stats=DataStats(bytes_received=size) if role == "user" else self._figures.share(envelope.ts, size),
            documents=files,
            content=text,
            agent_name=envelope.agent or ("user" if role == "user" else _NOBODY),
        )

    def _show(self, message: MessageShown, run_id: str | None) -> None:
        self._count += 1
        self.changes += 1
        self._figures.deliver(message.data_stats)
        self.messages.append(replace(message, sequence_no=self._count))
        self._places[message.id] = self._count
        self.weight += _OVERHEAD * (1 + len(message.documents)) + len(message.content)
        if run_id is not None and message.role == "assistant":
            self._runs.setdefault(run_id, []).append(message.id)

    def _take_back(self, ids: Collection[str]) -> None:
        self.changes += 1
        self.removed.update(ids)
        self.messages = [message for message in self.messages if message.id not in self.removed]

    def _drop_file(self, document_id: str, message: str | None) -> None:
        """From one message; or from all of them, if none is named."""
        self.changes += 1
        wanted = None if message is None else {message_id(message), f"msg_{digest_id('answer', message)}"}
        self.messages = [
            replace(shown, documents=tuple(file for file in shown.documents if file.document_id != document_id))
            if wanted is None or shown.id in wanted
            else shown
            for shown in self.messages
        ]


def message_id(said: str) -> str:
    """Of a message, by the id that the log has for it."""
    return f"msg_{digest_id('message', said)}"


def iso(ts: float) -> str:
    return datetime.fromtimestamp(ts, UTC).isoformat(timespec="milliseconds")


def _file(filed: Filed) -> FileNamed:
    name, dot, ext = filed.name.rpartition(".")
    return FileNamed(
        document_id=filed.document_id,
        name=name if dot else filed.name,
        ext=filed.ext or (ext if dot else ""),
        mime=filed.mime,
        size=filed.size,
    )
