"""Recorded streams of the framework as facts: the adapter cannot tell them from a run that happens now.

Both take plain dictionaries, one run at a time, each with the time at which it
was recorded as ``ts``; messages, questions, commands and errors in them are
dictionaries of their fields. What is not known becomes a warning, never an
error. What a recording cannot know is listed in docs/explain/golden.md.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from stellwerk.recordings.events import EventsReader
from stellwerk.recordings.parts import PartsReader
from stellwerk.recordings.shapes import time_of
from stellwerk.stream.facts import Fact


def facts_of_parts(
    parts: Iterable[Mapping[str, Any]], *, agent: str, tools: Mapping[str, Mapping[str, Any]] | None = None
) -> Iterator[Fact]:
    """What ``astream`` yields with ``subgraphs=True`` and ``version="v2"``.

    The modes are messages, updates, custom, tools, tasks and checkpoints. ``agent`` is the name of the outermost
    agent; ``tools`` has, by name, what those tools say about themselves that stand for agents.
    """
    reader, ts = PartsReader(agent, tools or {}), 0.0
    for part in parts:
        ts = time_of(part)
        yield from reader.feed(part)
    yield from reader.finish(ts)


def facts_of_events(events: Iterable[Mapping[str, Any]], *, agent: str) -> Iterator[Fact]:
    """What ``astream_events`` yields with ``version="v2"``."""
    reader = EventsReader(agent)
    for event in events:
        yield from reader.feed(event)
