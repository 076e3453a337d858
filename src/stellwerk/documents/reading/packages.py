"""What is packed, looked at before it is unpacked: how many files, how large, how much they grow, and no DTDs."""

import zipfile
import zlib
from io import BytesIO
from xml.parsers import expat

from stellwerk.documents.reading.summaries import bytes_said
from stellwerk.errors import ExtractionError

MEMBERS = 1000
UNPACKED = 200 * 1024 * 1024
RATIO = 100
_HARMLESS = 16 * 1024 * 1024
"""Bytes up to which a member may be packed as tightly as it likes."""
_PIECE = 1 << 16
_ENCRYPTED = 0x1
BROKEN = (zipfile.BadZipFile, OSError, EOFError, ValueError, NotImplementedError, RuntimeError, zlib.error)
"""What the standard library raises when an archive is not what it says."""


class _Begun(BaseException):
    """The root element has begun: no DTD follows."""


def opened(data: bytes, *, members: int = MEMBERS) -> zipfile.ZipFile:
    """A zip that has passed every check that its table of contents allows.

    Raises:
        ExtractionError: it has not.
    """
    try:
        archive = zipfile.ZipFile(BytesIO(data))
    except BROKEN as error:
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
        limit = f"{bytes_said(unpacked)} unpacked, and {bytes_said(UNPACKED)} are taken"
        raise ExtractionError("document_too_large", limit)
    for member in files:
        if member.file_size > max(_HARMLESS, member.compress_size * RATIO):
            raise ExtractionError("document_too_large", "a file in it grows more than a hundredfold when unpacked")


def is_encrypted(member: zipfile.ZipInfo) -> bool:
    return bool(member.flag_bits & _ENCRYPTED)


def check_package(data: bytes) -> None:
    """Of an Office file: the same, and that none of its XML declares entities or anything else of its own.

    Raises:
        ExtractionError: it must not be given to any parser.
    """
    package = opened(data, members=10 * MEMBERS)
    for member in package.infolist():
        if member.filename.endswith((".xml", ".rels")):
            _check_prolog(package, member)


def _check_prolog(package: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = _refuse
    parser.StartElementHandler = _stop
    try:
        with package.open(member) as xml:
            while piece := xml.read(_PIECE):
                parser.Parse(piece)
    except _Begun:
        return
    except (expat.ExpatError, *BROKEN) as error:
        raise ExtractionError("document_corrupt", f"{member.filename[:80]}: {error}") from error


def _refuse(name: str, system: str | None, public: str | None, internal: bool) -> None:
    raise ExtractionError("document_corrupt", "its XML declares entities, which no Office does")


def _stop(name: str, attributes: dict[str, str]) -> None:
    raise _Begun
