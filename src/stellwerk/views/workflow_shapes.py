"""The objects of a workflow as clients read them, with the names of their own contract."""

from typing import Generic, Literal, TypeVar

from msgspec import Struct

from stellwerk.envelope.payloads import Level
from stellwerk.views.workflow_logs import Standing

Role = Literal["user", "assistant", "system"]
Step = Literal["first", "step", "last"]


class LogEntry(Struct, frozen=True, kw_only=True, rename="camel"):
    id: str
    workflow_id: str
    message: str
    type: Level
    timestamp: str
    agent_name: str
    status: Standing
    """Of the workflow, when this was said."""
    progress: int | None
    mandate_id: int
    user_id: int


class FileNamed(Struct, frozen=True, kw_only=True):
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
    """Of what the user said, and of the files with it."""
    tokens_used: int = 0
    processing_time: float = 0.0
    """Seconds in which the workflow was at work; waiting for an answer does not count."""


D = TypeVar("D")


class Told(Struct, Generic[D], frozen=True, kw_only=True, rename="camel"):
    """Something that was said; with its documents as they are known where it is told."""

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


MessageShown = Told[FileNamed]
