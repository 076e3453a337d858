"""Checkpoint rows: how checkpoints, pending writes and items are stored and read.

Everything here runs on a database thread, inside a transaction, and handles bytes only. It never
deserialises a value and never touches the event loop.
"""

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from stellwerk.agents.checkpoints.chunking import Item, Parts, decode_parts, encode, join, names
from stellwerk.database.port import Transaction, locking, session_lock
from stellwerk.errors import CorruptStore, Fenced

REPLAYED = "replayed"
"""The type of a channel whose value LangGraph replays from the writes of earlier checkpoints."""

Version = int | float | str | None
Typed = tuple[str, bytes]
ItemKey = tuple[str, str, str]
"""Tenant, thread and name of an item."""


class Channel(msgspec.Struct, frozen=True, array_like=True):
    """A channel at one checkpoint. A channel without a type has no value."""

    version: Version
    type: str | None = None
    parts: list[Any] = []


decode_channels = msgspec.msgpack.Decoder(dict[str, Channel]).decode


@dataclass(frozen=True, slots=True)
class CheckpointNamespace:
    """A checkpoint namespace of a thread, and the epoch that fences writes to it."""

    tenant: str
    thread_id: str
    ns: str
    epoch: int | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        return self.tenant, self.thread_id, self.ns


class NotInParent(Exception):
    """The parent checkpoint has no such version of an unchanged channel."""


@dataclass(frozen=True, slots=True)
class Put:
    namespace: CheckpointNamespace
    id: str
    parent_id: str | None
    run_id: str | None
    body: Typed
    channels: dict[str, Channel]
    unchanged: Mapping[str, Version]
    """Versions of the channels whose parts are taken from the parent checkpoint."""
    items: Mapping[str, Item]
    full: Callable[[], "Put"] | None
    """Builds the same put with every channel serialised, for a parent without an unchanged one.

    None if that is not possible here: such a put is rejected with ``NotInParent``.
    """

    def item_names(self) -> Iterator[str]:
        return (name for channel in self.channels.values() for name in names(channel.parts))


@dataclass(frozen=True, slots=True)
class PutWrites:
    namespace: CheckpointNamespace
    checkpoint_id: str
    task_id: str
    task_path: str
    writes: Sequence[tuple[int, str, str, Parts]]
    """Index, channel, type and parts of each."""
    items: Mapping[str, Item]

    def item_names(self) -> Iterator[str]:
        return (name for *_, parts in self.writes for name in names(parts))


@locking(lambda put: [session_lock(put.namespace.thread_id)])
def put(tx: Transaction, puts: Sequence[Put | PutWrites]) -> list[None | Exception]:
    """Store checkpoints and pending writes.

    LangGraph puts them alternately; as one operation they share a group commit.
    """
    rejected: dict[int, Exception] = {**_fenced(tx, puts)}
    items: dict[ItemKey, Mapping[str, Item]] = {}
    for number, given in enumerate(puts):
        if number not in rejected:
            try:
                stored = _put(tx, given) if isinstance(given, Put) else _put_writes(tx, given)
            except NotInParent as error:  # before anything was written
                rejected[number] = error
                continue
            tenant, thread_id, _ = stored.namespace.key
            items |= {(tenant, thread_id, name): stored.items for name in stored.item_names()}
    put_items(tx, items)
    return [rejected.get(number) for number in range(len(puts))]


def _fenced(tx: Transaction, puts: Sequence[Put | PutWrites]) -> dict[int, Fenced]:
    """The puts to reject, by index: their epoch is over, or their session is deleted."""
    fences = [(put.namespace.thread_id, put.namespace.tenant, put.namespace.epoch) for put in puts]
    if all(epoch is None for *_, epoch in fences):
        return {}
    found = tx.rows("epochs_over", as_json(fences))
    return {number: Fenced(puts[number].namespace.thread_id, epoch) for number, epoch in found}


