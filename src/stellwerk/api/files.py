"""/files: uploads and downloads.

Nothing about a file is believed: its name is text to show, its type is a label.
It is sent as an attachment that a browser neither opens nor guesses about.
"""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Annotated
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Path, Query, Request
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.responses import Response

from stellwerk.api import examples, openapi, refusals
from stellwerk.api.answers import Json, StoredFile, address
from stellwerk.api.credentials import Reading, Running
from stellwerk.api.openapi import may, says
from stellwerk.api.services import Services
from stellwerk.api.streaming import Download
from stellwerk.documents.files import not_written
from stellwerk.documents.mimes import TYPES, extension
from stellwerk.documents.store import Document, unknown_file
from stellwerk.envelope.canonical import clean_text
from stellwerk.errors import InvalidField, InvalidInput, WrongMediaType

FIELD = "file"
PATH = "/files"
_FIELDS = 8
_FIELD_SIZE = 64 * 1024
_NAME = 200
_MIME = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/[a-z0-9][a-z0-9!#$&^_.+-]{0,63}")
_AS_IT_IS = re.compile(
    r"text/(plain|markdown|csv)|application/(json|pdf|zip)|image/(png|jpeg|gif|webp)|(audio|video)/.+"
)
"""Types that a download may name; all others, such as HTML and SVG, go as plain bytes."""
_BYTES = "application/octet-stream"
_GENERIC = {_BYTES, "binary/octet-stream", "application/zip", "application/x-zip-compressed"}
FileId = Annotated[str, Path(description="the id of a file", examples=[examples.FILE.id])]
Called = Annotated[str | None, Query(description="the name to download it by", max_length=1000)]
_CONTENT = "city,sky\nBerlin,sunny\n"
_FORM = {
    "type": "object",
    "required": [FIELD],
    "properties": {FIELD: {"type": "string", "contentMediaType": _BYTES}},
}
_BODY = {"required": True, "content": {"multipart/form-data": {"schema": _FORM, "example": {FIELD: _CONTENT}}}}
_REFUSED = (refusals.FORM, refusals.TOO_LARGE, refusals.FILE_TYPE, refusals.NO_FILE_SENT, *refusals.STORED)


def routes(services: Services) -> APIRouter:
    router = APIRouter(prefix=PATH, tags=["files"], default_response_class=Response)
    _add_upload(router, services)
    _add_stored(router, services)
    return router


def _add_upload(router: APIRouter, services: Services) -> None:
    @router.post(
        "",
        status_code=201,
        summary="Upload a file",
        responses={201: says(StoredFile, examples.FILE, "Stored; the same bytes have the same id"), **may(*_REFUSED)},
        openapi_extra={"requestBody": _BODY},
    )
    async def upload(who: Running, request: Request) -> Response:
        if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
            raise WrongMediaType(f"a file is sent as multipart/form-data, in the field {FIELD!r}")
        async with _form(request) as form:
            sent = form.get(FIELD)
            if not isinstance(sent, UploadFile):
                raise InvalidField(f"{FIELD}: send the file in this field of the form, with a file name", field=FIELD)
            admit = services.quotas.room(who.tenant)
            kept = await services.documents.take(
                who.tenant, sent.file, filename=_name(sent.filename), mime=_mime(sent.content_type), admit=admit
            )
        numbers = await services.numbers.of(who.tenant, [kept.document_id])
        stored = _described(request, kept, numbers.get(kept.document_id, 0))
        return Json(stored, 201, {"Location": stored.href})


def _add_stored(router: APIRouter, services: Services) -> None:
    @router.get(
        "/{file_id}",
        summary="Download a file",
        responses={
            200: openapi.text("*/*", _CONTENT, "Its bytes, as an attachment"),
            **may(refusals.NO_FILE, refusals.NAME_TOO_LONG, refusals.GONE),
        },
    )
    async def download(who: Reading, file_id: FileId, name: Called = None) -> Response:
        found = await services.documents.find(who.tenant, file_id)
        if found is None:
            raise unknown_file(file_id)
        if name:
            called = _name(name)
            found = replace(found, filename=called, mime=TYPES.get(extension(called), found.mime))
        kind = found.mime if _AS_IT_IS.fullmatch(found.mime) else _BYTES
        if kind.startswith("text/") and await services.documents.is_utf8(who.tenant, file_id):
            kind = f"{kind}; charset=utf-8"
        pieces = services.documents.pieces(who.tenant, file_id)
        return Download(pieces, _headers(found, kind), services.credentials, who)

    @router.delete(
        "/{file_id}",
        status_code=204,
        summary="Delete an upload; its bytes go with the last reference",
        response_description="Given up",
        responses=may(refusals.NO_FILE, refusals.FILE_IN_USE, *refusals.STORED),
    )
    async def delete(who: Running, file_id: FileId) -> Response:
        if await services.documents.find(who.tenant, file_id) is None:
            raise unknown_file(file_id)
        await services.documents.drop(who.tenant, file_id)
        return Response(status_code=204)


@asynccontextmanager
async def _form(request: Request) -> AsyncIterator[FormData]:
    """What is large in it lies on the disk; all of it is let go at the end."""
    try:
        form = await request.form(max_files=1, max_fields=_FIELDS, max_part_size=_FIELD_SIZE)
    except HTTPException as error:
        raise InvalidInput(f"the form cannot be read ({error.detail}); send one file and little else") from error
    except OSError as error:
        raise not_written(error, "the folder for temporary files (TMPDIR)") from error
    try:
        yield form
    finally:
        await form.close()


def address_of(request: Request, document_id: str, filename: str) -> str:
    """Where a file can be had under this name: the same bytes may have several."""
    return f"{address(request, f'{PATH}/{document_id}')}?{urlencode({'name': filename})}"


def _described(request: Request, kept: Document, number: int) -> StoredFile:
    return StoredFile(
        id=kept.document_id,
        fileId=number,
        filename=kept.filename,
        mime=kept.mime,
        size=kept.size,
        created_at=kept.created_at,
        href=address(request, f"{PATH}/{kept.document_id}"),
    )


def _name(sent: str | None) -> str:
    """One line to show, without folders in front of it."""
    last = clean_text(sent or "").replace("\\", "/").rpartition("/")[2]
    line = "".join(c for c in last if c.isprintable()).strip(". ")
    return line[-_NAME:] or "file"


def _mime(sent: str | None) -> str | None:
    """None if the type cannot be one, or says nothing: Office files are archives for whoever does not know them."""
    kind = (sent or "").partition(";")[0].strip().lower()
    return kind if _MIME.fullmatch(kind) and kind not in _GENERIC else None


def _headers(found: Document, kind: str) -> dict[str, str]:
    plain = re.sub(r"[^A-Za-z0-9 ._()+-]", "_", found.filename)
    return {
        "Content-Type": kind,
        "Content-Length": str(found.size),
        "Content-Disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(found.filename, safe='')}",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "private, no-cache",
    }
