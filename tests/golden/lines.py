"""Recordings as lines of JSON, and facts as such lines and back."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from stellwerk.envelope.to_json import canonical
from stellwerk.stream.facts import Fact

_KINDS: dict[str, type[Fact]] = {kind.__name__: kind for kind in Fact.__subclasses__()}


@dataclass
class Recorded:
    """One run of a recording: how it began, what was heard, how it ended."""

    begin: dict[str, Any]
    items: list[dict[str, Any]] = field(default_factory=list)
    end: dict[str, Any] = field(default_factory=dict)


def recorded_runs(text: str) -> Iterator[Recorded]:
    run: Recorded | None = None
    for line in text.splitlines():
        item = json.loads(line)
        if "begin" in item:
            run = Recorded(item["begin"])
        elif run is not None and "end" in item:
            run.end = item["end"]
            yield run
        elif run is not None:
            run.items.append(item)


def fact_line(fact: Fact) -> dict[str, Any]:
    """What is at its default is left out."""
    told = {field.name: getattr(fact, field.name) for field in msgspec.structs.fields(fact)}
    given = {f.name: told[f.name] for f in msgspec.structs.fields(fact) if told[f.name] != f.default}
    return {"fact": type(fact).__name__, **{name: canonical(value).value for name, value in given.items()}}


def fact_of(line: dict[str, Any]) -> Fact:
    given = dict(line)
    kind = _KINDS[given.pop("fact")]
    return msgspec.convert(given, type=kind)
