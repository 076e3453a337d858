"""Erasure in checkpoints: removes a message, or a part of one, from all states of a session.

A value is deserialised, edited and stored again only if its bytes contain an id or text to erase.
State that served only a finished run is deleted: states of inner agents, tasks, interrupts and
their answers. The caller ensures that no run is active or waiting, and that the session does not
change between ``prepare`` and ``apply``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.checkpoint.serde.base import SerializerProtocol

from stellwerk.agents.checkpoints.chunking import Item, Parts, cut, decode_parts, encode, join
from stellwerk.agents.checkpoints.rows import (
    REPLAYED,
    Channel,
    CheckpointNamespace,
    items_below,
    list_checkpoints,
    put_items,
    read_checkpoint,
    sweep,
)
from stellwerk.agents.checkpoints.serde import MSGPACK
from stellwerk.agents.runtime.images import without_image
from stellwerk.agents.runtime.shapes import plain_id
from stellwerk.database.port import Row, Transaction
from stellwerk.envelope.payloads import FilePart
from stellwerk.views.tombstones import ERASED

_TASK_NAMESPACE = ":"
"""Occurs in the namespace of a graph whose state lives as long as the task that runs it."""
_TASKS = "__pregel_tasks"
_RESUME_CHANNELS = frozenset({_TASKS, "__interrupt__", "__resume__", "__error__"})
"""Channels that LangGraph writes to resume a step."""


@dataclass(frozen=True, slots=True)
class StateErasure:
    """What to erase: a message, a file of one, the arguments of a tool call, or its result."""

    message_id: str | None = None
    """The message to remove; with ``file``, the one to edit."""
    file: FilePart | None = None
    """The file whose name and image are removed from the message."""
    answer: str | None = None
    """Text of an assistant message to remove if its id is not ``known``: a graph may assign ids."""
    known: frozenset[str] = frozenset()
    """Message ids that the log contains."""
    question_call: str | None = None
    """The tool call whose arguments are removed."""
    result_call: str | None = None
    """The tool call whose result is removed."""

    @property
    def search_terms(self) -> list[bytes]:
        """Bytes to look for: a value that contains none of them has nothing to erase."""
        terms = (self.message_id, self.question_call, self.result_call, self.answer)
        return [term.encode() for term in terms if term]

    def edited(self, value: Any) -> Any:
        """The value after the erasure; the same object if nothing changes."""
        match value:
            case BaseMessage():
                return [] if self._is_erased(value) else self._message(value)
            case list():
                return self._list(value)
            case dict():
                new = {key: self.edited(each) for key, each in value.items()}
                return value if all(new[key] is value[key] for key in value) else new
            case _:
                return value

    def _list(self, values: list[Any]) -> list[Any]:
        erased = {id(each) for each in values if isinstance(each, BaseMessage) and self._is_erased(each)}
        calls = {call["id"] for each in values if id(each) in erased for call in getattr(each, "tool_calls", ())}
        kept = [
            each
            for each in values
            if id(each) not in erased and not (isinstance(each, ToolMessage) and each.tool_call_id in calls)
        ]
        new = [self.edited(each) for each in kept]
        same = len(new) == len(values) and all(a is b for a, b in zip(new, values, strict=True))
        return values if same else new

    def _is_erased(self, message: BaseMessage) -> bool:
        message_id = plain_id(message.id)
        if self.answer and isinstance(message, AIMessage) and message_id not in self.known:
            if message.text == self.answer:
                return True
        return self.file is None and message_id == self.message_id

    def _message(self, message: BaseMessage) -> BaseMessage:
        if isinstance(message, ToolMessage) and message.tool_call_id == self.result_call:
            return message.model_copy(update={"content": ERASED, "artifact": None})
        call_id = self.question_call
        requested = message.tool_calls if isinstance(message, AIMessage) else []
        if call_id and any(call["id"] == call_id for call in requested):
            calls = [{**call, "args": {}} if call["id"] == call_id else call for call in requested]
            cleared = {"tool_calls": calls, "content": message.text, "additional_kwargs": {}}
            return message.model_copy(update=cleared)
        if self.file is not None and plain_id(message.id) == self.message_id:
            return _without_phrase(without_image(message, self.file.document_id), self.file.as_text)
        return message


def _without_phrase(message: BaseMessage, phrase: str) -> BaseMessage:
    """Remove the phrase from the text or the text blocks; the same object if it does not occur."""

    def cut_out(text: str) -> str:
        return text.replace(phrase, "").strip("\n") if phrase in text else text

    if isinstance(message.content, str):
        new: str | list[Any] = cut_out(message.content)
    else:
        new = [
            {**block, "text": cut_out(block["text"])} if isinstance(block, dict) and "text" in block else block
            for block in message.content
        ]
    return message if new == message.content else message.model_copy(update={"content": new})


@dataclass
class RewrittenStates:
    """The rows that an erasure replaces or deletes."""

    tenant: str
    thread_id: str
    checkpoints: list[Row] = field(default_factory=list)
    writes: list[Row] = field(default_factory=list)
    finished_checkpoints: set[Row] = field(default_factory=set)
    """Checkpoints that no run resumes from."""
    finished_writes: list[Row] = field(default_factory=list)
    """Writes that no run resumes with."""
    items: dict[str, Item] = field(default_factory=dict)


def prepare(
    tx: Transaction, thread: tuple[str, str], serde: SerializerProtocol, erasure: StateErasure
) -> RewrittenStates:
    """Edit every state and pending write of a session. Runs on a reader thread."""
    tenant, thread_id = thread
    found = RewrittenStates(tenant, thread_id)
    edit = _Edit(serde, erasure, found.items)
    for where, id_, _ in list(list_checkpoints(tx, tenant, {"thread_id": thread_id}, None, None)):
        if _TASK_NAMESPACE in where.ns:
            found.finished_checkpoints.add((*where.key, id_))
        elif (stored := read_checkpoint(tx, where, id_)) is not None:
            new = {name: edit.channel(name, channel, stored.items) for name, channel in stored.channels.items()}
            if new != stored.channels:
                found.checkpoints.append((encode(new), *where.key, id_))
    for ns, checkpoint_id, task_id, index, channel, type_, packed in tx.rows("all_writes_of_thread", *thread):
        key = (tenant, thread_id, ns, checkpoint_id, task_id, index)
        if _TASK_NAMESPACE in ns:
            found.finished_checkpoints.add(key[:4])
        elif channel in _RESUME_CHANNELS:
            found.finished_writes.append(key)
        else:
            parts = decode_parts(packed)
            items = items_below(tx, CheckpointNamespace(tenant, thread_id, ns, None), [parts])
            if (typed := edit.typed(type_, join(parts, items))) is not None:
                found.writes.append((typed[0], encode(typed[1]), *key))
    return found


def apply(tx: Transaction, new: RewrittenStates) -> None:
    """Store the edited rows and delete the finished ones. Runs on the writer thread."""
    put_items(tx, {(new.tenant, new.thread_id, name): new.items for name in new.items})
    tx.run_many("edit_checkpoint", new.checkpoints)
    tx.run_many("edit_checkpoint_write", new.writes)
    tx.run_many("delete_checkpoint_write", new.finished_writes)
    tx.run_many("delete_checkpoint", list(new.finished_checkpoints))
    tx.run_many("delete_writes_of_checkpoint", list(new.finished_checkpoints))
    sweep(tx, new.tenant, new.thread_id)


@dataclass
class _Edit:
    serde: SerializerProtocol
    erasure: StateErasure
    items: dict[str, Item]
    _known: dict[bytes, tuple[str, Parts] | None] = field(default_factory=dict)
    """Edited values by stored parts: a channel that many checkpoints share is edited once."""

    def channel(self, name: str, channel: Channel, items: Mapping[str, Item]) -> Channel:
        if channel.type is None or channel.type == REPLAYED:
            return channel
        if name == _TASKS:
            return Channel(channel.version)
        key = encode(channel.parts)
        if key not in self._known:
            self._known[key] = self.typed(channel.type, join(channel.parts, items))
        new = self._known[key]
        return channel if new is None else Channel(channel.version, *new)

    def typed(self, type_: str, data: bytes) -> tuple[str, Parts] | None:
        """The edited value in stored form; None if it does not change."""
        if not any(term in data for term in self.erasure.search_terms):
            return None
        value = self.serde.loads_typed((type_, data))
        edited = self.erasure.edited(value)
        if edited is value:
            return None
        new_type, new_data = self.serde.dumps_typed(edited)
        return new_type, cut(bytes(new_data), self.items, tokens=new_type == MSGPACK)
