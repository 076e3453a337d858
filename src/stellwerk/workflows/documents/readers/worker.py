"""The child process of content extraction: limit resources, read a document, reply with items.

Files inside of archives and mails become items, too; nested archives are only listed.
"""

import email.policy
import os
import resource
import sys
import tempfile
import zipfile
from email.message import EmailMessage, MIMEPart
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from msgspec.structs import replace

from stellwerk.errors import ExtractionError
from stellwerk.processes.supervisor_script import leave_with
from stellwerk.workflows.documents import contents
from stellwerk.workflows.documents.contents import ContentItem, Reader, Source, make_item
from stellwerk.workflows.documents.readers import file_types, office, text

ITEMS = 2_000
"""The most items of one document: each is listed wherever the document is shown."""
_FILES = 64
_CALLS = {
    *("socket.connect", "socket.getaddrinfo", "socket.sendto"),
    *("subprocess.Popen", "os.exec", "os.system"),
}
_HEADERS = ("From", "To", "Cc", "Date", "Subject")
_LARGEST_MEMBER = 32 * 1024 * 1024
_UNKNOWN = "application/octet-stream"


def work(request: dict[str, Any], answer: int) -> NoReturn:
    def tell_failure(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        sys.__excepthook__(kind, error, trace)
        code = "document_too_large" if issubclass(kind, MemoryError) else "document_corrupt"
        _refuse(answer, ExtractionError(code))

    sys.excepthook = tell_failure
    limit(request["memory"], request["seconds"])
    try:
        items = read_document(Path(request["file"]).read_bytes(), request["ext"])
    except ExtractionError as error:
        _refuse(answer, error)
    leave_with(contents.packed(items, _peak()), answer)


def read_document(data: bytes, ext: str) -> list[ContentItem]:
    source = Source(data, "", ext)
    items = READERS[file_types.kind_of(source)](source)
    if len(items) > ITEMS:
        raise ExtractionError("document_too_many_members", f"{len(items):,} parts, and {ITEMS:,} are taken")
    return [replace(item, sequence_nr=number) for number, item in enumerate(items, 1)]


def limit(memory: int, seconds: int) -> None:
    """Limit memory and time; no core dump, no file to write, no network, no subprocess."""
    sys.dont_write_bytecode = True
    sys.addaudithook(_alone)
    tempfile.tempdir = os.devnull  # else Python tests folders by writing into them
    limits = {"CORE": 0, "FSIZE": 0, "NOFILE": _FILES}
    if sys.platform == "linux":  # others lack it, or accept it without effect
        limits["AS"] = memory
    for name, most in limits.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))  # the soft limit sends SIGXCPU


def _alone(event: str, _: object) -> None:
    """An audit hook: references in a document are never followed."""
    if event in _CALLS:
        raise PermissionError(f"a document is read without {event}")


def _refuse(answer: int, error: ExtractionError) -> NoReturn:
    leave_with(contents.Outline(code=error.code, message=error.message, peak=_peak()).packed(), answer)


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def read_zip(source: Source) -> list[ContentItem]:
    archive = file_types.opened(source.data)
    items = list[ContentItem]()
    for member in archive.infolist():
        if member.is_dir():
            continue
        try:
            items += _inside(source.member(member.filename, _unpacked(archive, member)))
        except ExtractionError as error:
            items.append(_unread(source.member(member.filename, b""), error))
    if not items:
        raise ExtractionError("document_empty", "no file is in the archive")
    return items


def _unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    if file_types.is_encrypted(member):
        raise ExtractionError("document_encrypted")
    if member.file_size > _LARGEST_MEMBER:
        raise ExtractionError("document_too_large")
    try:
        return archive.read(member)
    except file_types.ZIP_ERRORS as error:
        raise ExtractionError("document_corrupt", str(error)) from error


def read_mail(source: Source) -> list[ContentItem]:
    try:
        mail = email.message_from_bytes(source.data, policy=email.policy.default)
        letter = _letter(mail)
        attached = list(islice(mail.iter_attachments(), file_types.MEMBERS + 1))
    except (LookupError, ValueError, AttributeError, TypeError, KeyError) as error:
        raise ExtractionError("document_corrupt", "this mail is written against the rules") from error
    if len(attached) > file_types.MEMBERS:
        raise ExtractionError("document_too_many_members", f"{file_types.MEMBERS:,} are taken")
    language = contents.language_of(letter)
    summary = contents.text_summary("Mail", letter, language)
    items = [make_item(source, "message/rfc822", letter, summary, ext="eml", language=language)]
    for part in attached:
        items += _inside(source.member(part.get_filename("attachment"), _payload(part)))
    return items


def _inside(member: Source) -> list[ContentItem]:
    """The items of one file inside; if it cannot be read, an item that reports it."""
    try:
        kind = file_types.kind_of(member)
        if kind != "zip":
            return READERS[kind](member)
    except ExtractionError as error:
        if not file_types.is_archive(member):
            return [_unread(member, error)]
    size = len(member.data)
    summary = f"Archive inside of an archive, {contents.format_bytes(size)}; it is not opened."
    return [make_item(member, _UNKNOWN, "", summary, data=None, size=size)]


def _letter(mail: EmailMessage) -> str:
    body = mail.get_body(("plain", "html"))
    said = _said(body) if body is not None else ""
    if body is not None and body.get_content_subtype() == "html":
        said = text.markup_to_text(said)[1]
    heads = [f"{name}: {mail[name]}" for name in _HEADERS if mail[name]]
    return "\n".join([*heads, "", said.replace("\r\n", "\n").strip(), ""])


def _said(body: MIMEPart) -> str:
    try:
        return str(body.get_content())
    except LookupError:  # an unknown encoding
        found = text.decoded(_payload(body))
        return found.text if found else ""


def _payload(part: MIMEPart) -> bytes:
    content = part.get_payload(decode=True)
    return content if isinstance(content, bytes) else part.as_bytes()


def _unread(member: Source, error: ExtractionError) -> ContentItem:
    return make_item(member, _UNKNOWN, "", f"Not read: {error.message}", data=None, error=error.code)


READERS: dict[str, Reader] = {
    "txt": text.read_text,
    "md": text.read_markdown,
    "json": text.read_json,
    "html": text.read_html,
    "image": file_types.read_image,
    "csv": office.read_csv,
    "xlsx": office.read_workbook,
    **{kind: office.office_reader(kind) for kind in ("docx", "pptx", "pdf")},
    "zip": read_zip,
    "eml": read_mail,
}
