"""Folds of workflows, kept in memory for those who poll.

The first who asks for a workflow has its log folded, page by page, on a thread
of the database. From then on the news are taken from the shared tail, where
they are shown when they are committed: a poll of something that did not change
reads nothing. What is kept is bounded, and may be dropped at any time.
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
from stellwerk.log.wake import Channel, Wakes
from stellwerk.views.workflow import TYPES, Workflow

_MOST = 256
_BYTES = 64 * 1024 * 1024
_PAGE = 1000
_COLD = 2
"""Logs that are read from the start at one time; others wait, so that no poll takes all readers of the database."""
_OVERHEAD = 400
"""Bytes that an answer takes beside itself."""
_TYPES = msgspec.json.encode(TYPES).decode()
_BEGINNINGS = tuple(f'{{"type":"{kind}"'.encode() for kind in TYPES)

Key = tuple[str, str]


def unknown_workflow(workflow_id: str) -> NotFound:
    return NotFound("workflow", workflow_id, remedy="POST /api/workflows/start makes one")


@dataclass
class _Kept:
    key: Key
    watch: AbstractContextManager[Channel]
    channel: Channel
    workflow: Workflow | None = None
    position: int = 0
    reading: "asyncio.Task[None] | None" = None

    @property
    def is_current(self) -> bool:
        return self.workflow is not None and self.position >= self.channel.head

    def take(self, batch: list[Stored]) -> bool:
        """On the loop, in one go: whoever asks sees all of a batch or nothing of it. Whether anything came of it."""
        assert self.workflow is not None
        news = [stored.body for stored in batch if stored.body.startswith(_BEGINNINGS)]
        for body in news:
            self.workflow.feed(decode(body))
        self.position = batch[-1].position
        return bool(news)


@dataclass
class Folds:
    database: Database
    wakes: Wakes
    most: int = _MOST
    bytes: int = _BYTES
    _kept: "OrderedDict[Key, _Kept]" = field(default_factory=OrderedDict)
    _places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_COLD))

    async def of(self, tenant: str, workflow_id: str) -> Workflow:
        """As it stands now: all that was committed before this was asked is in it.

        Raises:
            NotFound: there is no such session for this tenant, or nothing was ever said in it.
        """
        kept = self._found((tenant, workflow_id))
        while not kept.is_current:
            batch = kept.channel.since(kept.position) if kept.workflow is not None and kept.reading is None else []
            if not batch:
                await self._read(kept)
            elif not kept.take(batch):
                continue  # words of a model and the like: it holds no more than before
            self._make_room(kept)
        if kept.workflow is None or kept.workflow.status is None:
            raise unknown_workflow(workflow_id)
        return kept.workflow

    def forget(self, tenant: str, workflow_id: str) -> None:
        """Its log was rewritten, or is gone: whoever asks next has it folded anew."""
        if (kept := self._kept.pop((tenant, workflow_id), None)) is not None:
            kept.watch.__exit__(None, None, None)

    def _found(self, key: Key) -> _Kept:
        kept = self._kept.get(key)
        if kept is not None and kept.channel.gone:
            self.forget(*key)
            kept = None
        if kept is None:
            watch = self.wakes.watch(key[1])  # before the first read, so that nothing falls between
            kept = self._kept[key] = _Kept(key, watch, watch.__enter__())
        self._kept.move_to_end(key)
        return kept

    async def _read(self, kept: _Kept) -> None:
        """From the database, once for all who wait; whoever leaves does not end it for the others."""
        if kept.reading is None:
            kept.reading = asyncio.create_task(self._fold(kept))
        await asyncio.shield(kept.reading)

    async def _fold(self, kept: _Kept) -> None:
        try:
            async with self._places:
                folding = _Folding(*kept.key, kept.workflow, kept.position)
                while not await self.database.read(folding.page):
                    pass
            kept.workflow, kept.position = folding.workflow, folding.position
        except StellwerkError:  # a page may be folded, and the next one missing
            kept.workflow, kept.position = None, 0
            if self._kept.get(kept.key) is kept:
                self.forget(*kept.key)
            raise
        finally:
            kept.reading = None

    def _make_room(self, latest: _Kept) -> None:
        weight = sum(kept.workflow.weight for kept in self._kept.values() if kept.workflow is not None)
        for key, kept in list(self._kept.items()):
            if kept is latest or (len(self._kept) <= self.most and weight <= self.bytes):
                break
            weight -= 0 if kept.workflow is None else kept.workflow.weight
            self.forget(*key)


@dataclass
class _Folding:
    """On a reader's thread. Nobody looks at the workflow meanwhile: it is not current."""

    tenant: str
    workflow_id: str
    workflow: Workflow | None
    position: int

    def page(self, tx: Transaction) -> bool:
        """Fold a page; True when that was the last."""
        head = tx.row("head", self.workflow_id, self.tenant)
        if head is None:
            raise unknown_workflow(self.workflow_id)
        if self.workflow is None:
            self.workflow = Workflow(self.workflow_id, mandate(tx, self.tenant), user_number(head[4]))
        rows = tx.rows_within(
            PAGE_BYTES, "events_of_types", self.workflow_id, self.position, _TYPES, self.tenant, _PAGE
        )
        for position, body in rows:
            self.workflow.feed(decode(body))
            self.position = position
        is_full = len(rows) == _PAGE or sum(len(body) for _, body in rows) >= PAGE_BYTES
        if not is_full:
            self.position = head[0]
        return not is_full


def mandate(tx: Transaction, tenant: str) -> int:
    """The number by which clients of workflows know a tenant."""
    row = tx.row("tenant_number", tenant)
    return 0 if row is None else int(row[0])


def user_number(label: str | None) -> int:
    """The label of a session's user as a number, if it is one; 0 if not."""
    return int(label) if label is not None and label.isascii() and label.isdigit() and len(label) < 16 else 0


class Bodies:
    """Answers as they were sent, by what they follow from; the oldest go first."""

    def __init__(self, most: int = 16 * 1024 * 1024) -> None:
        self._most, self._size = most, 0
        self._kept: OrderedDict[tuple[object, ...], bytes] = OrderedDict()

    def get(self, key: tuple[object, ...]) -> bytes | None:
        if (found := self._kept.get(key)) is not None:
            self._kept.move_to_end(key)
        return found

    def keep(self, key: tuple[object, ...], body: bytes) -> None:
        if len(body) <= self._most // 8 and key not in self._kept:
            self._size += len(body) + _OVERHEAD
            self._kept[key] = body
        while self._size > self._most:
            self._size -= len(self._kept.popitem(last=False)[1]) + _OVERHEAD

    def forget(self, workflow_id: str) -> None:
        """What was answered about a workflow; its id is the first thing that such an answer follows from."""
        for key in [key for key in self._kept if key[0] == workflow_id]:
            self._size -= len(self._kept.pop(key)) + _OVERHEAD
