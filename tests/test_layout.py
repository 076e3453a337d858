"""Gates on the shape of the repository: lengths, names, imports, and what must not leak into it.

A gate takes the root of a repository and returns complaints, so that one function judges both
this repository and the broken ones planted here. Gates read source and never run it.
"""

import ast
import importlib
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

Gate = Callable[[Path], list[str]]

ROOT = Path(__file__).parent.parent
PACKAGE = "src/stellwerk"
SOURCES = ("src", "tests", "benchmarks", "examples", "console/src", "clients")
NOT_OURS = {"node_modules", "dist"}
LONGEST_FILE = 500
ROOM_CAPS = {"log": 900, "stream": 2050, "runs": 2150}
VAGUE = {"manager", "handler", "helper", "util"}
# Names that a library makes us override, each with the reason.
OVERRIDES: dict[str, str] = {"get_route_handler": "FastAPI asks every route for it"}
BROAD = {"Exception", "BaseException"}
# The runner, the API, the canonicaliser, which reads objects of strangers and must not raise, and the tasks of a
# workplan, each of which may be a graph of strangers and fails alone.
MAY_CATCH_ALL = {
    f"{PACKAGE}/{name}.py" for name in ("runs/runner", "api/problems", "envelope/shapes", "agents/workplan_tasks")
}
PURE_ROOMS = ("envelope", "spec", "stream", "recordings", "views", "dialects")
IMPURE = {"asyncio", "sqlite3", "os", "time", "random", "uuid", "socket", "threading"}
# The tilde keeps this very file clear of what it looks for.
LEAKS = tuple(
    text.replace("~", "")
    for text in ("files.python~hosted", "pypi.org/~simple", "registry.~npmjs", "/root~/", "/work~/", "../~shared")
)


def files(root: Path, folders: Iterable[str], *suffixes: str) -> Iterator[tuple[str, Path]]:
    for path in sorted(path for folder in folders for path in (root / folder).rglob("*")):
        name = path.relative_to(root)
        if path.suffix in suffixes and path.is_file() and not NOT_OURS & set(name.parts):
            yield name.as_posix(), path


def trees(root: Path, folders: Iterable[str], *, holding: str = "") -> Iterator[tuple[str, ast.Module]]:
    """Only files that hold the pattern are parsed, which takes much longer than to look for it."""
    for name, path in files(root, folders, ".py"):
        if re.search(holding, text := path.read_text("utf-8")):
            yield name, ast.parse(text)


def line_count(path: Path) -> int:
    return len(path.read_bytes().splitlines())


def long_files(root: Path) -> list[str]:
    lengths = {
        name: line_count(path)
        for name, path in files(root, SOURCES, ".py", ".ts", ".tsx")
        if not name.endswith(".d.ts")
    }
    return [
        f"{name} has {lines} lines; split it by meaning, {LONGEST_FILE} are allowed"
        for name, lines in lengths.items()
        if lines > LONGEST_FILE
    ]


def full_rooms(root: Path) -> list[str]:
    sizes = {room: sum(line_count(path) for _, path in files(root, [f"{PACKAGE}/{room}"], ".py")) for room in ROOM_CAPS}
    return [
        f"{PACKAGE}/{room} has {lines} lines of {ROOM_CAPS[room]}; find what can go, or what belongs elsewhere"
        for room, lines in sizes.items()
        if lines > ROOM_CAPS[room]
    ]


def words(name: str) -> set[str]:
    """Split snake_case and CamelCase to words in the singular."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    return {part.lower().removesuffix("s") for part in parts}


def names(module: str, tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Give every name that a module defines, its own included, and where."""
    for part in Path(module).relative_to("src").with_suffix("").parts:
        yield part, module
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, f"{module}:{node.lineno}"


def vague_names(root: Path) -> list[str]:
    return [
        f"{where}: {name!r} says {', '.join(sorted(words(name) & VAGUE))}; name the thing it is or does"
        for module, tree in trees(root, [PACKAGE])
        for name, where in names(module, tree)
        if words(name) & VAGUE and name not in OVERRIDES
    ]


def is_broad(caught: ast.expr | None) -> bool:
    match caught:
        case None:
            return True
        case ast.Tuple(elts=kinds):
            return any(is_broad(kind) for kind in kinds)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in BROAD
        case _:
            return False


def catches_all(node: ast.AST) -> bool:
    match node:
        case ast.ExceptHandler(type=caught):
            return is_broad(caught)
        case ast.Call(func=ast.Name(id="suppress") | ast.Attribute(attr="suppress"), args=kinds):
            return any(is_broad(kind) for kind in kinds)
        case _:
            return False


def broad_excepts(root: Path) -> list[str]:
    return [
        f"{name}:{getattr(node, 'lineno', 0)}: catches everything; name the exceptions you can deal with"
        for name, tree in trees(root, SOURCES, holding=r"except\s*:|Exception")
        if name not in MAY_CATCH_ALL
        for node in ast.walk(tree)
        if catches_all(node)
    ]


def silent_modules(root: Path) -> list[str]:
    return [
        f"{name}: no docstring that starts on its first line; say what the module is and what it never does"
        for name, tree in trees(root, [PACKAGE])
        if not (ast.get_docstring(tree, clean=False) or "").split("\n")[0].strip()
    ]


