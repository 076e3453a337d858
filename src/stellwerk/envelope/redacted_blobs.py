"""Documents without secrets: bytes that are text lose those that are known before they are stored.

Other bytes have another digest and so another id; whatever refers to them has to
be told. Files that are no text, such as pictures or packed ones, stay as they are.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from stellwerk.envelope.canonical import PREVIEW
from stellwerk.envelope.redaction import REDACTED, Redactor
from stellwerk.envelope.shapes import Blob, make_blob

S = TypeVar("S", bound=msgspec.Struct)


def without_secrets(told: Iterable[S], blobs: Sequence[Blob], redactor: Redactor) -> tuple[Iterable[S], Sequence[Blob]]:
    """What is told with references to the blobs that are to be stored, and these."""
    if not blobs or not redactor:
        return told, blobs
    cleaned = {blob.document_id: clean for blob in blobs if (clean := _cleaned(blob, redactor)) != blob}
    if not cleaned:
        return told, blobs
    renamed = [msgspec.convert(_renamed(msgspec.to_builtins(one), cleaned), type(one)) for one in told]
    return renamed, [cleaned.get(blob.document_id, blob) for blob in blobs]


def _cleaned(blob: Blob, redactor: Redactor) -> Blob:
    name = redactor.redact_text(blob.filename)
    try:
        data = redactor.redact_text(blob.data.decode()).encode()
    except UnicodeDecodeError:
        data = blob.data
    if data != blob.data and _is_json(blob.data) and not _is_json(data):  # a secret may look like a part of it
        data = msgspec.json.encode(redactor.redact(_without_numbers(blob.data, redactor)))
    return make_blob(data, mime=blob.mime, filename=name)


def _without_numbers(data: bytes, redactor: Redactor) -> Any:
    """What it says; a number that is a secret is a text by then."""

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
