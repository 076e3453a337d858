"""The ledger of promises: what we said, which tests cite it, and where the two disagree.

``python -m tests.requirements`` prints how many promises are kept and every disagreement, and fails
on one of a seed that is neither kept nor given up with a reason;
``--write`` sets each line's state to what the tests say. Test files are read, never
imported, and nothing in the ledger is ever changed but the words "open" and "kept".
"""

import argparse
import ast
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parent
LEDGER = "requirements.toml"
STATES = ("open", "kept")
MOST_PER_TEST = 5
"""A test that cites more promises keeps them by their names only."""
REWRITE = "python -m tests.requirements --write"

_HEADER = re.compile(r"\[(\w+)\]")
_ID = re.compile(
    r"(00[0-4]|nodes)(\.[a-z0-9]+(-[a-z0-9]+)*){2}|trust\.I([1-9]|1[0-9]|2[0-3])|fault-(0[1-9]|[1-5][0-9]|60)"
)
_SOURCE = re.compile(r"\w*")
_STATE = re.compile(r'(?<=\bstate = ")(open|kept)(?=")')


@dataclass(frozen=True)
class Promise:
    """One line of the ledger."""

    id: str
    says: str
    state: str
    section: str
    line: int
    deviates: str = ""

    @property
    def where(self) -> str:
        return f"{LEDGER}:{self.line}"


@dataclass(frozen=True)
class Citation:
    """One place in a test that claims to keep a promise."""

    id: str
    where: str


def read_ledger(text: str) -> tuple[list[Promise], list[str]]:
    """Give the promises, and a problem for each line that is none."""
    promises: list[Promise] = []
    problems: list[str] = []
    section = ""
    # Line by line, because tomllib gives up at the first duplicate and knows no line numbers.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        if header := _HEADER.fullmatch(line):
            section = header[1]
            continue
        try:
            promises.append(_promise(line, section=section, number=number))
        except (TypeError, ValueError) as error:
            remedy = 'write "<id>" = { says = "…", state = "open" } on one line'
            problems.append(f"{LEDGER}:{number}: not a promise ({error}); {remedy}")
    return promises, problems


def _promise(line: str, *, section: str, number: int) -> Promise:
    ((identity, fields),) = tomllib.loads(line).items()
    promise = Promise(id=identity, section=section, line=number, **fields)
    if not all(isinstance(value, str) and value for value in fields.values()):
        raise ValueError("every field is a text that is not empty")
    return promise


def ledger_problems(promises: Iterable[Promise]) -> Iterator[str]:
    """Say what is wrong with the ledger by itself."""
    first: dict[str, Promise] = {}
    for promise in promises:
        where, identity = promise.where, promise.id
        source = _SOURCE.match(identity)
        if not _ID.fullmatch(identity):
            yield (
                f"{where}: malformed id {identity!r}; "
                "write <source>.<area>.<kebab-case>, trust.I1 … trust.I23 or fault-01 … fault-60"
            )
        elif source is not None and source[0] != promise.section:
            yield f"{where}: {identity} is under [{promise.section}]; move it to [{source[0]}]"
        if first.setdefault(identity, promise) is not promise:
            yield f"{where}: duplicate id {identity}, first in line {first[identity].line}; rename or remove one"
        if promise.state not in STATES:
            yield f"{where}: unknown state {promise.state!r} of {identity}; write open or kept"


def read_citations(tests: Path) -> list[Citation]:
    """Give every citation in the Python files below a folder of tests."""
    return [
        Citation(identity, f"{path.relative_to(tests.parent).as_posix()}:{line}")
        for path in sorted(tests.rglob("*.py"))
        for identity, line in _cited_in(ast.parse(path.read_text("utf-8")))
    ]


