"""Gates on the shape of the repository: lengths, names, imports, and what must not leak into it.

A gate takes the root of a repository and returns complaints, so that one function judges both
this repository and the broken ones planted here. Gates read source and never run it.
"""

import ast
import importlib
import re
import subprocess
import tomllib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

import pytest

Gate = Callable[[Path], list[str]]

ROOT = Path(__file__).parent.parent
PACKAGE = "src/stellwerk"
SOURCES = ("src", "tests", "benchmarks", "examples", "console/src", "clients")
NOT_OURS = {"node_modules", "dist"}
LONGEST_FILE = 500
# The most lines of a package: lowered when it shrinks, raised only by a commit of its own that says why.
PACKAGE_CAPS = {
    "agents/build": 1334,
    "agents/checkpoints": 1500,
    "agents/graphs": 2291,
    "agents/isolated": 1881,
    "agents/mcp": 1049,
    "agents/middleware": 978,
    "agents/recorded": 705,
    "agents/runtime": 2990,
    "agents/scripted": 570,
    "agents/store": 1251,
    "agents/tools": 866,
    "api/http": 1446,
    "api/routes": 2220,
    "api/schema": 629,
    "api/streams": 702,
    "cli": 2769,
    "client": 625,
    "cluster": 700,
    "database": 1542,
    "dialects": 4300,
    "documents": 1208,
    "envelope": 1435,
    "log": 821,
    "ops": 870,
    "processes": 450,
    "protocols": 5348,
    "redaction": 379,
    "runs": 5271,
    "spec": 2554,
    "stream": 2178,
    "tenants": 1806,
    "testing": 162,
    "views": 1790,
    "workflows": 5090,
}
LONGEST_IMPORT_CHAIN = 22
VAGUE = {"manager", "handler", "helper", "util"}
# Names that a library makes us override, each with the reason.
OVERRIDES: dict[str, str] = {
    "get_route_handler": "FastAPI asks every route for it",
    "callback_handler": "LangChain's word for it",
    "RunCallbackHandler": "LangChain's word for it",
}
BROAD = {"Exception", "BaseException"}
# The runner; the API; the canonicaliser, which reads objects of strangers and must not raise; the tasks of a workplan,
# each of which may be a graph of strangers and fails alone; a run without a server, which records its end and raises
# again, and `adapt`, which does the same; the retry of model calls, whose errors have no common class; the operator's
# code: modules that are imported, tools in a thread or a process, graphs in a process.
MAY_CATCH_ALL = {
    f"{PACKAGE}/{name}.py"
    for name in (
        "runs/runner",
        "api/http/problems",
        "envelope/introspection",
        "workflows/workplan/tasks",
        "agents/runtime/library_run",
        "agents/middleware/calls",
        "agents/graphs/import_reference",
        "agents/recorded/adapt",
        "agents/isolated/channel",
        "agents/tools/call",
        "agents/tools/worker",
    )
}
# Modules that are started by their name in a string: workers in child processes.
NAMED_IN_STRINGS = {"stellwerk.workflows.documents.readers.worker", "stellwerk.agents.isolated.environment"}
# Public class names that are still defined more than once, and how often. Names only leave this list.
DEFINED_MORE_THAN_ONCE: dict[str, int] = {
    "Accepted": 2,
    "Document": 3,
    "Entry": 2,
    "EventPage": 2,
    "Json": 2,
    "Limits": 2,
    "LogEntry": 2,
    "Place": 2,
    "Problem": 2,
    "Session": 2,
    "SessionPage": 2,
    "Stopped": 2,
    "Stored": 2,
    "ToolList": 2,
    "Withdrawn": 2,
}
PURE_PACKAGES = ("envelope", "spec", "redaction", "stream", "views", "dialects", "workflows/views")
LOG_CAP = PACKAGE_CAPS["log"]
IMPURE = {"asyncio", "sqlite3", "os", "time", "random", "uuid", "socket", "threading"}
LEAKS = tuple(
    text.replace("~", "")  # it keeps this very file clear of what it looks for
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


def large_packages(root: Path) -> list[str]:
    sizes = {
        package: sum(line_count(path) for _, path in files(root, [f"{PACKAGE}/{package}"], ".py"))
        for package in PACKAGE_CAPS
    }
    return [
        f"{PACKAGE}/{package} has {lines} lines of {PACKAGE_CAPS[package]}; find what can go, or what belongs elsewhere"
        for package, lines in sizes.items()
        if lines > PACKAGE_CAPS[package]
    ]


def packages_without_cap(root: Path) -> list[str]:
    """Every folder with modules is capped by itself or by a folder above it."""
    folders = {Path(name).relative_to(PACKAGE).parent.as_posix() for name, _ in files(root, [PACKAGE], ".py")}
    capped = {folder for folder in folders for cap in PACKAGE_CAPS if f"{folder}/".startswith(f"{cap}/")}
    plain = {".", "api", "agents", "demo"}
    return [f"{PACKAGE}/{folder} has no cap in PACKAGE_CAPS" for folder in sorted(folders - capped - plain)]


def module_name(file: str) -> str:
    parts = Path(file).relative_to("src").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def import_graph(root: Path) -> dict[str, set[str]]:
    """Which module imports which at its start. Imports inside of functions wait, and make no cycle."""
    modules = {}
    for name, tree in trees(root, [PACKAGE]):
        modules[module_name(name)] = tree
    graph = dict[str, set[str]]()
    for module, tree in modules.items():
        imported = set[str]()
        for node in tree.body:
            match node:
                case ast.ImportFrom(module=str(source), names=aliases):
                    imported |= {f"{source}.{alias.name}" for alias in aliases} | {source}
                case ast.Import(names=aliases):
                    imported |= {alias.name for alias in aliases}
        submodules = {name for name in imported if name in modules}
        parents = {name.rpartition(".")[0] for name in submodules}
        graph[module] = submodules - parents - {module}
    return graph


def import_chains(root: Path) -> list[str]:
    """Complain about cycles, and about a chain of imports that is too long to be followed by a reader."""
    graph = import_graph(root)
    chains = dict[str, list[str]]()
    complaints = list[str]()

    def longest(module: str, path: list[str]) -> list[str]:
        if module in path:
            complaints.append(f"import cycle: {' -> '.join([*path[path.index(module) :], module])}")
            return []
        if module not in chains:
            below = [longest(target, [*path, module]) for target in sorted(graph[module])]
            chains[module] = [module, *max(below, key=len, default=[])]
        return chains[module]

    chain = max((longest(module, []) for module in sorted(graph)), key=len, default=[])
    if len(chain) > LONGEST_IMPORT_CHAIN:
        length = f"{len(chain)} modules, {LONGEST_IMPORT_CHAIN} are allowed"
        complaints.append(f"longest import chain has {length}: {' -> '.join(chain)}")
    return complaints


def all_imports(name: str, tree: ast.Module, modules: Collection[str]) -> set[str]:
    """Return every module that a module imports, also inside functions; an ``__init__`` also names lazy ones."""
    found = set[str]()
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(source), names=aliases):
                found |= {f"{source}.{alias.name}" for alias in aliases} | {source}
            case ast.Import(names=aliases):
                found |= {alias.name for alias in aliases}
            case ast.Constant(value=str(text)) if name.endswith("__init__.py"):
                found.add(text)
    return found & set(modules)


