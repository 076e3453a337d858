"""The named statements in PostgreSQL's words: text to text, without a connection.

What differs everywhere is translated here; a statement that needs other words as a whole is in
``sql/postgres/overrides.sql`` under the same name, and takes the same parameters.
"""

import re
from collections.abc import Iterator
from functools import cache
from itertools import count

from stellwerk.database import statements

_PLACEHOLDER = re.compile(r"\?(\d*)|('[^']*')")
_LIST = re.compile(r"SELECT value FROM json_each\((\?\d*)\)")
_NOT_SAME = re.compile(r"IS NOT (\?\d*)")
_BYTES = re.compile(r"\btold\b")
"""The column of session that is ``log_bytes`` here."""
_LARGER = re.compile(r"\bmax\(")


@cache
def queries() -> dict[str, str]:
    """All named statements, with ``$1`` for the first parameter."""
    own = "\n".join(map(statements.script, ("postgres/overrides.sql", "postgres/cluster.sql")))
    named = {**statements.queries(), **statements.parse(own)}
    return {name: translated(text) for name, text in named.items()}


@cache
def with_lists() -> frozenset[str]:
    """The statements that take lists as JSON."""
    return frozenset(name for name, text in queries().items() if "::json" in text)


def translated(text: str) -> str:
    """A statement in the words of both databases, in those of PostgreSQL.

    ``json_each`` gives texts here; where numbers are listed, a statement has an override.
    """
    text = _LIST.sub(r"SELECT json_array_elements_text(\1::json)", text)
    text = _NOT_SAME.sub(r"IS DISTINCT FROM \1", text)
    text = _BYTES.sub("log_bytes", text)
    text = "".join(_greatest(text))
    numbers = count(1)
    return _PLACEHOLDER.sub(lambda found: found[2] or f"${found[1] or next(numbers)}", text)


def _greatest(text: str) -> Iterator[str]:
    """``max`` of two values is ``greatest`` here; of one, it is the aggregate in both."""
    end = 0
    for found in _LARGER.finditer(text):
        yield text[end : found.start()]
        yield "greatest(" if _has_two(text, found.end()) else "max("
        end = found.end()
    yield text[end:]


def _has_two(text: str, at: int) -> bool:
    """Whether a call, whose parenthesis was opened just before ``at``, has more than one argument."""
    depth = 0
    for character in text[at:]:
        if character == "," and depth == 0:
            return True
        depth += (character == "(") - (character == ")")
        if depth < 0:
            break
    return False
