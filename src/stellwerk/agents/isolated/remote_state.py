"""What a graph in a worker gets of the server: checkpoints, the store, documents, quotas, write-ahead.

Values of the state are serialised here, strictly, because only this process has their types.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from datetime import datetime
from functools import partial
from typing import Any

import msgspec
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint import base
from langgraph.checkpoint.base import Checkpoint, CheckpointMetadata, CheckpointTuple, get_checkpoint_id
from langgraph.store.base import BaseStore, Op

from stellwerk.agents.checkpoints.rows import REPLAYED
from stellwerk.agents.checkpoints.saver import EPOCH, STORED_APART, LoopCalls, blocking, is_cheap, of_channel, written
from stellwerk.agents.checkpoints.serde import StrictSerializer
from stellwerk.agents.isolated.channel import WorkerChannel
from stellwerk.agents.isolated.store_wire import packed_op, result_of
from stellwerk.database.port import Operation
from stellwerk.envelope.introspection import Blob
from stellwerk.envelope.results import ToolResult
from stellwerk.errors import CorruptStore, QuotaExceeded, StellwerkError
from stellwerk.stream.facts import CheckpointSaved

_NO_STEPS = "the model calls that were left to this run when it began are used up; send the message again"
_scope: ContextVar[int | None] = ContextVar("stellwerk_scope", default=None)
"""The run, or other request, for which a graph works."""


def scope() -> int | None:
    return _scope.get()


def enter_scope(number: int) -> None:
    """The current task, and what it starts, works for this scope."""
    _scope.set(number)


class RemoteSaver(base.BaseCheckpointSaver[int]):
    """The checkpoints of one tenant, which the server stores."""

    def __init__(self, channel: WorkerChannel, tenant: str) -> None:
        super().__init__(serde=StrictSerializer())
        self._channel, self._tenant = channel, tenant
        self._loop_calls = LoopCalls()

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await self._read(_place(config), get_checkpoint_id(config))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Newest first."""
        given = config["configurable"] if config else {}
        wanted = {key: given[key] for key in ("thread_id", "checkpoint_ns", "checkpoint_id") if key in given}
        until = get_checkpoint_id(before) if before else None
        count = 0
        for thread_id, ns, id_ in await self._call("list", wanted, until):
            if count == limit:
                return
            found = await self._read((thread_id, ns, None), id_)
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
        parent_id = get_checkpoint_id(config)
        place = _place(config)
        put = self._packed(checkpoint, metadata, None if parent_id is None else set(new_versions))
        put["parent_id"] = parent_id
        missing = await self._call("put", place, put)
        if missing:
            put |= self._packed(checkpoint, metadata, {*missing, *new_versions} if parent_id else None)
            missing = await self._call("put", place, put)
        if missing:
            put |= self._packed(checkpoint, metadata, None)
            await self._call("put", place, put)
        thread_id, ns, epoch = place
        stored = _config(thread_id, ns, checkpoint["id"])
        if epoch is not None:
            stored["configurable"][EPOCH] = epoch
        return stored

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        numbered = [
            (base.WRITES_IDX_MAP.get(channel, index), channel, *written(value, partial(self._dump, name=channel)))
            for index, (channel, value) in enumerate(writes)
        ]
        id_ = config["configurable"]["checkpoint_id"]
        await self._call("put_writes", _place(config), id_, (task_id, task_path), numbered)

    async def aget_delta_channel_history(self, *, config: RunnableConfig, channels: Sequence[str]) -> Mapping[str, Any]:
        found = await self._call("history", _place(config), get_checkpoint_id(config), list(channels))
        history: dict[str, Any] = {}
        for name, packed in found.items():
            writes = [(task, channel, self._load(typed, name)) for task, channel, typed in packed["writes"]]
            history[name] = {"writes": writes}
            if "seed" in packed:
                history[name]["seed"] = self._load(packed["seed"], name)
        return history

    async def _listed(self, config: RunnableConfig | None, **options: Any) -> Iterator[CheckpointTuple]:
        return iter([found async for found in self.alist(config, **options)])

    get_tuple = blocking(aget_tuple)
    put = blocking(aput)
    put_writes = blocking(aput_writes)
    get_delta_channel_history = blocking(aget_delta_channel_history)
    list = blocking(_listed)

    async def _call(self, method: str, *given: Any) -> Any:
        return await self._channel.call(f"checkpoints.{method}", scope(), self._tenant, *given)

    async def _read(self, place: tuple[str, str, int | None], id_: str | None) -> CheckpointTuple | None:
        found = await self._call("read", place, id_)
        if found is None:
            return None
        thread_id, ns, _ = place
        rest, metadata = self.serde.loads_typed(tuple(found["body"]))
        checkpoint: Any = {
            **rest,
            "channel_versions": {name: each for name, each in found["versions"].items() if each is not None},
            "channel_values": {name: self._load(typed, name) for name, typed in found["values"]},
        }
        parent_config = _config(thread_id, ns, found["parent_id"]) if found["parent_id"] else None
        writes = [(task, name, self._load(typed, name)) for task, name, typed in found["writes"]]
        return CheckpointTuple(_config(thread_id, ns, found["id"]), checkpoint, metadata, parent_config, writes)

    def _packed(self, checkpoint: Checkpoint, metadata: CheckpointMetadata, new: set[str] | None) -> dict[str, Any]:
        """The channels in ``new`` are serialised; all of them if it is None."""
        values, versions = checkpoint["channel_values"], checkpoint["channel_versions"]
        replayed = metadata.get("counters_since_delta_snapshot") or ()
        channels: dict[str, Any] = {}
        unchanged: dict[str, Any] = {}
        for name in dict.fromkeys((*versions, *values)):
            is_new = new is None or name in new or name not in versions
            if not is_new and (name in replayed if name not in values else not is_cheap(values[name])):
                unchanged[name] = versions[name]
            elif name in values:
                channels[name] = (versions.get(name), *self._dump(values[name], name))
            else:
                channels[name] = (versions[name], REPLAYED if name in replayed else None, None)
        rest = {key: value for key, value in checkpoint.items() if key not in STORED_APART}
        run_id = metadata.get("run_id")
        return {
            "id": checkpoint["id"],
            "at": datetime.fromisoformat(checkpoint["ts"]).timestamp(),
            "run_id": None if run_id is None else str(run_id),
            "body": self.serde.dumps_typed([rest, metadata]),
            "versions": dict(versions),
            "valued": sorted(values),
            "channels": channels,
            "unchanged": unchanged,
        }

    def _dump(self, value: Any, name: str) -> tuple[str, bytes]:
        try:
            return self.serde.dumps_typed(value)
        except CorruptStore as error:
            raise of_channel(error, name) from error

    def _load(self, typed: Sequence[Any], name: str) -> Any:
        try:
            return self.serde.loads_typed((typed[0], typed[1]))
        except CorruptStore as error:
            raise of_channel(error, name) from error


