"""File type detection by content (magic numbers); by extension only where that is ambiguous.

Zip archives, Office files included, are opened within limits against zip bombs (files, sizes,
compression ratio). Of images only the header is read: format and dimensions.
"""

import struct
import zipfile
import zlib
from io import BytesIO

from stellwerk.errors import ExtractionError
from stellwerk.workflows.documents.contents import ContentItem, Source, format_bytes, make_item
from stellwerk.workflows.documents.readers.text import decoded

_IMAGES = {
    b"\x89PNG\r\n\x1a\n": "png",
    b"\xff\xd8\xff": "jpeg",
    b"GIF87a": "gif",
    b"GIF89a": "gif",
    b"BM": "bmp",
    b"II*\0": "tiff",
    b"MM\0*": "tiff",
}
_TEXTS = {
    **{"md": "md", "markdown": "md", "html": "html", "htm": "html", "xhtml": "html"},
    **{"eml": "eml", "csv": "csv", "tsv": "csv", "json": "json"},
}
_OFFICE = {"word/": "docx", "xl/": "xlsx", "ppt/": "pptx"}
_BINARY = {"pdf", "docx", "xlsx", "pptx", "zip", "png", "jpg", "jpeg", "gif", "bmp", "tif", "tiff", "webp"}
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_PACKED = (b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07", b"\x1f\x8b\x08", b"BZh", b"\xfd7zXZ\x00")
_ARCHIVES = {"zip", "7z", "rar", "gz", "tgz", "bz2", "xz", "tar", "jar"}
_PDF = b"%PDF-"
_BEGIN = 1024
"""The first bytes, within which a PDF header may be."""
_HTML = ("<!doctype html", "<html")
MEMBERS = 1000
OFFICE_MEMBERS = 10_000
_UNPACKED = 200 * 1024 * 1024
_RATIO = 100
_HARMLESS = 16 * 1024 * 1024
"""Bytes up to which any compression ratio is accepted."""
_ENCRYPTED = 0x1
ZIP_ERRORS = (zipfile.BadZipFile, OSError, EOFError, ValueError, NotImplementedError, RuntimeError, zlib.error)
"""Raised by the standard library for malformed archives."""
_FRAMES = set(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""The segments of a JPEG that have its dimensions."""


def kind_of(source: Source) -> str:
    """The name of its reader.

    Raises:
        ExtractionError: there is no reader for such files, or this one cannot be read.
    """
    if not source.data.strip(b"\0 \t\r\n"):
        raise ExtractionError("document_empty")
    return _by_beginning(source.data) or _as_text(source)


def is_archive(source: Source) -> bool:
    return source.ext in _ARCHIVES or source.data.startswith(_PACKED)


def _by_beginning(data: bytes) -> str | None:
    if data.startswith(_ZIP):
        return _zipped(data)
    if data.startswith(_OLE):
        if "EncryptedPackage".encode("utf-16-le") in data:
            raise ExtractionError("document_encrypted")
        old = "it is a file of an old Office; save it as docx, xlsx or pptx"
        raise ExtractionError("document_unsupported", old)
    if data.startswith(_PACKED):
        raise ExtractionError("document_unsupported", "of archives, only zip is opened")
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image"
    if data.startswith(tuple(_IMAGES)) and not (data.startswith(b"BM") and decoded(data[:_BEGIN])):
        return "image"
    pdf = data.startswith(_PDF) or (_PDF in data[:_BEGIN] and decoded(data) is None)
    return "pdf" if pdf else None


def _zipped(data: bytes) -> str:
    names = _unchecked(data).namelist()
    if "[Content_Types].xml" in names:
        for folder, kind in _OFFICE.items():
            if any(name.startswith(folder) for name in names):
                return kind
    return "zip"


def opened(data: bytes, *, members: int = MEMBERS) -> zipfile.ZipFile:
    """Open a zip whose table of contents is within the limits.

    Raises:
        ExtractionError: it is not.
    """
    archive = _unchecked(data)
    count = len(archive.infolist())
    if count > members:
        raise ExtractionError("document_too_many_members", f"{count:,}, and {members:,} are taken")
    files = [member for member in archive.infolist() if not member.is_dir()]
    if files and all(is_encrypted(member) for member in files):
        raise ExtractionError("document_encrypted")
    if (unpacked := sum(member.file_size for member in files)) > _UNPACKED:
        limit = f"{format_bytes(unpacked)} unpacked, and {format_bytes(_UNPACKED)} are taken"
        raise ExtractionError("document_too_large", limit)
    for member in files:
        if member.file_size > max(_HARMLESS, member.compress_size * _RATIO):
            problem = "a file in it grows more than a hundredfold when unpacked"
            raise ExtractionError("document_too_large", problem)
    return archive


def _unchecked(data: bytes) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(BytesIO(data))
    except ZIP_ERRORS as error:
        raise ExtractionError("document_corrupt", str(error)) from error


def is_encrypted(member: zipfile.ZipInfo) -> bool:
    return bool(member.flag_bits & _ENCRYPTED)


def _as_text(source: Source) -> str:
    text = decoded(source.data)
    if text is None:
        if source.ext in _BINARY:
            problem = f"it does not look like a file of the kind {source.ext}"
            raise ExtractionError("document_corrupt", problem)
        raise ExtractionError("document_unsupported")
    if not text.text.strip():
        raise ExtractionError("document_empty")
    begin = text.text[:_BEGIN].lstrip().lower()
    if begin.startswith(_HTML):
        return "html"
    if begin.startswith("{\\rtf"):
        raise ExtractionError("document_unsupported", "it is RTF; save it as docx")
    return _TEXTS.get(source.ext, "txt")


def read_image(source: Source) -> list[ContentItem]:
    data = source.data
    form = next((name for magic, name in _IMAGES.items() if data.startswith(magic)), "webp")
    try:
        size = _size(data, form)
    except (struct.error, IndexError) as error:
        raise ExtractionError("document_corrupt", f"a {form} that ends before it has begun") from error
    measured = f"{size[0]} × {size[1]} pixels, " if size else ""
    summary = f"Image, {form.upper()}, {measured}{format_bytes(len(data))}"
    width, height = size or (None, None)
    return [make_item(source, f"image/{form}", "", summary, width=width, height=height)]


def _size(data: bytes, form: str) -> tuple[int, int] | None:
    match form:
        case "png":
            return _pair(">II", data, 16)
        case "gif":
            return _pair("<HH", data, 6)
        case "bmp":
            return _pair("<ii", data, 18)
        case "jpeg":
            return _jpeg(data)
        case "webp" if data[12:16] == b"VP8X":
            return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
        case _:
            return None


def _pair(layout: str, data: bytes, offset: int) -> tuple[int, int]:
    first, second = struct.unpack_from(layout, data, offset)
    return int(first), abs(int(second))


def _jpeg(data: bytes) -> tuple[int, int] | None:
    at = 2
    while data[at] == 0xFF:
        marker = data[at + 1]
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return int(width), int(height)
        at += 2 + int(struct.unpack_from(">H", data, at + 2)[0])
    return None
