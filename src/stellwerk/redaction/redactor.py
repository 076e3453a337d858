"""Redaction: known secrets are replaced before anything is stored, as a log cannot be cleaned.

Each secret is searched for in the forms that ``forms_of`` lists: plain, JSON, URL, base64, and
Stellwerk's own Markdown. A program may encode a secret in many other ways, so this is a net and not
a wall. One pass through a text finds all forms.
"""

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cache
from typing import Any, Literal, TypeVar, get_args, get_origin
from urllib.parse import quote, quote_plus

import msgspec

from stellwerk.envelope.introspection import Blob, make_blob
from stellwerk.envelope.results import cell, escaped
from stellwerk.envelope.to_json import PREVIEW, clean_text, free_key, one_line
from stellwerk.redaction.aho_corasick import Automaton

S = TypeVar("S", bound=msgspec.Struct)
REDACTED = "[redacted]"
SHORTEST = 4
_HEAD = 64
"""The first characters of a form; a quick search for them decides on a closer look."""
_URL_SAFE = ("", "/", "!*'()", ";,/?:@&=+$!*'()#")
"""Characters that a URL encoder leaves: none, Python's, encodeURIComponent's, encodeURI's."""
_SHORTEST_INSIDE_BASE64 = 8
"""Bytes. The base64 of a shorter secret inside a longer text is too much like other base64."""


def forms_of(secret: str) -> set[str]:
    forms = {secret, *_base64_forms(secret)}
    for encoded in (one_line(msgspec.json.encode(secret)).decode(), json.dumps(secret)):
        forms |= {encoded[1:-1], encoded[1:-1].replace("/", "\\/")}
    for encoded in (quote_plus(secret), *(quote(secret, safe=safe) for safe in _URL_SAFE)):
        forms |= {encoded, re.sub("%..", lambda code: code[0].lower(), encoded)}
    return forms | {escaped(secret), escaped(f"x{secret}")[1:], cell(secret)}


def _base64_forms(secret: str) -> Iterator[str]:
    data = secret.encode()
    encoded = [b64encode(data).decode()]
    if len(data) >= _SHORTEST_INSIDE_BASE64:
        encoded += [_base64_inside(data, offset) for offset in range(3)]
    for form in encoded:
        yield form
        yield form.translate({ord("+"): "-", ord("/"): "_"})