def _put(tx: Transaction, put: Put) -> Put:
    """Store one checkpoint; returns the put that was stored, which may be the full one."""
    channels = dict(put.channels)
    if put.unchanged:
        row = tx.row("read_checkpoint", *put.namespace.key, put.parent_id)
        before = decode_channels(row[2]) if row else {}
        for name, version in put.unchanged.items():
            if name not in before or before[name].version != version:
                if put.full is None:
                    raise NotInParent
                return _put(tx, put.full())
            channels[name] = before[name]
    row = (put.id, put.parent_id, put.run_id, encode(channels), *put.body)
    tx.write("put_checkpoint", *put.namespace.key, *row)
    return put


def _put_writes(tx: Transaction, put: PutWrites) -> PutWrites:
    for index, channel, type_, parts in put.writes:
        # Errors, interrupts and resume values have a negative index and replace the earlier write.
        query = "put_checkpoint_write" if index >= 0 else "replace_checkpoint_write"
        row = (put.checkpoint_id, put.task_id, index, put.task_path, channel, type_, encode(parts))
        tx.write(query, *put.namespace.key, *row)
    return put


def put_items(tx: Transaction, level: dict[ItemKey, Mapping[str, Item]]) -> None:
    """Store the missing items, level by level. Below a stored node nothing is missing.

    ``level`` has the items to look in.
    """
    while level:
        keys = list(level)
        (row,) = tx.rows("items_lacking", as_json(keys))
        missing = {key: level[key] for key in (keys[n] for n in msgspec.json.decode(row[0]))}
        fresh = {key: items[key[2]] for key, items in missing.items()}
        tx.run_many("put_item", [(*key, item.node, item.body) for key, item in fresh.items()])
        level = {(*key[:2], name): missing[key] for key, item in fresh.items() for name in names(item.parts)}


def as_json(value: object) -> str:
    return msgspec.json.encode(value).decode()


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    """A checkpoint as stored, with the items that its values are joined from."""

    id: str
    parent_id: str | None
    body: Typed
    channels: dict[str, Channel]
    writes: list[tuple[str, str, str, Parts]]
    """Task, channel, type and parts of each."""
    items: dict[str, Item]

    def values(self) -> Iterator[tuple[str, Typed]]:
        for name, channel in self.channels.items():
            if channel.type is not None and channel.type != REPLAYED:
                yield name, (channel.type, join(channel.parts, self.items))

    def pending_writes(self) -> Iterator[tuple[str, str, Typed]]:
        for task_id, channel, type_, parts in self.writes:
            yield task_id, channel, (type_, join(parts, self.items))


def read_checkpoint(
    tx: Transaction, namespace: CheckpointNamespace, id_: str | None, only: Collection[str] | None = None
) -> StoredCheckpoint | None:
    """The checkpoint with this id, or the latest; with all channels, or ``only`` some."""
    if id_:
        row = tx.row("read_checkpoint", *namespace.key, id_)
    else:
        row = tx.row("read_latest_checkpoint", *namespace.key)
    if row is None:
        return None
    found_id, parent_id, packed, type_, body = row
    channels = decode_channels(packed)
    found = tx.rows("read_checkpoint_writes", *namespace.key, found_id)
    if only is not None:
        channels = {name: channel for name, channel in channels.items() if name in only}
        found = [write for write in found if write[1] in only]
    writes = [(task_id, name, kind, decode_parts(parts)) for task_id, name, kind, parts in found]
    roots = [channel.parts for channel in channels.values()] + [write[3] for write in writes]
    items = items_below(tx, namespace, roots)
    return StoredCheckpoint(found_id, parent_id, (type_, body), channels, writes, items)


def list_checkpoints(
    tx: Transaction, tenant: str, conditions: Mapping[str, Any], until: str | None = None
) -> list[tuple[CheckpointNamespace, str]]:
    """Namespaces and ids of the checkpoints of a thread, or of the whole tenant; newest first."""
    if "thread_id" in conditions:
        place = str(conditions["thread_id"]), conditions.get("checkpoint_ns")
        id_ = conditions.get("checkpoint_id")
        found = tx.rows("list_checkpoints_of_thread", tenant, *place, id_, until)
    else:
        found = tx.rows("list_checkpoints", tenant, until)
    return [(CheckpointNamespace(tenant, thread_id, ns), id_) for thread_id, ns, id_ in found]


