"""Ids and names as parts of a path."""

from urllib.parse import quote

from stellwerk.errors import InvalidInput


def part(text: str) -> str:
    """Quote one part of a path. Raises ``InvalidInput`` if the path would name something else."""
    if text in ("", ".", ".."):
        raise InvalidInput(f"{text!r} names nothing; say the id or the name of what you mean")
    return quote(text, safe="")
