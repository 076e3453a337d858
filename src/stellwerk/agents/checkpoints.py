"""LangGraph's checkpoints in the log's own database, fenced like the log.

A put is one operation of the group-committing writer, so that fence, log and
checkpoint share one transaction domain and never disagree. It never reads on
the event loop, never writes for an epoch that is over, and never gives back an
object whose type was not allowed.
"""

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from stellwerk.agents.checkpoint_serde import MSGPACK, StrictSerializer, prove_strict

# isort: split
# The module above sees to it that LangGraph is strict before it is imported.
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from stellwerk.agents import checkpoint_pruning as pruning
from stellwerk.agents import checkpoint_rows as rows
from stellwerk.agents.checkpoint_forgetting import Forgetting, Rewritten, rewritten
from stellwerk.agents.checkpoint_items import Item, Parts, cut
from stellwerk.agents.checkpoint_reads import SharedReads
from stellwerk.agents.checkpoint_threads import ThreadedSaver
from stellwerk.agents.journal import current_journal
from stellwerk.agents.state_digests import StateDigests
from stellwerk.database.port import Database, Transaction
from stellwerk.errors import InvalidInput
from stellwerk.stream.facts import CheckpointSaved

__all__ = ["EPOCH", "DurableSaver", "prove_strict"]

EPOCH = "stellwerk_epoch"
"""The key of ``configurable`` with the epoch under which a run writes; it reaches sub-agents by itself."""
_SPLIT_OFF = ("channel_values", "channel_versions")


