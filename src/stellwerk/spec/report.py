"""What `stellwerk check` says about one text: its tree, its warnings, its problems, and a verdict."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from stellwerk.errors import SpecError, SpecProblem
from stellwerk.spec.catalogue import Catalogue
from stellwerk.spec.load import read_system
from stellwerk.spec.resolve import resolve
from stellwerk.spec.tree import Line, Style, tree


@dataclass(frozen=True)
class Report:
    lines: list[Line]
    sound: bool
    """Nothing is wrong with the text itself; tools may be missing on this server."""


def report(text: str | bytes, *, source: str, catalogue: Catalogue) -> Report:
    try:
        loaded = read_system(text, source=source)
    except SpecError as error:
        verdict = _verdict(source, f"refused, {_count(error.problems, 'problem')}", "bad")
        return Report([*_told("error", source, error.problems), verdict], sound=False)
    resolved = resolve(loaded.system, catalogue)
    problems = loaded.placed(resolved.problems)
    warnings = loaded.placed((*resolved.unregistered, *resolved.warnings))
    lines = [
        *tree(loaded.system, resolved, catalogue),
        *_told("warning", source, warnings),
        *_told("error", source, problems),
    ]
    if problems:
        verdict = _verdict(source, f"refused, {_count(problems, 'problem')}", "bad")
    elif resolved.unregistered:
        verdict = _verdict(source, f"sound, but {_count(resolved.unregistered, 'tool')} not registered here", "warn")
    else:
        verdict = _verdict(source, "ready to register", "good")
    return Report([*lines, verdict], sound=not problems)


def _told(word: str, source: str, problems: Iterable[SpecProblem]) -> Iterator[Line]:
    style: Style = "bad" if word == "error" else "warn"
    for problem in problems:
        yield [(f"{word}: ", style), (problem.sentence(source), "plain")]


def _verdict(source: str, words: str, style: Style) -> Line:
    return [(f"{source}: ", "plain"), (words, style)]


def _count(things: Iterable[object], word: str) -> str:
    number = len(list(things))
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
