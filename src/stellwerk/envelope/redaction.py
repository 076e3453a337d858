"""Redaction: known secrets are taken out before anything is appended, for a log cannot be cleaned.

A secret is searched for as it is, escaped as in JSON, Markdown, HTML or a URL, also several times over, and in
base64, there also as a part of a longer text such as ``user:password``.
"""

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Set
from functools import cache
from typing import Any, Literal, get_args, get_origin
from urllib.parse import quote, quote_plus

import msgspec

from stellwerk.envelope import escapes, markup
from stellwerk.envelope.automaton import Automaton
from stellwerk.envelope.canonical import clean_text, free_key
from stellwerk.envelope.lines import one_line

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
        self._search = _Search(self._forms)

    def redact_text(self, text: str) -> str:
        return self._search.redact_text(text)

    def settled(self, text: str) -> int:
        """How much of a text that goes on can be redacted now: the rest may be the beginning of a secret."""
        return self._search.settled(text)

    def finds(self, text: str) -> bool:
        """Whether there is anything to take out of it."""
        return self._search.finds(text)

    def may_stand_in(self, body: str) -> bool:
        """Whether the texts in this JSON are worth a look, one by one; what it escapes itself is a form of its own."""
        return self._search.may_stand_in(body)

    def __bool__(self) -> bool:
        return bool(self._forms)

    def redact(self, value: Any) -> Any:
        """A canonical value, or what an envelope says, with every text in it redacted, keys of data included.

        What the fields of a struct are called, and which of a few words one holds, is no text: it stays.
        """
        return self._redacted(value) if self else value

    def _redacted(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.redact_text(value)
        if isinstance(value, list | tuple):
            return [self._redacted(item) for item in value]
        if isinstance(value, msgspec.Struct):
            texts = {name: getattr(value, name) for name in _open_fields(type(value))}
            return msgspec.structs.replace(value, **{name: self._redacted(text) for name, text in texts.items()})
        if not isinstance(value, dict):
            return value
        clean: dict[str, Any] = {}
        repeats: dict[str, int] = {}
        for key, item in value.items():
            clean[free_key(self.redact_text(key), clean, repeats)] = self._redacted(item)
        return clean


class _Search:
    """Finds the forms of some secrets. It never changes, so a thread that searches a text may share it."""

    def __init__(self, secrets: Mapping[str, Set[str]]) -> None:
        forms = {form for found in secrets.values() for form in found}
        self._marks = escapes.marks({letter for secret in secrets for letter in secret})
        self._automaton = Automaton(forms)
        self._head = min((_HEAD, *map(len, forms)))
        self._piece = (self._head + 1) // 2
        self._stride = self._head - self._piece + 1
        self._pieces = {form[at : at + self._piece] for form in forms for at in range(self._stride)}
        self._firsts = {form[0] for form in forms}

    def redact_text(self, text: str) -> str:
        if not (layers := self._suspected(text)):
            return text
        kept, behind = list[str](), 0
        for start, end in self._places(layers):
            kept += text[behind:start], REDACTED
            behind = end
        return "".join((*kept, text[behind:]))

    def settled(self, text: str) -> int:
        cut = self._cut(text)
        if cut == len(text) or not (layers := self._suspected(text)):
            return cut
        # The end of a secret may be the beginning of another, or of the same: neither is cut in two.
        return next((start for start, end in self._places(layers) if start < cut < end), cut)

    def _cut(self, text: str) -> int:
        """Where something begins that may become a secret if it goes on."""
        if not self._pieces:
            return len(text)
        if not self._marked(text):
            return self._begun(text)
        layers = escapes.readings(text, escapes.LAYERS + 1)  # of half an escape, one more than will be
        open_at = [(layers[:depth], len(read), self._open(read)) for depth, read in enumerate(layers)]
        return min((escapes.places(above, [at])[0] for above, end, at in open_at if at < end), default=len(text))

    def _open(self, text: str) -> int:
        """Half an escape may become any character, also one that goes on with what stands before it."""
        begun = self._begun(text)
        for _ in range(escapes.LAYERS):  # what comes may end one escape, and that another
            if (half := escapes.unfinished(text)) == len(text):
                break
            begun = min(begun, self._begun(text := text[:half]))
        return begun

    def _begun(self, text: str) -> int:
        """Where the longest end of a text begins with which a form begins, and goes on."""
        automaton = self._automaton
        tail = text[max(0, len(text) - automaton.longest + 1) :]
        if self._suspects(tail):
            return len(text) - automaton.begun(tail)
        # No head is there whole, so only half of one can be at the end.
        places = range(max(0, len(text) - self._head + 1), len(text))
        return next((at for at in places if text[at] in self._firsts and automaton.begins(text[at:])), len(text))

    def finds(self, text: str) -> bool:
        return any(True for read in self._suspected(text) for _ in self._automaton.ends(read))

    def may_stand_in(self, body: str) -> bool:
        return "\\\\" in body or "%" in body or "&" in body or self._suspects(body)

    def _suspected(self, text: str) -> list[str]:
        """The readings of it, if one of them is worth a closer look; this is quick, and most are not."""
        if not self._pieces:
            return []
        if not self._marked(text):
            return [text] if self._suspects(text) else []
        layers = escapes.readings(text)
        return layers if any(map(self._suspects, layers)) else []

    def _marked(self, text: str) -> bool:
        """Whether it may have escapes in it that matter."""
        return escapes.marked(text) and self._marks.search(text) is not None

    def _suspects(self, text: str) -> bool:
        """Whether a piece of a form's head stands at one of those places of which every head would cover one.

        This takes as long for a thousand forms as for one, and no longer for long ones than for short ones.
        """
        piece, pieces = self._piece, self._pieces
        return any(text[at : at + piece] in pieces for at in range(0, len(text), self._stride))

    def _places(self, layers: list[str]) -> Iterator[tuple[int, int]]:
        """Where forms stand in the first of these readings, whichever of them shows it; those that overlap as one."""
        found = sorted(place for depth, read in enumerate(layers) for place in self._standing(read, layers[:depth]))
        start = behind = 0
        for begin, end in found:
            if behind and begin >= behind:
                yield start, behind
            if begin >= behind:
                start = begin
            behind = max(behind, end)
        if behind:
            yield start, behind

    def _standing(self, read: str, above: list[str]) -> Iterator[tuple[int, int]]:
        """Where forms that one reading shows stand in the first."""
        ends = escapes.places(above, [end for span in self._automaton.spans(read) for end in span])
        return zip(ends[::2], ends[1::2], strict=True)


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

    def redact_line(self, text: str, tenant: object = None) -> str:
        """For what all tenants write into: whoever's secrets they are, or those of the one whom a line is about."""
        own = self._by_tenant.get(tenant) if isinstance(tenant, str) else None
        for redactor in self._all() if own is None else [own]:
            text = redactor.redact_text(text)
        return text

    def redact_all_in(self, value: Any) -> Any:
        """The same for a canonical value."""
        for redactor in self._all():
            value = redactor.redact(value)
        return value

    def _all(self) -> list[Redactor]:
        return [self._operator, *self._by_tenant.values()]


@cache
def _open_fields(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """Those that may hold anything."""
    return tuple(field.name for field in msgspec.structs.fields(kind) if not _is_choice(field.type))


def _is_choice(kind: Any) -> bool:
    return any(get_origin(each) is Literal for each in (kind, *get_args(kind)))


def _forms(secret: str) -> Iterator[str]:
    for form in _escaped(secret):
        yield form
        yield one_line(msgspec.json.encode(form)).decode()[1:-1]  # as an envelope is encoded
    yield json.dumps(secret)[1:-1]
    data = secret.encode()
    for offset in range(3 if len(data) >= _SHORTEST_INSIDE else 0):
        # Of the base64 characters, only those made of the secret's bits alone.
        first, last = -(-offset * 8 // 6), (offset + len(data)) * 8 // 6
        yield from _alphabets(b64encode(b"\0" * offset + data).decode()[first:last])
    yield from _alphabets(b64encode(data).decode())


def _escaped(secret: str) -> Iterator[str]:
    yield secret
    yield from (markup.escaped(secret), markup.escaped(f"x{secret}")[1:], markup.cell(secret))
    for escaped in (quote(secret), quote(secret, safe=""), quote_plus(secret)):
        yield escaped
        yield re.sub("%..", lambda code: code[0].lower(), escaped)


def _alphabets(encoded: str) -> Iterator[str]:
    yield encoded
    yield encoded.translate({43: "-", 47: "_"})
