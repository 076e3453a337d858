"""The data folder, for tools that keep files of their own: that of the server in whose run they are called."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from stellwerk.settings import Settings

_folder: ContextVar[Path | None] = ContextVar("stellwerk_data_folder", default=None)


def data_folder() -> Path:
    """The absolute path of the folder; without a server, as in `stellwerk run`, the one that the settings name."""
    return (_folder.get() or Settings().data).absolute()


@contextmanager
def working_in(data: Path) -> Iterator[None]:
    """Whoever asks inside of the block is told this folder."""
    token = _folder.set(data)
    try:
        yield
    finally:
        _folder.reset(token)
