"""Erasure in checkpoints: removes a message, or a part of one, from all states of a session.

A value is deserialised, edited and stored again only if its bytes contain an id or text to erase.
State that served only a finished run is deleted: states of inner agents, tasks, interrupts and
their answers. The caller ensures that no run is active or waiting, and that the session does not
change between ``prepare`` and ``apply``.
"""

from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.checkpoint.serde.base import SerializerProtocol

from stellwerk.agents.checkpoints import rows
from stellwerk.agents.checkpoints.chunking import Item, Parts, cut, decode_parts, encode, join
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
    result_call: str | None = None

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
        """An erased message takes the results of its tool calls along."""
        calls: set[str | None] = set()
        new: list[Any] = []
        for value in values:
            if isinstance(value, BaseMessage) and self._is_erased(value):
                calls |= {call["id"] for call in getattr(value, "tool_calls", ())}
            elif not (isinstance(value, ToolMessage) and value.tool_call_id in calls):
                new.append(self.edited(value))
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
    """Remove the phrase from the text or the text blocks."""

    def cut_out(block: Any) -> Any:
        match block:
            case str() if phrase in block:
                return block.replace(phrase, "").strip("\n")
            case {"text": str() as text, **rest}:
                return {**rest, "text": cut_out(text)}
            case _:
                return block

    content = message.content
    new = [cut_out(block) for block in content] if isinstance(content, list) else cut_out(content)
    return message if new == content else message.model_copy(update={"content": new})


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
    items: dict[str, Item] = field(default_factory=dict)


def prepare(
    tx: Transaction, thread: tuple[str, str], serde: SerializerProtocol, erasure: StateErasure
) -> RewrittenStates:
    """Edit every state and pending write of a session. Runs on a reader thread."""
    found = RewrittenStates(*thread)
    edit = _Edit(serde, erasure, found.items)
    for namespace, id_ in rows.list_checkpoints(tx, found.tenant, {"thread_id": found.thread_id}):
        if _TASK_NAMESPACE in namespace.ns:
            found.finished_checkpoints.add((*namespace.key, id_))
        elif (stored := rows.read_checkpoint(tx, namespace, id_)) is not None:
            if channels := edit.channels(stored):
                found.checkpoints.append((encode(stored.channels | channels), *namespace.key, id_))
    for ns, *ids, channel, type_, packed in tx.rows("all_writes_of_thread", *thread):
        namespace = rows.CheckpointNamespace(*thread, ns)
        if _TASK_NAMESPACE in ns:
            found.finished_checkpoints.add((*namespace.key, ids[0]))
        elif channel in _RESUME_CHANNELS:
            found.finished_writes.append((*namespace.key, *ids))
        else:
            parts = decode_parts(packed)
            data = join(parts, rows.items_below(tx, namespace, [parts]))
            if (new := edit.value(type_, data)) is not None:
                found.writes.append((new[0], encode(new[1]), *namespace.key, *ids))
    return found


@dataclass(frozen=True, slots=True)
class _Edit:
    serde: SerializerProtocol
    erasure: StateErasure
    items: dict[str, Item]

    def channels(self, stored: rows.StoredCheckpoint) -> dict[str, rows.Channel]:
        """The channels of a checkpoint that change."""
        changed: dict[str, rows.Channel] = {}
        for name, typed in stored.values():
            version = stored.channels[name].version
            if name == _TASKS:
                changed[name] = rows.Channel(version)
            elif (new := self.value(*typed)) is not None:
                changed[name] = rows.Channel(version, *new)
        return changed

    def value(self, type_: str, data: bytes) -> tuple[str, Parts] | None:
        """The edited value in stored form; None if it does not change."""
        if not any(term in data for term in self.erasure.search_terms):
            return None
        value = self.serde.loads_typed((type_, data))
        edited = self.erasure.edited(value)
        if edited is value:
            return None
        new_type, new_data = self.serde.dumps_typed(edited)
        return new_type, cut(bytes(new_data), self.items, tokens=new_type == MSGPACK)


def apply(tx: Transaction, new: RewrittenStates) -> None:
    """Store the edited rows and delete the finished ones. Runs on the writer thread."""
    rows.put_items(tx, {(new.tenant, new.thread_id, name): new.items for name in new.items})
    tx.run_many("edit_checkpoint", new.checkpoints)
    tx.run_many("edit_checkpoint_write", new.writes)
    tx.run_many("delete_checkpoint_write", new.finished_writes)
    tx.run_many("delete_checkpoint", list(new.finished_checkpoints))
    tx.run_many("delete_writes_of_checkpoint", list(new.finished_checkpoints))
    rows.sweep(tx, new.tenant, new.thread_id)
