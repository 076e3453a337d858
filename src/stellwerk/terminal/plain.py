"""Plain text: what models, tools and strangers wrote, without power over the terminal that shows it."""

import re

_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069]")


def visible(text: str) -> str:
    """Text without power over the terminal: what would move the cursor, change colours or turn words round is shown."""
    return _UNSEEN.sub(_spelled, text.replace("\r\n", "\n")).expandtabs(4)


def one_line(text: str) -> str:
    return " ".join(visible(text).split())


def _spelled(found: "re.Match[str]") -> str:
    code = ord(found.group())
    return chr(0x2400 + code) if code < 0x20 else "␡" if code == 0x7F else f"\\u{code:04x}"
