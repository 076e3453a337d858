"""The workflow service: list, start, continue and delete workflows, which are sessions."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog
from msgspec import Struct

from stellwerk.api.services import Services
from stellwerk.database.port import Transaction
from stellwerk.envelope.model import Message, decode
from stellwerk.envelope.payloads import Answered
from stellwerk.envelope.to_json import clean_text
from stellwerk.errors import Conflict, InvalidField, SpecError, StellwerkError
from stellwerk.ids import ID_LENGTH
from stellwerk.runs.commands import Accepted
from stellwerk.runs.transactions import status_of
from stellwerk.tenants.audit import about, without_audit
from stellwerk.views.status import Status
from stellwerk.workflows.cache import WorkflowCache, mandate, unknown_workflow, user_number
from stellwerk.workflows.erasure import MessageEraser
from stellwerk.workflows.message_documents import MessageDocuments
from stellwerk.workflows.views.workflow import NAME, iso

logger = structlog.get_logger(__name__)

_BUSY = "session_busy"
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


class Workflows:
    def __init__(self, services: Services) -> None:
        self.services = services
        self.cache = WorkflowCache(services.database, services.wakes)
        self.documents = MessageDocuments(services.documents, services.numbers)
        self.eraser = MessageEraser(services, self.cache)
        self._sessions = services.sessions

    async def listed(self, tenant: str, *, before: str | None, limit: int, chats: bool) -> list[WorkflowHead]:
        """List workflows, newest first; ``before`` is the last id seen, perhaps deleted since.

        No log is folded: rows and the first and last envelopes are enough. Without ``chats``, list
        only sessions that were started as workflows.

        Raises:
            InvalidField: ``before`` is not an id.
        """
        if before and not _ID.fullmatch(before):
            remedy = "send that of the last one you have, or leave it out"
            raise InvalidField(f"before: {before[:60]!r} is not the id of a workflow; {remedy}", field="before")
        statement = "workflow_page" if chats else "workflow_page_without_chats"

        def page(tx: Transaction) -> list[WorkflowHead]:
            number = mandate(tx, tenant)
            rows = tx.rows(statement, tenant, before or _AFTER_ALL, limit)
            return [_head(number, row, *tx.rows("workflow_ends", row[0], tenant)) for row in rows]

        return await self.services.database.read(page)

    async def start(self, tenant: str, request: StartRequest) -> Started:
        """Start or continue a workflow: the prompt becomes a message, or answers a question.

        Raises:
            NotFound: no such workflow, agent system or file.
            Conflict: the workflow is running.
        """
        documents = await self.document_ids(tenant, request.files)
        if request.workflow_id is None:
            workflow_id, accepted = await self._begin(tenant, request, documents)
        else:
            workflow_id = request.workflow_id
            about(workflow_id=workflow_id)
            accepted = await self._go_on(tenant, workflow_id, request, documents)
        self.documents.read_ahead(tenant, documents)
        return Started(id=workflow_id, current_round=accepted.round)

    async def delete(self, tenant: str, workflow_id: str) -> None:
        """Delete a workflow with all documents that it alone refers to, uploads included.

        Raises:
            NotFound: there is no such workflow.
        """
        await self.cache.of(tenant, workflow_id)
        # First: if the server ends now, the workflow is complete and can be deleted again.
        await self.services.documents.give_up_uploads(tenant, workflow_id)
        await self._sessions.delete(tenant, workflow_id)
        self.cache.forget(tenant, workflow_id)
        logger.info("workflow deleted", workflow=workflow_id)

    async def _begin(self, tenant: str, request: StartRequest, documents: list[str]) -> tuple[str, Accepted]:
        system = request.system or await self._default_system(tenant)
        with without_audit():  # the audit records the first message instead
            session = await self._sessions.begin(tenant, system, request.user, is_workflow=True)
        about(made=session.id)
        try:
            sent = await self._sessions.send(tenant, session.id, request.prompt, documents=documents)
        except StellwerkError:
            with without_audit():
                await self._sessions.delete(tenant, session.id)  # no client has its id
            raise
        return session.id, sent

    async def _go_on(self, tenant: str, workflow_id: str, request: StartRequest, documents: list[str]) -> Accepted:
        session = await self._sessions.find(tenant, workflow_id)
        if request.system not in (None, session.agent_system_id):
            problem = f"agentSystemId: this workflow belongs to {session.agent_system_id!r}; leave it out"
            raise InvalidField(problem, field="agentSystemId")
        status = await self.services.database.read(lambda tx: status_of(tx, tenant, workflow_id))
        if status.status == "idle":  # a session without messages is not a workflow
            raise unknown_workflow(workflow_id)
        try:
            if status.awaiting_user_input and len(status.open_asks) > 1:  # the others stay open
                answer = Answered(ask_id=status.open_asks[0], text=clean_text(request.prompt))
                return await self._sessions.answer(tenant, workflow_id, answer, documents=documents)
            return await self._sessions.send(tenant, workflow_id, request.prompt, documents=documents)
        except Conflict as error:
            if error.code != _BUSY:
                raise
            place = f"/api/workflows/{workflow_id}"
            remedy = f"ask {place}/status until it is over, or stop it by POST {place}/stop"
            raise Conflict(f"the workflow is at work; {remedy}, and send this again", code=_BUSY) from None

    async def document_ids(self, tenant: str, files: Sequence[int | str]) -> list[str]:
        """Ids of files that are named by number or id; what is neither is returned as it is."""
        named = [str(file).removeprefix("doc_") for file in files]
        numbers = {name: int(name) for name in named if _is_number(name)}
        if not numbers:
            return named
        known = await self.services.numbers.documents(tenant, list(numbers.values()))
        return [known.get(numbers[name], name) if name in numbers else name for name in named]

    async def _default_system(self, tenant: str) -> str:
        """The system ``office``; else the first of kind ``workplan``; else the demo."""
        names, after = list[str](), ""
        while page := await self.services.systems.list(tenant, after=after, limit=_PAGE):
            names += [each.id for each in page]
            after = page[-1].id
        if _OFFICE in names:
            return _OFFICE
        for name in names:
            try:
                described = await self.services.systems.describe(tenant, name)
            except SpecError:  # registered with an older server, which accepted it
                continue
            if described.resolved.root.kind == "workplan":
                return name
        return _DEMO


def _head(number: int, row: tuple[Any, ...], ends: tuple[Any, ...]) -> WorkflowHead:
    workflow_id, user, state = row
    first, started_at, last_activity = ends
    status = msgspec.json.decode(state, type=Status)
    message = None if first is None else decode(first)
    return WorkflowHead(
        id=workflow_id,
        mandate_id=number,
        user_id=user_number(user),
        name=message.payload.text[:NAME] if isinstance(message, Message) else "",
        started_at=iso(started_at),
        status=status.status,
        last_activity=iso(last_activity),
        current_round=status.round,
        awaiting_user_input=status.awaiting_user_input,
        failed_tasks=0 if status.status == "running" else len(status.failed_tasks),
    )


def _is_number(name: str) -> bool:
    """Whether it is the number of a file, and not the id of a document."""
    return name.isascii() and name.isdigit() and len(name) < ID_LENGTH
