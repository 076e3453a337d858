"""/files: uploads and downloads.

Nothing about a file is believed: its name is text to show, its type is a label.
It is sent as an attachment that a browser neither opens nor guesses about.
"""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from stellwerk.api.services import LOCAL_TENANT, Services
from stellwerk.api.sessions import Json, may
from stellwerk.api.systems import example
from stellwerk.documents.store import Document
from stellwerk.envelope.canonical import clean_text
from stellwerk.errors import InvalidField, InvalidInput, NotFound, StorageFull, WrongMediaType

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
_FILE = {"id": "…", "fileId": "…", "filename": "a.csv", "mime": "text/csv", "size": 120, "href": "/files/…"}
_FORM = {
    "type": "object",
    "required": [FIELD],
    "properties": {FIELD: {"type": "string", "contentMediaType": _BYTES}},
}


def routes(services: Services) -> APIRouter:
    router = APIRouter(prefix=PATH, tags=["files"])

    @router.post(
        "",
        status_code=201,
        summary="Upload a file",
        responses={201: example(_FILE, "stored; the same bytes have the same id"), **may(400, 413, 415, 422, 507)},
        openapi_extra={"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": _FORM}}}},
    )
    async def upload(request: Request) -> Response:
        if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
            raise WrongMediaType(f"a file is sent as multipart/form-data, in the field {FIELD!r}")
        async with _form(request) as form:
            sent = form.get(FIELD)
            if not isinstance(sent, UploadFile):
                raise InvalidField(f"{FIELD}: send the file in this field of the form, with a file name", field=FIELD)
            kept = await services.documents.take(
                LOCAL_TENANT, sent.file, filename=_name(sent.filename), mime=_mime(sent.content_type)
            )
        root = request.scope.get("root_path", "")
        return Json(_described(root, kept), 201, {"Location": f"{root}{PATH}/{kept.document_id}"})

    @router.get(
        "/{file_id}",
        summary="Download a file",
        response_class=Response,
        responses={200: {"description": "its bytes", "content": {_BYTES: {}}}, **may(404)},
    )
    async def download(file_id: str) -> Response:
        found = await services.documents.find(LOCAL_TENANT, file_id)
        if found is None:
            raise _unknown(file_id)
        pieces = services.documents.pieces(LOCAL_TENANT, file_id)
        return StreamingResponse(pieces, headers=_headers(found))

    @router.delete(
        "/{file_id}",
        status_code=204,
        summary="Delete an upload; its bytes go with the last reference",
        responses=may(404, 409),
    )
    async def delete(file_id: str) -> Response:
        if await services.documents.find(LOCAL_TENANT, file_id) is None:
            raise _unknown(file_id)
        await services.documents.drop(LOCAL_TENANT, file_id)
        return Response(status_code=204)

    return router


@asynccontextmanager
async def _form(request: Request) -> AsyncIterator[FormData]:
    """What is large in it lies on the disk; all of it is let go at the end."""
    try:
        form = await request.form(max_files=1, max_fields=_FIELDS, max_part_size=_FIELD_SIZE)
    except HTTPException as error:
        raise InvalidInput(f"the form cannot be read ({error.detail}); send one file and little else") from error
    except OSError as error:
        raise StorageFull from error
    try:
        yield form
    finally:
        await form.close()


def _unknown(file_id: str) -> NotFound:
    return NotFound("file", file_id, remedy="it was deleted, or never there")


def _described(root: str, kept: Document) -> dict[str, Any]:
    named = {"id": kept.document_id, "fileId": kept.document_id, "filename": kept.filename, "mime": kept.mime}
    return {**named, "size": kept.size, "created_at": kept.created_at, "href": f"{root}{PATH}/{kept.document_id}"}


def _name(sent: str | None) -> str:
    """One line to show, without folders in front of it."""
    last = clean_text(sent or "").replace("\\", "/").rpartition("/")[2]
    line = "".join(c for c in last if c.isprintable()).strip(". ")
    return line[-_NAME:] or "file"


def _mime(sent: str | None) -> str | None:
    """None if the type cannot be one."""
    kind = (sent or "").partition(";")[0].strip().lower()
    return kind if _MIME.fullmatch(kind) and kind != _BYTES else None


def _headers(found: Document) -> dict[str, str]:
    plain = re.sub(r"[^A-Za-z0-9 ._()+-]", "_", found.filename)
    return {
        "Content-Type": found.mime if _AS_IT_IS.fullmatch(found.mime) else _BYTES,
        "Content-Length": str(found.size),
        "Content-Disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(found.filename, safe='')}",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "private, no-cache",
    }
