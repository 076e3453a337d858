"""YAML text to parse events, in bounded time: nothing is built here, and nothing is looked up.

The pure scanner of ruamel.yaml goes character by character, and looks far ahead
where brackets are nested. A text of 256 KiB can so keep it busy for half a
second. Here gaps, JSON strings and simple names are read in one step, steps are
counted, and brackets and scalars are refused as soon as there are too many.
"""

import json
import re
from collections import Counter, deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from ruamel.yaml import tokens
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import Event
from ruamel.yaml.parser import Parser
from ruamel.yaml.reader import Reader, ReaderError
from ruamel.yaml.scanner import Scanner

DEPTH_LIMIT = 20
MARKUP_LIMIT = 20
NODE_LIMIT = 3_000
STEP_LIMIT = 20_000
"""Movements of the scanner: a node takes about four, a line of a block three, a word of a plain text two."""

_GAP = re.compile(r"(?: *+(?:#[^\n\0]*+)?\n)*+ *+(?:#[^\n\0]*+)?")
_FLOW_GAP = re.compile(r"(?:[ \t]*+(?:#[^\n\0]*+)?\n)*+[ \t]*+(?:#[^\n\0]*+)?")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*+(?=:[ \n])")
_FLOW_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*+(?=:[ \n]|[,\]}])")
_JSON = json.JSONDecoder(strict=False)
_LONG_WORD = re.compile(r"[^\s,:\[\]{}#]{4096}")
_JSON_STRING = re.compile(r'"[^"\\\n]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\n]*+)*+"')


class Place(NamedTuple):
    """Counted from 1, as editors do."""

    line: int
    column: int


class Unreadable(Exception):
    """The text is no YAML, or more of it than is read."""

    def __init__(self, message: str, place: Place | None = None) -> None:
        super().__init__(message)
        self.message, self.place = message, place


class Mark(NamedTuple):
    """The scanner's idea of a place, counted from 0."""

    line: int
    column: int

    def place(self) -> Place:
        return Place(self.line + 1, self.column + 1)


class _Reader(Reader):
    """Over a text that is whole, checked, and has no line break but ``\\n``."""

    def reset_reader(self) -> None:
        super().reset_reader()
        self.steps = 0

    def peek(self, index: int = 0) -> str:
        return self.buffer[self.pointer + index]

    def prefix(self, length: int = 1) -> str:
        return self.buffer[self.pointer : self.pointer + length]

    def forward(self, length: int = 1) -> None:
        self.steps += 1
        if self.steps > STEP_LIMIT:
            raise Unreadable(
                "this is too intricate to read; write long texts as blocks (key: |), or make two systems of it",
                self.get_mark().place(),
            )
        start, end = self.pointer, self.pointer + length
        self.pointer, self.index = end, self.index + length
        lines = self.buffer.count("\n", start, end)
        self.line += lines
        self.column = end - self.buffer.rfind("\n", start, end) - 1 if lines else self.column + length

    def get_mark(self) -> Mark:
        return Mark(self.line, self.column)


