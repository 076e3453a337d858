"""Facts of a whole recording at once."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from stellwerk.agents.recorded.events import EventsReader
from stellwerk.agents.recorded.parts import PartsReader
from stellwerk.agents.recorded.reader import StreamReader
from stellwerk.stream.facts import Fact

Items = Iterable[Mapping[str, Any]]


def facts_of_events(events: Items, *, agent: str) -> Iterator[Fact]:
    return _facts(EventsReader(agent), events)


def facts_of_parts(parts: Items, *, agent: str, tools: Mapping[str, Any] | None = None) -> Iterator[Fact]:
    return _facts(PartsReader(agent, tools or {}), parts)


def _facts(reader: StreamReader, items: Items) -> Iterator[Fact]:
    for item in items:
        yield from reader.feed(item)
    yield from reader.finish()
