"""The workflow service: list, start, continue and delete workflows, which are sessions."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog
from msgspec import Struct

from stellwerk.database.port import Database, Transaction
from stellwerk.documents.store import DocumentStore, FileNumbers, unknown_file
from stellwerk.envelope.model import Message, decode
from stellwerk.envelope.payloads import Answered
from stellwerk.envelope.to_json import clean_text
from stellwerk.errors import Conflict, InvalidField, SpecError, StellwerkError
from stellwerk.ids import ID_LENGTH
from stellwerk.runs.commands import Accepted
from stellwerk.runs.sessions import Sessions
from stellwerk.runs.systems import Systems
from stellwerk.runs.transactions import status_of
from stellwerk.tenants.audit import about, without_audit
from stellwerk.views.status import Status
from stellwerk.workflows.cache import WorkflowCache, mandate, unknown_workflow, user_number
from stellwerk.workflows.erasure import MessageEraser
from stellwerk.workflows.message_documents import MessageDocuments
from stellwerk.workflows.views.workflow import NAME, iso

logger = structlog.get_logger(__name__)

BUSY = "session_busy"
_ID = re.compile(rf"[0-9A-Za-z]{{{ID_LENGTH}}}")
_AFTER_ALL = "~"
"""Sorts behind every id."""
_OFFICE, _DEMO = "office", "demo"
_PAGE = 100


class WorkflowHead(Struct, frozen=True, kw_only=True, rename="camel"):
    """A workflow in a list."""

    id: str
    mandate_id: int
    user_id: int
    name: str
    started_at: str
    status: str
    last_activity: str
    current_round: int
    awaiting_user_input: bool
    failed_tasks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRequest:
    """A prompt with files, for a new workflow or for one that exists."""

    prompt: str
    files: Sequence[int | str] = ()
    """Numbers of files or their ids, with or without the prefix ``doc_`` of messages."""
    workflow_id: str | None = None
    """The workflow to continue; None for a new one."""
    system: str | None = None
    user: str | None = None


class Started(Struct, frozen=True, kw_only=True, rename="camel"):
    """It is under way."""

    id: str
    status: str = "running"
    current_round: int


@dataclass(frozen=True)
class Workflows:
    database: Database
    sessions: Sessions
    systems: Systems
    store: DocumentStore
    numbers: FileNumbers
    cache: WorkflowCache
    documents: MessageDocuments
    eraser: MessageEraser

    async def listed(self, tenant: str, *, before: str | None, limit: int, chats: bool) -> list[WorkflowHead]:
        """List workflows, newest first; ``before`` is the last id seen, perhaps deleted since.

        No log is folded: rows and the first and last envelopes are enough. Without ``chats``, list
        only sessions that were started as workflows.

        Raises:
            InvalidField: ``before`` is not an id.
        """
        if before and not _ID.fullmatch(before):
            problem = f"before: {before[:60]!r} is not the id of a workflow"
            raise InvalidField(f"{problem}; send that of the last one you have, or leave it out", field="before")
        statement = "workflow_page" if chats else "workflow_page_without_chats"

        def page(tx: Transaction) -> list[WorkflowHead]:
            number = mandate(tx, tenant)
            rows = tx.rows(statement, tenant, before or _AFTER_ALL, limit)
            return [_head(number, row, *tx.rows("workflow_ends", row[0], tenant)) for row in rows]

        return await self.database.read(page)

    async def start(self, tenant: str, request: StartRequest) -> Started:
        """Start or continue a workflow: the prompt becomes a message, or answers a question.

        Raises:
            NotFound: no such workflow, agent system or file.
            Conflict: the workflow is running.
        """
        documents = await self._documents(tenant, request.files)
        if request.workflow_id is not None:
            about(workflow_id=request.workflow_id)
            workflow_id = request.workflow_id
            accepted = await self._go_on(tenant, workflow_id, request, documents)
        else:
            workflow_id, accepted = await self._begin(tenant, request, documents)
        self.documents.read_ahead(tenant, documents)
        return Started(id=workflow_id, current_round=accepted.round)

    async def delete(self, tenant: str, workflow_id: str) -> None:
        """Delete a workflow with all documents that it alone refers to, uploads included.

        Raises:
            NotFound: there is no such workflow.
        """
        await self.cache.of(tenant, workflow_id)
        # First: if the server ends now, the workflow is complete and can be deleted again.
        await self.store.give_up_uploads(tenant, workflow_id)
        await self.sessions.delete(tenant, workflow_id)
        self.cache.forget(tenant, workflow_id)
        logger.info("workflow deleted", workflow=workflow_id)

    async def _begin(
        self,
        tenant: str,
        request: StartRequest,
        documents: Sequence[str],
    ) -> tuple[str, Accepted]:
        system = request.system or await self._default_system(tenant)
        with without_audit():  # the audit records the first message instead
            session = await self.sessions.begin(tenant, system, request.user, is_workflow=True)
        about(made=session.id)
        try:
            return session.id, await self.sessions.send(tenant, session.id, request.prompt, documents=documents)
        except StellwerkError:
            with without_audit():
                await self.sessions.delete(tenant, session.id)  # no client has its id
            raise

    async def _go_on(
        self,
        tenant: str,
        workflow_id: str,
        request: StartRequest,
        documents: Sequence[str],
    ) -> Accepted:
        session = await self.sessions.find(tenant, workflow_id)
        if request.system not in (None, session.agent_system_id):
            problem = f"agentSystemId: this workflow belongs to {session.agent_system_id!r}; leave it out"
            raise InvalidField(problem, field="agentSystemId")
        status = await self.database.read(lambda tx: status_of(tx, tenant, workflow_id))
        if status.status == "idle":  # a session without messages is not a workflow
            raise unknown_workflow(workflow_id)
        try:
            if status.awaiting_user_input and len(status.open_asks) > 1:  # the others stay open
                answer = Answered(ask_id=status.open_asks[0], text=clean_text(request.prompt))
                return await self.sessions.answer(tenant, workflow_id, answer, documents=documents)
            return await self.sessions.send(tenant, workflow_id, request.prompt, documents=documents)
        except Conflict as error:
            raise workflow_busy(workflow_id) if error.code == BUSY else error from None

    async def _documents(self, tenant: str, files: Sequence[int | str]) -> list[str]:
        named = [int(file) if is_file_number(str(file)) else str(file).removeprefix("doc_") for file in files]
        numbers = [file for file in named if isinstance(file, int)]
        known = await self.numbers.documents(tenant, numbers) if numbers else {}
        for number in numbers:
            if number not in known:
                raise unknown_file(str(number))
        return [known[file] if isinstance(file, int) else file for file in named]

    async def _default_system(self, tenant: str) -> str:
        """The system ``office``; else the first of kind ``workplan``; else the demo."""
        names, after = list[str](), ""
        while page := await self.systems.list(tenant, after=after, limit=_PAGE):
            names += [each.id for each in page]
            after = page[-1].id
        if _OFFICE in names:
            return _OFFICE
        for name in names:
            try:
                described = await self.systems.describe(tenant, name)
            except SpecError:  # registered with an older server, which accepted it
                continue
            if described.resolved.root.kind == "workplan":
                return name
        return _DEMO


def _head(number: int, row: tuple[Any, ...], ends: tuple[Any, ...]) -> WorkflowHead:
    workflow_id, user, state = row
    first, started_at, last_activity = ends
    status = msgspec.json.decode(state, type=Status)
    return WorkflowHead(
        id=workflow_id,
        mandate_id=number,
        user_id=user_number(user),
        name="" if first is None else _name(first),
        started_at=iso(started_at),
        status=status.status,
        last_activity=iso(last_activity),
        current_round=status.round,
        awaiting_user_input=status.awaiting_user_input,
        failed_tasks=0 if status.status == "running" else len(status.failed_tasks),
    )


def _name(body: bytes) -> str:
    message = decode(body)
    assert isinstance(message, Message)
    return message.payload.text[:NAME]


def workflow_busy(workflow_id: str) -> Conflict:
    place = f"/api/workflows/{workflow_id}"
    remedy = f"ask {place}/status until it is over, or stop it by POST {place}/stop, and send this again"
    return Conflict(f"the workflow is at work; {remedy}", code=BUSY)


def is_file_number(text: str) -> bool:
    """Whether it is the number of a file, and not the id of a document."""
    return text.isascii() and text.isdigit() and len(text) < ID_LENGTH
