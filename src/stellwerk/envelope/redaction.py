"""Redaction: known secrets are taken out before anything is appended, for a log cannot be cleaned.

A secret is searched for as it is, escaped as in JSON or a URL, and in base64,
there also as a part of a longer text such as ``user:password``.
"""

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote, quote_plus

from stellwerk.envelope.canonical import clean_text, free_key

REDACTED = "[redacted]"
SHORTEST = 4
_SHORTEST_INSIDE = 8
"""Shorter secrets are searched for as base64 only whole; their middle is too like other base64."""


class Redactor:
    """Replaces every occurrence of the secrets it was given.

    Secrets are taken without the white space around them. One shorter than four characters is
    ignored: it would be found in half of all texts, and protects nothing.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {clean_text(secret).strip() for secret in secrets}
        forms = {form for secret in known if len(secret) >= SHORTEST for form in _forms(secret)}
        longest_first = sorted(forms, key=lambda form: (-len(form), form))
        self._shortest = min(map(len, forms), default=0)
        self._search = re.compile("|".join(map(re.escape, longest_first))) if forms else None
        self._firsts = {form[0] for form in forms}
        self._beginnings = {form[:length] for form in forms for length in range(1, len(form))}
        self._longest = max(map(len, forms), default=0)

    def redact_text(self, text: str) -> str:
        if self._search is None or len(text) < self._shortest:
            return text
        return self._search.sub(REDACTED, text)

    def settled(self, text: str) -> int:
        """How much of a text that goes on can be redacted now: the rest may be the beginning of a secret."""
        for length in range(min(len(text), self._longest - 1), 0, -1):
            if text[-length] in self._firsts and text[-length:] in self._beginnings:
                return len(text) - length
        return len(text)

    def finds(self, text: str) -> bool:
        """Whether there is anything to take out of it."""
        return self._search is not None and self._search.search(text) is not None

    def __bool__(self) -> bool:
        return self._search is not None

    def redact(self, value: Any) -> Any:
        """A canonical value with every string in it redacted, keys included."""
        return value if self._search is None else self._redacted(value)

    def _redacted(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.redact_text(value)
        if isinstance(value, list):
            return [self._redacted(item) for item in value]
        if not isinstance(value, dict):
            return value
        clean: dict[str, Any] = {}
        repeats: dict[str, int] = {}
        for key, item in value.items():
            clean[free_key(self.redact_text(key), clean, repeats)] = self._redacted(item)
        return clean


def _forms(secret: str) -> Iterator[str]:
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
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
