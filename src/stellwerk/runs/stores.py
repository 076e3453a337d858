"""Where the runs of a process keep what they tell."""

from dataclasses import dataclass
from pathlib import Path

from stellwerk.database.port import Database
from stellwerk.documents.extraction import Extractor
from stellwerk.documents.store import DocumentStore
from stellwerk.documents.todolists import Todolists
from stellwerk.log.durable import DurableLog
from stellwerk.tenants.quotas import Quotas


@dataclass(frozen=True, slots=True)
class Stores:
    """Where everything lies that belongs to a session."""

    database: Database
    log: DurableLog
    documents: DocumentStore
    extractor: Extractor
    """Reads documents; one for the whole process, because only so many are read at once."""
    todolists: Todolists
    data: Path
    """The folder that all of them are in."""
    quotas: Quotas