def items_below(tx: Transaction, namespace: CheckpointNamespace, roots: Iterable[Parts]) -> dict[str, Item]:
    """Read all items below these parts, one query per level."""
    tenant, thread_id, _ = namespace.key
    items: dict[str, Item] = {}
    wanted = {name for parts in roots for name in names(parts)}
    while wanted:
        level = {
            name: Item(bool(node), body, decode_parts(body) if node else [])
            for name, node, body in tx.rows("read_checkpoint_items", tenant, thread_id, as_json(list(wanted)))
        }
        if level.keys() != wanted:
            problem = f"session {thread_id} lacks a part of its state; restore it from a backup"
            raise CorruptStore(problem)
        items |= level
        wanted = {name for item in level.values() for name in names(item.parts)} - items.keys()
    return items


@locking(lambda thread: [session_lock(thread[1])])
def delete_threads(tx: Transaction, threads: Sequence[tuple[str, str]]) -> list[None]:
    for tenant, thread_id in threads:
        for table in ("checkpoints", "checkpoint_writes", "checkpoint_items"):
            tx.run(f"forget_{table}", tenant, thread_id, sys.maxsize)
    return [None] * len(threads)


def sweep(tx: Transaction, tenant: str, thread_id: str) -> None:
    """Garbage-collect the items of a thread: delete those without a reference."""
    rows = tx.rows("items_of_thread", tenant, thread_id)
    stored = {name: decode_parts(body) if body else [] for name, body in rows}
    waiting = [decode_parts(row[0]) for row in tx.rows("writes_of_thread", tenant, thread_id)]
    for (channels,) in tx.rows("channels_of_thread", tenant, thread_id):
        waiting += [channel.parts for channel in decode_channels(channels).values()]
    live: set[str] = set()
    while waiting:
        fresh = set(names(waiting.pop())) - live
        live |= fresh
        waiting += [stored[name] for name in fresh & stored.keys()]
    unused = [(tenant, thread_id, name) for name in stored.keys() - live]
    tx.run_many("delete_checkpoint_item", unused)


def copy_states(tx: Transaction, tenant: str, source: str, target: str, ids: Collection[str]) -> None:
    """Copy checkpoints of the outermost graph, and those from which their channels are replayed."""
    lineage = {
        id_: (parent_id, decode_channels(channels))
        for ns, id_, parent_id, channels in tx.rows("lineage_of_thread", tenant, source)
        if ns == ""
    }
    chains = [list(_needed(lineage, id_)) for id_ in ids]
    kept = {id_ for chain in chains for id_ in chain}
    # Oldest first: the checkpoint stored last is the one that a run resumes from.
    for id_ in (id_ for id_ in reversed(lineage) if id_ in kept):
        parent_id = lineage[id_][0] if lineage[id_][0] in kept else None
        tx.run("copy_checkpoint", target, tenant, source, id_, parent_id)
    for id_ in {id_ for chain in chains for id_ in chain[1:]}:
        tx.run("copy_writes_of_checkpoint", target, tenant, source, id_)
    if kept:
        tx.run("copy_checkpoint_items", target, tenant, source)
        sweep(tx, tenant, target)  # drops the items of later checkpoints


def _needed(checkpoints: Mapping[str, tuple[str | None, dict[str, Channel]]], first: str) -> Iterator[str]:
    """Ids of a checkpoint and its ancestors, until every replayed channel has a stored value."""
    current: str | None = first
    replayed: set[str] | None = None
    while current is not None and current in checkpoints:
        yield current
        parent_id, channels = checkpoints[current]
        if replayed is None:
            replayed = {name for name, channel in channels.items() if channel.type == REPLAYED}
        replayed -= {name for name, channel in channels.items() if channel.type not in (None, REPLAYED)}
        current = parent_id if replayed else None