def entry_modules(root: Path) -> set[str]:
    """Return the modules that users, scripts, plug-in entry points and child processes start from."""
    found = {"stellwerk", "stellwerk.__main__", "stellwerk.testing", *NAMED_IN_STRINGS}
    project = root / "pyproject.toml"
    declared = tomllib.loads(project.read_text("utf-8"))["project"] if project.is_file() else {}
    groups = [declared.get("scripts", {}), *declared.get("entry-points", {}).values()]
    return found | {target.partition(":")[0] for group in groups for target in group.values()}


def unreachable_modules(root: Path) -> list[str]:
    modules = {module_name(name): (name, tree) for name, tree in trees(root, [PACKAGE])}
    reached = set[str]()
    left = entry_modules(root) & modules.keys()
    while left:
        module = left.pop()
        reached.add(module)
        parent = {module.rpartition(".")[0]} & modules.keys()
        left |= (all_imports(*modules[module], modules.keys()) | parent) - reached
    return [
        f"{modules[module][0]} is reached from no entry point and no public name; use it, or take it out"
        for module in sorted(modules.keys() - reached)
    ]


def classes_defined_twice(root: Path) -> list[str]:
    defined = defaultdict[str, list[str]](list)
    for name, tree in trees(root, [PACKAGE]):
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                defined[node.name].append(name)
    return [
        f"{name} is defined in {', '.join(places)}; one name means one thing, so rename all but one"
        for name, places in sorted(defined.items())
        if len(places) > DEFINED_MORE_THAN_ONCE.get(name, 1)
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
        f"{name}:{line}: imports {module} in a pure package; take time, ids and data as arguments"
        for name, tree in trees(root, [f"{PACKAGE}/{package}" for package in PURE_PACKAGES])
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
    return [
        f"{name} has the address {found}; run `make lock`"
        for name in ("package-lock.json", "tests/protocols/clients/package-lock.json")
        if (locked := root / name).is_file()
        for found in re.findall(r"https?://[^\"]+", locked.read_text("utf-8"))
    ]


@pytest.mark.parametrize(
    "gate",
    [
        long_files,
        large_packages,
        packages_without_cap,
        import_chains,
        unreachable_modules,
        classes_defined_twice,
        vague_names,
        broad_excepts,
        silent_modules,
        impure_imports,
        leaks,
        addresses,
    ],
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
        (large_packages, f"{PACKAGE}/log/log.py", "\n" * (LOG_CAP + 1), f"log has {LOG_CAP + 1} lines of {LOG_CAP}"),
        (large_packages, f"{PACKAGE}/log/deep/down.py", "\n" * (LOG_CAP + 1), f"log has {LOG_CAP + 1} lines"),
        (packages_without_cap, f"{PACKAGE}/extras/a.py", "", "extras has no cap"),
        (unreachable_modules, f"{PACKAGE}/lonely.py", "", "lonely.py is reached from no entry point"),
        (classes_defined_twice, f"{PACKAGE}/a.py", "class A: ...\n\nclass A: ...", "A is defined in"),
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


def test_a_module_is_reachable_by_imports_in_functions_lazy_names_and_entry_points(repository: Path) -> None:
    plant(repository, f"{PACKAGE}/__init__.py", '_PUBLIC = {"lazy": "stellwerk.lazy"}')
    plant(repository, f"{PACKAGE}/lazy.py", "def late():\n    from stellwerk.deep import far")
    plant(repository, f"{PACKAGE}/deep/__init__.py", "")
    plant(repository, f"{PACKAGE}/deep/far.py", "")
    plant(repository, f"{PACKAGE}/plugged.py", "")
    plant(repository, "pyproject.toml", '[project.entry-points."stellwerk.tools"]\na = "stellwerk.plugged:A"')
    assert unreachable_modules(repository) == []


def test_a_cycle_and_a_long_chain_of_imports_are_reported(repository: Path) -> None:
    plant(repository, f"{PACKAGE}/a.py", "from stellwerk import b")
    plant(repository, f"{PACKAGE}/b.py", "from stellwerk.a import x")
    assert import_chains(repository) == ["import cycle: stellwerk.a -> stellwerk.b -> stellwerk.a"]
    plant(repository, f"{PACKAGE}/b.py", "def late():\n    from stellwerk.a import x")
    assert import_chains(repository) == []
    for number in range(LONGEST_IMPORT_CHAIN):
        plant(repository, f"{PACKAGE}/n{number}.py", f"import stellwerk.n{number + 1}")
    plant(repository, f"{PACKAGE}/n{LONGEST_IMPORT_CHAIN}.py", "")
    (complaint,) = import_chains(repository)
    assert f"has {LONGEST_IMPORT_CHAIN + 1} modules" in complaint


@pytest.mark.parametrize(
    ("gate", "name", "text"),
    [
        (long_files, f"{PACKAGE}/a.py", "\n" * 500),
        (long_files, "console/src/schema.d.ts", "\n" * 501),
        (long_files, "clients/js/node_modules/a.ts", "\n" * 501),
        (large_packages, f"{PACKAGE}/log/a.py", "\n" * LOG_CAP),
        (packages_without_cap, f"{PACKAGE}/dialects/agui/a.py", ""),
        (unreachable_modules, f"{PACKAGE}/__init__.py", '_PUBLIC = {"lazy": "stellwerk.lazy"}'),
        (classes_defined_twice, f"{PACKAGE}/a.py", "class A: ...\n\nclass _B: ...\n\nclass _B: ..."),
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
