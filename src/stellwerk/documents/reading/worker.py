"""The child process: its limits first, then the document, then one answer in MessagePack."""

import os
import resource
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

import msgspec

from stellwerk.documents.contents import ContentItem
from stellwerk.documents.reading.archive import Containers
from stellwerk.documents.reading.images import read_image
from stellwerk.documents.reading.kinds import kind_of
from stellwerk.documents.reading.markup import read_html
from stellwerk.documents.reading.office import office_reader
from stellwerk.documents.reading.source import Reader, Source, numbered
from stellwerk.documents.reading.tables import read_csv, read_workbook
from stellwerk.documents.reading.text import read_json, read_markdown, read_text
from stellwerk.errors import ExtractionError
from stellwerk.processes.leaving import leave_with

ITEMS = 2_000
"""Of one document: what there is to say of each is told wherever the document is shown."""
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
_containers = Containers(READERS)
READERS |= {"zip": _containers.read_zip, "eml": _containers.read_mail}


def work(request: dict[str, Any], answer: int) -> NoReturn:
    def tell_failure(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        sys.__excepthook__(kind, error, trace)
        code = "document_too_large" if issubclass(kind, MemoryError) else "document_corrupt"
        _leave(answer, {"code": code, "message": ExtractionError(code).message})

    sys.excepthook = tell_failure
    limit(request["memory"], request["seconds"])
    try:
        items = read_document(Path(request["file"]).read_bytes(), request["ext"])
    except ExtractionError as error:
        _leave(answer, {"code": error.code, "message": error.message})
    _leave(answer, {"items": items})


def read_document(data: bytes, ext: str) -> list[ContentItem]:
    source = Source(data, "", ext)
    items = READERS[kind_of(source)](source)
    if len(items) > ITEMS:
        raise ExtractionError("document_too_many_members", f"{len(items):,} parts, and {ITEMS:,} are taken")
    return numbered(items)


def limit(memory: int, seconds: int) -> None:
    """Neither more memory nor more time, no dump of what was read, no file is written, and nobody is called."""
    sys.dont_write_bytecode = True
    sys.addaudithook(_alone)
    tempfile.tempdir = os.devnull  # else Python looks for a folder by writing into it
    limits = {"CORE": 0, "FSIZE": 0, "NOFILE": _FILES}
    if sys.platform == "linux":  # others cannot, or say that they can and do not
        limits["AS"] = memory
    for name, most in limits.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))  # the first ends it by a signal of its own


def _alone(event: str, _: object) -> None:
    """Whatever a document refers to stays where it is."""
    if event in _CALLS:
        raise PermissionError(f"a document is read without {event}")


def _leave(answer: int, outcome: dict[str, Any]) -> NoReturn:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    leave_with(msgspec.msgpack.encode({**outcome, "peak": peak}), answer)
