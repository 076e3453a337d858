"""Quotes in a script: places in its texts that are filled with what was said and found.

``{message}``, ``{result}`` and ``{failure}`` stand for whole texts, ``{document}`` for the id of a document. What
follows a colon picks a part or one of several, what follows a bar is a choice. The forms are fixed here; nothing in a
script is a pattern, and nothing in it is run.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

_BEGIN = re.compile(r"\{(?:message|documents?|result|failure)[:|]")
_QUOTE = re.compile(r"\{(message|documents?|result|failure)((?::[^\s{}|:]+)*)((?:\|[^\s{}|]+)*)\}")
_PARTS = {"message": 1, "document": 1, "documents": 1, "result": 2, "failure": 0}
_FORMS = (
    "{message}, {message:word}, {document:ext}, {documents:ext}, {result}, {result:tool}, {result:tool:field} or "
    "{failure}, and a choice as |one|two"
)


@dataclass(frozen=True, slots=True)
class Quote:
    source: str
    tool: str | None = None
    """Of a result: the tool that gave it; the last one if nothing is said."""
    part: tuple[str, ...] = ()
    """Words, of which one stands before the part that is meant; extensions; or the one field of a result."""
    options: tuple[str, ...] = ()
    """The text is one of these, whatever else it says."""


def split(text: str) -> Iterator[str | Quote]:
    """The text in its order: what stands in it, and the quotes between. A brace that begins no quote is text."""
    at = 0
    for found in _QUOTE.finditer(text):
        yield text[at : found.start()]
        yield _quote(*found.groups())
        at = found.end()
    yield text[at:]


def quotes_in(value: Any) -> Iterator[Quote]:
    """Every quote in the strings of a value, at any depth."""
    for text in _texts(value):
        yield from (piece for piece in split(text) if isinstance(piece, Quote))


def well_quoted(value: Any) -> Any:
    """The same value; an error for what begins like a quote and is none."""
    for text in _texts(value):
        for begin in _BEGIN.finditer(text):
            found = _QUOTE.match(text, begin.start())
            if found is None or found[2].count(":") > _PARTS[found[1]]:
                written = text[begin.start() :].partition("}")[0][:60]
                raise ValueError(f"{written + '}'!r} is no quote; write {_FORMS}, without spaces")
    return value


def _quote(source: str, parts: str, options: str) -> Quote:
    named, chosen = parts.split(":")[1:], tuple(options.split("|")[1:])
    if source in ("message", "document", "documents"):
        return Quote(source, part=tuple(_words(named)), options=chosen)
    return Quote(source, tool=named[0] if named else None, part=tuple(named[1:]), options=chosen)


def _words(named: Iterable[str]) -> Iterator[str]:
    return (word for part in named for word in part.split(",") if word)


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from _texts(item)
        case dict():
            for item in value.values():
                yield from _texts(item)
