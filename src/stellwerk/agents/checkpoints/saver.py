"""The checkpoint saver: checkpoints are committed with their envelopes, fenced like the log.

A put is one operation of the group-committing writer, so fence, log and checkpoint share one
transaction domain and never disagree. The saver never reads on the event loop, never writes for an
epoch that is over, and never returns an object of a type that is not allowed.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import wait
from datetime import datetime
from functools import partial
from hashlib import sha256
from typing import Any, Concatenate, ParamSpec, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.base import SerializerProtocol

from stellwerk.agents.checkpoints import rows
from stellwerk.agents.checkpoints.chunking import Item, Parts, cut, encode
from stellwerk.agents.checkpoints.erasure import RewrittenStates, StateErasure, prepare
from stellwerk.agents.checkpoints.serde import MSGPACK, StrictSerializer
from stellwerk.agents.runtime.context import run_context
from stellwerk.database.port import Database, Transaction
from stellwerk.database.read_batcher import ReadBatcher
from stellwerk.errors import BlockedLoop
from stellwerk.stream.facts import CheckpointSaved

P = ParamSpec("P")
R = TypeVar("R")
PendingWrites = list[PendingWrite]

EPOCH = "stellwerk_epoch"
"""The key in ``configurable`` of a run's epoch for writes; LangGraph passes it to sub-agents."""
_MAX_DIGESTS = 4096
_STORED_APART = ("channel_values", "channel_versions")
_CHECK_AFTER = 15.0
"""Seconds before a waiting thread checks that the loop responds, and the timeout of that check."""


class LoopCalls:
    """Runs coroutines on the event loop from other threads. Create it on that loop."""

    def __init__(self, *, check_after: float = _CHECK_AFTER) -> None:
        self._loop = asyncio.get_running_loop()
        self._check_after = check_after

    def wait_for(self, work: Coroutine[Any, Any, R]) -> R:
        """Run the coroutine on the loop, in the context of this thread, and return its result.

        Raises:
            BlockedLoop: the loop itself waits for this call: a deadlock.
        """
        try:
            self._refuse_on_loop()
            answer = asyncio.run_coroutine_threadsafe(work, self._loop)
        except (BlockedLoop, RuntimeError):  # RuntimeError: the loop is closed
            work.close()
            raise
        while not wait([answer], self._check_after).done:
            if not self._is_responsive():
                answer.cancel()
                raise BlockedLoop
        return answer.result()

    def _refuse_on_loop(self) -> None:
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            return
        if running is self._loop:
            raise BlockedLoop

    def _is_responsive(self) -> bool:
        turned = threading.Event()
        self._loop.call_soon_threadsafe(turned.set)
        return turned.wait(self._check_after)


