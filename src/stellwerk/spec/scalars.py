"""One scalar of a document: the core schema of YAML 1.2, and what must not stand in a text.

There are null, true, false, whole numbers, numbers and texts. ``no``, ``on``,
``12:30:45`` and ``2026-01-01`` are texts.
"""

import math
import re

Scalar = str | int | float | bool | None

LARGEST = 2**53 - 1
"""What a browser still reads exactly."""

SHORT = 40
"""Characters of what was found that an error repeats."""

_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_WHOLE = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_NUMBER = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufeff]")
SECRET = re.compile(r"\$\{secret:([a-z][a-z0-9_]{0,63})\}")
_VARIABLE = re.compile(r"\$\{.{0,40}", re.DOTALL)


def value_of(text: str, *, plain: bool) -> Scalar:
    """What a scalar stands for; quoted ones are texts.

    Raises:
        ValueError: a number that cannot be kept as it was written.
    """
    if not plain:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _WHOLE.fullmatch(text):
        return _whole(text)
    return _number(text) if _NUMBER.fullmatch(text) else text


def _whole(text: str) -> int:
    if len(text) <= SHORT:
        number = int(text, 0 if text[:2] in ("0o", "0x") else 10)
        if abs(number) <= LARGEST:
            return number
    raise ValueError(f"the number {short(text)} is too large to be exact; write it in quotes if it is a text")


def _number(text: str) -> float:
    if len(text) <= SHORT and "n" not in text.lower():
        number = float(text)
        if math.isfinite(number):
            return number
    raise ValueError(f"found {short(text)}; write a number that is finite and not longer than {SHORT} digits")


def refusal(text: str, *, secrets: bool = False) -> str | None:
    """Why a text must not stand in a document, or None. ``secrets`` says that they may be named here."""
    if secrets:
        text = SECRET.sub("", text)
    if control := _CONTROL.search(text):
        return f"the character U+{ord(control[0]):04X} is not allowed in a text; remove it"
    if variable := _VARIABLE.search(text):
        return (
            f"found {short(variable[0])!r}; nothing is expanded here, neither variables nor secrets. "
            "Write the value itself; keys of providers are stored with the server"
        )
    return None


def short(text: str) -> str:
    return text if len(text) <= SHORT else text[: SHORT - 1] + "…"
