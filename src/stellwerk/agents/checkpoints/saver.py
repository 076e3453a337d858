"""The checkpoint saver: checkpoints are committed with their envelopes, fenced like the log.

A put is one operation of the group-committing writer, so fence, log and checkpoint share one
transaction domain and never disagree. The saver never reads on the event loop, never writes for an
epoch that is over, and never returns an object of a type that is not allowed.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import wait
from datetime import datetime
from functools import partial
from hashlib import sha256
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from langchain_core.messages import convert_to_messages
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint import base
from langgraph.checkpoint.base import Checkpoint, CheckpointMetadata, CheckpointTuple, get_checkpoint_id
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.base import SerializerProtocol

from stellwerk.agents.checkpoints import rows
from stellwerk.agents.checkpoints.chunking import Item, Parts, cut, encode
from stellwerk.agents.checkpoints.erasure import RewrittenStates, StateErasure, prepare
from stellwerk.agents.checkpoints.serde import MSGPACK, StrictSerializer
from stellwerk.agents.runtime.context import run_context
from stellwerk.database.port import Database, ReadBatcher, Transaction
from stellwerk.errors import BlockedLoop, CorruptStore
from stellwerk.stream.facts import CheckpointSaved

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="HasLoopCalls")

EPOCH = "stellwerk_epoch"
"""The key in ``configurable`` of a run's epoch for writes; LangGraph passes it to sub-agents."""
_MAX_DIGESTS = 4096
STORED_APART = ("channel_values", "channel_versions")
_CHECK_AFTER = 15.0
"""Seconds before a waiting thread checks that the loop responds, and the timeout of that check."""


class LoopCalls:
    """Runs coroutines on the event loop from other threads. Create it on that loop."""

    def __init__(self, *, check_after: float = _CHECK_AFTER) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._check_after = check_after

    def wait_for(self, work: Coroutine[Any, Any, R]) -> R:
        """Run the coroutine on the loop, in the context of this thread, and return its result.

        Raises:
            BlockedLoop: the loop itself waits for this call: a deadlock.
        """
        try:
            if self._loop.is_running() and threading.get_ident() == self._thread:
                raise BlockedLoop
            answer = asyncio.run_coroutine_threadsafe(work, self._loop)
        except (BlockedLoop, RuntimeError):  # RuntimeError: the loop is closed
            work.close()
            raise
        while not wait([answer], self._check_after).done:
            responded = threading.Event()
            self._loop.call_soon_threadsafe(responded.set)
            if not responded.wait(self._check_after):
                answer.cancel()
                raise BlockedLoop
        return answer.result()


class HasLoopCalls(Protocol):
    """A saver that was created on an event loop."""

    _loop_calls: LoopCalls