def _cited_in(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for group in _mark_groups(tree):
        marks = [_mark(node) for node in group]
        # A test that does not run, or is expected to fail, keeps nothing.
        if any(name in ("skip", "xfail") for name, _ in marks):
            continue
        for argument in (argument for name, arguments in marks if name == "requirement" for argument in arguments):
            match argument:
                case ast.Constant(value=str(identity)):
                    yield identity, argument.lineno
                case _:
                    # Its source text is no id, and so is reported as one that does not exist.
                    yield ast.unparse(argument), argument.lineno


def _mark_groups(tree: ast.Module) -> Iterator[Sequence[ast.expr]]:
    """Give the expressions that mark one test, one file or one parameter set."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() if node.name.startswith("test"):
                yield node.decorator_list
            case ast.Assign(targets=[ast.Name(id="pytestmark")], value=value):
                yield _elements(value)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="pytest"), attr="param"), keywords=keywords):
                yield from (_elements(keyword.value) for keyword in keywords if keyword.arg == "marks")


def _elements(value: ast.expr) -> Sequence[ast.expr]:
    return value.elts if isinstance(value, ast.List | ast.Tuple) else [value]


def _mark(node: ast.expr) -> tuple[str, Sequence[ast.expr]]:
    """Give name and arguments of ``pytest.mark.<name>(…)``; an empty name for anything else."""
    match node:
        case ast.Call(func=called, args=arguments):
            return _mark(called)[0], arguments
        case ast.Attribute(value=ast.Attribute(value=ast.Name(id="pytest"), attr="mark"), attr=name):
            return name, []
        case _:
            return "", []


def overloaded(tests: Path) -> Iterator[str]:
    """Say which test, file or parameter set cites too many promises."""
    for path in sorted(tests.rglob("*.py")):
        for group in _mark_groups(ast.parse(path.read_text("utf-8"))):
            marks = [_mark(node) for node in group]
            cited = [argument for name, arguments in marks if name == "requirement" for argument in arguments]
            if len(cited) > MOST_PER_TEST:
                where = f"{path.relative_to(tests.parent).as_posix()}:{cited[0].lineno}"
                yield f"{where}: cites {len(cited)} promises, more than {MOST_PER_TEST}; split the test"


def disagreements(promises: Sequence[Promise], citations: Sequence[Citation]) -> Iterator[str]:
    """Say where ledger and tests contradict each other, in both directions."""
    known = {promise.id for promise in promises}
    cited = {citation.id: citation for citation in citations}
    for citation in citations:
        if citation.id not in known:
            yield f"{citation.where}: cites {citation.id!r}, which is not in {LEDGER}; correct the id or add the line"
    for promise in promises:
        if promise.state == "kept" and promise.id not in cited:
            yield f"{promise.where}: {promise.id} is marked kept, but no test cites it; write one, or `{REWRITE}`"
        if promise.state == "open" and promise.id in cited:
            place = cited[promise.id].where
            yield f"{promise.where}: {promise.id} is marked open, but {place} cites it; mark it kept: `{REWRITE}`"


def unkept(promises: Iterable[Promise]) -> Iterator[str]:
    """Say which promise of a seed is open without a reason."""
    for promise in promises:
        if promise.section.isdigit() and promise.state == "open" and not promise.deviates:
            yield f"{promise.where}: {promise.id} is open; write a test that keeps it, or say in `deviates` why not"


def find_problems(tests: Path) -> list[str]:
    """Give everything that is wrong with the ledger in a folder and the tests beside it."""
    promises, problems = read_ledger((tests / LEDGER).read_text("utf-8"))
    citations = read_citations(tests)
    return [*problems, *ledger_problems(promises), *disagreements(promises, citations), *overloaded(tests)]


def rewrite(text: str, cited: set[str]) -> str:
    """Set each state to what the citations say, touching no other word."""
    lines = text.split("\n")
    for promise in read_ledger(text)[0]:
        state = "kept" if promise.id in cited else "open"
        lines[promise.line - 1] = _STATE.sub(state, lines[promise.line - 1])
    return "\n".join(lines)


def summary(promises: Sequence[Promise]) -> str:
    """Render kept and total per source, and one line for the whole."""
    total = Counter(promise.section for promise in promises)
    kept = Counter(promise.section for promise in promises if promise.state == "kept")
    rows = [f"{source:<7}{kept[source]:>4} of {total[source]:>3}" for source in total]
    whole, done = total.total(), kept.total()
    return "\n".join([*rows, f"{done} of {whole} promises kept by tests; {whole - done} open", ""])


def main(arguments: Sequence[str], *, tests: Path = TESTS) -> int:
    """Print the summary and the problems; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.requirements", description="Compare promises with tests.")
    parser.add_argument("--write", action="store_true", help="set the states to what the tests say")
    ledger = tests / LEDGER
    if parser.parse_args(arguments).write:
        cited = {citation.id for citation in read_citations(tests)}
        ledger.write_text(rewrite(ledger.read_text("utf-8"), cited), "utf-8")
    promises = read_ledger(ledger.read_text("utf-8"))[0]
    problems = [*find_problems(tests), *unkept(promises)]
    sys.stdout.write(summary(promises))
    sys.stdout.writelines(f"{problem}\n" for problem in problems)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
