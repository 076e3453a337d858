"""Forgetting: a message, or part of one, is taken out of every stored state of a session.

What is to be forgotten is found by its id in the bytes of each channel; only
then is the value read, changed and stored anew. What was stored only for the
work of a run goes altogether: states of agents inside of it, tasks, questions
and their answers. Nobody may write to the session between the two halves, and
no run may be under way or wait: who calls this sees to it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from stellwerk.agents.checkpoint_items import Item, Parts, cut, decode_parts, encode, join
from stellwerk.agents.checkpoint_pruning import sweep
from stellwerk.agents.checkpoint_rows import REPLAYED, Channel, Place, as_json, find, items_below, listed
from stellwerk.agents.checkpoint_serde import MSGPACK
from stellwerk.agents.images import without_image
from stellwerk.agents.shapes import plain_id
from stellwerk.database.port import Row, Transaction
from stellwerk.views.removal_papers import GONE, OBJECTION, PLAN, without_plan

_PASSING = ":"
"""In the namespace of a graph that lives as long as the task that it runs in."""
_TASKS = "__pregel_tasks"
_WORK = frozenset({_TASKS, "__interrupt__", "__resume__", "__error__"})
"""What LangGraph stores of a step to go on with it."""


class Serializer(Protocol):
    def dumps_typed(self, obj: Any) -> tuple[str, bytes]: ...

    def loads_typed(self, data: tuple[str, bytes]) -> Any: ...


@dataclass(frozen=True, slots=True)
class Forgetting:
    messages: frozenset[str] = frozenset()
    """Ids of those that go."""
    texts: frozenset[str] = frozenset()
    """What an agent said; a graph may give it an id that the log does not know."""
    known: frozenset[str] = frozenset()
    """Ids that the log knows."""
    phrases: Mapping[str, str] = field(default_factory=dict)
    """What goes out of the text of a message, by its id."""
    images: Mapping[str, str] = field(default_factory=dict)
    """The image that goes out of a message, by its id: the id of its document."""
    questions: frozenset[str] = frozenset()
    """Tool calls whose arguments go."""
    answers: frozenset[str] = frozenset()
    """Tool calls whose results go."""

    @property
    def marks(self) -> list[bytes]:
        """Bytes without which a value has nothing to forget."""
        ids = (*self.messages, *self.phrases, *self.questions, *self.answers)
        return [mark.encode() for mark in (*ids, *self.texts, PLAN, OBJECTION)]

    def edited(self, value: Any) -> Any:
        """The value without it; the same object, if there is nothing in it."""
        match value:
            case BaseMessage():
                return [] if self._goes(value) else self._message(value)
            case list():
                return self._list(value)
            case dict():
                if (plan := without_plan(value)) is not value:
                    return plan
                new = {key: self.edited(each) for key, each in value.items()}
                return value if all(new[key] is value[key] for key in value) else new
            case _:
                return value

    def _list(self, values: list[Any]) -> list[Any]:
        gone = {id(each) for each in values if isinstance(each, BaseMessage) and self._goes(each)}
        calls = {call["id"] for each in values if id(each) in gone for call in getattr(each, "tool_calls", ())}
        kept = [
            each
            for each in values
            if id(each) not in gone and not (isinstance(each, ToolMessage) and each.tool_call_id in calls)
        ]
        new = [self.edited(each) for each in kept]
        same = len(new) == len(values) and all(a is b for a, b in zip(new, values, strict=True))
        return values if same else new

    def _goes(self, message: BaseMessage) -> bool:
        own = plain_id(message.id)
        same = isinstance(message, AIMessage) and own not in self.known and message.text in self.texts
        return same or own in self.messages

    def _message(self, message: BaseMessage) -> BaseMessage:
        if isinstance(message, ToolMessage) and message.tool_call_id in self.answers:
            return message.model_copy(update={"content": GONE, "artifact": None})
        if isinstance(message, AIMessage) and any(call["id"] in self.questions for call in message.tool_calls):
            calls = [{**call, "args": {}} if call["id"] in self.questions else call for call in message.tool_calls]
            return message.model_copy(update={"tool_calls": calls, "content": message.text, "additional_kwargs": {}})
        own = plain_id(message.id)
        if own in self.images:
            message = without_image(message, self.images[own])
        if own in self.phrases:
            message = _without_phrase(message, self.phrases[own])
        return message


def _without_phrase(message: BaseMessage, phrase: str) -> BaseMessage:
    """Out of its text, or out of the text beside its images; the same object if it is not there."""
    if isinstance(message.content, str):
        new: str | list[Any] = _cut_out(message.content, phrase)
    else:
        new = [
            {**block, "text": _cut_out(block["text"], phrase)} if isinstance(block, dict) and "text" in block else block
            for block in message.content
        ]
    return message if new == message.content else message.model_copy(update={"content": new})


def _cut_out(text: str, phrase: str) -> str:
    return text.replace(phrase, "").strip("\n") if phrase in text else text


@dataclass
class Rewritten:
    """What is stored anew."""

    tenant: str
    thread_id: str
    checkpoints: list[Row] = field(default_factory=list)
    writes: list[Row] = field(default_factory=list)
    over: set[Row] = field(default_factory=set)
    """Checkpoints that nobody goes on from."""
    done: list[Row] = field(default_factory=list)
    """Writes that nobody goes on with."""
    items: dict[str, Item] = field(default_factory=dict)


def rewritten(tx: Transaction, place: tuple[str, str], serde: Serializer, forgetting: Forgetting) -> Rewritten:
    """On a reader's thread: look at every state of a session, and at what tasks wrote."""
    tenant, thread_id = place
    found = Rewritten(tenant, thread_id)
    edit = _Edit(serde, forgetting, found.items)
    for where, id_, _ in list(listed(tx, tenant, {"thread_id": thread_id}, None, None)):
        if _PASSING in where.ns:
            found.over.add((*where.key, id_))
        elif (stored := find(tx, where, id_)) is not None:
            new = {name: edit.channel(name, channel, stored.items) for name, channel in stored.channels.items()}
            if new != stored.channels:
                found.checkpoints.append((encode(new), *where.key, id_))
    for ns, checkpoint_id, task_id, index, channel, type_, packed in tx.rows("all_writes_of_thread", *place):
        key = (tenant, thread_id, ns, checkpoint_id, task_id, index)
        if _PASSING in ns:
            found.over.add(key[:4])
        elif channel in _WORK:
            found.done.append(key)
        else:
            parts = decode_parts(packed)
            items = items_below(tx, Place(tenant, thread_id, ns, None), [parts])
            if (typed := edit.typed(type_, join(parts, items))) is not None:
                found.writes.append((typed[0], encode(typed[1]), *key))
    return found