def blocking(method: Callable[Concatenate[S, P], Coroutine[Any, Any, R]]) -> Callable[Concatenate[S, P], R]:
    """The synchronous form of a method, for a graph that a ``def`` node or tool invokes.

    Such a graph runs in a thread, which waits for the method on the event loop: fence, journal and
    transaction are the same for both.
    """

    def in_thread(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._loop_calls.wait_for(method(self, *args, **kwargs))

    return in_thread


class DurableSaver(base.BaseCheckpointSaver[int]):
    """The checkpoints of one tenant; a ``thread_id`` is a session id. Create it on its event loop.

    Where ``configurable`` has an epoch, ``aput`` and ``aput_writes`` raise Fenced, and write
    nothing, unless the session exists and is still at that epoch.
    """

    def __init__(self, database: Database, *, tenant: str, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde or StrictSerializer())
        self.database = database
        self.tenant = tenant
        self._reads = ReadBatcher(database)
        self._loop_calls = LoopCalls()
        self._digests: dict[tuple[object, ...], bytes] = {}
        """Digests of channels by namespace, name and version."""

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await self._tuple(self._namespace(config), get_checkpoint_id(config))

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
        listed = await self._reads.read(lambda tx: rows.list_checkpoints(tx, self.tenant, conditions, until))
        count = 0
        for namespace, id_ in listed:
            if count == limit:
                return
            # One at a time: a long history of a long conversation does not fit into memory.
            found = await self._tuple(namespace, id_)
            if found and (filter or {}).items() <= found.metadata.items():
                count += 1
                yield found

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: base.ChannelVersions,
    ) -> RunnableConfig:
        metadata = base.get_checkpoint_metadata(config, metadata)
        has_parent = get_checkpoint_id(config) is not None
        put = self._put(config, checkpoint, metadata, new_versions if has_parent else None)
        at = datetime.fromisoformat(checkpoint["ts"]).timestamp()
        digest = self._state_digest(checkpoint, put)
        await self._store(put, CheckpointSaved(at, put.id, put.namespace.ns, digest))
        stored = _config(put.namespace, put.id)
        if put.namespace.epoch is not None:
            stored["configurable"][EPOCH] = put.namespace.epoch
        return stored

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        items: dict[str, Item] = {}
        numbered = [
            (
                base.WRITES_IDX_MAP.get(channel, index),
                channel,
                *written(value, partial(self._dump, items=items, name=channel)),
            )
            for index, (channel, value) in enumerate(writes)
        ]
        id_ = config["configurable"]["checkpoint_id"]
        put = rows.PutWrites(self._namespace(config), id_, task_id, task_path, numbered, items)
        await self._store(put)

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete a session's checkpoints of all namespaces, with everything they refer to."""
        await self.database.submit(rows.delete_threads, (self.tenant, thread_id), urgent=True)

    async def prepare_erasure(self, thread_id: str, erasure: StateErasure) -> RewrittenStates:
        """Compute the rows that the erasure changes; nothing is stored yet."""
        thread = (self.tenant, thread_id)
        return await self.database.read(lambda tx: prepare(tx, thread, self.serde, erasure))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> "Mapping[str, base.DeltaChannelHistory]":
        """One trip to the database; LangGraph's own walk takes one per ancestor."""
        namespace, id_ = self._namespace(config), get_checkpoint_id(config)
        load = self.serde.loads_typed

        def walk(tx: Transaction) -> dict[str, base.DeltaChannelHistory]:
            history: dict[str, base.DeltaChannelHistory] = {name: {"writes": []} for name in channels}
            missing = set(channels)
            found = rows.read_checkpoint(tx, namespace, id_, only=())
            while missing and found and found.parent_id:
                found = rows.read_checkpoint(tx, namespace, found.parent_id, only=missing)
                if found is not None:
                    for task_id, name, typed in reversed(list(found.pending_writes())):
                        history[name]["writes"].insert(0, (task_id, name, load(typed)))
                    for name, typed in found.values():
                        history[name]["seed"] = load(typed)
                        missing.discard(name)
            return history

        return await self._reads.read(walk)

    get_tuple = blocking(aget_tuple)
    put = blocking(aput)
    put_writes = blocking(aput_writes)
    delete_thread = blocking(adelete_thread)
    get_delta_channel_history = blocking(aget_delta_channel_history)

    async def _listed(self, config: RunnableConfig | None, **options: Any) -> Iterator[CheckpointTuple]:
        return iter([found async for found in self.alist(config, **options)])

    list = blocking(_listed)

    # On the event loop.

    def _namespace(self, config: RunnableConfig) -> rows.CheckpointNamespace:
        configurable = config["configurable"]
        thread_id, ns = str(configurable["thread_id"]), configurable.get("checkpoint_ns", "")
        return rows.CheckpointNamespace(self.tenant, thread_id, ns, configurable.get(EPOCH))

    def _put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: base.ChannelVersions | None,
    ) -> rows.Put:
        """Serialise the channels with new versions; all of them if ``new_versions`` is None."""
        values, versions = checkpoint["channel_values"], checkpoint["channel_versions"]
        replayed = metadata.get("counters_since_delta_snapshot") or ()
        items: dict[str, Item] = {}
        channels: dict[str, rows.Channel] = {}
        unchanged: dict[str, rows.Version] = {}
        for name in dict.fromkeys((*versions, *values)):
            is_new = new_versions is None or name in new_versions or name not in versions
            if not is_new and (name in replayed if name not in values else not is_cheap(values[name])):
                unchanged[name] = versions[name]
            elif name in values:
                channels[name] = rows.Channel(versions.get(name), *self._dump(values[name], items, name))
            else:
                channels[name] = rows.Channel(versions[name], rows.REPLAYED if name in replayed else None)
        rest = {key: value for key, value in checkpoint.items() if key not in STORED_APART}
        run_id = metadata.get("run_id")
        return rows.Put(
            namespace=self._namespace(config),
            id=checkpoint["id"],
            parent_id=get_checkpoint_id(config),
            run_id=None if run_id is None else str(run_id),
            body=self.serde.dumps_typed([rest, metadata]),
            channels=channels,
            unchanged=unchanged,
            items=items,
            full=lambda: self._put(config, checkpoint, metadata, None),
        )

    async def _store(self, put: rows.Put | rows.PutWrites, saved: CheckpointSaved | None = None) -> None:
        """Commit the put; with a journal, in one commit with the facts recorded so far."""
        journal = run_context().journal
        if journal is None:
            await self.database.submit(rows.put, put)
        else:
            await journal.commit_with(rows.put, put, saved)

    def _state_digest(self, checkpoint: Checkpoint, put: rows.Put) -> str:
        """Hash the whole state, at the cost of its changed channels."""
        whole = sha256()
        for name, value in sorted(checkpoint["channel_values"].items()):
            key = (*put.namespace.key, name, checkpoint["channel_versions"].get(name))
            if name in put.channels or key not in self._digests:
                changed = put.channels.get(name)
                parts = self._dump(value, {}, name)[1] if changed is None else changed.parts
                self._remember_digest(key, sha256(encode(parts)).digest())
            whole.update(name.encode() + b"\0" + self._digests[key])
        return whole.hexdigest()

    def _remember_digest(self, key: tuple[object, ...], digest: bytes) -> None:
        self._digests.pop(key, None)  # the newest is last
        self._digests[key] = digest
        if len(self._digests) > _MAX_DIGESTS:
            del self._digests[next(iter(self._digests))]

    def _dump(self, value: Any, items: dict[str, Item], name: str) -> tuple[str, Parts]:
        try:
            type_, data = self.serde.dumps_typed(value)
        except CorruptStore as error:
            raise of_channel(error, name) from error
        return type_, cut(bytes(data), items, tokens=type_ == MSGPACK)

    async def _tuple(
        self,
        namespace: rows.CheckpointNamespace,
        id_: str | None,
    ) -> CheckpointTuple | None:
        load = self.serde.loads_typed

        def load_channel(name: str, typed: rows.Typed) -> Any:
            try:
                return load(typed)
            except CorruptStore as error:
                raise of_channel(error, name) from error

        def read(tx: Transaction) -> CheckpointTuple | None:
            found = rows.read_checkpoint(tx, namespace, id_)
            if found is None:
                return None
            rest, metadata = load(found.body)
            versions = {name: channel.version for name, channel in found.channels.items()}
            checkpoint: Any = {
                **rest,
                "channel_versions": {name: each for name, each in versions.items() if each is not None},
                "channel_values": {name: load_channel(name, typed) for name, typed in found.values()},
            }
            parent_config = _config(namespace, found.parent_id) if found.parent_id else None
            writes = [(task, name, load_channel(name, typed)) for task, name, typed in found.pending_writes()]
            config = _config(namespace, found.id)
            return CheckpointTuple(config, checkpoint, metadata, parent_config, writes)

        return await self._reads.read(read)


def written(value: Any, dump: Callable[[Any], R]) -> R:
    """A write of a node, dumped. Objects in place of a message's text become texts, as ``add_messages`` makes them."""
    try:
        return dump(value)
    except CorruptStore:
        if not (isinstance(value, list) and all(isinstance(each, dict) and "role" in each for each in value)):
            raise
        return dump(convert_to_messages(value))


def of_channel(error: CorruptStore, name: str) -> CorruptStore:
    """The error with the state key; channels of LangGraph's own are none."""
    return error if name.startswith("__") else error.in_state(name)


def is_cheap(value: object) -> bool:
    """Whether serialising it again costs less than looking it up in the parent."""
    is_empty = isinstance(value, str | list | dict) and not value
    return is_empty or isinstance(value, int | float | None)


def memory_saver() -> InMemorySaver:
    """Checkpoints in memory, for runs without a server; as strict as the server's."""
    return InMemorySaver(serde=StrictSerializer())


def _config(namespace: rows.CheckpointNamespace, id_: str) -> RunnableConfig:
    _, thread_id, ns = namespace.key
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": id_}}
