"""The overview: all small views of a session in one fold, which can be cached and continued.

It is derived data: a cached one of another ``FORM`` of this module is discarded,
and the log is folded again.
"""

from collections.abc import Iterable
from typing import TypedDict

import msgspec

from stellwerk.envelope.model import Document, Envelope, Log, RunStart
from stellwerk.views import checklist, questions, status, transcript, usage
from stellwerk.views.checklist import Checklist, Task
from stellwerk.views.questions import Question
from stellwerk.views.status import State, Status
from stellwerk.views.transcript import Hidden
from stellwerk.views.usage import UsageInfo, UsageTotals

FORM = 3
"""Raise it with every change of a fold that is in here."""

TYPES = (
    *("run_start", "run_end", "message", "ask_user", "user_answer"),
    *("state", "log", "document", "llm_end", "tool_end"),
)
"""The types that any of the folds reads; all others leave the overview as it is."""


class RunProgress(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The latest log line of a run, and its latest percentage."""

    percent: int | None = None
    message: str | None = None


class SessionFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file of a tool, or one that was attached."""

    document_id: str
    name: str
    mime: str
    size: int
    added_at: float
    run_id: str | None = None
    agent: str | None = None


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    status: Status = Status()
    questions: tuple[Question, ...] = ()
    checklist: Checklist = Checklist()
    progress: RunProgress = RunProgress()
    usage: UsageTotals = UsageTotals()
    documents: tuple[SessionFile, ...] = ()
    hidden: Hidden = Hidden()


class ProgressInfo(TypedDict):
    percent: int | None
    message: str | None
    tasks_over: int
    tasks: int


class StateInfo(TypedDict):
    """The state of a session."""

    status: State
    round: int
    run_id: str | None
    awaiting_user_input: bool
    questions: tuple[Question, ...]
    version: int
    tasks: tuple[Task, ...]
    blocker: str | None
    open_questions: tuple[str, ...]
    progress: ProgressInfo
    usage: UsageInfo
    last_activity: float


def folded(overview: Overview, envelopes: Iterable[Envelope]) -> Overview:
    for envelope in envelopes:
        overview = Overview(
            status=status.fold(overview.status, envelope),
            questions=questions.fold(overview.questions, envelope),
            checklist=checklist.fold(overview.checklist, envelope),
            progress=_run_progress(overview.progress, envelope),
            usage=usage.fold(overview.usage, envelope),
            documents=_files(overview.documents, envelope),
            hidden=transcript.fold(overview.hidden, envelope),
        )
    return overview


def _run_progress(progress: RunProgress, envelope: Envelope) -> RunProgress:
    """Follow the log lines of a run; a line without a percentage keeps the last one."""
    match envelope:
        case RunStart():
            return RunProgress()
        case Log(payload=said):
            percent = progress.percent if said.progress is None else said.progress
            return RunProgress(percent=percent, message=said.message)
        case _:
            return progress


def _files(files: tuple[SessionFile, ...], envelope: Envelope) -> tuple[SessionFile, ...]:
    """Add or remove a file. The same bytes under the same name are one file."""
    if not isinstance(envelope, Document):
        return files
    filed = envelope.payload
    if filed.action == "removed":
        if filed.message_id is not None:
            return files  # another message still has it
        return tuple(file for file in files if file.document_id != filed.document_id)
    known = any((file.document_id, file.name) == (filed.document_id, filed.name) for file in files)
    if known or filed.redacted:  # erased: it has no name any more
        return files
    file = SessionFile(
        document_id=filed.document_id,
        name=filed.name,
        mime=filed.mime,
        size=filed.size,
        added_at=envelope.ts,
        run_id=envelope.run_id,
        agent=envelope.agent,
    )
    return (*files, file)


def as_json(overview: Overview) -> StateInfo:
    """Return the state of a session as the JSON of the API."""
    standing = overview.status
    listed = overview.checklist
    return {
        "status": standing.status,
        "round": standing.round,
        "run_id": standing.run_id,
        "awaiting_user_input": standing.awaiting_user_input,
        "questions": overview.questions,
        "version": listed.version,
        "tasks": listed.tasks,
        "blocker": listed.blocker,
        "open_questions": listed.open_questions,
        "progress": _progress(overview),
        "usage": usage.as_json(overview.usage),
        "last_activity": standing.last_activity,
    }


def _progress(overview: Overview) -> ProgressInfo:
    """Return the progress of the run; without a percentage, that of the tasks."""
    tasks = overview.checklist.tasks
    over = sum(task.status in ("completed", "skipped") for task in tasks)
    percent = overview.progress.percent
    if percent is None and tasks:
        percent = 100 * over // len(tasks)
    return {"percent": percent, "message": overview.progress.message, "tasks_over": over, "tasks": len(tasks)}
