"""What the quotes of a script are filled with: parts of the conversation, as they were said and found."""

import json
import re
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import BaseMessage, ToolMessage

from stellwerk.agents.middleware.conversation import documents_of, question_of, since_input
from stellwerk.spec.quotes import Quote, split

MOST = 64 * 1024
"""Characters of a text with its quotes filled in, of all quotes of a step together, and of a text that is searched."""
HEARD = 2000
"""Characters of the user's text in which words are looked for."""
_SHOWN = {"message": 200, "document": 200, "documents": 20_000, "result": 2000, "failure": 500}
"""Characters of each that a script may quote."""
_MARKS = {
    **{'"': '"', "'": "'", "`": "`", "“": "”", "„": "“”", "‚": "‘", "‘": "’", "’": "’"},
    **{"«": "»", "»": "«", "‹": "›", "›": "‹"},
}
"""Marks around a text that is quoted, and those that end it."""
_CLASSES = re.compile(r"^(?:[A-Z]\w*: )+")
"""What an error is called stands before what it says; one that was handed on has several such names."""
_STOPS = ",;:.!?"
_AROUND = _STOPS + "*_()[]" + "".join(_MARKS)


class Quotes:
    """What a step quotes; it gets shorter when it is too much, so that no script can blow itself up."""

    def __init__(self, messages: Sequence[BaseMessage]) -> None:
        self._messages = messages
        self._left = MOST

    def filled(self, value: Any, *, whole: bool = False) -> Any:
        """The same value with the quotes in its strings filled in, at any depth; results not only as they begin."""
        match value:
            case str():
                # In one go: what is quoted is text, even if it looks like a place for another quote.
                pieces = (self._taken(piece, whole) if isinstance(piece, Quote) else piece for piece in split(value))
                return "".join(pieces)[:MOST]
            case list():
                return [self.filled(item, whole=whole) for item in value]
            case dict():
                return {key: self.filled(item, whole=whole) for key, item in value.items()}
            case _:
                return value

    def _taken(self, quote: Quote, whole: bool) -> str:
        if not self._left:
            return ""
        text = self._text(quote)
        longest = MOST if whole and quote.source == "result" else _SHOWN[quote.source]
        if quote.options:
            text = next((option for option in quote.options if has_word(text, option)), quote.options[0])
        elif len(text) > longest:
            text = text[:longest] + " …"
        text = text[: self._left]
        self._left -= len(text)
        return text

    def _text(self, quote: Quote) -> str:
        if quote.source == "message":
            said = question_of(self._messages)
            return beside(said[:HEARD], quote.part) if quote.part else said
        if quote.source == "document":
            return next(iter(documents_of(self._messages, quote.part)), "")
        if quote.source == "documents":
            return " ".join(documents_of(self._messages, quote.part, made=False))
        if quote.source == "failure":
            failed = first_failure(since_input(self._messages))
            return "" if failed is None else without_class(str(failed.text))
        results = (m for m in reversed(self._messages) if isinstance(m, ToolMessage))
        text = next((str(m.text)[:MOST] for m in results if quote.tool in (None, m.name)), "")
        return _field(text, quote.part[0]) if quote.part else text


def without_class(failure: str) -> str:
    """What an error says, without what it is called."""
    return _CLASSES.sub("", failure)


def first_failure(said: Sequence[BaseMessage]) -> ToolMessage | None:
    """What the first of these tools that has failed said."""
    return next((m for m in said if isinstance(m, ToolMessage) and m.status == "error"), None)


def beside(text: str, words: Sequence[str]) -> str:
    """What stands behind the first of these words that the text has: the next word, or what is quoted there.

    Of ``<word`` it is the word before it.
    """
    said = list(re.finditer(r"\S+", text))
    plain = [found[0].rstrip(_STOPS).casefold() for found in said]
    for word in words:
        wanted = word.removeprefix("<").casefold()
        if wanted not in plain:
            continue
        at = plain.index(wanted)
        if wanted == word.casefold():
            return _first(text[said[at].end() :].lstrip())
        return said[at - 1][0].strip(_AROUND) if at else ""
    return ""


def has_word(text: str, word: str) -> bool:
    """In any case, and not as a part of a longer word."""
    text, word = text[:MOST].casefold(), word.casefold()
    at = text.find(word)
    while at >= 0:
        around = text[max(at - 1, 0) : at] + text[at + len(word) : at + len(word) + 1]
        if not re.search(r"\w", around):
            return True
        at = text.find(word, at + 1)
    return False


def _first(text: str) -> str:
    if text[:1] in _MARKS:
        ends = (text.find(mark, 1) for mark in _MARKS[text[0]])
        end = min((at for at in ends if at > 0), default=0)
        if end:
            return text[1:end]
    word = next(iter(text.split(maxsplit=1)), "")
    return word.rstrip(_STOPS) or word


def _field(text: str, name: str) -> str:
    """The field of a result that is an object; of any other, what stands behind the word."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        return beside(text, [name])
    value = found.get(name, "")
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