def apply(tx: Transaction, new: Rewritten) -> None:
    """On the writer's thread."""
    keys = [(new.tenant, new.thread_id, name) for name in new.items]
    tx.run_many("put_item", [(*key, new.items[key[2]].node, new.items[key[2]].body) for key in _lacking(tx, keys)])
    tx.run_many("edit_checkpoint", new.checkpoints)
    tx.run_many("edit_checkpoint_write", new.writes)
    tx.run_many("delete_checkpoint_write", new.done)
    tx.run_many("delete_checkpoint", list(new.over))
    tx.run_many("delete_writes_of_checkpoint", list(new.over))
    sweep(tx, new.tenant, new.thread_id)


def _lacking(tx: Transaction, keys: Sequence[tuple[str, str, str]]) -> Iterator[tuple[str, str, str]]:
    ((numbers,),) = tx.rows("items_lacking", as_json(keys))
    return (keys[number] for number in msgspec.json.decode(numbers))


@dataclass
class _Edit:
    serde: Serializer
    forgetting: Forgetting
    items: dict[str, Item]
    _known: dict[bytes, tuple[str, Parts] | None] = field(default_factory=dict)
    """A channel that did not change from one state to the next is edited once."""

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
        """The new form of a value; None if it stays."""
        if not any(mark in data for mark in self.forgetting.marks):
            return None
        value = self.serde.loads_typed((type_, data))
        edited = self.forgetting.edited(value)
        if edited is value:
            return None
        new_type, new_data = self.serde.dumps_typed(edited)
        return new_type, cut(bytes(new_data), self.items, tokens=new_type == MSGPACK)
