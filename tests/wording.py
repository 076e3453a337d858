"""Counts words that no engineer would search for, and fails if there are more of them than the last commit left.

``python -m tests.wording`` is part of ``make check``; ``--show`` lists every place. The counts in ``ALLOWED`` only
fall.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
WORDS = re.compile(r"\b(whoever|nobody|somebody|anew|he|his|him|told|stands|says so)\b", re.IGNORECASE)
SUFFIXES = {"", ".py", ".md", ".mjs", ".ts", ".tsx", ".sql", ".toml", ".yaml"}
ALLOWED = {
    "src": 43,
    "docs": 0,
    "examples": 0,
    "console/src": 0,
    "clients/typescript": 0,
    "console/build.py": 0,
    "console/lock.py": 0,
    "benchmarks": 0,
    "README.md": 0,
    "ARCHITECTURE.md": 0,
    "CHANGELOG.md": 0,
    "CONTRIBUTING.md": 0,
    "Makefile": 0,
    "hatch_build.py": 0,
    "pyproject.toml": 0,
}
NOT_OURS = {"node_modules", "dist"}
GERMAN = re.compile(r"\bde\.(ts|tsx|py)$")


def places(area: str) -> Iterator[str]:
    """Every line of an area with such a word."""
    start = ROOT / area
    for path in sorted(start.rglob("*")) if start.is_dir() else [start]:
        if not path.is_file() or path.suffix not in SUFFIXES or NOT_OURS & set(path.parts) or GERMAN.search(path.name):
            continue
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            if WORDS.search(line):
                yield f"{path.relative_to(ROOT)}:{number}: {line.strip()}"


def main() -> int:
    failed = False
    for area, allowed in ALLOWED.items():
        found = list(places(area))
        if "--show" in sys.argv:
            sys.stdout.write("".join(f"{line}\n" for line in found))
        if len(found) > allowed:
            failed = True
            lines = [
                f"{area}: {len(found)} lines with words that are not allowed, {allowed} before; see CONTRIBUTING.md"
            ]
            sys.stdout.write("".join(f"{line}\n" for line in [*lines, *found[-10:]]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
