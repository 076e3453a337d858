"""What the routes work with, in one frozen object that the composition root fills."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from stellwerk.agents.tool_spec import DescribedTool
from stellwerk.api.credentials import Credentials
from stellwerk.api.overviews import Overviews
from stellwerk.api.streaming import SharedFrames
from stellwerk.api.telling import Tellings
from stellwerk.database.port import Database
from stellwerk.documents.numbers import FileNumbers
from stellwerk.documents.store import DocumentStore
from stellwerk.log.durable import DurableLog
from stellwerk.log.wake import Wakes
from stellwerk.runs.sessions import Sessions
from stellwerk.systems.registry import Systems
from stellwerk.tenants.audit import Audit
from stellwerk.tenants.quotas import Quotas
from stellwerk.tenants.secrets import Secrets
from stellwerk.tenants.usage import UsageBook
from stellwerk.workflows.workflows import Workflows


@dataclass(frozen=True, slots=True)
class Services:
    database: Database
    log: DurableLog
    wakes: Wakes
    sessions: Sessions
    systems: Systems
    documents: DocumentStore
    numbers: FileNumbers
    overviews: Overviews
    workflows: Workflows
    credentials: Credentials
    audit: Audit
    secrets: Secrets
    quotas: Quotas
    usage: UsageBook
    tools: Callable[[str], Awaitable[list[DescribedTool]]]
    """Everything that an agent system of this tenant may name."""
    shared: SharedFrames = field(default_factory=SharedFrames)
    tellings: Tellings = field(default_factory=Tellings)

    def reading(self) -> tuple[DurableLog, Wakes, SharedFrames, Credentials]:
        """What every reader of a session works with."""
        return self.log, self.wakes, self.shared, self.credentials
