"""File type detection by content (magic numbers); by extension only where that is ambiguous.

Of images the header is all that is read: format and dimensions. The pixels are not decoded.
"""

import struct
import zipfile
from io import BytesIO

from stellwerk.errors import ExtractionError
from stellwerk.workflows.documents.contents import ContentItem
from stellwerk.workflows.documents.readers.items import Source, format_bytes, make_item
from stellwerk.workflows.documents.readers.text import decoded

IMAGES = {
    b"\x89PNG\r\n\x1a\n": "png",
    b"\xff\xd8\xff": "jpeg",
    b"GIF87a": "gif",
    b"GIF89a": "gif",
    b"BM": "bmp",
    b"II*\0": "tiff",
    b"MM\0*": "tiff",
}
MARKUP = {"md": "md", "markdown": "md", "html": "html", "htm": "html", "xhtml": "html", "eml": "eml"}
TABLES_AND_DATA = {"csv": "csv", "tsv": "csv", "json": "json"}
_OFFICE = {"word/": "docx", "xl/": "xlsx", "ppt/": "pptx"}
_BINARY = {"pdf", "docx", "xlsx", "pptx", "zip", "png", "jpg", "jpeg", "gif", "bmp", "tif", "tiff", "webp"}
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_PACKED = (b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07", b"\x1f\x8b\x08", b"BZh", b"\xfd7zXZ\x00")
ARCHIVE_EXTENSIONS = {"zip", "7z", "rar", "gz", "tgz", "bz2", "xz", "tar", "jar"}
_PDF = b"%PDF-"
_BEGIN = 1024
"""The first bytes, within which a PDF header may be."""
_HTML = ("<!doctype html", "<html")
_FRAMES = set(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""The segments of a JPEG that have its dimensions."""


def kind_of(source: Source) -> str:
    """The name of its reader.

    Raises:
        ExtractionError: there is no reader for such files, or this one cannot be read.
    """
    data = source.data
    if not data.strip(b"\0 \t\r\n"):
        raise ExtractionError("document_empty")
    return _by_beginning(data) or _as_text(source)


def is_archive(source: Source) -> bool:
    return source.ext in ARCHIVE_EXTENSIONS or source.data.startswith(_PACKED)


def _by_beginning(data: bytes) -> str | None:
    if data.startswith(_ZIP):
        return _zipped(data)
    if data.startswith(_OLE):
        raise ExtractionError(*_old_office(data))
    if data.startswith(_PACKED):
        raise ExtractionError("document_unsupported", "of archives, only zip is opened")
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image"
    if data.startswith(tuple(IMAGES)) and not (data.startswith(b"BM") and decoded(data[:_BEGIN])):
        return "image"
    pdf = data.startswith(_PDF) or (_PDF in data[:_BEGIN] and decoded(data) is None)
    return "pdf" if pdf else None


def _zipped(data: bytes) -> str:
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise ExtractionError("document_corrupt", str(error)) from error
    if "[Content_Types].xml" in names:
        for folder, kind in _OFFICE.items():
            if any(name.startswith(folder) for name in names):
                return kind
    return "zip"


def _old_office(data: bytes) -> tuple[str, str]:
    if "EncryptedPackage".encode("utf-16-le") in data:
        return "document_encrypted", ""
    return "document_unsupported", "it is a file of an old Office; save it as docx, xlsx or pptx"


def _as_text(source: Source) -> str:
    text = decoded(source.data)
    if text is None:
        if source.ext in _BINARY:
            raise ExtractionError("document_corrupt", f"it does not look like a file of the kind {source.ext}")
        raise ExtractionError("document_unsupported")
    if not text.text.strip():
        raise ExtractionError("document_empty")
    begin = text.text[:_BEGIN].lstrip().lower()
    if begin.startswith(_HTML):
        return "html"
    if begin.startswith("{\\rtf"):
        raise ExtractionError("document_unsupported", "it is RTF; save it as docx")
    return (MARKUP | TABLES_AND_DATA).get(source.ext, "txt")


def read_image(source: Source) -> list[ContentItem]:
    data = source.data
    form = next((name for magic, name in IMAGES.items() if data.startswith(magic)), "webp")
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
