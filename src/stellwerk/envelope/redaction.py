"""Redaction: known secrets are taken out before anything is appended, for a log cannot be cleaned.

A secret is searched for as it is, escaped as in JSON, Markdown or a URL, and in base64,
there also as a part of a longer text such as ``user:password``.
"""

import json
import re
from base64 import b64encode
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote, quote_plus

from stellwerk.envelope import markup
from stellwerk.envelope.canonical import clean_text, free_key

REDACTED = "[redacted]"
SHORTEST = 4
_HEAD = 64
"""Characters of a form by which it is looked for; only where these stand it is compared whole."""
_SHORTEST_INSIDE = 8
"""Shorter secrets are searched for as base64 only whole; their middle is too like other base64."""


class Redactor:
    """Replaces every occurrence of the secrets it was given.

    Secrets are taken without the white space around them. One shorter than four characters is
    ignored: it would be found in half of all texts, and protects nothing.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._forms: dict[str, set[str]] = {}
        self.know(secrets)

    def know(self, secrets: Iterable[str]) -> None:
        """From now on these, in the place of those before; whoever holds this redactor need not be told."""
        known = {clean_text(secret).strip() for secret in secrets}
        before = self._forms  # to make them anew for each of many would hold up everybody
        self._forms = {each: before.get(each) or set(_forms(each)) for each in known if len(each) >= SHORTEST}
        forms = {form for found in self._forms.values() for form in found}
        self._head = min((_HEAD, *map(len, forms)))
        self._piece = (self._head + 1) // 2
        self._stride = self._head - self._piece + 1
        self._pieces = {form[at : at + self._piece] for form in forms for at in range(self._stride)}
        self._by_head: dict[str, list[str]] = {}
        for form in sorted(forms, key=len, reverse=True):
            self._by_head.setdefault(form[: self._head], []).append(form)
        self._firsts = {form[0] for form in forms}
        self._in_order = sorted(self._by_head)
        self._longest = max(map(len, forms), default=0)

    def redact_text(self, text: str) -> str:
        if not self._suspects(text):
            return text
        kept, behind = list[str](), 0
        for start, end in self._found(text):
            kept += text[behind:start], REDACTED
            behind = end
        return "".join((*kept, text[behind:]))

    def settled(self, text: str) -> int:
        """How much of a text that goes on can be redacted now: the rest may be the beginning of a secret."""
        places = range(max(0, len(text) - self._longest + 1), len(text))
        cut = next((at for at in places if text[at] in self._firsts and self._begins(text, at)), len(text))
        if cut == len(text) or not self._suspects(text):
            return cut
        # The end of a secret may be the beginning of another, or of the same: neither is cut in two.
        return next((start for start, end in self._found(text) if start < cut < end), cut)

    def _begins(self, text: str, at: int) -> bool:
        """Whether a form begins with what stands there, and goes on."""
        head, length = text[at : at + self._head], len(text) - at
        if length < self._head:  # it would stand right behind it
            place = bisect_right(self._in_order, head)
            return place < len(self._in_order) and self._in_order[place].startswith(head)
        return any(len(form) > length and form.startswith(text[at:]) for form in self._by_head.get(head, ()))

    def finds(self, text: str) -> bool:
        """Whether there is anything to take out of it."""
        return self._suspects(text) and any(True for _ in self._found(text))

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def _suspects(self, text: str) -> bool:
        """Whether a piece of a form's head stands at one of those places of which every head would cover one.

        This takes as long for a thousand forms as for one, and no longer for long ones than for short ones.
        """
        piece, pieces = self._piece, self._pieces
        return bool(pieces) and any(text[at : at + piece] in pieces for at in range(0, len(text), self._stride))

    def _found(self, text: str) -> Iterator[tuple[int, int]]:
        """Where forms stand, from the left; those that overlap as one."""
        head, by_head, start, behind = self._head, self._by_head, 0, 0
        for at in range(len(text) - head + 1):
            if (forms := by_head.get(text[at : at + head])) is not None:
                length = next((len(form) for form in forms if text.startswith(form, at)), 0)
                if length and at >= behind:
                    if behind:
                        yield start, behind
                    start = at
                behind = max(behind, at + length if length else 0)
        if behind:
            yield start, behind

    def redact(self, value: Any) -> Any:
        """A canonical value with every string in it redacted, keys included."""
        return self._redacted(value) if self else value

    def _redacted(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.redact_text(value)
        if isinstance(value, list | tuple):
            return [self._redacted(item) for item in value]
        if not isinstance(value, dict):
            return value
        clean: dict[str, Any] = {}
        repeats: dict[str, int] = {}
        for key, item in value.items():
            clean[free_key(self.redact_text(key), clean, repeats)] = self._redacted(item)
        return clean


class Redactors:
    """One for each tenant: nobody can spoil what others read, or find out what their secrets are."""

    def __init__(self, everywhere: Iterable[str] = ()) -> None:
        """``everywhere`` are those of the operator, who serves all tenants."""
        self._everywhere = tuple(everywhere)
        self._operator = Redactor(self._everywhere)
        self._by_tenant: dict[str, Redactor] = {}

    def of(self, tenant: str) -> Redactor:
        """It stays the same one when the tenant's secrets change."""
        if tenant not in self._by_tenant:
            self._by_tenant[tenant] = Redactor(self._everywhere)
        return self._by_tenant[tenant]

    def renew(self, tenant: str, secrets: Iterable[str]) -> None:
        self.of(tenant).know([*self._everywhere, *secrets])

    def redact_all(self, text: str) -> str:
        """Whoever's secrets they are: for what all tenants write into."""
        for redactor in self._all():
            text = redactor.redact_text(text)
        return text

    def redact_all_in(self, value: Any) -> Any:
        """The same for a canonical value."""
        for redactor in self._all():
            value = redactor.redact(value)
        return value

    def _all(self) -> list[Redactor]:
        return [self._operator, *self._by_tenant.values()]


def _forms(secret: str) -> Iterator[str]:
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield from (markup.escaped(secret), markup.escaped(f"x{secret}")[1:], markup.cell(secret))
    for escaped in (quote(secret), quote(secret, safe=""), quote_plus(secret)):
        yield escaped
        yield re.sub("%..", lambda code: code[0].lower(), escaped)
    data = secret.encode()
    for offset in range(3 if len(data) >= _SHORTEST_INSIDE else 0):
        # Of the base64 characters, only those made of the secret's bits alone.
        first, last = -(-offset * 8 // 6), (offset + len(data)) * 8 // 6
        yield from _alphabets(b64encode(b"\0" * offset + data).decode()[first:last])
    yield from _alphabets(b64encode(data).decode())


def _alphabets(encoded: str) -> Iterator[str]:
    yield encoded
    yield encoded.translate({43: "-", 47: "_"})
