"""The data folder, for tools that keep files of their own: a part of that of the server in whose run they are called.

Nothing of the server's lies in this part, least of all the key that secrets are sealed with: what a tool gives to
whoever asks for a file of a name it does not look at closely is at most a file of another tool.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from stellwerk.settings import Settings

_FILES = "files"
_folder: ContextVar[Path | None] = ContextVar("stellwerk_data_folder", default=None)


def data_folder() -> Path:
    """The absolute path; without a server, as in `stellwerk run`, it is below the folder that the settings name."""
    return (_folder.get() or Settings().data).absolute() / _FILES


@contextmanager
def working_in(data: Path) -> Iterator[None]:
    """Whoever asks inside of the block is told the part of this folder that is for tools."""
    token = _folder.set(data)
    try:
        yield
    finally:
        _folder.reset(token)
