"""Erasure of a message, or of one file of it: from the log, from checkpoints and from disk.

Everything is prepared outside the writer and committed in one transaction, provided that the
session has not changed since. The log records that something was erased.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import msgspec

from stellwerk.agents.checkpoints.erasure import RewrittenStates, StateErasure, apply
from stellwerk.api.services import Services
from stellwerk.database.port import DOCUMENTS, Row, Transaction, locking, session_lock
from stellwerk.envelope.frames import Stored
from stellwerk.envelope.model import AskUser, Envelope, Message, UserAnswer, decode, encode
from stellwerk.envelope.packing import PACKED, expanded
from stellwerk.envelope.payloads import FilePart
from stellwerk.errors import Conflict, NotFound
from stellwerk.log import transactions as log
from stellwerk.log.log import PAGE_BYTES
from stellwerk.log.transactions import entry, placed
from stellwerk.runs.transactions import status_of
from stellwerk.views.status import Status
from stellwerk.views.tombstones import TYPES, Erasable, Erasure, SessionIndex
from stellwerk.workflows.cache import WorkflowCache, unknown_workflow
from stellwerk.workflows.views.workflow import MessageView

_PAGE = 1000
_TYPES = msgspec.json.encode((*TYPES, PACKED)).decode()
_INDEXED = ("run_start", "message", "ask_user", "user_answer", "document")
_INDEXED_TYPES = msgspec.json.encode(_INDEXED).decode()
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class ErasureRequest:
    tenant: str
    workflow_id: str
    message_id: str
    document_id: str | None = None
    """Erase only this file of the message."""


@dataclass(frozen=True, slots=True)
class PreparedErasure:
    """An erasure, as prepared when the log ended at ``position``."""

    request: ErasureRequest
    position: int
    tombstones: Sequence[Stored]
    facts: Sequence[Envelope]
    documents: Sequence[str]
    """Documents that no other message of the session has."""
    states: RewrittenStates | None


@dataclass(frozen=True, slots=True)
class MessageEraser:
    services: Services
    cache: WorkflowCache

    async def erase(self, request: ErasureRequest) -> None:
        """Erase a message or a file of it, with the bytes of files that no other message has.

        Raises:
            NotFound: there is no such workflow, message in it, or file of the message.
            Conflict: the workflow is running.
        """
        for _ in range(_ATTEMPTS):
            prepared = await self._prepare(request)
            try:
                await self.services.log.retract(erase_many, prepared, request.workflow_id, list)
            except log.Overtaken:
                continue
            finally:  # the log may be rewritten although an error is raised
                self.services.streams.forget(request.workflow_id)
            self.cache.forget(request.tenant, request.workflow_id)
            await self.services.documents.release(request.tenant, prepared.documents)
            return
        raise _busy()

    async def _prepare(self, request: ErasureRequest) -> PreparedErasure:
        workflow = await self.cache.of(request.tenant, request.workflow_id)
        message = next((each for each in workflow.messages if each.id == request.message_id), None)
        if message is None:
            remedy = "GET …/messages lists those of this workflow"
            raise NotFound("message", request.message_id, remedy=remedy)
        elsewhere = {f.document_id for m in workflow.messages if m is not message for f in m.documents}
        gone = [each for each in _files(message, request.document_id) if each not in elsewhere]
        head, status = await self.services.database.read(lambda tx: _erasable(tx, request))
        erasure = await self._find(request, gone)
        tombstones = list[Stored]()
        async for stored in self._events(request, _TYPES):
            if (left := erasure.tombstone(stored.position, decode(stored.body))) is not None:
                tombstones.append(Stored(stored.position, encode(left)))
        agent = await self.services.systems.agent(request.tenant, head[2], status.system_version)
        states = await agent.prepare_erasure(request.workflow_id, _state_erasure(erasure))
        facts = erasure.facts(self.services.clock.now())
        return PreparedErasure(request, head[0], tombstones, facts, gone, states)

    async def _find(self, request: ErasureRequest, gone: Sequence[str]) -> Erasure:
        target: Erasable | None = None
        index = SessionIndex()
        async for stored in self._events(request, _INDEXED_TYPES):
            envelope = decode(stored.body)
            index.feed(stored.position, envelope)
            if f"msg_{envelope.call_id}" == request.message_id and isinstance(envelope, Erasable):
                target = target or envelope
        if target is None:
            raise _busy()  # it was there a moment ago
        return Erasure(target, index, gone, request.document_id)

    async def _events(self, request: ErasureRequest, types: str) -> AsyncIterator[Stored]:
        after = 0

        def page(tx: Transaction) -> list[Row]:
            wanted = (request.workflow_id, after, types, request.tenant, _PAGE)
            return tx.rows_within(PAGE_BYTES, "events_of_types", *wanted)

        while found := await self.services.database.read(page):
            for stored in expanded(Stored(*row) for row in found):
                yield stored
            after = found[-1][0]


def _erasable(tx: Transaction, request: ErasureRequest) -> tuple[Row, Status]:
    head = tx.row("head", request.workflow_id, request.tenant)
    if head is None:
        raise unknown_workflow(request.workflow_id)
    status = status_of(tx, request.tenant, request.workflow_id)
    if status.status == "running":
        raise _busy()
    return head, status


def _busy() -> Conflict:
    return Conflict(
        "the workflow is at work, or waits for an answer; stop it, or send this again when it is over",
        code="session_busy",
    )


def _files(message: MessageView, document_id: str | None) -> list[str]:
    """The documents that are erased with it."""
    own = [file.document_id for file in message.documents]
    if document_id is None:
        return own
    if document_id not in own:
        raise NotFound("file", document_id, remedy="the message has no such file")
    return [document_id]


def _state_erasure(erasure: Erasure) -> StateErasure:
    """The same erasure for checkpoints."""
    target, owner = erasure.target, erasure.owner
    if erasure.document_id is not None:
        parts = target.payload.content if isinstance(target, Message) else []
        files = (p for p in parts if isinstance(p, FilePart) and p.document_id == erasure.document_id)
        file = next(files, None)
        return StateErasure() if file is None else StateErasure(owner, file)
    match target:
        case Message(payload=said):
            return StateErasure(
                owner,
                answer=said.text if said.role == "assistant" else None,
                known=frozenset(erasure.index.message_ids),
                result_call=owner,  # what an agent answered to a task has the id of its call
            )
        case AskUser():
            return StateErasure(question_call=target.payload.tool_call_id)
        case UserAnswer():
            question = erasure.question
            return StateErasure(result_call=question.payload.tool_call_id if question else None)


# On the writer's thread.


@locking(lambda item: [session_lock(item.request.workflow_id), DOCUMENTS])
def erase_many(tx: Transaction, items: Sequence[PreparedErasure]) -> list[list[Stored] | Exception]:
    return [_erase(tx, item) for item in items]


def _erase(tx: Transaction, item: PreparedErasure) -> list[Stored] | Exception:
    tenant, session_id = item.request.tenant, item.request.workflow_id
    try:
        head, _ = _erasable(tx, item.request)
    except (NotFound, Conflict) as refusal:
        return refusal
    if head[0] != item.position:
        return log.Overtaken("the session has changed since")
    log.rewrite(tx, tenant, session_id, item.tombstones)
    if item.states is not None:
        apply(tx, item.states)
    tx.run("forget_overview", tenant, session_id, 1)
    for document_id in item.documents:
        tx.run("drop_document", tenant, document_id, session_id)
        tx.run("give_up_upload", tenant, session_id, document_id)
    entries = [entry(fact) for fact in item.facts]
    return placed(log.append_unfenced(tx, tenant, session_id, entries), entries)
