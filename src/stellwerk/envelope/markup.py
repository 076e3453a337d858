"""Text as Markdown shows it: escaped, so that nothing in it is markup."""

import re

_MARKUP = re.compile(r"([\\`*_\[\]<>|~&$])")
_LIST_OR_HEADING = re.compile(r"^([0-9]{0,9})([-+#=.)])")


def escaped(text: str) -> str:
    """On one line."""
    return _LIST_OR_HEADING.sub(r"\1\\\2", _MARKUP.sub(r"\\\1", " ".join(text.split())))


def cell(text: str) -> str:
    """In a row of a table."""
    return " ".join(text.splitlines()).replace("|", "\\|")
