"""``path/to/file.py:name`` or ``package.module:name``, and the object that it names.

Only the operator names code, on the command line or in his own files; it is
imported and trusted like anything else he installed. A file needs no package
around it: what lies next to it can be imported, absolutely or relatively.
"""

import importlib
import re
import sys
import traceback
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Self, TypeVar

import stellwerk
from stellwerk.errors import BrokenReference, StellwerkError
from stellwerk.ids import digest_id

Item = TypeVar("Item")
Made = TypeVar("Made")
Other = TypeVar("Other")

_FORM = "write it as path/to/file.py:name or package.module:name"
_LISTED = 10
"""Names that an error lists at most."""
_OURS = str(Path(stellwerk.__file__).parent)


def load_reference(reference: str) -> Any:
    """Import what a reference names; a module is imported once, however often it is named.

    Raises:
        BrokenReference: there is no such file, module or name, or importing it failed.
    """
    place, _, name = reference.rpartition(":")
    if not place or not name.isidentifier():
        raise BrokenReference(reference, _FORM)
    module = _from_file(reference, Path(place)) if place.endswith(".py") else _from_package(reference, place)
    if not hasattr(module, name):
        raise BrokenReference(reference, f"there is no {name!r} in it; {_hint(name, _public(module))}")
    return getattr(module, name)


def each(items: Iterable[Item], load: Callable[[Item], Made]) -> list[Made]:
    """Load every item. What is broken is told when all were tried, at once."""
    made: list[Made] = []
    broken: list[BrokenReference] = []
    for item in items:
        try:
            made.append(load(item))
        except BrokenReference as error:
            broken.append(error)
    if broken:
        raise BrokenReference.together(broken) from broken[0]
    return made


def both(first: Callable[[], Made], second: Callable[[], Other]) -> tuple[Made, Other]:
    """The same for two different things."""
    try:
        made = first()
    except BrokenReference as error:
        try:
            second()
        except BrokenReference as another:
            raise BrokenReference.together([error, another]) from error
        raise
    return made, second()


class Blaming:
    """A block in which the operator's own code runs: what it raises becomes a BrokenReference that says where.

    Folders stand on ``sys.path`` only inside of the block.
    """

    def __init__(self, reference: str, doing: str, *, folder: Path | None = None) -> None:
        self._reference, self._doing = reference, doing
        self._folder = None if folder is None else str(folder)

    def __enter__(self) -> Self:
        if self._folder is not None:
            sys.path.insert(0, self._folder)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._folder is not None and self._folder in sys.path:
            sys.path.remove(self._folder)
        if isinstance(error, Exception | SystemExit) and not isinstance(error, BrokenReference):
            raise BrokenReference(self._reference, f"{self._doing} failed: {_last_line(error)}") from error


def _from_package(reference: str, name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise BrokenReference(reference, _FORM)
    with Blaming(reference, "importing it"):
        return importlib.import_module(name)


def _from_file(reference: str, path: Path) -> ModuleType:
    path = path.expanduser().resolve()
    if not path.is_file():
        raise BrokenReference(reference, f"there is no file {path}; {_beside(path)}")
    if "." in path.stem:
        raise BrokenReference(reference, "a module cannot have a dot in its name; rename the file")
    root, name = _module_name(path)
    importlib.invalidate_caches()
    with Blaming(reference, "importing it", folder=root):
        module = importlib.import_module(name)
    if module.__file__ is None or Path(module.__file__).resolve() != path:
        raise BrokenReference(reference, f"the module {name} is loaded already, from {module.__file__}; rename one")
    return module


def _module_name(path: Path) -> tuple[Path, str]:
    """The folder to import from, and the name: within its package, or within one that we make for its folder.

    The name depends on the path alone, so that stored state finds its types again after a restart.
    """
    folder, parts = path.parent, [path.stem]
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    if len(parts) == 1:
        parts.insert(0, _package_around(folder))
    return folder, ".".join(parts)


def _package_around(folder: Path) -> str:
    name = f"{re.sub(r'[^A-Za-z0-9]', '_', folder.name)}_{digest_id(str(folder))[:8]}"
    package = ModuleType(name, f"What lies in {folder}.")
    package.__path__ = [str(folder)]
    sys.modules.setdefault(name, package)
    return name


def _beside(path: Path) -> str:
    if not path.parent.is_dir():
        return f"nor is there a folder {path.parent}"
    siblings = [file.name for file in path.parent.glob("*.py")]
    return _hint(path.name, siblings) if siblings else "there is no .py file in that folder"


def _public(module: ModuleType) -> list[str]:
    return [name for name in vars(module) if not name.startswith("_")]


def _hint(name: str, known: list[str]) -> str:
    if near := get_close_matches(name, known, n=1):
        return f"did you mean {near[0]!r}?"
    return f"there are: {', '.join(sorted(known)[:_LISTED])}" if known else "it has no names at all"


def _last_line(error: BaseException) -> str:
    """The last line of the traceback, and the innermost place in code that is not ours."""
    line = error.message if isinstance(error, StellwerkError) else traceback.format_exception_only(error)[-1].strip()
    if isinstance(error, ModuleNotFoundError):
        line += "; install it into this environment"
    if isinstance(error, SyntaxError):
        return f"{line} ({error.filename}, line {error.lineno})"
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if not frame.filename.startswith((_OURS, "<frozen importlib"))]
    return f"{line} ({theirs[-1].filename}, line {theirs[-1].lineno})" if theirs else line
