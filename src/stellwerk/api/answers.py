"""Answers: the shapes of what the routes say, and how they become bytes.

The published OpenAPI is made from these very types, so it cannot say anything else.
"""

from typing import Annotated, Any, Literal, TypedDict

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from stellwerk.agents.tool_spec import DescribedTool
from stellwerk.api import administration_answers, usage_answers, workflow_answers
from stellwerk.runs.commands import Accepted, Stopped
from stellwerk.runs.sessions import Session
from stellwerk.spec.published import ProblemTold, PublishedSystem
from stellwerk.systems.rows import Listed
from stellwerk.views.overview import StateTold
from stellwerk.views.transcript import Entry
from stellwerk.views.usage import UsageTold

ENVELOPE = "#/components/schemas/Envelope"
"""Where the published OpenAPI describes what is in the log."""


class Json(Response):
    """Structs to bytes, without a detour through dictionaries."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return msgspec.json.encode(content)


def address(request: Request, path: str) -> str:
    """Where a path of ours is, also inside an app that we are mounted in."""
    return f"{request.scope.get('root_path', '')}{path}"


class ProblemDetails(Struct, frozen=True, kw_only=True):
    """RFC 9457: a stable ``code`` for programs, a ``detail`` for people that says what to do."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    field: str | UnsetType = UNSET
    problems: list[ProblemTold] | UnsetType = UNSET


class SessionPage(Struct, frozen=True, kw_only=True):
    """Sessions, the one with the latest activity first; ``next`` is the ``before`` of the next page."""

    sessions: list[Session]
    next: str | None


class EventPage(Struct, frozen=True, kw_only=True):
    """Envelopes in their order; ``next`` is the ``after`` of the next page."""

    events: Annotated[Raw, Meta(extra_json_schema={"type": "array", "items": {"$ref": ENVELOPE}})]
    next: int

    @staticmethod
    def of(lines: list[bytes], last: int) -> "EventPage":
        """Joined, and never parsed."""
        return EventPage(events=Raw(b"[%b]" % b",".join(lines)), next=last)


class DialectLine(TypedDict):
    """A line of the dialect ``chunks`` or ``events``, which have more fields each: docs/reference/dialects.md."""

    id: str
    type: str
    ts: float
    agent_name: str


class Transcript(Struct, frozen=True, kw_only=True):
    """What was said; ``next`` is the ``after`` of the next page."""

    messages: list[Entry]
    next: int | None


class SessionState(StateTold):
    """Where a session stands, and with what: folded from its log up to ``position``."""

    position: int


class Artifact(Struct, frozen=True, kw_only=True):
    """A file of a session; the to-do list has no more than a name."""

    kind: Literal["todolist", "document"]
    name: str
    mime: str
    href: str
    size: int | UnsetType = UNSET
    document_id: str | UnsetType = UNSET
    created_at: float | UnsetType = UNSET
    run_id: str | None | UnsetType = UNSET
    agent: str | None | UnsetType = UNSET


class Artifacts(Struct, frozen=True, kw_only=True):
    artifacts: list[Artifact]


class RegisteredSystem(Struct, frozen=True, kw_only=True):
    """An agent system is known under this id, and begins its next round with this version."""

    id: str
    version: int
    warnings: list[ProblemTold]


class ResolvedSystem(PublishedSystem):
    """An agent system with its defaults filled in, and what the server makes of it today."""

    version: int | None
    versions: tuple[int, ...]
    created_at: float | None
    warnings: list[ProblemTold]
    problems: list[ProblemTold]


class SystemPage(Struct, frozen=True, kw_only=True):
    """Agent systems by name; ``next`` is the ``after`` of the next page."""

    agent_systems: list[Listed]
    next: str | None


class ToolList(Struct, frozen=True, kw_only=True):
    tools: list[DescribedTool]


class StoredFile(Struct, frozen=True, kw_only=True):
    """A file; the same bytes have the same id."""

    id: str
    fileId: int
    """The number of the file, for clients that count; of the same file as ``id``."""
    filename: str
    mime: str
    size: int
    created_at: float
    href: str


class Health(Struct, frozen=True, kw_only=True):
    status: Literal["ok", "ready"]


ANSWERS = (
    *(ProblemDetails, Session, SessionPage, Accepted, Stopped, EventPage, DialectLine, Transcript),
    *(SessionState, UsageTold, Artifacts, RegisteredSystem, ResolvedSystem, SystemPage),
    *(DescribedTool, ToolList, StoredFile, Health),
    *(*workflow_answers.ANSWERS, *administration_answers.ANSWERS, *usage_answers.ANSWERS),
)
