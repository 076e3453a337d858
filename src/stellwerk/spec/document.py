"""A document: plain data, and for each field the place where it stands.

It is made in one pass over the parse events. No tag, anchor or alias is ever
followed, so nothing can grow beyond what is written, and nothing can run.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from stellwerk.errors import SpecProblem
from stellwerk.spec import scalars
from stellwerk.spec.events import DEPTH_LIMIT, NODE_LIMIT, Place, events, several_documents, too_deep, too_many_nodes

KEY_LIMIT = 100
SHOWN = 50
"""Problems that are told at once; whoever has more repairs these first."""


@dataclass
class Document:
    """What a text says; ``problems`` are those that the text has whatever it is meant to be."""

    data: object = None
    places: dict[str, Place] = field(default_factory=dict[str, Place])
    problems: list[SpecProblem] = field(default_factory=list[SpecProblem])

    def problem(self, where: str, message: str) -> SpecProblem:
        """One that names the place of the field, or of what it should stand in."""
        known = where
        while known and known not in self.places:
            known = known[: max(known.rfind("."), known.rfind("["), 0)]
        line, column = self.places.get(known, (None, None))
        return SpecProblem(message, where, line, column)


def parse(text: str, *, secrets_in: re.Pattern[str] | None = None) -> Document:
    """``secrets_in`` are the fields in which ``${secret:name}`` may stand.

    Raises:
        Unreadable: the text is no YAML, or goes beyond a limit.
    """
    builder = _Builder(events(text), secrets_in)
    builder.document()
    return builder.made


def inside(where: str, step: str | int) -> str:
    """The path of a field: ``agents[1].tools.allow[0]``."""
    if isinstance(step, int):
        return f"{where}[{step}]"
    # A path is shown on terminals, so nothing in it may move the cursor or turn the text around.
    name = step if step.isprintable() else "".join(c if c.isprintable() else "\ufffd" for c in step)
    return f"{where}.{name}" if where else name


class _Builder:
    def __init__(self, stream: Iterator[Event], secrets_in: re.Pattern[str] | None) -> None:
        self.made = Document()
        self._secrets_in = secrets_in
        self._events = stream
        self._nodes = 0

    def document(self) -> None:
        documents = 0
        for event in self._events:
            if isinstance(event, DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise several_documents(_place(event))
            elif isinstance(event, NodeEvent):
                self.made.data = self._node(event, "", 1)

    def _node(self, event: Event, where: str, depth: int) -> object:
        self._count(event)
        self.made.places.setdefault(where, _place(event))
        self._refuse_markup(event, where)
        if isinstance(event, ScalarEvent):
            return self._scalar(event, where)
        if isinstance(event, AliasEvent):
            return None
        if depth > DEPTH_LIMIT:
            raise too_deep(_place(event))
        if isinstance(event, SequenceStartEvent):
            return self._sequence(where, depth)
        return self._mapping(where, depth)

    def _count(self, event: Event) -> None:
        self._nodes += 1
        if self._nodes > NODE_LIMIT:
            raise too_many_nodes(_place(event))

    def _sequence(self, where: str, depth: int) -> list[object]:
        items: list[object] = []
        while not isinstance(event := next(self._events), SequenceEndEvent):
            items.append(self._node(event, inside(where, len(items)), depth + 1))
        return items

    def _mapping(self, where: str, depth: int) -> dict[str, object]:
        made: dict[str, object] = {}
        while not isinstance(event := next(self._events), MappingEndEvent):
            self._count(event)
            key = self._key(event, where)
            path = inside(where, key)
            if key in made:
                self._complain(path, "this key stands here twice; keep one of them", event)
            self.made.places[path] = _place(event)
            made[key] = self._node(next(self._events), path, depth + 1)
        return made

    def _key(self, event: Event, where: str) -> str:
        if not isinstance(event, ScalarEvent):
            self._complain(inside(where, "?"), "a key must be one word, not a list, a mapping or an alias", event)
            self._skip(event)
            return "?"
        key: str = event.value
        path = inside(where, key[:KEY_LIMIT])
        self._refuse_markup(event, path)
        if key == "<<":
            self._complain(path, "merge keys (<<) are not read; write out what is to be merged", event)
        elif len(key) > KEY_LIMIT:
            self._complain(path, f"a key has at most {KEY_LIMIT} characters", event)
        elif reason := scalars.refusal(key):
            self._complain(path, reason, event)
        return key[:KEY_LIMIT]

    def _skip(self, event: Event) -> None:
        open_collections = 0
        while True:
            open_collections += isinstance(event, MappingStartEvent | SequenceStartEvent)
            open_collections -= isinstance(event, MappingEndEvent | SequenceEndEvent)
            if not open_collections:
                return
            event = next(self._events)
            self._count(event)

    def _scalar(self, event: ScalarEvent, where: str) -> scalars.Scalar:
        try:
            value = scalars.value_of(event.value, plain=event.implicit[0] and event.style is None)
        except ValueError as error:
            self._complain(where, str(error), event)
            return None
        filled = self._secrets_in is not None and self._secrets_in.fullmatch(where) is not None
        if isinstance(value, str) and (reason := scalars.refusal(value, secrets=filled)):
            self._complain(where, reason, event)
        return value

    def _refuse_markup(self, event: Event, where: str) -> None:
        if isinstance(event, AliasEvent):
            name = f"*{scalars.short(event.anchor)}"
            self._complain(where, f"the alias {name!r} is not read; write out what it stands for", event)
        elif anchor := getattr(event, "anchor", None):
            name = f"&{scalars.short(anchor)}"
            self._complain(where, f"the anchor {name!r} is not read; write the value where you need it", event)
        if tag := getattr(event, "tag", None):
            self._complain(where, f"the tag {scalars.short(tag)!r} is not read; write the plain value", event)

    def _complain(self, where: str, message: str, event: Event) -> None:
        if len(self.made.problems) < SHOWN:
            self.made.problems.append(SpecProblem(message, where, *_place(event)))


def _place(event: Event) -> Place:
    place: Place = event.start_mark.place()
    return place