def _base64_inside(data: bytes, offset: int) -> str:
    """The base64 characters that depend on these bytes alone if they follow ``offset`` others."""
    first = -(-offset * 8 // 6)
    last = (offset + len(data)) * 8 // 6
    return b64encode(b"\0" * offset + data).decode()[first:last]


class Redactor:
    """Replaces every occurrence of the secrets that it knows.

    White space around a secret is ignored, and so is a secret of less than four characters: it
    would be found in half of all texts, and protects nothing.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._forms: dict[str, set[str]] = {}
        self.set_secrets(secrets)

    def set_secrets(self, secrets: Iterable[str]) -> None:
        """Replace all secrets; everything that holds this redactor uses the new ones."""
        known = {clean_text(secret).strip() for secret in secrets}
        before = self._forms  # computed once per secret, because a tenant may have many
        self._forms = {each: before.get(each) or forms_of(each) for each in known if len(each) >= SHORTEST}
        self._search = _Search({form for forms in self._forms.values() for form in forms})

    def redact_text(self, text: str) -> str:
        kept = list[str]()
        behind = 0
        for start, end in self._search.spans(text):
            kept += text[behind:start], REDACTED
            behind = end
        return "".join((*kept, text[behind:])) if kept else text

    def settled(self, text: str) -> int:
        """How much of a growing text can be redacted now; the rest may begin a secret."""
        return self._search.settled(text)

    def finds(self, text: str) -> bool:
        return bool(self._search.spans(text))

    def may_occur_in(self, body: str) -> bool:
        """Quickly, whether the texts in this JSON are worth redacting one by one; most are not.

        A form with a backslash has two of them here; the JSON of any other form is a form, too.
        """
        return "\\\\" in body or self._search.suspects(body)

    def __bool__(self) -> bool:
        return bool(self._forms)

    def redact(self, value: Any) -> Any:
        """Redact every text in a JSON value or a payload, including keys of data.

        Field names of a struct, and fields that hold one of a few fixed words, stay as they are.
        """
        if not self:
            return value
        if isinstance(value, str):
            return self.redact_text(value)
        if isinstance(value, list | tuple):
            return [self.redact(item) for item in value]
        if isinstance(value, msgspec.Struct):
            texts = {name: getattr(value, name) for name in _open_fields(type(value))}
            return msgspec.structs.replace(value, **{name: self.redact(text) for name, text in texts.items()})
        if not isinstance(value, dict):
            return value
        clean: dict[str, Any] = {}
        repeats: dict[str, int] = {}
        for key, item in value.items():
            clean[free_key(self.redact_text(key), clean, repeats)] = self.redact(item)
        return clean


class _Search:
    """Finds forms of secrets. It never changes, so threads may share it."""

    def __init__(self, forms: Set[str]) -> None:
        self._automaton = Automaton(forms)
        self._head = min((_HEAD, *map(len, forms)))
        self._piece = (self._head + 1) // 2
        self._stride = self._head - self._piece + 1
        self._pieces = {form[at : at + self._piece] for form in forms for at in range(self._stride)}

    def suspects(self, text: str) -> bool:
        """Whether a piece of a form's head is at a stride; every head covers at least one.

        This takes as long for a thousand forms as for one, and for long forms as for short ones.
        """
        piece, pieces = self._piece, self._pieces
        return bool(pieces) and any(text[at : at + piece] in pieces for at in range(0, len(text), self._stride))

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where forms are, from the left; those that overlap are one."""
        return self._automaton.spans(text) if self.suspects(text) else []

    def settled(self, text: str) -> int:
        """How much of a text is before the longest end with which a form begins, and goes on."""
        if not self._pieces:
            return len(text)
        tail = text[-self._automaton.longest :]
        if not self.suspects(tail):
            tail = text[-self._head :]  # no head is complete: only a part can be at the end
        cut = len(text) - self._automaton.begun(tail)
        if cut == len(text):
            return cut
        # The end of a secret may begin another, or the same: neither is cut in two.
        return next((start for start, end in self.spans(text) if start < cut < end), cut)


class Redactors:
    """One redactor per tenant: none can spoil what others read, or find out their secrets."""

    def __init__(self, everywhere: Iterable[str] = ()) -> None:
        """``everywhere`` are the operator's secrets, which are redacted for all tenants."""
        self._everywhere = tuple(everywhere)
        self._operator = Redactor(self._everywhere)
        self._by_tenant: dict[str, Redactor] = {}

    def of(self, tenant: str) -> Redactor:
        """Always the same object, also after the tenant's secrets have changed."""
        if tenant not in self._by_tenant:
            self._by_tenant[tenant] = Redactor(self._everywhere)
        return self._by_tenant[tenant]

    def set_secrets(self, tenant: str, secrets: Iterable[str]) -> None:
        self.of(tenant).set_secrets([*self._everywhere, *secrets])

    def redact_line(self, text: str, tenant: object = None) -> str:
        """Redact the secrets of one tenant, or of all tenants if the line names none."""
        own = self._by_tenant.get(tenant) if isinstance(tenant, str) else None
        for redactor in self._all() if own is None else [own]:
            text = redactor.redact_text(text)
        return text

    def redact_all_in(self, value: Any) -> Any:
        for redactor in self._all():
            value = redactor.redact(value)
        return value

    def _all(self) -> list[Redactor]:
        return [self._operator, *self._by_tenant.values()]


@cache
def _open_fields(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """The fields that may hold any text."""
    return tuple(field.name for field in msgspec.structs.fields(kind) if not _is_choice(field.type))


def _is_choice(kind: Any) -> bool:
    return any(get_origin(each) is Literal for each in (kind, *get_args(kind)))


def without_secrets(
    payloads: Iterable[S], blobs: Sequence[Blob], redactor: Redactor
) -> tuple[Iterable[S], Sequence[Blob]]:
    """Redact documents that are text; others, such as images and archives, stay as they are.

    Other bytes have another digest and so another id: the payloads refer to them by their new ids.
    """
    if not blobs or not redactor:
        return payloads, blobs
    cleaned = {blob.document_id: clean for blob in blobs if (clean := _cleaned(blob, redactor)) != blob}
    if not cleaned:
        return payloads, blobs
    renamed = [msgspec.convert(_renamed(msgspec.to_builtins(each), cleaned), type(each)) for each in payloads]
    return renamed, [cleaned.get(blob.document_id, blob) for blob in blobs]


def _cleaned(blob: Blob, redactor: Redactor) -> Blob:
    name = redactor.redact_text(blob.filename)
    try:
        data = redactor.redact_text(blob.data.decode()).encode()
    except UnicodeDecodeError:
        data = blob.data
    # A secret may look like a part of the JSON.
    if data != blob.data and _is_json(blob.data) and not _is_json(data):
        data = msgspec.json.encode(redactor.redact(_without_numbers(blob.data, redactor)))
    return make_blob(data, mime=blob.mime, filename=name)


def _without_numbers(data: bytes, redactor: Redactor) -> Any:
    """Decode JSON; a number that is a secret becomes a text."""

    def number(written: str) -> Any:
        return REDACTED if redactor.finds(written) else msgspec.json.decode(written)

    return json.loads(data, parse_int=number, parse_float=number)


def _is_json(data: bytes) -> bool:
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _renamed(value: Any, cleaned: Mapping[str, Blob]) -> Any:
    if isinstance(value, list | tuple):
        return [_renamed(item, cleaned) for item in value]
    if not isinstance(value, dict):
        return value
    clean = cleaned.get(named) if isinstance(named := value.get("document_id"), str) else None
    if clean is None:
        return {key: _renamed(item, cleaned) for key, item in value.items()}
    text = clean.data[: PREVIEW * 4].decode(errors="ignore")[:PREVIEW]
    return value | clean.reference() | ({"preview": text} if "preview" in value else {})
