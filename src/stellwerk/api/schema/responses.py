"""Response types of the routes. The OpenAPI document is generated from them, so the two cannot differ."""

from collections.abc import Sequence
from typing import Annotated, Literal, Self, TypedDict, get_args

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from stellwerk.agents.store.tenant_store import FoundItem, StoreItem
from stellwerk.agents.tools.spec import DescribedTool
from stellwerk.api.http.problems import ProblemDetails
from stellwerk.runs.commands import Accepted, DelayedRun, Stopped
from stellwerk.runs.graph_states import CheckpointPage, GraphValues, StateUpdated
from stellwerk.runs.jobs.crons import Cron
from stellwerk.runs.jobs.webhooks import WebhookDelivery
from stellwerk.runs.sessions import Session
from stellwerk.runs.systems import SystemInfo
from stellwerk.spec.published import PublishedSystem, SpecProblemInfo
from stellwerk.tenants.audit import AuditRecord
from stellwerk.tenants.keys import KeyInfo
from stellwerk.tenants.principals import LOCAL_TENANT, Principal, Role, Scope
from stellwerk.tenants.quotas import Limits, QuotaUsage, UsageRow
from stellwerk.tenants.secrets import SecretInfo, SecretsRotated
from stellwerk.tenants.tenants import TenantInfo
from stellwerk.views.overview import StateInfo
from stellwerk.views.transcript import TranscriptEntry
from stellwerk.views.usage import UsageInfo

_ENVELOPES = {"type": "array", "items": {"$ref": "#/components/schemas/Envelope"}}


class SessionPage(Struct, frozen=True, kw_only=True):
    """Sessions, the one with the latest activity first; ``next`` is the ``before`` of the next page."""

    sessions: list[Session]
    next: str | None


class Transcript(Struct, frozen=True, kw_only=True):
    """Messages, questions and answers; ``next`` is the ``after`` of the next page."""

    messages: list[TranscriptEntry]
    next: int | None


class FoundItems(Struct, frozen=True, kw_only=True):
    """Items of the store: the best first, or without a query the latest."""

    items: list[FoundItem]


class NamespaceList(Struct, frozen=True, kw_only=True):
    """Namespaces of the store that have items, each as its labels."""

    namespaces: list[list[str]]


class SessionState(StateInfo):
    """The state of a session, folded from its log up to ``position``."""

    position: int


class Artifact(Struct, frozen=True, kw_only=True):
    """A file of a session; the to-do list has only a name."""

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


class EventPage(Struct, frozen=True, kw_only=True):
    """Envelopes in their order; ``next`` is the ``after`` of the next page."""

    events: Annotated[Raw, Meta(extra_json_schema=_ENVELOPES)]
    next: int


class DialectLine(TypedDict):
    """A line of the dialect ``chunks`` or ``events``, which have more fields each: docs/reference/dialects.md."""

    id: str
    type: str
    ts: float
    agent_name: str


class TicketInfo(Struct, frozen=True, kw_only=True):
    """To be added to the address of a stream as ``?ticket=…``; once, and before it expires."""

    ticket: str
    expires_at: float


class RegisteredSystem(Struct, frozen=True, kw_only=True):
    """The id of an agent system, and the version that the next round uses."""

    id: str
    version: int
    warnings: list[SpecProblemInfo]


class ResolvedSystem(PublishedSystem):
    """An agent system with its defaults filled in, and its current problems."""

    version: int | None
    versions: tuple[int, ...]
    created_at: float | None
    warnings: list[SpecProblemInfo]
    problems: list[SpecProblemInfo]


class SystemPage(Struct, frozen=True, kw_only=True):
    """Agent systems by name; ``next`` is the ``after`` of the next page."""

    agent_systems: list[SystemInfo]
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


class Me(Struct, frozen=True, kw_only=True):
    """The principal of the request, and its scopes."""

    tenant: str
    user: str | None
    role: Role
    scopes: list[Scope]

    @classmethod
    def of(cls, who: Principal) -> Self:
        scopes = [scope for scope in get_args(Scope) if who.may(scope)]
        if who.tenant != LOCAL_TENANT:
            scopes = [scope for scope in scopes if scope != "metrics"]
        return cls(tenant=who.tenant, user=who.user, role=who.role, scopes=scopes)


class TenantList(Struct, frozen=True, kw_only=True):
    tenants: list[TenantInfo]


class KeyList(Struct, frozen=True, kw_only=True):
    keys: list[KeyInfo]


class NewKey(KeyInfo, frozen=True, kw_only=True):
    token: str
    """``sw_<id>_<secret>``, shown only once."""


class AuditPage(Struct, frozen=True, kw_only=True):
    """Entries of the audit log, the oldest first; ``next`` is the ``after`` of the next page."""

    entries: list[AuditRecord]
    next: int | None


class SecretList(Struct, frozen=True, kw_only=True):
    secrets: list[SecretInfo]


class UsagePage(Struct, frozen=True, kw_only=True):
    """The limits of a tenant, its current usage, and its usage by day, the newest first.

    ``next`` is the ``after`` of the next page.
    """

    tenant: str
    limits: Limits
    used: QuotaUsage
    usage: list[UsageRow]
    next: int | None


class CronPage(Struct, frozen=True, kw_only=True):
    """Crons, the oldest first; ``next`` is the ``after`` of the next page."""

    crons: list[Cron]
    next: str | None


class DelayedRuns(Struct, frozen=True, kw_only=True):
    runs: list[DelayedRun]


class DefaultWebhook(Struct, frozen=True):
    """Where the ends of runs are reported whose messages name no address."""

    webhook: str | None


class DeliveryPage(Struct, frozen=True, kw_only=True):
    """Webhook deliveries, the newest first; ``next`` is the ``before`` of the next page."""

    deliveries: list[WebhookDelivery]
    next: str | None


PUBLISHED: Sequence[type] = (
    *(ProblemDetails, Session, SessionPage, Accepted, Stopped, EventPage, DialectLine, Transcript),
    *(SessionState, UsageInfo, Artifacts, RegisteredSystem, ResolvedSystem, SystemPage),
    *(GraphValues, CheckpointPage, StateUpdated, StoreItem, FoundItems, NamespaceList),
    *(DescribedTool, ToolList, StoredFile, Health),
    *(TicketInfo, Me, TenantInfo, TenantList, KeyInfo, KeyList, NewKey, AuditPage),
    *(SecretInfo, SecretList, SecretsRotated, Limits, UsagePage),
    *(Cron, CronPage, DelayedRuns, DefaultWebhook, DeliveryPage),
)
"""The schemas of the OpenAPI document, in this order."""