class DurableSaver(ThreadedSaver):
    """The checkpoints of one tenant. A ``thread_id`` is the id of a session. Make it on the loop that uses it.

    Where ``configurable`` has an epoch, ``aput`` and ``aput_writes`` raise Fenced, and write nothing,
    unless the session exists and is still at that epoch.
    """

    def __init__(self, database: Database, *, tenant: str, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde or StrictSerializer())
        self._database, self._tenant = database, tenant
        self._reads = SharedReads(database)
        self._digests = StateDigests()

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        place, id_ = self._place(config), get_checkpoint_id(config)
        return await self._reads.read(lambda tx: self._tuple(tx, place, id_))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Newest first. Metadata is compared in Python: no part of a filter ever becomes SQL."""
        conditions = config["configurable"] if config else {}
        until = get_checkpoint_id(before) if before else None

        def matching(tx: Transaction) -> list[tuple[rows.Place, str]]:
            stored = rows.listed(tx, self._tenant, conditions, until, None if filter else limit)
            found = [(place, id_) for place, id_, body in stored if self._matches(body, filter)]
            return found[:limit]

        for place, id_ in await self._reads.read(matching):
            # One at a time: a long history of a long conversation does not fit into memory.
            found = await self._reads.read(partial(self._tuple, place=place, id_=id_))
            if found:
                yield found

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        metadata = get_checkpoint_metadata(config, metadata)
        unchanged = _unchanged(checkpoint, metadata, new_versions) if get_checkpoint_id(config) else {}
        put = self._put(config, checkpoint, metadata, unchanged)
        await self._store(put, partial(self._fact, checkpoint, put))
        stored = _config(put.place, checkpoint["id"])
        if put.place.epoch is not None:
            stored["configurable"][EPOCH] = put.place.epoch
        return stored

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        items: dict[str, Item] = {}
        numbered = [
            rows.Write(WRITES_IDX_MAP.get(channel, index), channel, *self._dump(value, items))
            for index, (channel, value) in enumerate(writes)
        ]
        id_ = config["configurable"]["checkpoint_id"]
        put = rows.PutWrites(self._place(config), id_, task_id, task_path, numbered, items)
        await self._store(put, lambda: None)

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete a session's checkpoints of all namespaces, with everything they refer to."""
        await self._database.submit(pruning.delete_threads, pruning.Removal(self._tenant, [thread_id]), urgent=True)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints whose metadata name one of these runs as ``run_id``."""
        await self._database.submit(pruning.delete_runs, pruning.Removal(self._tenant, run_ids), urgent=True)

    async def without(self, thread_id: str, forgetting: Forgetting) -> Rewritten:
        """What is to be stored anew so that a session's states lack something; nothing is changed by this."""
        return await self._database.read(lambda tx: rewritten(tx, (self._tenant, thread_id), self.serde, forgetting))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await self._database.submit(
            pruning.copy_threads, pruning.Copy(self._tenant, source_thread_id, target_thread_id)
        )

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep the latest checkpoint of each namespace, and those from which it is rebuilt; or delete all."""
        operations = {"keep_latest": pruning.keep_latest, "delete": pruning.delete_threads}
        if strategy not in operations:
            raise InvalidInput(f"unknown strategy {strategy[:40]!r}; use keep_latest or delete", field="strategy")
        await self._database.submit(operations[strategy], pruning.Removal(self._tenant, thread_ids), urgent=True)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        place, id_ = self._place(config), get_checkpoint_id(config)
        return await self._reads.read(lambda tx: self._history(tx, place, id_, channels))

    # On the event loop.

    def _place(self, config: RunnableConfig) -> rows.Place:
        configurable = config["configurable"]
        thread_id, ns = str(configurable["thread_id"]), configurable.get("checkpoint_ns", "")
        return rows.Place(self._tenant, thread_id, ns, configurable.get(EPOCH))

    def _put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        unchanged: Mapping[str, rows.Version],
    ) -> rows.Put:
        values, versions = checkpoint["channel_values"], checkpoint["channel_versions"]
        replayed = _replayed(metadata)
        items: dict[str, Item] = {}
        channels: dict[str, rows.Channel] = {}
        for name in dict.fromkeys((*versions, *values)):
            if name in values and name not in unchanged:
                channels[name] = rows.Channel(versions.get(name), *self._dump(values[name], items))
            elif name not in unchanged:
                channels[name] = rows.Channel(versions[name], rows.REPLAYED if name in replayed else None)
        rest = {key: value for key, value in checkpoint.items() if key not in _SPLIT_OFF}
        body = self.serde.dumps_typed([rest, metadata])
        run_id = metadata.get("run_id")
        return rows.Put(
            place=self._place(config),
            id=checkpoint["id"],
            parent_id=get_checkpoint_id(config),
            run_id=None if run_id is None else str(run_id),
            body=body,
            channels=channels,
            unchanged=unchanged,
            items=items,
            whole=lambda: self._put(config, checkpoint, metadata, {}),
        )

    async def _store(self, put: rows.Put | rows.PutWrites, fact: Callable[[], CheckpointSaved | None]) -> None:
        """Commit, together with what the run has told so far if it keeps a journal."""
        journal = current_journal()
        if journal is None:
            await self._database.submit(rows.put, put)
        else:
            await journal.commit_with(rows.put, put, fact())

    def _fact(self, checkpoint: Checkpoint, put: rows.Put) -> CheckpointSaved:
        place, values, versions = put.place, checkpoint["channel_values"], checkpoint["channel_versions"]
        changed = {name: channel.parts for name, channel in put.channels.items()}
        digest = self._digests.of(
            place.key,
            {name: versions.get(name) for name in values},
            changed,
            lambda name: self._dump(values[name], {})[1],
        )
        return CheckpointSaved(datetime.fromisoformat(checkpoint["ts"]).timestamp(), put.id, place.ns, digest)

    def _dump(self, value: Any, items: dict[str, Item]) -> tuple[str, Parts]:
        type_, data = self.serde.dumps_typed(value)
        return type_, cut(bytes(data), items, tokens=type_ == MSGPACK)

    # On a reader thread.

    def _tuple(self, tx: Transaction, place: rows.Place, id_: str | None) -> CheckpointTuple | None:
        found = rows.find(tx, place, id_)
        if found is None:
            return None
        rest, metadata = self.serde.loads_typed(found.body)
        checkpoint: Any = {
            **rest,
            "channel_versions": {
                k: channel.version for k, channel in found.channels.items() if channel.version is not None
            },
            "channel_values": {k: self.serde.loads_typed(typed) for k in found.channels if (typed := found.value(k))},
        }
        return CheckpointTuple(
            config=_config(place, found.id),
            checkpoint=checkpoint,
            metadata=metadata,
            parent_config=_config(place, found.parent_id) if found.parent_id else None,
            pending_writes=self._writes(found),
        )

    def _writes(self, found: rows.Found) -> list[PendingWrite]:
        return [(task_id, channel, self.serde.loads_typed(typed)) for task_id, channel, typed in found.written()]

    def _matches(self, body: rows.Typed, filter: Mapping[str, Any] | None) -> bool:
        if not filter:
            return True
        _, metadata = self.serde.loads_typed(body)
        return all(metadata.get(key) == value for key, value in filter.items())

    def _history(
        self, tx: Transaction, place: rows.Place, id_: str | None, channels: Collection[str]
    ) -> dict[str, DeltaChannelHistory]:
        """For each channel the nearest value among the ancestors, and what was written since."""
        history: dict[str, DeltaChannelHistory] = {name: {"writes": []} for name in channels}
        open_ = set(channels)
        for found in rows.ancestors(tx, place, id_, open_):
            for write in reversed(self._writes(found)):
                history[write[1]]["writes"].insert(0, write)
            for name in list(open_):
                if typed := found.value(name):
                    history[name]["seed"] = self.serde.loads_typed(typed)
                    open_.discard(name)
        return history


def _unchanged(checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions) -> ChannelVersions:
    """The channels whose stored form is taken from the parent, where looking there is worth it."""
    values, replayed = checkpoint["channel_values"], _replayed(metadata)
    return {
        name: version
        for name, version in checkpoint["channel_versions"].items()
        if name not in new_versions and (not _is_cheap(values[name]) if name in values else name in replayed)
    }


def _replayed(metadata: CheckpointMetadata) -> Collection[str]:
    """The channels whose values LangGraph may rebuild from earlier writes."""
    return metadata.get("counters_since_delta_snapshot") or ()


def _is_cheap(value: object) -> bool:
    return isinstance(value, int | float | None) or (isinstance(value, str | list | dict) and not value)


def _config(place: rows.Place, id_: str) -> RunnableConfig:
    return {"configurable": {"thread_id": place.thread_id, "checkpoint_ns": place.ns, "checkpoint_id": id_}}
