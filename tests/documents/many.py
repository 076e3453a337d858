"""Several documents read by one child, one after the other, within the limits that a child has for one.

Most files of the corpus are small, and starting a process for each costs more
than reading them. Files that test limits have a child of their own, as in a server.
"""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from stellwerk.documents.mimes import extension
from stellwerk.errors import ExtractionError
from stellwerk.workflows.documents.contents import ContentItem
from stellwerk.workflows.documents.extraction import LIMITS
from stellwerk.workflows.documents.readers.worker import limit, read_document


class Outcome(msgspec.Struct):
    items: tuple[ContentItem, ...] = ()
    code: str | None = None
    message: str = ""


def read_many(files: Mapping[str, bytes]) -> dict[str, Outcome]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.documents.many"],
        input=msgspec.msgpack.encode(files),
        capture_output=True,
        cwd=Path(__file__).parents[2],
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return msgspec.msgpack.decode(done.stdout, type=dict[str, Outcome])


def main() -> None:
    files = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=dict[str, bytes])
    limit(LIMITS.memory, LIMITS.cpu_seconds)
    sys.stdout.buffer.write(msgspec.msgpack.encode({name: _outcome(name, data) for name, data in files.items()}))


def _outcome(name: str, data: bytes) -> Outcome:
    try:
        return Outcome(items=tuple(read_document(data, extension(name))))
    except ExtractionError as error:
        return Outcome(code=error.code, message=error.message)


if __name__ == "__main__":
    main()
