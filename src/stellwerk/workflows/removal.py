"""Remove a message, or a file from one: out of the log, out of what the agent remembers, off the disk.

All of it is prepared beside the writer and done in one transaction, if nothing
has happened in the session meanwhile. The log keeps the fact.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import msgspec

from stellwerk.agents.checkpoint_forgetting import Forgetting, Rewritten, apply
from stellwerk.database.port import Database, Row, Transaction
from stellwerk.documents.store import DocumentStore
from stellwerk.envelope.frames import Stored
from stellwerk.envelope.model import AskUser, Envelope, Message, UserAnswer, decode, encode
from stellwerk.envelope.packing import PACKED, expanded
from stellwerk.envelope.payloads import Asked, FilePart
from stellwerk.errors import Conflict, NotFound
from stellwerk.ids import Clock
from stellwerk.log import tables as log
from stellwerk.log.durable import DurableLog
from stellwerk.log.log import PAGE_BYTES, entry, placed
from stellwerk.runs.tables import standing
from stellwerk.systems.registry import Systems
from stellwerk.views.removal import TYPES, Removal, Spoken
from stellwerk.views.removal_papers import Papers
from stellwerk.views.workflow_shapes import MessageShown
from stellwerk.workflows.folds import Folds, unknown_workflow

_PAGE = 1000
_TYPES = msgspec.json.encode((*TYPES, PACKED)).decode()
_FINDING = msgspec.json.encode(
    ("run_start", "message", "ask_user", "user_answer", "document", "tool_start", "tool_end")
).decode()
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Removing:
    """A removal as it was prepared when the log ended at ``position``."""

    tenant: str
    session_id: str
    position: int
    stubs: Sequence[Stored]
    facts: Sequence[Envelope]
    documents: Sequence[str]
    """Those that the session has no longer."""
    memory: Rewritten | None


@dataclass(frozen=True, slots=True)
class _Wish:
    tenant: str
    workflow_id: str
    message_id: str
    document_id: str | None = None


@dataclass
class Removals:
    database: Database
    log: DurableLog
    documents: DocumentStore
    systems: Systems
    folds: Folds
    clock: Clock

    async def message(self, tenant: str, workflow_id: str, message_id: str) -> None:
        """With its files, as far as no other message has them.

        Raises:
            NotFound: there is no such workflow, or no such message in it.
            Conflict: the workflow is at work.
        """
        await self._remove(_Wish(tenant, workflow_id, message_id))

    async def file(self, tenant: str, workflow_id: str, message_id: str, document_id: str) -> None:
        """From one message; the last one that has it takes the bytes along. Raises as ``message`` does."""
        await self._remove(_Wish(tenant, workflow_id, message_id, document_id))

    async def _remove(self, wish: _Wish) -> None:
        for _ in range(_ATTEMPTS):
            removing = await self._prepared(wish)
            try:
                await self.log.retract(remove_many, removing, wish.workflow_id, lambda stored: stored)
            except log.Overtaken:
                continue
            self.folds.forget(wish.tenant, wish.workflow_id)
            await self.documents.release(wish.tenant, removing.documents)
            return
        raise _busy()

    async def _prepared(self, wish: _Wish) -> Removing:
        workflow = await self.folds.of(wish.tenant, wish.workflow_id)
        message = next((each for each in workflow.messages if each.id == wish.message_id), None)
        if message is None:
            raise NotFound("message", wish.message_id, remedy="GET …/messages lists those of this workflow")
        elsewhere = {f.document_id for m in workflow.messages if m is not message for f in m.documents}
        gone = _files(message, wish.document_id)
        head, status = await self.database.read(
            lambda tx: (
                tx.row("head", wish.workflow_id, wish.tenant),
                standing(tx, wish.tenant, wish.workflow_id),
            )
        )
        if head is None:
            raise unknown_workflow(wish.workflow_id)
        if status.status == "running":
            raise _busy()
        last = [each for each in gone if each not in elsewhere]
        removal = await self._found(wish, Papers(last))
        stubs = await self._stubs(wish, removal)
        agent = await self.systems.agent(wish.tenant, head[2], status.system_version)
        memory = await agent.without(wish.workflow_id, _forgetting(removal))
        facts = removal.facts(self.clock.now())
        return Removing(wish.tenant, wish.workflow_id, head[0], stubs, facts, last, memory)

    async def _found(self, wish: _Wish, papers: Papers) -> Removal:
        """What the log tells of it."""
        spoken: Spoken | None = None
        asked: dict[str, AskUser] = {}
        async for stored in self._told(wish, _FINDING):
            envelope = decode(stored.body)
            papers.feed(stored.position, envelope)
            if isinstance(envelope, AskUser):
                asked.setdefault(envelope.payload.ask_id, envelope)
            if f"msg_{envelope.call_id}" == wish.message_id and isinstance(envelope, Message | AskUser | UserAnswer):
                spoken = spoken or envelope
                papers.begin(stored.position, envelope)
        if spoken is None:
            raise _busy()  # it was there a moment ago
        question = asked.get(spoken.payload.ask_id) if isinstance(spoken, UserAnswer) else None
        return Removal(spoken, papers, question, wish.document_id)

    async def _stubs(self, wish: _Wish, removal: Removal) -> list[Stored]:
        found: list[Stored] = []
        async for stored in self._told(wish, _TYPES):
            if (stub := removal.stub(stored.position, decode(stored.body))) is not None:
                found.append(Stored(stored.position, encode(stub)))
        return found

    async def _told(self, wish: _Wish, types: str) -> AsyncIterator[Stored]:
        after = 0
        while page := await self.database.read(partial(_page, wish, types, after)):
            for stored in expanded(Stored(*row) for row in page):
                yield stored
            after = page[-1][0]


def _page(wish: _Wish, types: str, after: int, tx: Transaction) -> list[Row]:
    return tx.rows_within(PAGE_BYTES, "events_of_types", wish.workflow_id, after, types, wish.tenant, _PAGE)


def _busy() -> Conflict:
    return Conflict(
        "the workflow is at work, or waits for an answer; stop it, or send this again when it is over",
        code="session_busy",
    )


def _files(message: MessageShown, document_id: str | None) -> list[str]:
    """The documents that go with it."""
    own = [file.document_id for file in message.documents]
    if document_id is None:
        return own
    if document_id not in own:
        raise NotFound("file", document_id, remedy="the message has no such file")
    return [document_id]


def _forgetting(removal: Removal) -> Forgetting:
    papers = removal.papers
    read = frozenset(tool_call_id for *_, tool_call_id in papers.read.values())
    handed = frozenset(tool_call_id for *_, tool_call_id in papers.handed.values())
    own = _own(removal)
    return replace(own, questions=own.questions | read | handed, answers=own.answers | read)


def _own(removal: Removal) -> Forgetting:
    if removal.document_id is not None:
        parts = removal.spoken.payload.content if isinstance(removal.spoken, Message) else []
        files = [p for p in parts if isinstance(p, FilePart) and p.document_id == removal.document_id]
        if not files:
            return Forgetting()
        return Forgetting(phrases={removal.owner: files[0].as_text}, images={removal.owner: files[0].document_id})
    match removal.spoken:
        case Message():
            texts = frozenset({removal.text}) if removal.text and removal.spoken.payload.role == "assistant" else None
            own = frozenset({removal.owner})  # what an agent answered to a task has the id of its call
            return Forgetting(
                messages=own, texts=texts or frozenset(), known=frozenset(removal.papers.known), answers=own
            )
        case AskUser(payload=asked):
            return Forgetting(questions=_calls(asked))
        case UserAnswer():
            return Forgetting(answers=_calls(None if removal.asked is None else removal.asked.payload))


def _calls(asked: Asked | None) -> frozenset[str]:
    return frozenset() if asked is None or asked.tool_call_id is None else frozenset({asked.tool_call_id})


# On the writer's thread.


def remove_many(tx: Transaction, items: Sequence[Removing]) -> list[list[Stored] | Exception]:
    return [_remove(tx, item) for item in items]


def _remove(tx: Transaction, item: Removing) -> list[Stored] | Exception:
    head = tx.row("head", item.session_id, item.tenant)
    if head is None:
        return unknown_workflow(item.session_id)
    if standing(tx, item.tenant, item.session_id).status == "running":
        return _busy()
    if head[0] != item.position:
        return log.Overtaken("something has happened in the session meanwhile")
    log.rewrite(tx, item.tenant, item.session_id, item.stubs)
    if item.memory is not None:
        apply(tx, item.memory)
    tx.run("forget_overview", item.tenant, item.session_id, 1)
    for document_id in item.documents:
        tx.run("drop_document", item.tenant, document_id, item.session_id)
        tx.run("give_up_upload", item.tenant, item.session_id, document_id)
    entries = [entry(fact) for fact in item.facts]
    return placed(log.append_unfenced(tx, item.tenant, item.session_id, entries), entries)
