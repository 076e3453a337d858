"""Named SQL: every statement lies in a file under ``sql/`` and is called by its name.

``-- name: touch_session`` starts a statement; comments above it say what it is
for. Migrations are numbered files, applied once, in order.
"""

import re
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_SQL = files(__package__) / "sql"
_SCRIPTS = ("schema.sql", "derived.sql")


def parse(text: str) -> dict[str, str]:
    """Split a file of named statements; text outside of a name and a semicolon is prose."""
    parts = _NAME.split(text)
    bodies = (body[: body.index(";")].strip() for body in parts[2::2])
    statements = dict(zip(parts[1::2], bodies, strict=True))
    if len(statements) != len(parts) // 2:
        raise ValueError("two statements have the same name")
    return statements


@cache
def queries() -> dict[str, str]:
    """All named statements, of every file that is not a script."""
    names = [path.name for path in _SQL.iterdir() if path.name.endswith(".sql")]
    return parse("\n".join(script(name) for name in names if name not in _SCRIPTS))


@cache
def forgetting() -> tuple[str, ...]:
    """The statements that remove rows of a session; each takes (tenant, session, how many rows)."""
    return tuple(sorted(name for name in queries() if name.startswith("forget_")))


def migrations(folder: str = "migrations") -> list[tuple[int, str]]:
    """(number, script), in order: 0001_foundation.sql is number 1."""
    names = sorted(path.name for path in (_SQL / folder).iterdir() if path.name.endswith(".sql"))
    return [(int(name[:4]), script(f"{folder}/{name}")) for name in names]


def script(name: str) -> str:
    return (_SQL / name).read_text("utf-8")
