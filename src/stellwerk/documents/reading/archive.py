"""Zip archives and mails: what is in them becomes items. Archives inside of them are named, not opened."""

import zipfile
from email import message_from_bytes
from email.message import EmailMessage, MIMEPart
from email.policy import default
from itertools import islice

from stellwerk.documents.contents import ContentItem
from stellwerk.documents.reading.kinds import is_archive, kind_of
from stellwerk.documents.reading.language import language_of
from stellwerk.documents.reading.markup import markup_to_text
from stellwerk.documents.reading.packages import BROKEN, MEMBERS, is_encrypted, opened
from stellwerk.documents.reading.source import Reader, Source, make_item
from stellwerk.documents.reading.summaries import bytes_said, text_summary
from stellwerk.documents.reading.text import decoded
from stellwerk.errors import ExtractionError

_HEADERS = ("From", "To", "Cc", "Date", "Subject")
_LARGEST_MEMBER = 32 * 1024 * 1024
_UNKNOWN = "application/octet-stream"


class Containers:
    """Their readers, which need that of every other kind."""

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
        except BROKEN as error:
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
        """What one file inside has to say; that it cannot be read is said there, and harms no other."""
        try:
            kind = kind_of(member)
            if kind == "zip":
                return [_named(member, "Archive inside of an archive")]
            return self._readers[kind](member)
        except ExtractionError as error:
            return [_named(member, "Archive inside of an archive") if is_archive(member) else _unread(member, error)]


def _letter(mail: EmailMessage) -> str:
    body = mail.get_body(("plain", "html"))
    said = _said(body) if body is not None else ""
    if body is not None and body.get_content_subtype() == "html":
        said = markup_to_text(said).text
    heads = [f"{name}: {mail[name]}" for name in _HEADERS if mail[name]]
    return "\n".join([*heads, "", said.replace("\r\n", "\n").strip(), ""])


def _said(body: MIMEPart) -> str:
    try:
        return str(body.get_content())
    except LookupError:  # an encoding that nobody knows
        found = decoded(_payload(body))
        return found.text if found else ""


def _payload(part: MIMEPart) -> bytes:
    content = part.get_payload(decode=True)
    return content if isinstance(content, bytes) else part.as_bytes()


def _named(member: Source, what: str) -> ContentItem:
    summary = f"{what}, {bytes_said(len(member.data))}; it is not opened."
    return make_item(member, _UNKNOWN, "", summary, data=None, size=len(member.data))


def _unread(member: Source, error: ExtractionError) -> ContentItem:
    return make_item(member, _UNKNOWN, "", f"Not read: {error.message}", data=None, error=error.code)
