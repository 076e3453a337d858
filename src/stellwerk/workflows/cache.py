"""The cache of folded workflows for polling clients, bounded, least recently used first.

The first request for a workflow folds its log, page by page, on a reader thread of the database.
Later requests take new envelopes from the shared tail, which has them as soon as they are
committed: a poll of an unchanged workflow reads nothing.
"""

import asyncio
from collections import OrderedDict
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import msgspec

from stellwerk.database.port import Database, Transaction
from stellwerk.envelope.frames import Stored
from stellwerk.envelope.model import decode
from stellwerk.errors import NotFound, StellwerkError
from stellwerk.log.log import PAGE_BYTES
from stellwerk.log.notify import SessionChannel, WakeUps
from stellwerk.workflows.views.workflow import TYPES, Workflow

_PAGE = 1000
_COLD = 2
"""Logs folded from the start at once; others wait, so polls never use up the database's readers."""
_TYPES = msgspec.json.encode(TYPES).decode()
_BEGINNINGS = tuple(f'{{"type":"{kind}"'.encode() for kind in TYPES)

Key = tuple[str, str]


def unknown_workflow(workflow_id: str) -> NotFound:
    return NotFound("workflow", workflow_id, remedy="POST /api/workflows/start makes one")


@dataclass
class _Cached:
    key: Key
    watch: AbstractContextManager[SessionChannel]
    channel: SessionChannel
    workflow: Workflow | None = None
    position: int = 0
    reading: "asyncio.Task[None] | None" = None
    rewritten: int = 0
    """What the channel counted when this was begun: a rewrite by any process makes it useless."""

    @property
    def is_current(self) -> bool:
        is_folded = self.workflow is not None and self.reading is None
        return is_folded and self.position >= self.channel.head

    def take(self, batch: list[Stored]) -> bool:
        """Feed a batch in one turn: a request sees all of it or nothing. False if it has only tokens and the like."""
        assert self.workflow is not None
        news = [stored.body for stored in batch if stored.body.startswith(_BEGINNINGS)]
        for body in news:
            self.workflow.feed(decode(body))
        self.position = batch[-1].position
        return bool(news)

    def fold_page(self, tx: Transaction) -> bool:
        """Fold a page on a reader thread, while no request uses the workflow; True if it was the last."""
        tenant, workflow_id = self.key
        head = tx.row("head", workflow_id, tenant)
        if head is None:
            raise unknown_workflow(workflow_id)
        if self.workflow is None:
            self.workflow = Workflow(workflow_id, mandate(tx, tenant), user_number(head[4]))
        place = (workflow_id, self.position, _TYPES, tenant, _PAGE)
        rows = tx.rows_within(PAGE_BYTES, "events_of_types", *place)
        for position, body in rows:
            self.workflow.feed(decode(body))
            self.position = position
        is_full = len(rows) == _PAGE or sum(len(body) for _, body in rows) >= PAGE_BYTES
        if not is_full:
            self.position = head[0]
        return not is_full


@dataclass
class WorkflowCache:
    database: Database
    wakes: WakeUps
    most: int = 256
    bytes: int = 64 * 1024 * 1024
    _kept: "OrderedDict[Key, _Cached]" = field(default_factory=OrderedDict)
    _places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_COLD))

    async def of(self, tenant: str, workflow_id: str) -> Workflow:
        """The current workflow, with everything that was committed before this call.

        Raises:
            NotFound: this tenant has no such session, or the session has no message.
        """
        kept = self._found((tenant, workflow_id))
        while not kept.is_current:
            is_folded = kept.workflow is not None and kept.reading is None
            batch = kept.channel.since(kept.position) if is_folded else []
            if not batch:
                await self._read(kept)
                self._evict(kept)
            elif kept.take(batch):
                self._evict(kept)
        if kept.workflow is None or kept.workflow.status is None:
            raise unknown_workflow(workflow_id)
        return kept.workflow

    def forget(self, tenant: str, workflow_id: str) -> None:
        """Drop an entry whose log was rewritten or deleted; the next request folds it again."""
        if (kept := self._kept.pop((tenant, workflow_id), None)) is not None:
            kept.watch.__exit__(None, None, None)

    def _found(self, key: Key) -> _Cached:
        kept = self._kept.get(key)
        if kept is not None and (kept.channel.gone or kept.rewritten != kept.channel.rewritten):
            self.forget(*key)
            kept = None
        if kept is None:
            watch = self.wakes.watch(key[1])  # before the first read, so that no envelope is missed
            channel = watch.__enter__()
            kept = self._kept[key] = _Cached(key, watch, channel, rewritten=channel.rewritten)
        self._kept.move_to_end(key)
        return kept

    async def _read(self, kept: _Cached) -> None:
        """Fold from the database, once for all waiting requests; cancelling one cancels no read."""
        if kept.reading is None:
            kept.reading = asyncio.create_task(self._fold(kept))
        await asyncio.shield(kept.reading)

    async def _fold(self, kept: _Cached) -> None:
        try:
            async with self._places:
                while not await self.database.read(kept.fold_page):
                    pass
        except StellwerkError:  # a page may have been folded before the next one failed
            kept.workflow, kept.position = None, 0
            if self._kept.get(kept.key) is kept:
                self.forget(*kept.key)
            raise
        finally:
            kept.reading = None

    def _evict(self, latest: _Cached) -> None:
        weight = sum(kept.workflow.weight for kept in self._kept.values() if kept.workflow is not None)
        for key, kept in list(self._kept.items()):
            if kept is latest or (len(self._kept) <= self.most and weight <= self.bytes):
                break
            weight -= 0 if kept.workflow is None else kept.workflow.weight
            self.forget(*key)


def mandate(tx: Transaction, tenant: str) -> int:
    """The tenant as a number: ``mandateId`` of the contract."""
    row = tx.row("tenant_number", tenant)
    return 0 if row is None else int(row[0])


def user_number(label: str | None) -> int:
    """The label of a session's user if it is a number; else 0."""
    is_number = label is not None and label.isascii() and label.isdigit() and len(label) < 16
    return int(label or 0) if is_number else 0