def _blocking(
    method: Callable[Concatenate["DurableSaver", P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate["DurableSaver", P], R]:
    """The synchronous form of a method, for a graph that a ``def`` node or tool invokes.

    Such a graph runs in a thread, which waits for the method on the event loop: fence, journal and
    transaction are the same for both.
    """

    def in_thread(self: "DurableSaver", /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._loop_calls.wait_for(method(self, *args, **kwargs))

    return in_thread


class DurableSaver(BaseCheckpointSaver[int]):
    """The checkpoints of one tenant; a ``thread_id`` is a session id. Create it on its event loop.

    Where ``configurable`` has an epoch, ``aput`` and ``aput_writes`` raise Fenced, and write
    nothing, unless the session exists and is still at that epoch.
    """

    def __init__(self, database: Database, *, tenant: str, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde or StrictSerializer())
        self._database = database
        self._tenant = tenant
        self._reads = ReadBatcher(database)
        self._loop_calls = LoopCalls()
        self._digests: dict[tuple[object, ...], bytes] = {}
        """Digests of channels by namespace, name and version."""

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        namespace, id_ = self._namespace(config), get_checkpoint_id(config)
        return await self._reads.read(lambda tx: self._tuple(tx, namespace, id_))

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

        def matching(tx: Transaction) -> list[tuple[rows.CheckpointNamespace, str]]:
            stored = rows.list_checkpoints(tx, self._tenant, conditions, until, None if filter else limit)
            found = [(namespace, id_) for namespace, id_, body in stored if self._matches(body, filter)]
            return found[:limit]

        for namespace, id_ in await self._reads.read(matching):
            # One at a time: a long history of a long conversation does not fit into memory.
            found = await self._reads.read(partial(self._tuple, namespace=namespace, id_=id_))
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
        at = datetime.fromisoformat(checkpoint["ts"]).timestamp()
        await self._store(
            put, lambda: CheckpointSaved(at, put.id, put.namespace.ns, self._state_digest(checkpoint, put))
        )
        stored = _config(put.namespace, checkpoint["id"])
        if put.namespace.epoch is not None:
            stored["configurable"][EPOCH] = put.namespace.epoch
        return stored

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        items: dict[str, Item] = {}
        numbered = [
            (WRITES_IDX_MAP.get(channel, index), channel, *self._dump(value, items))
            for index, (channel, value) in enumerate(writes)
        ]
        id_ = config["configurable"]["checkpoint_id"]
        put = rows.PutWrites(self._namespace(config), id_, task_id, task_path, numbered, items)
        await self._store(put, lambda: None)

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete a session's checkpoints of all namespaces, with everything they refer to."""
        await self._database.submit(rows.delete_threads, (self._tenant, thread_id), urgent=True)

    async def prepare_erasure(self, thread_id: str, erasure: StateErasure) -> RewrittenStates:
        """Compute the rows that the erasure changes; nothing is stored yet."""
        return await self._database.read(lambda tx: prepare(tx, (self._tenant, thread_id), self.serde, erasure))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        namespace, id_ = self._namespace(config), get_checkpoint_id(config)
        return await self._reads.read(lambda tx: self._history(tx, namespace, id_, channels))

    get_tuple = _blocking(aget_tuple)
    put = _blocking(aput)
    put_writes = _blocking(aput_writes)
    delete_thread = _blocking(adelete_thread)
    get_delta_channel_history = _blocking(aget_delta_channel_history)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        found = self.alist(config, filter=filter, before=before, limit=limit)
        while (one := self._loop_calls.wait_for(_next(found))) is not None:
            yield one

    # On the event loop.

    def _namespace(self, config: RunnableConfig) -> rows.CheckpointNamespace:
        configurable = config["configurable"]
        thread_id, ns = str(configurable["thread_id"]), configurable.get("checkpoint_ns", "")
        return rows.CheckpointNamespace(self._tenant, thread_id, ns, configurable.get(EPOCH))

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
        rest = {key: value for key, value in checkpoint.items() if key not in _STORED_APART}
        body = self.serde.dumps_typed([rest, metadata])
        run_id = metadata.get("run_id")
        return rows.Put(
            namespace=self._namespace(config),
            id=checkpoint["id"],
            parent_id=get_checkpoint_id(config),
            run_id=None if run_id is None else str(run_id),
            body=body,
            channels=channels,
            unchanged=unchanged,
            items=items,
            full=lambda: self._put(config, checkpoint, metadata, {}),
        )

    async def _store(self, put: rows.Put | rows.PutWrites, fact: Callable[[], CheckpointSaved | None]) -> None:
        """Commit the put; with a journal, in one commit with the facts recorded so far."""
        journal = run_context().journal
        if journal is None:
            await self._database.submit(rows.put, put)
        else:
            await journal.commit_with(rows.put, put, fact())

    def _state_digest(self, checkpoint: Checkpoint, put: rows.Put) -> str:
        """Hash the whole state, at the cost of its changed channels."""
        whole = sha256()
        for name, value in sorted(checkpoint["channel_values"].items()):
            key = (*put.namespace.key, name, checkpoint["channel_versions"].get(name))
            if name in put.channels or key not in self._digests:
                changed = put.channels.get(name)
                parts = self._dump(value, {})[1] if changed is None else changed.parts
                self._digests.pop(key, None)  # the newest is last
                self._digests[key] = sha256(encode(parts)).digest()
            whole.update(name.encode() + b"\0" + self._digests[key])
        while len(self._digests) > _MAX_DIGESTS:
            del self._digests[next(iter(self._digests))]
        return whole.hexdigest()

    def _dump(self, value: Any, items: dict[str, Item]) -> tuple[str, Parts]:
        type_, data = self.serde.dumps_typed(value)
        return type_, cut(bytes(data), items, tokens=type_ == MSGPACK)

    # On a reader thread.

    def _tuple(
        self,
        tx: Transaction,
        namespace: rows.CheckpointNamespace,
        id_: str | None,
    ) -> CheckpointTuple | None:
        found = rows.read_checkpoint(tx, namespace, id_)
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
            config=_config(namespace, found.id),
            checkpoint=checkpoint,
            metadata=metadata,
            parent_config=_config(namespace, found.parent_id) if found.parent_id else None,
            pending_writes=self._writes(found),
        )

    def _writes(self, found: rows.StoredCheckpoint) -> PendingWrites:
        return [(task_id, channel, self.serde.loads_typed(typed)) for task_id, channel, typed in found.pending_writes()]

    def _matches(self, body: rows.Typed, filter: Mapping[str, Any] | None) -> bool:
        if not filter:
            return True
        _, metadata = self.serde.loads_typed(body)
        return all(metadata.get(key) == value for key, value in filter.items())

    def _history(
        self, tx: Transaction, namespace: rows.CheckpointNamespace, id_: str | None, channels: Collection[str]
    ) -> dict[str, DeltaChannelHistory]:
        """For each channel the nearest value among the ancestors, and the writes since."""
        history: dict[str, DeltaChannelHistory] = {name: {"writes": []} for name in channels}
        missing = set(channels)
        for found in rows.ancestors(tx, namespace, id_, missing):
            for write in reversed(self._writes(found)):
                history[write[1]]["writes"].insert(0, write)
            for name in list(missing):
                if typed := found.value(name):
                    history[name]["seed"] = self.serde.loads_typed(typed)
                    missing.discard(name)
        return history


def _unchanged(
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    new_versions: ChannelVersions,
) -> ChannelVersions:
    """The channels whose parts are taken from the parent; a cheap value is serialised again."""
    values, replayed = checkpoint["channel_values"], _replayed(metadata)
    return {
        name: version
        for name, version in checkpoint["channel_versions"].items()
        if name not in new_versions and (not _is_cheap(values[name]) if name in values else name in replayed)
    }


def _replayed(metadata: CheckpointMetadata) -> Collection[str]:
    """The channels whose values LangGraph may replay from earlier writes."""
    return metadata.get("counters_since_delta_snapshot") or ()


def _is_cheap(value: object) -> bool:
    return isinstance(value, int | float | None) or (isinstance(value, str | list | dict) and not value)


def memory_saver() -> InMemorySaver:
    """Checkpoints in memory, for runs without a server; as strict as the server's."""
    return InMemorySaver(serde=StrictSerializer())


def _config(namespace: rows.CheckpointNamespace, id_: str) -> RunnableConfig:
    return {
        "configurable": {
            "thread_id": namespace.thread_id,
            "checkpoint_ns": namespace.ns,
            "checkpoint_id": id_,
        }
    }


async def _next(found: AsyncIterator[CheckpointTuple]) -> CheckpointTuple | None:
    return await anext(found, None)
