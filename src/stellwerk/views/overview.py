"""The overview: everything about a session that is small, folded together, so that it can be kept and gone on with.

It is derived: a kept one that another ``FORM`` of this module made is thrown
away, and the log is folded anew.
"""

from collections.abc import Iterable
from typing import TypedDict

import msgspec

from stellwerk.envelope.model import Envelope
from stellwerk.views import checklist, documents, progress, questions, status, transcript, usage
from stellwerk.views.checklist import Checklist, Task
from stellwerk.views.documents import Filed
from stellwerk.views.progress import Progress
from stellwerk.views.questions import Question
from stellwerk.views.status import State, Status
from stellwerk.views.transcript import Hidden
from stellwerk.views.usage import Usage, UsageTold

FORM = 2
"""To be raised with every change of a fold that is in here."""

TYPES = (
    *("run_start", "run_end", "message", "ask_user", "user_answer"),
    *("state", "log", "document", "llm_end", "tool_end"),
)
"""The types that any of the folds looks at; all others leave the overview as it is."""


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    status: Status = Status()
    questions: tuple[Question, ...] = ()
    checklist: Checklist = Checklist()
    progress: Progress = Progress()
    usage: Usage = Usage()
    documents: tuple[Filed, ...] = ()
    hidden: Hidden = Hidden()


class ProgressTold(TypedDict):
    percent: int | None
    message: str | None
    tasks_over: int
    tasks: int


class StateTold(TypedDict):
    """Where a session stands, and with what."""

    status: State
    round: int
    run_id: str | None
    awaiting_user_input: bool
    questions: tuple[Question, ...]
    version: int
    tasks: tuple[Task, ...]
    blocker: str | None
    open_questions: tuple[str, ...]
    progress: ProgressTold
    usage: UsageTold
    last_activity: float


def fold(overview: Overview, envelope: Envelope) -> Overview:
    return Overview(
        status=status.fold(overview.status, envelope),
        questions=questions.fold(overview.questions, envelope),
        checklist=checklist.fold(overview.checklist, envelope),
        progress=progress.fold(overview.progress, envelope),
        usage=usage.fold(overview.usage, envelope),
        documents=documents.fold(overview.documents, envelope),
        hidden=transcript.fold(overview.hidden, envelope),
    )


def folded(overview: Overview, envelopes: Iterable[Envelope]) -> Overview:
    for envelope in envelopes:
        overview = fold(overview, envelope)
    return overview


def as_json(overview: Overview) -> StateTold:
    """The state of a session, as clients get it."""
    standing, listed = overview.status, overview.checklist
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


def _progress(overview: Overview) -> ProgressTold:
    """What the run said; if it named no number, what the tasks say."""
    tasks = overview.checklist.tasks
    over = sum(task.status in ("completed", "skipped") for task in tasks)
    percent = overview.progress.percent
    if percent is None and tasks:
        percent = 100 * over // len(tasks)
    return {"percent": percent, "message": overview.progress.message, "tasks_over": over, "tasks": len(tasks)}
