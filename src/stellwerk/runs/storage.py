"""The storage of sessions: database, log, documents, to-do lists and quotas."""

from dataclasses import dataclass
from pathlib import Path

from stellwerk.database.port import Database
from stellwerk.documents.store import DocumentStore
from stellwerk.documents.todolists import Todolists
from stellwerk.log.durable import DurableLog
from stellwerk.tenants.quotas import TenantQuotas
from stellwerk.timings import Timings


@dataclass(frozen=True, slots=True)
class SessionStorage:
    """Everything that holds data of a session."""

    database: Database
    log: DurableLog
    documents: DocumentStore
    todolists: Todolists
    data: Path
    """The folder that all of them are in."""
    quotas: TenantQuotas
    timings: Timings = Timings()