class RemoteStore(BaseStore):
    """LangGraph's store of one tenant, which the server keeps."""

    supports_ttl = True

    def __init__(self, channel: WorkerChannel, tenant: str, graph: str) -> None:
        self._channel, self._tenant, self._graph = channel, tenant, graph
        self._loop_calls = LoopCalls()

    async def abatch(self, ops: Iterable[Op]) -> list[Any]:
        found = await self._channel.call("store", scope(), self._tenant, self._graph, [packed_op(op) for op in ops])
        return [result_of(each) for each in found]

    def batch(self, ops: Iterable[Op]) -> list[Any]:
        return self._loop_calls.wait_for(self.abatch(ops))


class RemoteJournal:
    """The write-ahead of a run: facts are on their way to the server, in order."""

    def __init__(self, channel: WorkerChannel, number: int) -> None:
        self._channel, self._scope = channel, number

    async def commit_with(self, operation: Operation[Any, Any], item: Any, fact: CheckpointSaved | None) -> None:
        raise TypeError("checkpoints are committed by the server")

    async def stored(self) -> None:
        await self._channel.call("stored", self._scope)

    async def keep(self, result: ToolResult, blobs: Sequence[Blob]) -> ToolResult:
        given = msgspec.msgpack.encode((result, blobs))
        kept: ToolResult = msgspec.msgpack.decode(await self._channel.call("keep", self._scope, given), type=ToolResult)
        return kept


class RemoteDocuments:
    """The documents of the session in which a graph runs."""

    def __init__(self, channel: WorkerChannel, number: int, session_id: str) -> None:
        self._channel, self._scope = channel, number
        self.session_id = session_id

    async def size(self, document_id: str) -> int | None:
        found: int | None = await self._channel.call("document_size", self._scope, document_id)
        return found

    async def original(self, document_id: str) -> bytes | None:
        found: bytes | None = await self._channel.call("document", self._scope, document_id)
        return found


class RemoteCalls:
    """The server's answers to calls of LangGraph's SDK that are made in a run."""

    def __init__(self, channel: WorkerChannel, number: int) -> None:
        self._channel, self._scope = channel, number

    async def answer(self, method: str, path: tuple[str, ...], given: dict[str, Any]) -> Any:
        found: bytes = await self._channel.call("server", self._scope, method, path, msgspec.json.encode(given))
        return msgspec.json.decode(found)


class RemoteUsage:
    """What the run uses is counted by the server, which says when a quota is used up.

    Model calls are counted here as well: calls at the same time begin before the server can answer.
    """

    def __init__(self, channel: WorkerChannel, number: int, steps_left: float) -> None:
        self._channel, self._scope = channel, number
        self._steps_left = steps_left
        self.exceeded: StellwerkError | None = None

    def check(self) -> None:
        if self.exceeded is not None:
            raise self.exceeded
        if self._steps_left <= 0:
            raise QuotaExceeded("", used=0, limit=0, message=_NO_STEPS)

    def step(self) -> None:
        self._steps_left -= 1
        self._channel.notify("step", self._scope)

    def spend(self, tokens: int) -> None:
        self._channel.notify("spend", self._scope, tokens)


def _place(config: RunnableConfig) -> tuple[str, str, int | None]:
    given = config["configurable"]
    return str(given["thread_id"]), given.get("checkpoint_ns", ""), given.get(EPOCH)


def _config(thread_id: str, ns: str, id_: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": id_}}
