"""Summaries made of what is there, without a model: the same content always has the same. Pure."""

import re
from collections.abc import Sequence

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


def bytes_said(size: int) -> str:
    for unit, name in _UNITS:
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return counted(size, "byte")


def _short(text: str, longest: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"
