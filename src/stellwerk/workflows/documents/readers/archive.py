"""Readers of zip archives and mails: files become items; nested archives are only listed.

Limits against zip bombs (files, sizes, compression ratio) are checked before anything is unpacked.
They apply to Office files, too; no parser of those expands XML entities.
"""

import zipfile
import zlib
from email import message_from_bytes
from email.message import EmailMessage, MIMEPart
from email.policy import default
from io import BytesIO
from itertools import islice

from stellwerk.errors import ExtractionError
from stellwerk.workflows.documents.contents import ContentItem
from stellwerk.workflows.documents.readers.file_types import is_archive, kind_of
from stellwerk.workflows.documents.readers.items import (
    Reader,
    Source,
    format_bytes,
    language_of,
    make_item,
    text_summary,
)
from stellwerk.workflows.documents.readers.text import decoded, markup_to_text

_HEADERS = ("From", "To", "Cc", "Date", "Subject")
_LARGEST_MEMBER = 32 * 1024 * 1024
_UNKNOWN = "application/octet-stream"
MEMBERS = 1000
OFFICE_MEMBERS = 10_000
UNPACKED = 200 * 1024 * 1024
RATIO = 100
_HARMLESS = 16 * 1024 * 1024
"""Bytes up to which any compression ratio is accepted."""
_ENCRYPTED = 0x1
ZIP_ERRORS = (zipfile.BadZipFile, OSError, EOFError, ValueError, NotImplementedError, RuntimeError, zlib.error)
"""Raised by the standard library for malformed archives."""


def opened(data: bytes, *, members: int = MEMBERS) -> zipfile.ZipFile:
    """Open a zip whose table of contents is within the limits.

    Raises:
        ExtractionError: it is not.
    """
    try:
        archive = zipfile.ZipFile(BytesIO(data))
    except ZIP_ERRORS as error:
        raise ExtractionError("document_corrupt", str(error)) from error
    _check_contents(archive.infolist(), members)
    return archive


def _check_contents(members: list[zipfile.ZipInfo], most: int) -> None:
    if len(members) > most:
        raise ExtractionError("document_too_many_members", f"{len(members):,}, and {most:,} are taken")
    files = [member for member in members if not member.is_dir()]
    if files and all(is_encrypted(member) for member in files):
        raise ExtractionError("document_encrypted")
    if (unpacked := sum(member.file_size for member in files)) > UNPACKED:
        limit = f"{format_bytes(unpacked)} unpacked, and {format_bytes(UNPACKED)} are taken"
        raise ExtractionError("document_too_large", limit)
    for member in files:
        if member.file_size > max(_HARMLESS, member.compress_size * RATIO):
            raise ExtractionError("document_too_large", "a file in it grows more than a hundredfold when unpacked")


def is_encrypted(member: zipfile.ZipInfo) -> bool:
    return bool(member.flag_bits & _ENCRYPTED)


class ContainerReaders:
    """The readers of archives and mails, which use those of all other file types."""

    def __init__(self, readers: dict[str, Reader]) -> None:
        self._readers = readers

    def read_zip(self, source: Source) -> list[ContentItem]:
        archive = opened(source.data)
        members = [member for member in archive.infolist() if not member.is_dir()]
        items = [item for member in members for item in self._member(source, archive, member)]
        if not items:
            raise ExtractionError("document_empty", "no file is in the archive")
        return items

    def _member(self, source: Source, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> list[ContentItem]:
        unread = source.member(member.filename, b"")
        if is_encrypted(member):
            return [_unread(unread, ExtractionError("document_encrypted"))]
        if member.file_size > _LARGEST_MEMBER:
            return [_unread(unread, ExtractionError("document_too_large"))]
        try:
            data = archive.read(member)
        except ZIP_ERRORS as error:
            return [_unread(unread, ExtractionError("document_corrupt", str(error)))]
        return self._inside(source.member(member.filename, data))

    def read_mail(self, source: Source) -> list[ContentItem]:
        try:
            mail = message_from_bytes(source.data, policy=default)
            text = _letter(mail)
            attached = list(islice(mail.iter_attachments(), MEMBERS + 1))
        except (LookupError, ValueError, AttributeError, TypeError, KeyError) as error:
            raise ExtractionError("document_corrupt", "this mail is written against the rules") from error
        if len(attached) > MEMBERS:
            raise ExtractionError("document_too_many_members", f"{MEMBERS:,} are taken")
        language = language_of(text)
        summary = text_summary("Mail", text, language)
        items = [make_item(source, "message/rfc822", text, summary, ext="eml", language=language)]
        for part in attached:
            items += self._inside(source.member(part.get_filename("attachment"), _payload(part)))
        return items

    def _inside(self, member: Source) -> list[ContentItem]:
        """The items of one file inside; if it cannot be read, an item that reports it."""
        try:
            kind = kind_of(member)
            if kind == "zip":
                return [_named(member, "Archive inside of an archive")]
            return self._readers[kind](member)
        except ExtractionError as error:
            if is_archive(member):
                return [_named(member, "Archive inside of an archive")]
            return [_unread(member, error)]


def _letter(mail: EmailMessage) -> str:
    body = mail.get_body(("plain", "html"))
    said = _said(body) if body is not None else ""
    if body is not None and body.get_content_subtype() == "html":
        said = markup_to_text(said)[1]
    heads = [f"{name}: {mail[name]}" for name in _HEADERS if mail[name]]
    return "\n".join([*heads, "", said.replace("\r\n", "\n").strip(), ""])


def _said(body: MIMEPart) -> str:
    try:
        return str(body.get_content())
    except LookupError:  # an unknown encoding
        found = decoded(_payload(body))
        return found.text if found else ""


def _payload(part: MIMEPart) -> bytes:
    content = part.get_payload(decode=True)
    return content if isinstance(content, bytes) else part.as_bytes()


def _named(member: Source, what: str) -> ContentItem:
    summary = f"{what}, {format_bytes(len(member.data))}; it is not opened."
    return make_item(member, _UNKNOWN, "", summary, data=None, size=len(member.data))


def _unread(member: Source, error: ExtractionError) -> ContentItem:
    return make_item(member, _UNKNOWN, "", f"Not read: {error.message}", data=None, error=error.code)
