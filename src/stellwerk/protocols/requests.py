"""Requests of other protocols: bodies of which only known fields are read, and files inside of messages."""

import base64
import binascii
from io import BytesIO
from typing import TypeVar
from urllib.parse import unquote_to_bytes

import msgspec
from fastapi import Request

from stellwerk.api.services import Services
from stellwerk.documents.mimes import label
from stellwerk.errors import InvalidField, MalformedJson
from stellwerk.tenants.principals import Principal
from stellwerk.threads import in_thread

T = TypeVar("T")
LARGEST = 2**53
"""Of numbers that become positions and offsets; clients that name a larger one get what is behind the last."""
_LONG = 256 * 1024
"""Bytes above which a body is decoded in a thread."""


async def body_of(request: Request, form: type[T]) -> T:
    """The body as this type; unknown fields are ignored.

    Raises:
        MalformedJson: it is not JSON.
        InvalidField: a field is missing or has another type.
    """
    body = await request.body()
    if len(body) > _LONG:
        return await in_thread(decoded, body or b"{}", form)
    return decoded(body or b"{}", form)


def decoded(body: bytes | msgspec.Raw, form: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=form)
    except msgspec.ValidationError as error:
        said, _, place = str(error).partition(" - at `$.")
        field = place.rstrip("`").partition("[")[0] or "body"
        raise InvalidField(f"{place.rstrip('`') or 'body'}: {said}", field=field) from error
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise MalformedJson(f"the body is not JSON: {error}", field="body") from error


async def store_data_url(services: Services, who: Principal, url: str, filename: str | None = None) -> str:
    """Store the bytes of a ``data:`` URL as a file; returns the id of the document.

    Raises:
        InvalidField: it is no data URL. The server fetches nothing from other addresses.
        LimitReached: the tenant may not store as much.
    """
    head, comma, data = url.partition(",")
    if not comma or not head.startswith("data:"):
        said = "files are sent inside of the message, as a data: URL; this server fetches no addresses"
        raise InvalidField(f"url: {said}", field="url")
    mime, *options = head.removeprefix("data:").split(";")
    content = await in_thread(_bytes_of, data, "base64" in options)
    mime = mime.strip().lower() or label(filename or "", "application/octet-stream")
    return await store_bytes(services, who, content, mime=mime, filename=filename)


async def store_bytes(services: Services, who: Principal, content: bytes, *, mime: str, filename: str | None) -> str:
    kept = await services.documents.take(
        who.tenant,
        BytesIO(content),
        filename=filename or "file",
        mime=mime,
        admit=services.quotas.upload_check(who.tenant),
    )
    return kept.document_id


def _bytes_of(data: str, is_base64: bool) -> bytes:
    raw = unquote_to_bytes(data)
    if not is_base64:
        return raw
    try:
        return base64.b64decode(raw, validate=False)
    except binascii.Error as error:
        raise InvalidField(f"url: the data of this file is not base64: {error}", field="url") from error
