"""Scripts for the scripted model: rules and steps in the YAML, with placeholders in their texts.

A scripted system can be tried without a model provider and without a key.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

_START = re.compile(r"\{(?:message|documents?|result|failure)[:|]")
_PLACEHOLDER = re.compile(r"\{(message|documents?|result|failure)((?::[^\s{}|:]+)*)((?:\|[^\s{}|]+)*)\}")
_PARTS = {"message": 1, "document": 1, "documents": 1, "result": 2, "failure": 0}
_FORMS = (
    "{message}, {message:word}, {document:ext}, {documents:ext}, {result}, {result:tool}, {result:tool:field} or "
    "{failure}, and a choice as |one|two"
)


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A part of a text that is filled in when the script is played."""

    source: str
    tool: str | None = None
    """Of a result: the tool that returned it; the last one if None."""
    part: tuple[str, ...] = ()
    """Words, one of which precedes the part that is meant; extensions; or one field of a result."""
    options: tuple[str, ...] = ()
    """The text is reduced to the first of these that it contains."""


def split_placeholders(text: str) -> Iterator[str | Placeholder]:
    """The text in its order, texts and placeholders alternating. Any other brace is text."""
    at = 0
    for found in _PLACEHOLDER.finditer(text):
        yield text[at : found.start()]
        yield _placeholder(*found.groups())
        at = found.end()
    yield text[at:]


def check_placeholders(value: Any) -> Any:
    """The same value.

    Raises:
        ValueError: a text begins like a placeholder and is none.
    """
    for text in _texts(value):
        for start in _START.finditer(text):
            found = _PLACEHOLDER.match(text, start.start())
            if found is None or found[2].count(":") > _PARTS[found[1]]:
                written = text[start.start() :].partition("}")[0][:60] + "}"
                remedy = f"write {_FORMS}, without spaces"
                raise ValueError(f"{written!r} is not a placeholder; {remedy}")
    return value


def _placeholder(source: str, parts: str, options: str) -> Placeholder:
    named = parts.split(":")[1:]
    chosen = tuple(options.split("|")[1:])
    if source in ("message", "document", "documents"):
        words = tuple(word for part in named for word in part.split(",") if word)
        return Placeholder(source, part=words, options=chosen)
    tool = named[0] if named else None
    return Placeholder(source, tool=tool, part=tuple(named[1:]), options=chosen)


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


Name = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]
Extension = Annotated[str, Field(pattern=r"^([a-z0-9]{1,10}|\*)$")]
Word = Annotated[str, Field(max_length=100)]
Template = Annotated[str, AfterValidator(check_placeholders)]
Args = Annotated[dict[str, Any], AfterValidator(check_placeholders)]


class Closed(BaseModel):
    """Frozen; unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class ScriptCall(Closed):
    """One tool call of a step."""

    call: Name
    args: Args = {}


class ScriptStep(Closed):
    """One turn of the scripted model: text, and perhaps tool calls."""

    say: Annotated[Template, Field(max_length=64 * 1024)] = ""
    """May quote {message} and {result}, the beginnings of the user's last text and of what the last tool returned.

    {message:word} is what follows that word; {result:tool} what that tool returned last; {failure} the message of a
    tool that failed; {document:xlsx,csv} the id of the first document of the task with one of these extensions, and
    {documents:xlsx,csv} the ids of all of them that the user gave, with a space between; and with |one|two behind it,
    the first of these that the text has.
    """
    call: Name | None = None
    args: Args = {}
    calls: list[ScriptCall] = []
    """Several tools at once."""
    wait: Annotated[float, Field(ge=0, le=600)] = 0.0
    """Seconds of silence before the first word."""
    fail: Template | None = None
    """The model call fails with this text, after what it had to say."""


class ScriptRule(Closed):
    """Steps that are played when a word of the user's text begins like this, or like one of these; else always.

    A number in place of the word means that step of the round, counted from 1. Of a task only its prompt is matched,
    not the description of its documents.
    """

    when: Word | Annotated[list[Word], Field(min_length=1)] | int | None = None
    documents: list[Extension] = []
    """Played only if there is a document with one of these extensions; ``*`` matches all of them."""
    steps: Annotated[list[ScriptStep], Field(min_length=1)]
    failed: list[ScriptStep] = []
    """Played from there on, in place of the steps, when a tool has failed."""

    @model_validator(mode="after")
    def _failed_needs_a_round(self) -> Self:
        if isinstance(self.when, int) and self.failed:
            problem = "a rule with a number is played at that step only and cannot have failed"
            raise ValueError(f"{problem}; use a word")
        return self
