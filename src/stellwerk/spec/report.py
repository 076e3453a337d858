"""What `stellwerk check` says about one text: its tree, its warnings, its problems, and a verdict."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from stellwerk.errors import SpecError, SpecProblem
from stellwerk.spec.catalogue import Catalogue
from stellwerk.spec.load import read_system
from stellwerk.spec.resolve import Resolved, resolve
from stellwerk.spec.tree import Line, Style, tree


@dataclass(frozen=True)
class Report:
    lines: list[Line]
    sound: bool
    """Nothing is wrong with the text itself; tools or packages may be missing on this server."""


def report(text: str | bytes, *, source: str, catalogue: Catalogue) -> Report:
    try:
        loaded = read_system(text, source=source)
    except SpecError as error:
        verdict = _verdict(source, f"refused, {_count(error.problems, 'problem')}", "bad")
        return Report([*_told("error", source, error.problems), verdict], sound=False)
    resolved = resolve(loaded.system, catalogue, loaded.gaps)
    problems = loaded.all_problems(resolved.problems)
    if loaded.problems:  # of what is malformed there is no tree, and half of a system gives rise to no warnings
        lines = [*_told("warning", source, loaded.placed(resolved.missing))]
    else:
        warnings = loaded.placed((*resolved.missing, *resolved.warnings))
        lines = [*tree(resolved, catalogue), *_told("warning", source, warnings)]
    return Report([*lines, *_told("error", source, problems), _judged(source, resolved, problems)], not problems)


def _judged(source: str, resolved: Resolved, problems: Iterable[SpecProblem]) -> Line:
    if problems:
        return _verdict(source, f"refused, {_count(problems, 'problem')}", "bad")
    missing = [
        f"{_count(found, word)} not {state}"
        for found, word, state in (
            (resolved.unregistered, "tool", "registered"),
            (resolved.uninstalled, "package", "installed"),
        )
        if found
    ]
    if missing:
        return _verdict(source, f"sound, but {', '.join(missing)} here", "warn")
    return _verdict(source, "ready to register", "good")


def _told(word: str, source: str, problems: Iterable[SpecProblem]) -> Iterator[Line]:
    style: Style = "bad" if word == "error" else "warn"
    for problem in problems:
        yield [(f"{word}: ", style), (problem.sentence(source), "plain")]


def _verdict(source: str, words: str, style: Style) -> Line:
    return [(f"{source}: ", "plain"), (words, style)]


def _count(things: Iterable[object], word: str) -> str:
    number = len(list(things))
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
