"""The rows of checkpoints: how they are stored and found again.

Everything here runs on a thread of the database, inside a transaction, and sees
bytes only. It never deserialises a value and never touches the event loop.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from stellwerk.agents.checkpoint_items import Item, Parts, decode_parts, encode, join, names, read_item
from stellwerk.database.port import Transaction
from stellwerk.errors import CorruptStore, Fenced

REPLAYED = "replayed"
"""The type of a channel whose value LangGraph rebuilds from the writes of earlier checkpoints."""

Version = int | float | str | None
Typed = tuple[str, bytes]


class Channel(msgspec.Struct, frozen=True, array_like=True):
    """A channel at one checkpoint; without a type it has no value."""

    version: Version
    type: str | None = None
    parts: list[Any] = []


decode_channels = msgspec.msgpack.Decoder(dict[str, Channel]).decode


@dataclass(frozen=True, slots=True)
class Place:
    """Where a write goes, and the epoch under which it may."""

    tenant: str
    thread_id: str
    ns: str
    epoch: int | None

    @property
    def key(self) -> tuple[str, str, str]:
        return self.tenant, self.thread_id, self.ns


@dataclass(frozen=True, slots=True)
class Put:
    place: Place
    id: str
    parent_id: str | None
    run_id: str | None
    body: Typed
    channels: dict[str, Channel]
    unchanged: Mapping[str, Version]
    """Channels that are as in the parent, which has their parts."""
    items: Mapping[str, Item]
    whole: Callable[[], "Put"]
    """The same with every channel anew, for when the parent does not have them after all."""

    def roots(self) -> Iterator[str]:
        return (name for channel in self.channels.values() for name in names(channel.parts))


@dataclass(frozen=True, slots=True)
class Write:
    index: int
    channel: str
    type: str
    parts: Parts


@dataclass(frozen=True, slots=True)
class PutWrites:
    place: Place
    checkpoint_id: str
    task_id: str
    task_path: str
    writes: Sequence[Write]
    items: Mapping[str, Item]

    def roots(self) -> Iterator[str]:
        return (name for write in self.writes for name in names(write.parts))


def put(tx: Transaction, puts: Sequence[Put | PutWrites]) -> list[None | Exception]:
    """Store checkpoints and writes, which LangGraph hands over by turns: one operation, so that they form sets."""
    over = _over(tx, puts)
    allowed = [item for number, item in enumerate(puts) if number not in over]
    _store(tx, [_put(tx, item) if isinstance(item, Put) else _put_writes(tx, item) for item in allowed])
    return [over.get(number) for number in range(len(puts))]


def _over(tx: Transaction, puts: Sequence[Put | PutWrites]) -> dict[int, Fenced]:
    """Those whose epoch is over, or whose session is gone."""
    fences = [(put.place.thread_id, put.place.tenant, put.place.epoch) for put in puts]
    found = tx.rows("epochs_over", as_json(fences)) if any(epoch is not None for *_, epoch in fences) else []
    return {number: Fenced(puts[number].place.thread_id, epoch) for number, epoch in found}


def _put(tx: Transaction, put: Put) -> Put:
    """Store one checkpoint; returns what was stored."""
    channels = dict(put.channels)
    if put.unchanged:
        row = tx.row("read_checkpoint", *put.place.key, put.parent_id)
        before = decode_channels(row[2]) if row else {}
        if any(name not in before or before[name].version != seen for name, seen in put.unchanged.items()):
            return _put(tx, put.whole())
        channels |= {name: before[name] for name in put.unchanged}
    tx.run("put_checkpoint", *put.place.key, put.id, put.parent_id, put.run_id, encode(channels), *put.body)
    return put


def _put_writes(tx: Transaction, put: PutWrites) -> PutWrites:
    for write in put.writes:
        # Errors, interrupts and answers have negative numbers and replace what was there.
        query = "put_checkpoint_write" if write.index >= 0 else "replace_checkpoint_write"
        row = (put.checkpoint_id, put.task_id, write.index, put.task_path, write.channel, write.type)
        tx.run(query, *put.place.key, *row, encode(write.parts))
    return put


def _store(tx: Transaction, puts: Sequence[Put | PutWrites]) -> None:
    """Store the items of all puts, level by level. A node that is there already has everything below it."""
    level = {(put.place.tenant, put.place.thread_id, name): put for put in puts for name in put.roots()}
    while level:
        keys = list(level)
        (row,) = tx.rows("items_lacking", as_json(keys))
        fresh = [keys[number] for number in msgspec.json.decode(row[0])]
        items = [level[key].items[key[2]] for key in fresh]
        tx.run_many("put_item", [(*key, item.node, item.body) for key, item in zip(fresh, items, strict=True)])
        level = {
            (*key[:2], name): level[key] for key, item in zip(fresh, items, strict=True) for name in names(item.parts)
        }


def as_json(value: object) -> str:
    return msgspec.json.encode(value).decode()


# Reading.


@dataclass(frozen=True, slots=True)
class Found:
    """A checkpoint as it is stored, with the items that its values are joined from."""

    id: str
    parent_id: str | None
    body: Typed
    channels: dict[str, Channel]
    writes: list[tuple[str, str, str, Parts]]
    items: dict[str, Item]

    def value(self, name: str) -> Typed | None:
        channel = self.channels.get(name)
        if channel is None or channel.type is None or channel.type == REPLAYED:
            return None
        return channel.type, join(channel.parts, self.items)

    def written(self) -> Iterator[tuple[str, str, Typed]]:
        for task_id, channel, type_, parts in self.writes:
            yield task_id, channel, (type_, join(parts, self.items))


def find(tx: Transaction, place: Place, id_: str | None, only: Collection[str] | None = None) -> Found | None:
    """The checkpoint of this id or, without one, the latest; of all channels, or only of some."""
    row = tx.row("read_checkpoint", *place.key, id_) if id_ else tx.row("read_latest_checkpoint", *place.key)
    if row is None:
        return None
    found_id, parent_id, packed, type_, body = row
    channels = {name: channel for name, channel in decode_channels(packed).items() if only is None or name in only}
    writes = [
        (task_id, channel, kind, decode_parts(parts))
        for task_id, channel, kind, parts in tx.rows("read_checkpoint_writes", *place.key, found_id)
        if only is None or channel in only
    ]
    roots = [channel.parts for channel in channels.values()] + [write[3] for write in writes]
    return Found(found_id, parent_id, (type_, body), channels, writes, items_below(tx, place, roots))


def ancestors(tx: Transaction, place: Place, id_: str | None, channels: Collection[str]) -> Iterator[Found]:
    """The checkpoints before this one, nearest first, as long as ``channels`` holds one to look for."""
    found = find(tx, place, id_, ())
    while channels and found and found.parent_id and (found := find(tx, place, found.parent_id, channels)):
        yield found


def listed(
    tx: Transaction, tenant: str, conditions: Mapping[str, Any], until: str | None, limit: int | None
) -> Iterator[tuple[Place, str, Typed]]:
    """The checkpoints of a thread or, without one, of the tenant; newest first."""
    count = -1 if limit is None else limit
    if "thread_id" in conditions:
        narrow = conditions.get("checkpoint_ns"), conditions.get("checkpoint_id"), until, count
        found = tx.rows("list_checkpoints_of_thread", tenant, str(conditions["thread_id"]), *narrow)
    else:
        found = tx.rows("list_checkpoints", tenant, until, count)
    for thread_id, ns, id_, type_, body in found:
        yield Place(tenant, thread_id, ns, None), id_, (type_, body)


def items_below(tx: Transaction, place: Place, roots: Iterable[Parts]) -> dict[str, Item]:
    """All items below these parts, level by level."""
    items: dict[str, Item] = {}
    wanted = {name for parts in roots for name in names(parts)}
    while wanted:
        asked = as_json(list(wanted))
        level = {
            name: read_item(bool(node), body)
            for name, node, body in tx.rows("read_checkpoint_items", place.tenant, place.thread_id, asked)
        }
        if level.keys() != wanted:
            raise CorruptStore(f"session {place.thread_id} lacks a part of its state; restore it from a backup")
        items |= level
        wanted = {name for item in level.values() for name in names(item.parts)} - items.keys()
    return items
