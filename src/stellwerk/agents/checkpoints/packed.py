"""Checkpoints of graphs in processes of their own: values are serialised there, and stay bytes here.

Secrets are redacted, values are cut into chunks, and checkpoints are fenced and committed with their
envelopes, as those of graphs in this process.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from langgraph.checkpoint.base import DeltaChannelHistory
from langgraph.checkpoint.serde.base import SerializerProtocol

from stellwerk.agents.checkpoints import rows
from stellwerk.agents.checkpoints.chunking import Item, cut, encode
from stellwerk.agents.checkpoints.saver import DurableSaver
from stellwerk.agents.checkpoints.serde import MSGPACK, StrictSerializer, without_secrets
from stellwerk.database.port import Transaction
from stellwerk.redaction.redactor import Redactor
from stellwerk.stream.facts import CheckpointSaved

Place = tuple[str, str, int | None]
"""Thread, namespace and epoch."""


class _AsStored(SerializerProtocol):
    """Values as they are stored."""

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        return data

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        raise TypeError("values come serialised")


class PackedSaver(DurableSaver):
    """The checkpoints of one tenant, for workers."""

    def __init__(self, saver: DurableSaver) -> None:
        super().__init__(saver.database, tenant=saver.tenant, serde=_AsStored())
        serde = saver.serde
        self._redactor = serde.redactor if isinstance(serde, StrictSerializer) else Redactor()

    async def read_packed(self, place: Place, id_: str | None) -> dict[str, Any] | None:
        """A checkpoint, or the latest."""
        namespace = self._place(place)

        def read(tx: Transaction) -> dict[str, Any] | None:
            found = rows.read_checkpoint(tx, namespace, id_)
            if found is None:
                return None
            return {
                "id": found.id,
                "parent_id": found.parent_id,
                "body": found.body,
                "versions": {name: channel.version for name, channel in found.channels.items()},
                "values": list(found.values()),
                "writes": list(found.pending_writes()),
            }

        return await self._reads.read(read)

    async def list_packed(self, conditions: Mapping[str, Any], until: str | None) -> list[tuple[str, str, str]]:
        listed = await self._reads.read(lambda tx: rows.list_checkpoints(tx, self.tenant, conditions, until))
        return [(namespace.thread_id, namespace.ns, id_) for namespace, id_ in listed]

    async def history_packed(
        self, place: Place, id_: str | None, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        thread_id, ns, _ = place
        given = {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": id_}
        return await self.aget_delta_channel_history(config={"configurable": given}, channels=channels)

    async def put_packed(self, place: Place, given: Mapping[str, Any]) -> list[str]:
        """Store a checkpoint; returns the channels whose values must be sent as well, if it was not stored."""
        namespace = self._place(place)
        items: dict[str, Item] = {}
        channels = {
            name: rows.Channel(version, *(self._cut(type_, data, items) if data is not None else (type_,)))
            for name, (version, type_, data) in given["channels"].items()
        }
        unchanged: dict[str, rows.Version] = given["unchanged"]
        digest = sha256()
        missing: list[str] = []
        for name in sorted(given["valued"]):
            version = given["versions"].get(name)
            key = (*namespace.key, name, version)
            if name in channels:
                self._remember_digest(key, sha256(encode(channels[name].parts)).digest())
            if key in self._digests:
                digest.update(name.encode() + b"\0" + self._digests[key])
            else:
                missing.append(name)
        if missing:
            return missing
        put = rows.Put(
            namespace=namespace,
            id=given["id"],
            parent_id=given["parent_id"],
            run_id=given["run_id"],
            body=without_secrets(tuple(given["body"]), self._redactor),
            channels=channels,
            unchanged=unchanged,
            items=items,
            full=None,
        )
        try:
            await self._store(put, CheckpointSaved(given["at"], put.id, namespace.ns, digest.hexdigest()))
        except rows.NotInParent:
            return list(unchanged)
        return []

    async def put_writes_packed(
        self, place: Place, checkpoint_id: str, task: tuple[str, str], writes: Sequence[tuple[int, str, str, bytes]]
    ) -> None:
        items: dict[str, Item] = {}
        numbered = [(index, channel, *self._cut(type_, data, items)) for index, channel, type_, data in writes]
        put = rows.PutWrites(self._place(place), checkpoint_id, *task, numbered, items)
        await self._store(put)

    def _place(self, place: Place) -> rows.CheckpointNamespace:
        return rows.CheckpointNamespace(self.tenant, *place)

    def _cut(self, type_: str, data: bytes, items: dict[str, Item]) -> tuple[str, list[Any]]:
        type_, data = without_secrets((type_, data), self._redactor)
        return type_, cut(bytes(data), items, tokens=type_ == MSGPACK)
