"""Templates of the scripted model: placeholders of a script, filled from the conversation."""

import json
import re
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import BaseMessage, ToolMessage

from stellwerk.agents.runtime.conversation import input_documents, input_text, since_input
from stellwerk.spec.script import Placeholder, split_placeholders

MAX_TEXT = 64 * 1024
"""Most characters of a filled text, of all values of one step, and of a text that is searched."""
MAX_SEARCHED = 2000
"""Most characters of the user's text that are searched for words."""
_MAX_SHOWN = {"message": 200, "document": 200, "documents": 20_000, "result": 2000, "failure": 500}
"""Most characters that each source fills in."""
_QUOTE_MARKS = {
    **{'"': '"', "'": "'", "`": "`", "“": "”", "„": "“”", "‚": "‘", "‘": "’", "’": "’"},
    **{"«": "»", "»": "«", "‹": "›", "›": "‹"},
}
"""Opening quotation marks, each with the marks that close it."""
_ERROR_CLASSES = re.compile(r"^(?:[A-Z]\w*: )+")
"""The class names in front of an error text; an error that was raised again has several."""
_PUNCTUATION = ",;:.!?"
_SURROUNDING = _PUNCTUATION + "*_()[]" + "".join(_QUOTE_MARKS)


class TemplateFiller:
    """Fills the placeholders of one step. The size of all values together is limited."""

    def __init__(self, messages: Sequence[BaseMessage]) -> None:
        self._messages = messages
        self._left = MAX_TEXT

    def fill(self, value: Any, *, whole: bool = False) -> Any:
        """Return the value with the placeholders of its strings filled, at any depth.

        With ``whole``, tool results are not cut to the length that is shown to users.
        """
        match value:
            case str():
                # In one pass: a filled-in text stays text, even if it looks like a placeholder.
                pieces = (
                    self._substitute(piece, whole) if isinstance(piece, Placeholder) else piece
                    for piece in split_placeholders(value)
                )
                return "".join(pieces)[:MAX_TEXT]
            case list():
                return [self.fill(item, whole=whole) for item in value]
            case dict():
                return {key: self.fill(item, whole=whole) for key, item in value.items()}
            case _:
                return value

    def _substitute(self, placeholder: Placeholder, whole: bool) -> str:
        if not self._left:
            return ""
        text, options = self._text(placeholder), placeholder.options
        longest = _MAX_SHOWN[placeholder.source]
        if whole and placeholder.source == "result":
            longest = MAX_TEXT
        if options:
            text = next((option for option in options if has_word(text, option)), options[0])
        elif len(text) > longest:
            text = text[:longest] + " …"
        text = text[: self._left]
        self._left -= len(text)
        return text

    def _text(self, placeholder: Placeholder) -> str:
        if placeholder.source == "message":
            said = input_text(self._messages)
            return word_after(said[:MAX_SEARCHED], placeholder.part) if placeholder.part else said
        if placeholder.source == "document":
            return next(iter(input_documents(self._messages, placeholder.part)), "")
        if placeholder.source == "documents":
            return " ".join(input_documents(self._messages, placeholder.part, made=False))
        if placeholder.source == "failure":
            failed = first_failure(since_input(self._messages))
            return "" if failed is None else error_message(str(failed.text))
        results = (m for m in reversed(self._messages) if isinstance(m, ToolMessage))
        wanted = (m for m in results if placeholder.tool in (None, m.name))
        text = next((str(m.text)[:MAX_TEXT] for m in wanted), "")
        return _result_field(text, placeholder.part[0]) if placeholder.part else text


def error_message(failure: str) -> str:
    """The text of an error without the names of its classes."""
    return _ERROR_CLASSES.sub("", failure)


def first_failure(said: Sequence[BaseMessage]) -> ToolMessage | None:
    return next((m for m in said if isinstance(m, ToolMessage) and m.status == "error"), None)


def word_after(text: str, words: Sequence[str]) -> str:
    """The word, or the quoted text, after the first of ``words`` that occurs in the text.

    For ``<word`` it is the word before it.
    """
    said = list(re.finditer(r"\S+", text))
    plain = [found[0].rstrip(_PUNCTUATION).casefold() for found in said]
    for word in words:
        wanted = word.removeprefix("<").casefold()
        if wanted not in plain:
            continue
        at = plain.index(wanted)
        if wanted == word.casefold():
            return _first_word(text[said[at].end() :].lstrip())
        return said[at - 1][0].strip(_SURROUNDING) if at else ""
    return ""


def has_word(text: str, word: str) -> bool:
    """Whether the text contains the word: ignoring case, and not as a part of a longer word."""
    alone = rf"(?<!\w){re.escape(word.casefold())}(?!\w)"
    return re.search(alone, text[:MAX_TEXT].casefold()) is not None


def _first_word(text: str) -> str:
    if text[:1] in _QUOTE_MARKS:
        ends = (text.find(mark, 1) for mark in _QUOTE_MARKS[text[0]])
        end = min((at for at in ends if at > 0), default=0)
        if end:
            return text[1:end]
    word = next(iter(text.split(maxsplit=1)), "")
    return word.rstrip(_PUNCTUATION) or word


def _result_field(text: str, name: str) -> str:
    """The field of a JSON object; in any other text, the word after the name of the field."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        return word_after(text, [name])
    value = found.get(name, "")
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
