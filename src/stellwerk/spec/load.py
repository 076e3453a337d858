"""Text to an agent system, or to the operator's settings; or every problem of the text at once.

YAML 1.2 and JSON are read alike. A text is refused by its size before it is
read, and by its shape before anything is made of it; nothing in it is
expanded, looked up or run.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from pydantic import ValidationError

from stellwerk.errors import SpecError, SpecProblem
from stellwerk.spec.document import SHOWN, Document, parse
from stellwerk.spec.events import Unreadable
from stellwerk.spec.model import AgentSystem, Closed
from stellwerk.spec.operator import Operator
from stellwerk.spec.remedies import findings

SIZE_LIMIT = 256 * 1024
_TOO_LARGE = f"this has more than {SIZE_LIMIT // 1024} KiB; an agent system is smaller than that"
_BYTE_ORDER_MARK = "\ufeff"

Model = TypeVar("Model", bound=Closed)


@dataclass(frozen=True)
class Loaded:
    """An agent system, and where in its text each field stands."""

    source: str
    system: AgentSystem
    document: Document

    def placed(self, problems: Iterable[SpecProblem]) -> tuple[SpecProblem, ...]:
        """The same problems with line and column, in the order of the text."""
        return _in_order(self.document.problem(problem.field, problem.message) for problem in problems)


def load_system(text: str | bytes, *, source: str) -> AgentSystem:
    """``source`` is how an error calls the text: a file's name, or where it came from."""
    return read_system(text, source=source).system


def read_system(text: str | bytes, *, source: str) -> Loaded:
    """As ``load_system``, for those who have more to say about the text."""
    system, document = _read(text, AgentSystem, source)
    return Loaded(source, system, document)


def load_operator(text: str | bytes, *, source: str) -> Operator:
    return _read(text, Operator, source)[0]


def _read(text: str | bytes, kind: type[Model], source: str) -> tuple[Model, Document]:
    try:
        document = parse(_checked(text))
    except Unreadable as error:
        raise SpecError.of(source, (SpecProblem(error.message, "", *(error.place or ())),)) from error
    try:
        made = kind.model_validate({} if document.data is None else document.data, strict=True)
    except ValidationError as error:
        raise SpecError.of(source, _all_problems(document, findings(error, kind))) from error
    if document.problems:
        raise SpecError.of(source, _in_order(document.problems))
    return made, document


def _checked(text: str | bytes) -> str:
    """Whole, in UTF-8, and with one kind of line break."""
    if len(text) > SIZE_LIMIT:
        raise Unreadable(_TOO_LARGE)
    try:
        content = text.encode() if isinstance(text, str) else text
        decoded = content.decode()
    except (UnicodeDecodeError, UnicodeEncodeError) as error:
        raise Unreadable(f"this is not UTF-8 ({error.reason}); save the file as UTF-8") from error
    if len(content) > SIZE_LIMIT:
        raise Unreadable(_TOO_LARGE)
    return decoded.removeprefix(_BYTE_ORDER_MARK).replace("\r\n", "\n").replace("\r", "\n")


def _all_problems(document: Document, found: Iterable[tuple[str, str]]) -> tuple[SpecProblem, ...]:
    """A field that cannot be read is not also told to be wrong."""
    spoiled = {problem.field for problem in document.problems}
    told = (document.problem(field, sentence) for field, sentence in found if field not in spoiled)
    return _in_order([*document.problems, *islice(told, SHOWN)])


def _in_order(problems: Iterable[SpecProblem]) -> tuple[SpecProblem, ...]:
    return tuple(sorted(problems, key=lambda problem: (problem.line or 0, problem.column or 0))[:SHOWN])
