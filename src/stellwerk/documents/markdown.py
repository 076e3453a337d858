"""Markdown as whoever makes documents of it needs it: parsed, as a web page, and its tables. Pure."""

from collections.abc import Iterator, Sequence
from html import escape

from markdown_it import MarkdownIt
from markdown_it.token import Token

_PAGE = """<!doctype html>
<html>
<head><meta charset="utf-8"><title>{title}</title></head>
<body>
{body}</body>
</html>
"""


def parsed(text: str) -> list[Token]:
    return _parser().parse(text)


def to_html(text: str) -> str:
    """A whole page. HTML in the text is shown, not taken over."""
    title = next((line.lstrip("# ") for line in text.splitlines() if line.startswith("#")), "")
    return _PAGE.format(title=escape(title), body=_parser().render(text))


def tables_in(text: str) -> list[list[list[str]]]:
    return [[list(row) for row in rows_of(table)] for table in _tables(parsed(text))]


def rows_of(table: Sequence[Token]) -> Iterator[list[str]]:
    """The text of the cells of a table, from its opening token on."""
    row: list[str] = []
    for token in table:
        if token.type == "tr_open":
            row = []
        elif token.type == "inline":
            row.append(plain(token))
        elif token.type == "tr_close":
            yield row


def plain(inline: Token) -> str:
    return "".join(
        child.content if child.content else " " * child.type.endswith("break") for child in inline.children or ()
    )


def grid(rows: Sequence[Sequence[object]]) -> str:
    """A table as Markdown."""
    lines = [f"| {' | '.join(_cell(value) for value in row)} |" for row in rows]
    rule = f"|{' --- |' * len(rows[0])}" if rows else ""
    return "\n".join([*lines[:1], rule, *lines[1:], ""])


def _cell(value: object) -> str:
    return "" if value is None else " ".join(str(value).split()).replace("|", "\\|")


def _tables(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    table: list[Token] = []
    for token in tokens:
        if token.type == "table_open":
            table = []
        table.append(token)
        if token.type == "table_close":
            yield table


def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable("table")
