"""Blame: an error in one line, and where in somebody's own code it came from."""

import sysconfig
import traceback
from pathlib import Path

import stellwerk
from stellwerk.errors import StellwerkError
from stellwerk.terminal import short
from stellwerk.terminal.plain import one_line

_NOT_THEIRS = tuple(
    str(place)
    for place in (*(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")), *stellwerk.__path__)
)
_LONGEST = 500


def what_happened(error: BaseException, *, debug: bool) -> str:
    """A foreseen error says it itself; of any other its last line, its place, and how to see more."""
    if isinstance(error, StellwerkError):
        return error.message
    line = short.cut(one_line(f"{type(error).__name__}: {error}".removesuffix(": ")), _LONGEST).rstrip(".")
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith((*_NOT_THEIRS, "<"))]
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{line}{place}" if debug else f"{line}{place}; --debug shows the whole stack"
