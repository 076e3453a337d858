"""What goes: checkpoints of a thread or a run, all but the latest, and the items that nobody refers to then.

Operations for the database's writer, like the puts. They never leave an item
without a reference to it, or a reference without its item. Copying a thread is
here, too: it moves rows without looking at what they mean.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from stellwerk.agents.checkpoint_items import decode_parts, names
from stellwerk.agents.checkpoint_rows import REPLAYED, Channel, as_json, decode_channels
from stellwerk.database.port import Row, Transaction

_FORGETS = ("forget_checkpoints", "forget_checkpoint_writes", "forget_checkpoint_items")
_ALL = -1
"""No limit, to SQL."""
_COPIES = ("copy_checkpoints", "copy_checkpoint_writes", "copy_checkpoint_items")


@dataclass(frozen=True, slots=True)
class Removal:
    tenant: str
    ids: Sequence[str]
    """Of threads, or of runs."""


def delete_threads(tx: Transaction, removals: Sequence[Removal]) -> list[None]:
    for removal in removals:
        for thread_id in removal.ids:
            for statement in _FORGETS:
                tx.run(statement, removal.tenant, thread_id, _ALL)
    return [None] * len(removals)


def delete_runs(tx: Transaction, removals: Sequence[Removal]) -> list[None]:
    for removal in removals:
        _delete(tx, removal.tenant, tx.rows("checkpoints_of_runs", removal.tenant, as_json(removal.ids)))
    return [None] * len(removals)


def keep_latest(tx: Transaction, removals: Sequence[Removal]) -> list[None]:
    """Leave the latest checkpoint of each namespace, and those from which its channels are replayed."""
    for removal in removals:
        for thread_id in removal.ids:
            lineage: dict[str, dict[str, tuple[str | None, dict[str, Channel]]]] = {}
            for ns, id_, parent_id, channels in tx.rows("lineage_of_thread", removal.tenant, thread_id):
                lineage.setdefault(ns, {})[id_] = parent_id, decode_channels(channels)
            dead = [
                (thread_id, ns, id_)
                for ns, checkpoints in lineage.items()
                for id_ in checkpoints.keys() - set(_needed(checkpoints, next(iter(checkpoints))))
            ]
            _delete(tx, removal.tenant, dead)
    return [None] * len(removals)


def _needed(checkpoints: Mapping[str, tuple[str | None, dict[str, Channel]]], first: str) -> Iterator[str]:
    """A checkpoint, and ancestors back to where every channel has a value of its own."""
    current: str | None = first
    replayed: set[str] | None = None
    while current is not None and current in checkpoints:
        yield current
        parent_id, channels = checkpoints[current]
        if replayed is None:
            replayed = {name for name, channel in channels.items() if channel.type == REPLAYED}
        replayed -= {name for name, channel in channels.items() if channel.type not in (None, REPLAYED)}
        current = parent_id if replayed else None


def _delete(tx: Transaction, tenant: str, keys: Collection[Row]) -> None:
    """Delete checkpoints by (thread, namespace, id), and what only they needed."""
    rows = [(tenant, *key) for key in keys]
    tx.run_many("delete_checkpoint", rows)
    tx.run_many("delete_writes_of_checkpoint", rows)
    for thread_id in {key[0] for key in keys}:
        sweep(tx, tenant, thread_id)


def sweep(tx: Transaction, tenant: str, thread_id: str) -> None:
    """Delete the items of a thread that nothing refers to any more."""
    stored = {name: decode_parts(body) if body else [] for name, body in tx.rows("items_of_thread", tenant, thread_id)}
    waiting = [decode_parts(row[0]) for row in tx.rows("writes_of_thread", tenant, thread_id)]
    for (channels,) in tx.rows("channels_of_thread", tenant, thread_id):
        waiting += [channel.parts for channel in decode_channels(channels).values()]
    live: set[str] = set()
    while waiting:
        fresh = set(names(waiting.pop())) - live
        live |= fresh
        waiting += [stored[name] for name in fresh & stored.keys()]
    tx.run_many("delete_checkpoint_item", [(tenant, thread_id, name) for name in stored.keys() - live])


@dataclass(frozen=True, slots=True)
class Copy:
    tenant: str
    source: str
    target: str


def copy_threads(tx: Transaction, copies: Sequence[Copy]) -> list[None]:
    for copy in copies:
        for statement in _COPIES:
            tx.run(statement, copy.target, copy.tenant, copy.source)
    return [None] * len(copies)


def copy_states(tx: Transaction, copy: Copy, ids: Collection[str]) -> None:
    """Copy checkpoints of the outermost graph, and the earlier ones from which their channels are replayed."""
    rows = tx.rows("lineage_of_thread", copy.tenant, copy.source)
    lineage = {id_: (parent_id, decode_channels(channels)) for ns, id_, parent_id, channels in rows if ns == ""}
    chains = [list(_needed(lineage, id_)) for id_ in ids]
    kept = {id_ for chain in chains for id_ in chain}
    for id_ in (
        id_ for id_ in reversed(lineage) if id_ in kept
    ):  # oldest first: the last one stored is the state to go on with
        parent_id = lineage[id_][0]
        tx.run("copy_checkpoint", copy.target, copy.tenant, copy.source, id_, parent_id if parent_id in kept else None)
    for id_ in {id_ for chain in chains for id_ in chain[1:]}:
        tx.run("copy_writes_of_checkpoint", copy.target, copy.tenant, copy.source, id_)
    if kept:
        tx.run("copy_checkpoint_items", copy.target, copy.tenant, copy.source)
        sweep(tx, copy.tenant, copy.target)  # nothing of what came later
