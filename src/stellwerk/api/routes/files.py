"""/files: uploads and downloads.

Name and type of a file are not trusted: the name is text to show, the type is a label.
A download is an attachment that a browser neither opens nor sniffs.
"""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Path, Query, Request, Response
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException

from stellwerk.api.http.auth import RequireRead, RequireRun
from stellwerk.api.schema.openapi import STORED, documented_router, returns, returns_text
from stellwerk.api.schema.responses import StoredFile
from stellwerk.api.schema.shared import Json, address
from stellwerk.api.services import Services
from stellwerk.api.streams.reader import TimedStream
from stellwerk.documents.files import not_written
from stellwerk.documents.mimes import TYPES, extension
from stellwerk.documents.store import Document, unknown_file
from stellwerk.envelope.to_json import clean_text
from stellwerk.errors import InvalidField, InvalidInput, WrongMediaType

FIELD = "file"
PATH = "/files"
_FIELDS = 8
_FIELD_SIZE = 64 * 1024
_NAME = 200
_MIME = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/[a-z0-9][a-z0-9!#$&^_.+-]{0,63}")
_AS_IT_IS = re.compile(
    r"text/(plain|markdown|csv)|application/(json|pdf|zip)"
    r"|image/(png|jpeg|gif|webp)|(audio|video)/.+"
)
"""Types that a download may name; all others, such as HTML and SVG, go as plain bytes."""
_BYTES = "application/octet-stream"
_GENERIC = {_BYTES, "binary/octet-stream", "application/zip", "application/x-zip-compressed"}
FileId = Annotated[str, Path(description="the id of a file", examples=["9f86d081884c7d65"])]
Called = Annotated[str | None, Query(description="the name to download it by", max_length=1000)]
_REFUSED = ("bad_form", "too_large", "not_multipart", "missing_file", *STORED)


def routes(services: Services) -> APIRouter:
    router = documented_router("files", PATH)
    documents = services.documents
    stored_once = "Stored; the same bytes have the same id"

    @router.post("", **returns(201, StoredFile, stored_once, *_REFUSED))
    async def upload(who: RequireRun, request: Request) -> Response:
        """Upload a file."""
        if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
            raise WrongMediaType(f"a file is sent as multipart/form-data, in the field {FIELD!r}")
        async with _form(request) as form:
            sent = form.get(FIELD)
            if not isinstance(sent, UploadFile):
                said = f"{FIELD}: send the file in this field of the form, with a file name"
                raise InvalidField(said, field=FIELD)
            kept = await documents.take(
                who.tenant,
                sent.file,
                filename=_name(sent.filename),
                mime=_mime(sent.content_type),
                admit=services.quotas.upload_check(who.tenant),
            )
        numbers = await services.numbers.of(who.tenant, [kept.document_id])
        stored = StoredFile(
            id=kept.document_id,
            fileId=numbers.get(kept.document_id, 0),
            filename=kept.filename,
            mime=kept.mime,
            size=kept.size,
            created_at=kept.created_at,
            href=address(request, f"{PATH}/{kept.document_id}"),
        )
        return Json(stored, 201, {"Location": stored.href})

    not_found = ("unknown_file", "invalid_file_name", "storage_gone")

    @router.get("/{file_id}", **returns_text("*/*", "file", "Its bytes, as an attachment", *not_found))
    async def download(who: RequireRead, file_id: FileId, name: Called = None) -> Response:
        """Download a file."""
        found = await documents.find(who.tenant, file_id)
        if found is None:
            raise unknown_file(file_id)
        if name:
            called = _name(name)
            found = replace(found, filename=called, mime=TYPES.get(extension(called), found.mime))
        kind = found.mime if _AS_IT_IS.fullmatch(found.mime) else _BYTES
        if kind.startswith("text/") and await documents.is_utf8(who.tenant, found):
            kind = f"{kind}; charset=utf-8"
        return TimedStream(
            documents.pieces(who.tenant, file_id),
            services.streams.timings,
            is_valid=lambda: services.credentials.is_valid(who),
            headers=_headers(found, kind),
        )

    undeletable = ("unknown_file", "file_in_use", *STORED)

    @router.delete("/{file_id}", **returns(204, None, "Deleted", *undeletable))
    async def delete(who: RequireRun, file_id: FileId) -> None:
        """Delete an upload; its bytes go with the last reference."""
        if await documents.find(who.tenant, file_id) is None:
            raise unknown_file(file_id)
        await documents.drop(who.tenant, file_id)

    return router


@asynccontextmanager
async def _form(request: Request) -> AsyncIterator[FormData]:
    """What is large in it lies on the disk; all of it is let go at the end."""
    try:
        form = await request.form(max_files=1, max_fields=_FIELDS, max_part_size=_FIELD_SIZE)
    except HTTPException as error:
        said = f"the form cannot be read ({error.detail}); send one file and little else"
        raise InvalidInput(said) from error
    except OSError as error:
        raise not_written(error, "the folder for temporary files (TMPDIR)") from error
    try:
        yield form
    finally:
        await form.close()


def _name(sent: str | None) -> str:
    """One line to show, without folders in front of it."""
    last = clean_text(sent or "").replace("\\", "/").rpartition("/")[2]
    line = "".join(c for c in last if c.isprintable()).strip(". ")
    return line[-_NAME:] or "file"


def _mime(sent: str | None) -> str | None:
    """None if it is invalid or generic: browsers that do not know Office files send them as archives."""
    kind = (sent or "").partition(";")[0].strip().lower()
    return kind if _MIME.fullmatch(kind) and kind not in _GENERIC else None


def _headers(found: Document, kind: str) -> dict[str, str]:
    plain = re.sub(r"[^A-Za-z0-9 ._()+-]", "_", found.filename)
    encoded = quote(found.filename, safe="")
    return {
        "Content-Type": kind,
        "Content-Length": str(found.size),
        "Content-Disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{encoded}",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "private, no-cache",
    }