class _Scanner(Scanner):
    def reset_scanner(self) -> None:
        super().reset_scanner()
        self.tokens: Any = deque(self.tokens)  # the parser takes them from the front
        self.counts = Counter[str]()

    def fetch_all(self) -> None:
        """Every token before the parser asks for the first: it need not look ahead then."""
        while not self.done:
            self.fetch_more_tokens()

    def check_token(self, *choices: Any) -> bool:
        return bool(self.tokens) and (not choices or isinstance(self.tokens[0], choices))

    def get_token(self) -> Any:
        self.tokens_taken += 1
        return self.tokens.popleft()

    def _count(self, kind: str) -> int:
        """Of no kind can there be more than there are nodes."""
        self.counts[kind] += 1
        if self.counts[kind] > NODE_LIMIT:
            raise too_many_nodes(self.reader.get_mark().place())
        return self.counts[kind]

    def add_indent(self, column: int) -> bool:
        if len(self.indents) > DEPTH_LIMIT:
            raise too_deep(self.reader.get_mark().place())
        return super().add_indent(column)

    def fetch_flow_collection_start(self, TokenClass: Any, to_push: str) -> None:
        self._count("collection")
        if self.flow_level >= DEPTH_LIMIT:
            raise too_deep(self.reader.get_mark().place())
        super().fetch_flow_collection_start(TokenClass, to_push)

    def fetch_block_entry(self) -> None:
        self._count("item")
        super().fetch_block_entry()

    def fetch_key(self) -> None:
        self._count("key")
        super().fetch_key()

    def fetch_value(self) -> None:
        self._count("value")
        super().fetch_value()

    def fetch_directive(self) -> None:
        raise Unreadable("directives (%) are not read; remove the line", self.reader.get_mark().place())

    def fetch_document_indicator(self, TokenClass: Any) -> None:
        if self._count("document") > 2:  # one to begin, one to end
            raise several_documents(self.reader.get_mark().place())
        super().fetch_document_indicator(TokenClass)

    def scan_anchor(self, TokenClass: Any) -> Any:
        self._count_markup()
        return super().scan_anchor(TokenClass)

    def scan_tag(self) -> Any:
        self._count_markup()
        return super().scan_tag()

    def _refuse_long_word(self) -> None:
        if _LONG_WORD.match(self.reader.buffer, self.reader.pointer):
            raise Unreadable(
                "this word has more than 4096 characters; put it in quotes", self.reader.get_mark().place()
            )

    def _count_markup(self) -> None:
        """Anchors, aliases and tags are told one by one, as long as there are few."""
        self._refuse_long_word()
        if self._count("markup") > MARKUP_LIMIT:
            raise Unreadable("anchors, aliases and tags are not read", self.reader.get_mark().place())

    def scan_to_next_token(self) -> None:
        reader = self.reader
        gap = (_FLOW_GAP if self.flow_context else _GAP).match(reader.buffer, reader.pointer)
        if gap and gap.end() > gap.start():
            line = reader.line
            reader.forward(gap.end() - gap.start())
            if reader.line > line and not self.flow_context:
                self.allow_simple_key = True

    def scan_plain(self) -> Any:
        self._count("scalar")
        name = (_FLOW_NAME if self.flow_context else _NAME).match(self.reader.buffer, self.reader.pointer)
        if name is None:
            self._refuse_long_word()
            return super().scan_plain()
        self.allow_simple_key = False
        return self._scalar(name, name[0], None)

    def scan_flow_scalar(self, style: str) -> Any:
        self._count("scalar")
        found = _JSON_STRING.match(self.reader.buffer, self.reader.pointer) if style == '"' else None
        if found is None:
            return super().scan_flow_scalar(style)
        return self._scalar(found, _JSON.decode(found[0]), style)

    def _scalar(self, found: re.Match[str], value: str, style: str | None) -> tokens.ScalarToken:
        start = self.reader.get_mark()
        self.reader.forward(found.end() - found.start())
        return tokens.ScalarToken(value, style is None, start, self.reader.get_mark(), style)

    def scan_block_scalar(self, style: Any, rt: bool | None = False) -> Any:
        self._count("scalar")
        return super().scan_block_scalar(style, rt)

    def scan_block_scalar_breaks(self, indent: int) -> tuple[list[str], Mark]:
        reader, breaks, end = self.reader, list[str](), self.reader.get_mark()
        while True:
            ahead = reader.prefix(max(indent - reader.column, 0))
            reader.forward(len(ahead) - len(ahead.lstrip(" ")))
            if not (line_break := self.scan_line_break()):
                return breaks, end
            breaks.append(line_break)
            end = reader.get_mark()


def too_many_nodes(place: Place) -> Unreadable:
    return Unreadable(f"there are more than {NODE_LIMIT} keys and values; make two systems of it", place)


def too_deep(place: Place) -> Unreadable:
    return Unreadable(f"this is nested more than {DEPTH_LIMIT} deep; no field of ours is", place)


def several_documents(place: Place) -> Unreadable:
    return Unreadable("there is more than one document; put each system into a file of its own", place)


class _Parts:
    """What reader, scanner and parser find each other by.

    ruamel's own, YAML(), searches a folder for plug-ins each time it is made.
    """

    processing_version = (1, 2)
    comment_handling = None

    def __init__(self) -> None:
        self._resolver = self
        self._reader = self.reader = _Reader(None, self)
        self._scanner = self.scanner = _Scanner(self)
        self._parser = self.parser = Parser(self)


def events(text: str) -> Iterator[Event]:
    """The events of a text whose line breaks are all ``\\n``.

    Raises:
        Unreadable: it is no YAML, or goes beyond a limit.
    """
    parts = _Parts()
    try:
        parts.reader.stream = text
        parts.scanner.fetch_all()
        while parts.parser.check_event():
            yield parts.parser.get_event()
    except YAMLError as error:
        raise Unreadable(_sentence(error), _place(error)) from error
    except (ValueError, OverflowError) as error:  # an escape beyond Unicode, such as "\UFFFFFFFF"
        raise Unreadable(f"this is not YAML: {error}", parts.reader.get_mark().place()) from error


def _sentence(error: YAMLError) -> str:
    if isinstance(error, ReaderError):
        return f"the character U+{error.character:04X} is not allowed; remove it"
    parts = (getattr(error, part, None) for part in ("context", "problem"))
    return f"this is not YAML: {' '.join(part for part in parts if part)}"


def _place(error: YAMLError) -> Place | None:
    marks = (getattr(error, mark, None) for mark in ("problem_mark", "context_mark"))
    return next((mark.place() for mark in marks if isinstance(mark, Mark)), None)
