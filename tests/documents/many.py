"""Several documents read by one child, one after the other, within the limits that a child has for one.

Most files of the corpus are small, and starting whoever reads them costs more
than reading them. What is about limits has a child of its own, as in a server.
"""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from stellwerk.documents.contents import ContentItem
from stellwerk.documents.extraction import LIMITS
from stellwerk.documents.mimes import extension
from stellwerk.documents.reading.worker import limit, read_document
from stellwerk.errors import ExtractionError


class Told(msgspec.Struct):
    items: tuple[ContentItem, ...] = ()
    code: str | None = None
    message: str = ""


def read_many(files: Mapping[str, bytes]) -> dict[str, Told]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.documents.many"],
        input=msgspec.msgpack.encode(files),
        capture_output=True,
        cwd=Path(__file__).parents[2],
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return msgspec.msgpack.decode(done.stdout, type=dict[str, Told])


def main() -> None:
    files = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=dict[str, bytes])
    limit(LIMITS.memory, LIMITS.cpu_seconds)
    sys.stdout.buffer.write(msgspec.msgpack.encode({name: _told(name, data) for name, data in files.items()}))


def _told(name: str, data: bytes) -> Told:
    try:
        return Told(items=tuple(read_document(data, extension(name))))
    except ExtractionError as error:
        return Told(code=error.code, message=error.message)


if __name__ == "__main__":
    main()