def imported(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                yield from ((alias.name.split(".")[0], node.lineno) for alias in aliases)
            case ast.ImportFrom(module=str(module), level=0):
                yield module.split(".")[0], node.lineno


def impure_imports(root: Path) -> list[str]:
    return [
        f"{name}:{line}: imports {module} in a pure room; take time, ids and data as arguments"
        for name, tree in trees(root, [f"{PACKAGE}/{room}" for room in PURE_ROOMS])
        for module, line in imported(tree)
        if module in IMPURE
    ]


def known_to_git(root: Path) -> Iterator[tuple[str, Path]]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    yield from ((name, root / name) for name in sorted(set(listed.split("\0"))) if (root / name).is_file())


def leaks(root: Path) -> list[str]:
    texts = ((name, path.read_bytes().decode("utf-8", "replace")) for name, path in known_to_git(root))
    return [
        f"{name}: contains {leak!r}; no registry host and no path of one machine belongs here"
        for name, text in texts
        for leak in LEAKS
        if leak in text
    ]


def addresses(root: Path) -> list[str]:
    """What npm writes beside versions and digests, if nobody takes it out."""
    locked = root / "package-lock.json"
    text = locked.read_text("utf-8") if locked.is_file() else ""
    return [f"{locked.name} has the address {found}; run `make lock`" for found in re.findall(r"https?://[^\"]+", text)]


@pytest.mark.parametrize(
    "gate", [long_files, full_rooms, vague_names, broad_excepts, silent_modules, impure_imports, leaks, addresses]
)
def test_this_repository_passes_the_gate(gate: Gate) -> None:
    complaints = gate(ROOT)
    assert not complaints, "\n".join(["", *complaints])


def test_the_public_names_are_sorted_and_can_be_had() -> None:
    package = importlib.import_module("stellwerk")
    public = list(package.__all__)
    assert public == sorted(set(public)), "sort stellwerk.__all__"
    missing = [name for name in public if not hasattr(package, name)]
    assert not missing, f"stellwerk.__all__ promises {missing}, which cannot be had"


def plant(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # Inside a hook Git points every command at the repository that runs it.
    for variable in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(variable, raising=False)
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    plant(tmp_path, ".gitignore", "ignored/\n")
    return tmp_path


@pytest.mark.parametrize(
    ("gate", "name", "text", "complaint"),
    [
        (long_files, f"{PACKAGE}/dialects/agui.py", "\n" * 501, "agui.py has 501 lines"),
        (long_files, "console/src/ui/Thread.tsx", "\n" * 501, "Thread.tsx has 501 lines"),
        (full_rooms, f"{PACKAGE}/log/log.py", "\n" * 901, "log has 901 lines of 900"),
        (full_rooms, f"{PACKAGE}/runs/deep/down.py", "\n" * 2151, "runs has 2151 lines of 2150"),
        (vague_names, f"{PACKAGE}/utils/text.py", "", "'utils' says util"),
        (vague_names, f"{PACKAGE}/a.py", "class HTTPHandler: ...", "a.py:1: 'HTTPHandler' says handler"),
        (vague_names, f"{PACKAGE}/a.py", "async def redis_managers(): ...", "'redis_managers' says manager"),
        (broad_excepts, f"{PACKAGE}/a.py", "try: ...\nexcept: ...", "a.py:2: catches everything"),
        (broad_excepts, f"{PACKAGE}/a.py", "try: ...\nexcept Exception: ...", "a.py:2"),
        (broad_excepts, "tests/a.py", "try: ...\nexcept (OSError, BaseException): ...", "a.py:2"),
        (broad_excepts, "examples/a.py", "with contextlib.suppress(Exception): ...", "a.py:1"),
        (silent_modules, f"{PACKAGE}/a.py", "A = 1", "a.py: no docstring"),
        (silent_modules, f"{PACKAGE}/a.py", '"""\nToo late."""', "a.py: no docstring"),
        (impure_imports, f"{PACKAGE}/spec/a.py", "import json, os.path", "a.py:1: imports os"),
        (impure_imports, f"{PACKAGE}/views/a.py", "def now():\n    from time import time", "a.py:2: imports time"),
        (leaks, "docs/a.md", f"see {LEAKS[0]}", f"contains {LEAKS[0]!r}"),
        (leaks, "a.lock", LEAKS[-1], "a.lock"),
        (addresses, "package-lock.json", '{"funding": "https://example.org/a"}', "address https://example.org/a; run"),
    ],
)
def test_a_planted_violation_is_reported(repository: Path, gate: Gate, name: str, text: str, complaint: str) -> None:
    plant(repository, name, text)
    (found,) = gate(repository)
    assert complaint in found


@pytest.mark.parametrize(
    ("gate", "name", "text"),
    [
        (long_files, f"{PACKAGE}/a.py", "\n" * 500),
        (long_files, "console/src/schema.d.ts", "\n" * 501),
        (long_files, "clients/js/node_modules/a.ts", "\n" * 501),
        (full_rooms, f"{PACKAGE}/stream/a.py", "\n" * 2050),
        (vague_names, f"{PACKAGE}/a.py", "def handle_utilisation(): ...\nclass Managed: ..."),
        (vague_names, "tests/helpers.py", ""),
        (broad_excepts, f"{PACKAGE}/runs/runner.py", "try: ...\nexcept Exception: ..."),
        (broad_excepts, f"{PACKAGE}/a.py", "try: ...\nexcept (OSError, sqlite3.Error): ..."),
        (silent_modules, f"{PACKAGE}/a.py", '"""One thing.\n\nAnd why."""'),
        (impure_imports, f"{PACKAGE}/runs/a.py", "import asyncio"),
        (impure_imports, f"{PACKAGE}/stream/a.py", "from .time import Clock"),
        (leaks, "ignored/a.md", LEAKS[0]),
    ],
)
def test_what_is_allowed_is_not_reported(repository: Path, gate: Gate, name: str, text: str) -> None:
    plant(repository, name, text)
    assert gate(repository) == []
