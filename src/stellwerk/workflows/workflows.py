"""Workflows: everything that the routes for polling clients do, over the same sessions that all others use."""

from dataclasses import dataclass, field

import structlog

from stellwerk.database.port import Database
from stellwerk.documents.store import DocumentStore
from stellwerk.runs.sessions import Sessions
from stellwerk.workflows.documents import Documents
from stellwerk.workflows.folds import Bodies, Folds
from stellwerk.workflows.listing import WorkflowHead, listed
from stellwerk.workflows.removal import Removals
from stellwerk.workflows.starting import Started, Starting, Wish

logger = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Workflows:
    database: Database
    sessions: Sessions
    store: DocumentStore
    starting: Starting
    folds: Folds
    documents: Documents
    removals: Removals
    bodies: Bodies = field(default_factory=Bodies)

    async def list(self, tenant: str, *, before: str | None, limit: int, chats: bool) -> list[WorkflowHead]:
        return await listed(self.database, tenant, before=before, limit=limit, chats=chats)

    async def start(self, tenant: str, wish: Wish) -> Started:
        started, documents = await self.starting.start(tenant, wish)
        self.documents.read_ahead(tenant, documents)
        return started

    async def delete(self, tenant: str, workflow_id: str) -> None:
        """With every byte that belongs to it alone, uploads included.

        Raises:
            NotFound: there is no such workflow.
        """
        await self.folds.of(tenant, workflow_id)
        # First: if this is all that gets done, the workflow is whole, and can be deleted again.
        await self.store.give_up_uploads(tenant, workflow_id)
        await self.sessions.delete(tenant, workflow_id)
        self.folds.forget(tenant, workflow_id)
        self.bodies.forget(workflow_id)
        logger.info("workflow deleted", workflow=workflow_id)
