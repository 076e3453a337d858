"""Text to an agent system, or to the operator's settings; or every problem of the text at once.

YAML 1.2 and JSON are read alike. A text is refused by its size before it is
read, and by its shape before anything is made of it; nothing in it is
expanded, looked up or run.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from pydantic import ValidationError

from stellwerk.errors import SpecError, SpecProblem
from stellwerk.spec.catalogue import plain
from stellwerk.spec.document import SHOWN, Document, inside, parse
from stellwerk.spec.events import Unreadable
from stellwerk.spec.gaps import NO_GAPS, Gaps, gaps_in, rest_of
from stellwerk.spec.hints import Hints
from stellwerk.spec.model import AgentSystem
from stellwerk.spec.operator import SECRETS_IN, Operator
from stellwerk.spec.remedies import findings
from stellwerk.spec.scalars import short

SIZE_LIMIT = 256 * 1024
_TOO_LARGE = f"this has more than {SIZE_LIMIT // 1024} KiB; an agent system is smaller than that"
_BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True)
class Loaded:
    """An agent system, and where in its text each field stands.

    If the text has problems, the system is what is left without them: enough to find out what else is wrong, and
    nothing to build. ``admit`` makes the difference.
    """

    source: str
    system: AgentSystem
    document: Document
    problems: tuple[SpecProblem, ...] = ()
    gaps: Gaps = NO_GAPS

    def placed(self, problems: Iterable[SpecProblem]) -> tuple[SpecProblem, ...]:
        """The same problems with line and column, in the order of the text."""
        return _in_order(self.document.problem(problem.field, problem.message) for problem in problems)

    def all_problems(self, problems: Iterable[SpecProblem]) -> tuple[SpecProblem, ...]:
        """Those of the text, and these."""
        return _in_order((*self.problems, *self.placed(problems)))


def load_system(text: str | bytes, *, source: str) -> AgentSystem:
    """``source`` is how an error calls the text: a file's name, or where it came from.

    Raises:
        SpecError: the text is malformed; says everything that is wrong with it.
    """
    loaded = read_system(text, source=source)
    if loaded.problems:
        raise SpecError.of(source, loaded.problems)
    return loaded.system


def read_system(text: str | bytes, *, source: str) -> Loaded:
    """For those who have more to say about the text: problems of its form are kept, to be told with all others.

    Raises:
        SpecError: the text is no YAML, or so malformed that nothing else can be said about it.
    """
    document = _parsed(text, source)
    try:
        system = AgentSystem.model_validate(_content(document), strict=True)
    except ValidationError as error:
        problems = _all_problems(document, findings(error, AgentSystem))
        rest = rest_of(document, error) if len(problems) < SHOWN else None
        if rest is None:
            raise SpecError.of(source, problems) from error
        return Loaded(source, rest.system, document, problems, rest.gaps)
    return Loaded(source, system, document, _in_order(document.problems), gaps_in(document))


def load_operator(text: str | bytes, *, source: str, kinds: Collection[str] | None = None) -> Operator:
    """``kinds`` are the providers that are spoken with; without them, any kind will do.

    Raises:
        SpecError: the text is malformed, or names another kind of provider; says everything that is wrong.
    """
    document = _parsed(text, source, SECRETS_IN)
    found = [] if kinds is None else list(_unknown_kinds(document, kinds))
    try:
        operator = Operator.model_validate(_content(document), strict=True)
    except ValidationError as error:
        raise SpecError.of(source, _all_problems(document, [*findings(error, Operator), *found])) from error
    if problems := _all_problems(document, found):
        raise SpecError.of(source, problems)
    return operator


def _unknown_kinds(document: Document, kinds: Collection[str]) -> Iterator[tuple[str, str]]:
    hints = Hints()
    content = document.data if isinstance(document.data, dict) else {}
    providers = content.get("providers")
    for name, provider in providers.items() if isinstance(providers, dict) else ():
        kind = provider.get("kind") if isinstance(provider, dict) else None
        if isinstance(kind, str) and plain(kind) not in kinds:
            where = inside(inside("providers", name), "kind")
            yield (
                where,
                f"there is no kind of provider called {short(kind)!r}; {hints.did_you_mean(plain(kind), kinds)}",
            )


def _parsed(text: str | bytes, source: str, secrets_in: re.Pattern[str] | None = None) -> Document:
    try:
        return parse(_checked(text), secrets_in=secrets_in)
    except Unreadable as error:
        raise SpecError.of(source, (SpecProblem(error.message, "", *(error.place or ())),)) from error


def _content(document: Document) -> object:
    return {} if document.data is None else document.data


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
