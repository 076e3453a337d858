"""What the routes of workflows say: the objects of their contract, and one example of each."""

from functools import partial
from typing import Literal

from msgspec import Struct, structs

from stellwerk.documents.contents import ContentItem, ItemMetadata
from stellwerk.views.workflow import Workflow, iso
from stellwerk.views.workflow_logs import Standing
from stellwerk.views.workflow_shapes import DataStats, FileNamed, LogEntry, MessageShown, Told
from stellwerk.workflows.documents import WorkflowDocument
from stellwerk.workflows.listing import WorkflowHead
from stellwerk.workflows.starting import Started

WORKFLOW_ID = "034yEnpqoVHlJvW0id6mKI"
LOG_ID, MESSAGE_ID = "log_3kTq0vXqk1zLw0yZ8bJt2c", "msg_1pZr9dQmE4uYx7kWn2sVfA"
_AT = "2026-11-16T09:00:00.000+00:00"


class WorkflowMessage(Told[WorkflowDocument], frozen=True, kw_only=True, rename="camel"):
    """Something that was said, with its files."""


class WorkflowStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """All that a client needs which asks again and again."""

    status: Standing
    last_activity: str


class WorkflowTold(Struct, frozen=True, kw_only=True, rename="camel"):
    """A workflow, whole."""

    id: str
    mandate_id: int
    user_id: int
    name: str
    started_at: str
    status: Standing
    last_activity: str
    data_stats: DataStats
    current_round: int
    awaiting_user_input: bool
    failed_tasks: int
    message_ids: tuple[str, ...]
    messages: tuple[WorkflowMessage, ...]
    logs: tuple[LogEntry, ...]


class WorkflowStopped(Struct, frozen=True, kw_only=True):
    """Where it stands, now that nothing of it is under way."""

    id: str
    status: Standing


class Removed(Struct, frozen=True, kw_only=True):
    """It is gone."""

    id: str
    status: Literal["deleted"] = "deleted"


def status_of(workflow: Workflow) -> WorkflowStatus:
    return WorkflowStatus(status=workflow.status or "running", last_activity=iso(workflow.last_activity))


def whole(workflow: Workflow) -> partial[WorkflowTold]:
    """As it stands now. It may go on while its messages, which are still to be added, get their documents."""
    return partial(
        WorkflowTold,
        id=workflow.id,
        mandate_id=workflow.mandate_id,
        user_id=workflow.user_id,
        name=workflow.name,
        started_at=iso(workflow.started_at),
        status=workflow.status or "running",
        last_activity=iso(workflow.last_activity),
        data_stats=workflow.figures,
        current_round=workflow.round,
        awaiting_user_input=workflow.awaiting_user_input,
        failed_tasks=workflow.failed_tasks,
        message_ids=tuple(message.id for message in workflow.messages),
        logs=tuple(workflow.logs),
    )


def with_documents(message: MessageShown, documents: dict[FileNamed, WorkflowDocument]) -> WorkflowMessage:
    own = tuple(documents[file] for file in message.documents)
    return WorkflowMessage(**{**structs.asdict(message), "documents": own})


ANSWERS = (
    *(WorkflowMessage, WorkflowStatus, WorkflowTold, WorkflowStopped, Removed),
    *(LogEntry, WorkflowDocument, WorkflowHead, Started),
)

STARTED = Started(id=WORKFLOW_ID, current_round=1)
STOPPED = WorkflowStopped(id=WORKFLOW_ID, status="stopped")
STATUS = WorkflowStatus(status="running", last_activity=_AT)
HEAD = WorkflowHead(
    id=WORKFLOW_ID,
    mandate_id=1,
    user_id=0,
    name="What is in this table?",
    started_at=_AT,
    status="running",
    last_activity=_AT,
    current_round=1,
    awaiting_user_input=False,
    failed_tasks=0,
)
ENTRY = LogEntry(
    id=LOG_ID,
    workflow_id=WORKFLOW_ID,
    message="Workflow initialized",
    type="info",
    timestamp=_AT,
    agent_name="system",
    status="running",
    progress=0,
    mandate_id=1,
    user_id=0,
)
_TABLE = "city,sky\nBerlin,sunny\n"
_ITEM = ContentItem(
    sequence_nr=1,
    name="a",
    ext="csv",
    content_type="text/csv",
    data=_TABLE,
    data_extracted="| city | sky |\n|---|---|\n| Berlin | sunny |",
    metadata=ItemMetadata(is_text=True, base64_encoded=False, ai_processed=False, rows=1, columns=2),
    summary="Table, 2 columns, 1 row: city, sky",
)
MESSAGE = WorkflowMessage(
    id=MESSAGE_ID,
    workflow_id=WORKFLOW_ID,
    parent_message_id=None,
    started_at=_AT,
    finished_at=_AT,
    sequence_no=1,
    status="first",
    role="user",
    data_stats=DataStats(bytes_received=44),
    documents=(
        WorkflowDocument(
            id="doc_9f86d081884c7d65",
            file_id=7,
            name="a",
            ext="csv",
            mime_type="text/csv",
            size=22,
            data="Y2l0eSxza3kKQmVybGluLHN1bm55Cg==",
            data_url="/files/9f86d081884c7d65?name=a.csv",
            contents=(_ITEM,),
            error=None,
        ),
    ),
    content="What is in this table?",
    agent_name="user",
)
TOLD = WorkflowTold(
    **structs.asdict(HEAD),
    data_stats=MESSAGE.data_stats,
    message_ids=(MESSAGE_ID,),
    messages=(MESSAGE,),
    logs=(ENTRY,),
)
