"""Wording: what several dialects say in the same words."""

import re
from collections.abc import Iterator
from typing import Never

import msgspec

from stellwerk.envelope.model import RunEnd
from stellwerk.envelope.payloads import Asked

FRAGMENT = 24
"""The most characters in a fragment of an answer."""

# As many whole words as fit; a longer word is cut.
_FRAGMENT = re.compile(rf"(?s).{{1,{FRAGMENT}}}\Z|.{{0,{FRAGMENT - 1}}}\s|.{{1,{FRAGMENT}}}")


def fragments(text: str) -> Iterator[str]:
    """The text in pieces of whole words; put together again they are the text."""
    return (found[0] for found in _FRAGMENT.finditer(text))


def form_of(asked: Asked) -> dict[str, object]:
    """What there is to say of a question beside its text: how it may be answered."""
    plain: dict[str, object] = msgspec.to_builtins(asked)
    known = {name: value for name, value in plain.items() if name not in ("ask_id", "question")}
    return {"kind": asked.kind, **known}


def failure_of(end: RunEnd) -> dict[str, str]:
    """Why a run failed, for one that did not say so before its end."""
    return {"code": end.payload.code or "failed", "message": end.payload.reason or "the run failed"}


def cut_off(name: str) -> str:
    return f"{name} was cut off"


def unlisted(envelope: Never) -> Never:
    """For the last case of a translator: a type checker finds the envelope that was forgotten, and so does a reader."""
    raise ValueError(f"{type(envelope).__name__} is neither translated nor ignored; decide which, in this dialect")
