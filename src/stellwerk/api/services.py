"""The services that routes use, filled by the composition root; and server plug-ins, which add routes of their own."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, FastAPI
from starlette.types import ASGIApp

from stellwerk import plugins
from stellwerk.agents.store.tenant_store import TenantStore
from stellwerk.agents.tools.spec import DescribedTool
from stellwerk.api.http.auth import Credentials
from stellwerk.api.http.problems import ErrorForm
from stellwerk.api.streams.reader import StreamSource
from stellwerk.database.port import Database, Operation
from stellwerk.documents.store import DocumentStore, FileNumbers
from stellwerk.ids import Clock
from stellwerk.log.durable import DurableLog
from stellwerk.log.notify import WakeUps
from stellwerk.overviews import Overviews
from stellwerk.runs.client_threads import ClientThreads
from stellwerk.runs.jobs.crons import Crons
from stellwerk.runs.jobs.webhooks import Webhooks
from stellwerk.runs.sessions import Sessions
from stellwerk.runs.systems import Systems
from stellwerk.settings import Settings
from stellwerk.tenants.audit import Audit, Made
from stellwerk.tenants.quotas import TenantQuotas
from stellwerk.tenants.secrets import Secrets

if TYPE_CHECKING:
    from stellwerk.cluster.cluster import Cluster


@dataclass(frozen=True, slots=True)
class Services:
    database: Database
    log: DurableLog
    wakes: WakeUps
    sessions: Sessions
    systems: Systems
    documents: DocumentStore
    numbers: FileNumbers
    overviews: Overviews
    credentials: Credentials
    streams: StreamSource
    audit: Audit
    secrets: Secrets
    quotas: TenantQuotas
    webhooks: Webhooks
    crons: Crons
    threads: ClientThreads
    clock: Clock
    tools: Callable[[str], Awaitable[list[DescribedTool]]]
    """Everything that an agent system of this tenant may name."""
    stores: Callable[[str], TenantStore]
    """What graphs of a tenant remember beyond a session."""
    cluster: "Cluster | None" = None
    """The node that this server is among others; None if it is alone."""


@dataclass(frozen=True, slots=True)
class PluginRouters:
    polled: Sequence[APIRouter] = ()
    """Tried before all other routes, because clients request them most often."""
    others: Sequence[APIRouter] = ()


@dataclass(frozen=True, slots=True)
class ServerPlugin:
    """Named by an entry point of the group ``stellwerk.server``."""

    opened: Callable[[FastAPI, Services], AbstractAsyncContextManager[PluginRouters]]
    """Entered when the server starts and left before its services close."""
    tags: Sequence[dict[str, str]] = ()
    """Groups of routes in the OpenAPI document."""
    schemas: Sequence[type] = ()
    """The types of its responses, published in the OpenAPI document."""
    middleware: Sequence[Callable[[ASGIApp], ASGIApp]] = ()
    """ASGI middleware, inside of the host and size checks."""
    outermost: Callable[[ASGIApp, Settings], ASGIApp] | None = None
    """ASGI middleware around everything, which may serve a path at another one."""
    audited: Mapping[Operation[Any, Any], Made | None] = field(default_factory=dict)
    """Operations that store the audit entry of their request in the same transaction."""
    body_limits: Mapping[str, int] = field(default_factory=dict)
    """By path prefix: the bytes that a body may have, in place of the server's limit."""
    error_forms: Mapping[str, ErrorForm] = field(default_factory=dict)
    """By path prefix: the form of all errors, in place of problem+json."""


def server_plugins() -> list[ServerPlugin]:
    return list(plugins.loaded(plugins.SERVER).values())
