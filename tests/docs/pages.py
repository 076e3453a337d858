"""The pages of the tutorial as a reader meets them: files to write, commands to type, and what is then to be seen."""

import re
from dataclasses import dataclass
from pathlib import Path

from tests.cli.pseudo_terminal import timeless

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples/tutorial"
PAGES = sorted((ROOT / "docs/tutorial").glob("[0-9]-*.md"))

_BLOCK = re.compile(r"^```(\w+)(?: (\S+))?( \+)?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LINES = r"(?:.*\n)*?.*"
_ID = r"\b[0-9A-Za-z]{22}\b"
_NUMBER = r"(?:(?<=process\\ )|(?<=id:\\ )|(?<=\"position\":)|(?<=\"after\":))\d+"


@dataclass(frozen=True)
class Block:
    """A code block. The words behind its language, which no reader sees, name a file; a plus adds to the file's end."""

    kind: str
    file: str
    added: bool
    text: str


def blocks(page: Path) -> list[Block]:
    found = _BLOCK.findall(page.read_text("utf-8"))
    return [Block(kind, file, bool(plus), text) for kind, file, plus, text in found]


def is_shown(promised: str, seen: str) -> bool:
    """Whether a reader sees what the page shows. Ids, times and some numbers are his own.

    A … leaves out a part of a line; alone in a line, it leaves out as many as it likes.
    """
    lines = [_LINES if line == "…" else _pattern(line) for line in timeless(promised).strip().splitlines()]
    return re.fullmatch("\n".join(lines), timeless(seen).strip()) is not None


def _pattern(line: str) -> str:
    known = re.sub(_ID, lambda _: _ID, re.escape(line))
    return re.sub(_NUMBER, lambda _: r"\d+", known).replace("…", ".*")
