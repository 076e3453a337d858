"""Loading of agent systems and operator files: text to models, or all problems of shape at once."""

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from stellwerk.errors import SpecError, SpecProblem
from stellwerk.spec.catalogue import plain
from stellwerk.spec.messages import Suggestions, messages
from stellwerk.spec.model import AgentSystem
from stellwerk.spec.operator import SECRETS_IN, Operator
from stellwerk.spec.yaml import PROBLEM_LIMIT, Document, excerpt, parse

Model = TypeVar("Model", bound=BaseModel)
_SECRETS_IN = re.compile(r"agents\[\d+\]\.(config|context)\..+")
"""The fields of an agent system that may refer to a secret."""


@dataclass(frozen=True)
class LoadedSystem:
    """An agent system, and the position of each of its fields in the text."""

    source: str
    system: AgentSystem
    document: Document

    def located(self, problems: Iterable[SpecProblem]) -> tuple[SpecProblem, ...]:
        """The same problems with line and column, in the order of the text."""
        return _sorted(self.document.problem(one.field, one.message) for one in problems)


def load_system(text: str | bytes, *, source: str) -> LoadedSystem:
    """``source`` is the name of the text in errors: a file's name, or where it came from.

    Raises:
        SpecError: the text is malformed; lists everything that is wrong with it.
    """
    document = parse(text, source=source, secrets_in=_SECRETS_IN)
    return LoadedSystem(source, _validated(document, AgentSystem, source), document)


def load_operator(text: str | bytes, *, source: str, kinds: Callable[[], Collection[str]] | None = None) -> Operator:
    """``kinds`` are the kinds of providers that the server supports, read if it names any; if absent, any will do.

    Raises:
        SpecError: the text is malformed, or names another kind; lists everything that is wrong.
    """
    document = parse(text, source=source, secrets_in=SECRETS_IN)
    operator = _validated(document, Operator, source)
    suggestions = Suggestions()
    problems: list[SpecProblem] = []
    for name, provider in operator.providers.items():
        if kinds is not None and plain(provider.kind) not in kinds():
            hint = suggestions.did_you_mean(plain(provider.kind), kinds())
            message = f"there is no kind of provider called {excerpt(provider.kind)!r}; {hint}"
            problems.append(document.problem(f"providers.{name}.kind", message))
    if problems:
        raise SpecError.of(source, _sorted(problems))
    return operator


def _validated(document: Document, kind: type[Model], source: str) -> Model:
    """The model of a document; a field that cannot be read as YAML is reported once."""
    unreadable = {problem.field for problem in document.problems}
    found: Iterable[tuple[str, str]] = ()
    try:
        model = kind.model_validate({} if document.data is None else document.data, strict=True)
        if not document.problems:
            return model
    except ValidationError as error:
        found = messages(error, kind)
    readable = (one for one in found if one[0] not in unreadable)
    shape = [document.problem(*one) for one in islice(readable, PROBLEM_LIMIT)]
    raise SpecError.of(source, _sorted([*document.problems, *shape]))


def _sorted(problems: Iterable[SpecProblem]) -> tuple[SpecProblem, ...]:
    in_order = sorted(problems, key=lambda problem: (problem.line or 0, problem.column or 0))
    return tuple(in_order[:PROBLEM_LIMIT])


DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """The JSON Schema of an agent system, with which editors complete and check it."""
    described = AgentSystem.model_json_schema()
    return {"$schema": DIALECT, **described, "title": "Stellwerk agent system, version 1"}
