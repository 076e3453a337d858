"""The child process of content extraction: limit resources, read a document, reply with items."""

import os
import resource
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from stellwerk.errors import ExtractionError
from stellwerk.processes.supervisor_script import leave_with
from stellwerk.workflows.documents.contents import ContentItem, Outline, packed
from stellwerk.workflows.documents.readers.archive import ContainerReaders
from stellwerk.workflows.documents.readers.file_types import kind_of, read_image
from stellwerk.workflows.documents.readers.items import Reader, Source, numbered
from stellwerk.workflows.documents.readers.office import office_reader
from stellwerk.workflows.documents.readers.tables import read_csv, read_workbook
from stellwerk.workflows.documents.readers.text import read_html, read_json, read_markdown, read_text

ITEMS = 2_000
"""The most items of one document: each is listed wherever the document is shown."""
_FILES = 64
_CALLS = {"socket.connect", "socket.getaddrinfo", "socket.sendto", "subprocess.Popen", "os.exec", "os.system"}

READERS: dict[str, Reader] = {
    "txt": read_text,
    "md": read_markdown,
    "json": read_json,
    "csv": read_csv,
    "html": read_html,
    "image": read_image,
    "xlsx": read_workbook,
    **{kind: office_reader(kind) for kind in ("docx", "pptx", "pdf")},
}
_containers = ContainerReaders(READERS)
READERS |= {"zip": _containers.read_zip, "eml": _containers.read_mail}


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
    leave_with(packed(items, _peak()), answer)


def read_document(data: bytes, ext: str) -> list[ContentItem]:
    source = Source(data, "", ext)
    items = READERS[kind_of(source)](source)
    if len(items) > ITEMS:
        raise ExtractionError("document_too_many_members", f"{len(items):,} parts, and {ITEMS:,} are taken")
    return numbered(items)


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
    leave_with(Outline(code=error.code, message=error.message, peak=_peak()).packed(), answer)


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
