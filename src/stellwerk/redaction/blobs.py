"""Redaction of documents: bytes that are text lose known secrets before they are stored.

Other bytes have another digest and so another id, and references to them change with it.
Files that are not text, such as images and archives, stay as they are.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from stellwerk.envelope.introspection import Blob, make_blob
from stellwerk.envelope.to_json import PREVIEW
from stellwerk.redaction.redactor import REDACTED, Redactor

S = TypeVar("S", bound=msgspec.Struct)


def without_secrets(
    payloads: Iterable[S], blobs: Sequence[Blob], redactor: Redactor
) -> tuple[Iterable[S], Sequence[Blob]]:
    """Redact the blobs; the payloads refer to them by their new ids."""
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
