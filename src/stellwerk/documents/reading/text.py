"""Plain text, Markdown and JSON, in whatever encoding they come."""

import codecs
import re
from dataclasses import dataclass

import msgspec

from stellwerk.documents.contents import ContentItem
from stellwerk.documents.reading.language import language_of
from stellwerk.documents.reading.source import Source, make_item
from stellwerk.documents.reading.summaries import counted, text_summary
from stellwerk.errors import ExtractionError

# The longer marks first: that of UTF-32 begins like that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_LOOK = 4096
_MANY = 0.3
"""Share of zero bytes that makes UTF-16 of what has no mark; English has a half, all at the same places."""
_FEW = 0.01
_KEYS = 12


@dataclass(frozen=True, slots=True)
class Decoded:
    text: str
    encoding: str


def decoded(data: bytes) -> Decoded | None:
    """The text, or None if it is none. What is no Unicode is taken for the Western code page that all of it fits."""
    mark = next((encoding for mark, encoding in _MARKS if data.startswith(mark)), None)
    mark = mark or _unmarked(data[:_LOOK])
    if mark is not None:
        return _decoded(data, (mark,), errors="replace")
    if len(_CONTROLS.findall(data[:_LOOK])) > len(data[:_LOOK]) * _FEW:
        return None
    return _decoded(data, ("utf-8", "cp1252", "latin-1"))


def _unmarked(begin: bytes) -> str | None:
    """UTF-16 of letters that are mostly Western: every other byte is zero, and always the same ones."""
    even, odd = begin[::2].count(0), begin[1::2].count(0)
    if max(even, odd) < len(begin) * _MANY or min(even, odd) > len(begin) * _FEW:
        return None
    return "utf-16-le" if odd > even else "utf-16-be"


def _decoded(data: bytes, encodings: tuple[str, ...], *, errors: str = "strict") -> Decoded | None:
    for encoding in encodings:
        try:
            text = data.decode(encoding, errors)
        except UnicodeDecodeError:
            continue
        if text.count("\ufffd") > 1 + len(text) * _FEW:
            return None
        return Decoded(text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", ""), encoding.removesuffix("-sig"))
    return None


def text_of(source: Source) -> Decoded:
    found = decoded(source.data)
    if found is None:
        raise ExtractionError("document_corrupt", "its text cannot be decoded")
    return found


def read_text(source: Source) -> list[ContentItem]:
    return [text_item(source, text_of(source), "Text", "text/plain")]


def read_markdown(source: Source) -> list[ContentItem]:
    return [text_item(source, text_of(source), "Markdown", "text/markdown")]


def text_item(source: Source, found: Decoded, kind: str, mime: str) -> ContentItem:
    language = language_of(found.text)
    about = {"data": found.text, "size": len(source.data), "encoding": found.encoding, "language": language}
    return make_item(source, mime, found.text, text_summary(kind, found.text, language), **about)


def read_json(source: Source) -> list[ContentItem]:
    found = text_of(source)
    try:
        summary = f"JSON, {_shape(msgspec.json.decode(found.text))}"
    except msgspec.DecodeError as error:
        summary = f"Text that is no valid JSON: {error}"
    except (RecursionError, MemoryError):
        summary = f"JSON, nested too deeply to be described, {counted(len(found.text), 'letter')}"
    about = {"data": found.text, "size": len(source.data), "encoding": found.encoding}
    return [make_item(source, "application/json", found.text, summary, **about)]


def _shape(value: object) -> str:
    match value:
        case dict():
            return f"an object, {counted(len(value), 'key')}: {_keys(value)}"
        case [dict() as first, *_]:
            return f"a list of {counted(len(value), 'object')}, the first with: {_keys(first)}"
        case list():
            return f"a list of {counted(len(value), 'value')}"
        case _:
            return "a single value"


def _keys(value: dict[str, object]) -> str:
    return ", ".join(list(value)[:_KEYS]) + (", …" if len(value) > _KEYS else "")
