"""Escapes: what JSON, JavaScript, Markdown, HTML and URLs write for a character, read back one layer at a time.

Which program wrote a text cannot be known, and each escapes other characters: PHP ``/``, .NET ``+``, Go ``&``. So a
text is read as all of them would, to look for something in it; what is found has its place in the text as it was.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable
from functools import lru_cache
from html import unescape
from itertools import islice
from urllib.parse import unquote

LAYERS = 3
"""How often one text may be inside another, such as JSON in HTML in JSON."""
MOST = 100_000
"""Escapes of a layer that are read: nobody can hold up the others with a text of nothing else."""
_LONGEST = 33
_HEX = "[0-9a-fA-F]"
_HIGH, _LOW = rf"\\u[dD][89abAB]{_HEX}{{2}}", rf"\\u[dD][c-fC-F]{_HEX}{{2}}"
_NEXT = f"%[89abAB]{_HEX}"
_PAIR = _HIGH + _LOW
_WHOLE = "|".join((
    rf"\\u{_HEX}{{4}}",
    rf"\\x{_HEX}{{2}}",
    r"\\[bfnrt!-$'-/:-@\[-`{-~]",
    rf"%[0-7]{_HEX}",
    rf"%[cCdD]{_HEX}{_NEXT}",
    rf"%[eE]{_HEX}(?:{_NEXT}){{2}}",
    rf"%[fF]{_HEX}(?:{_NEXT}){{3}}",
    rf"&(?:#[0-9]{{1,7}}|#[xX]{_HEX}{{1,6}}|[a-zA-Z][a-zA-Z0-9]{{1,30}});",
))  # fmt: skip
_HALF_PAIR = rf"{_HIGH}(?:\\(?:u{_HEX}{{0,3}})?)?"
_HALF = "|".join((
    rf"\\(?:u{_HEX}{{0,3}}|x{_HEX}?)?",
    rf"%[c-fC-F]{_HEX}(?:{_NEXT}){{0,2}}(?:%{_HEX}?)?",
    rf"%{_HEX}?",
    rf"&(?:#[0-9]{{0,7}}|#[xX]{_HEX}{{0,6}}|[a-zA-Z][a-zA-Z0-9]{{0,30}})?",
))  # fmt: skip
_ESCAPE = re.compile(f"{_PAIR}|{_WHOLE}")
_ESCAPE_OR_HALF = re.compile(rf"{_PAIR}|(?P<pair>{_HALF_PAIR})\Z|{_WHOLE}|(?P<half>{_HALF})\Z")
_SHORT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def marked(text: str) -> bool:
    """Whether there can be an escape in it."""
    return "\\" in text or "%" in text or "&" in text


def marks(letters: Iterable[str]) -> re.Pattern[str]:
    """What begins an escape that may stand for one of these, or for another escape.

    JSON is full of line ends and quotes; to read them all, where nobody looks for any, would take longer than the rest.
    """
    others = {'"': '"', **_SHORT}
    for letter in letters:
        others = {short: read for short, read in others.items() if read != letter}
    return re.compile(rf"[%&]|\\(?![{''.join(others)}])" if others else r"[%&\\]")


def readings(text: str, layers: int = LAYERS) -> list[str]:
    """The text as it is, and without one layer of escapes after another, as long as there are any."""
    found = [text]
    while len(found) <= layers and marked(text):
        plain = _ESCAPE.sub(_read, text, count=MOST)
        if plain == text:
            break
        found.append(text := plain)
    return found


def places(layers: list[str], wanted: list[int]) -> list[int]:
    """Where in the first of these readings those stand which the one behind the last has at ``wanted``."""
    for text in reversed(layers) if wanted else ():
        wanted = _places(text, wanted)
    return wanted


def unfinished(text: str) -> int:
    """Where an escape begins that what follows may end; the length of the text if there is none."""
    begin = max(0, len(text) - _LONGEST)
    if not marked(text[begin:]):
        return len(text)
    before = text[:begin]
    begin -= (begin - len(before.rstrip("\\"))) % 2  # of two backslashes the second is none that escapes
    halves = (found.start() for found in _ESCAPE_OR_HALF.finditer(text, begin) if found["half"] or found["pair"])
    return next(halves, len(text))


def _places(text: str, wanted: list[int]) -> list[int]:
    """All in one go: to walk through a text for each of them would take as long as both together."""
    starts, longer = list[int](), [0]
    for found in islice(_ESCAPE.finditer(text), MOST):
        starts.append(found.start() - longer[-1])
        longer.append(longer[-1] + len(found[0]) - len(_character(found[0])))
    return [at + longer[bisect_left(starts, at)] for at in wanted]


def _read(found: re.Match[str]) -> str:
    return _character(found[0])


@lru_cache(maxsize=4096)
def _character(escape: str) -> str:
    """The one that it stands for; an escape that stands for none, or for several, is left as it is."""
    if escape[0] == "\\":
        return _after_backslash(escape)
    read = unquote(escape, errors="ignore") if escape[0] == "%" else unescape(escape)
    return read if len(read) == 1 else escape


def _after_backslash(escape: str) -> str:
    if len(escape) == 12:  # two surrogates
        high, low = int(escape[2:6], 16), int(escape[8:], 16)
        return chr(0x10000 + (high - 0xD800) * 0x400 + low - 0xDC00)
    if len(escape) > 2:
        return chr(int(escape[2:], 16))
    return _SHORT.get(escape[1], escape[1])
