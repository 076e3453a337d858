"""Import references: loads the object of ``path/to/file.py:name`` or ``package.module:name``.

Only the operator refers to code, on the command line or in the operator's file; it is trusted like
installed packages. A file needs no package: modules next to it can be imported, absolutely or
relatively.
"""

import importlib
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import stellwerk
from stellwerk.agents.graphs.project_modules import project_of
from stellwerk.errors import BrokenReference, StellwerkError
from stellwerk.ids import digest_id

Item = TypeVar("Item")
Made = TypeVar("Made")

_FORM = "write it as path/to/file.py:name or package.module:name"
_SCRIPTS = (".js", ".ts", ".mjs", ".tsx")
_LISTED = 10
"""The most names that an error lists."""
_OURS = str(Path(stellwerk.__file__).parent)
_LIBRARIES = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib"))
_WITHOUT_PYDANTIC_1 = ("langchain", "langchain_core")


def load_reference(reference: str) -> Any:
    """Import the object of a reference; each module is imported once.

    Raises:
        BrokenReference: there is no such file, module or name, or the import failed.
    """
    place, _, name = reference.rpartition(":")
    if not place or not name.isidentifier():
        raise BrokenReference(reference, _FORM)
    if place.endswith(_SCRIPTS):
        raise BrokenReference(reference, "is JavaScript; only graphs in Python can run here")
    if place.endswith(".py"):
        module = _from_file(reference, Path(place))
    else:
        module = _from_package(reference, place)
    if not hasattr(module, name):
        raise BrokenReference(reference, f"there is no {name!r} in it; {_hint(name, _own_names(module))}")
    return getattr(module, name)


def absolute_reference(folder: Path, reference: str) -> str:
    """The reference with the path of its file, if it has one, relative to the folder no more."""
    place, _, name = reference.rpartition(":")
    return f"{folder / Path(place).expanduser()}:{name}" if place.endswith(".py") else reference


def load_all(items: Iterable[Item], load: Callable[[Item], Made]) -> list[Made]:
    """Load every item; errors are raised together, after the last one."""
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


@contextmanager
def operator_code(reference: str, doing: str, *, folder: Path | None = None) -> Iterator[None]:
    """Runs code of the operator: its exceptions become a BrokenReference with their location.

    The folder is on ``sys.path`` only inside the block.
    """
    if folder is not None:
        sys.path.insert(0, str(folder))
    try:
        yield
    except BrokenReference:
        raise
    except (Exception, SystemExit) as error:
        raise BrokenReference(reference, f"{doing} failed: {_last_line(error)}") from error
    finally:
        if folder is not None and str(folder) in sys.path:
            sys.path.remove(str(folder))


def _from_package(reference: str, name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise BrokenReference(reference, _FORM)
    with operator_code(reference, "importing it"):
        return importlib.import_module(name)


def _from_file(reference: str, path: Path) -> ModuleType:
    path = path.expanduser().resolve()
    if not path.is_file():
        raise BrokenReference(reference, f"there is no file {path}; {_beside(path)}")
    if "." in path.stem:
        raise BrokenReference(reference, "a module cannot have a dot in its name; rename the file")
    root, name = _module_name(path)
    importlib.invalidate_caches()
    with operator_code(reference, "importing it", folder=root):
        module = importlib.import_module(name)
    if module.__file__ is None or Path(module.__file__).resolve() != path:
        remedy = "rename one, or give its project a prefix: name=path/to/langgraph.json"
        problem = f"the module {name} is loaded already, from {module.__file__}; {remedy}"
        raise BrokenReference(reference, problem)
    return module


def _module_name(path: Path) -> tuple[Path | None, str]:
    """The folder to import from, and the module name, in its package or in one made for its folder.

    The name depends on the path alone, so that stored state finds its types after a restart. A
    project that is kept apart needs no folder: its modules are found below its own package.
    """
    if (project := project_of(path)) is not None:
        if not (path.parent / "__init__.py").is_file():
            project.add_folder(path.parent)
        return None, project.module_name(path) or ""
    folder, parts = path.parent, [path.stem]
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    if len(parts) == 1:
        name = f"{re.sub(r'[^A-Za-z0-9]', '_', folder.name)}_{digest_id(str(folder))[:8]}"
        package = ModuleType(name)
        package.__path__ = [str(folder)]
        sys.modules.setdefault(name, package)
        parts.insert(0, name)
    return folder, ".".join(parts)


def _beside(path: Path) -> str:
    if not path.parent.is_dir():
        return f"nor is there a folder {path.parent}"
    siblings = [file.name for file in path.parent.glob("*.py")]
    return _hint(path.name, siblings) if siblings else "there is no .py file in that folder"


def _own_names(module: ModuleType) -> list[str]:
    """The functions and objects of a module, without imported functions, types and texts."""
    values = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    return [
        name
        for name, value in values.items()
        if not isinstance(value, ModuleType | type | str)
        and (not hasattr(value, "__qualname__") or value.__module__ == module.__name__)
    ]


def _hint(name: str, known: list[str]) -> str:
    if near := get_close_matches(name, known, n=1):
        return f"did you mean {near[0]!r}?"
    return f"there are: {', '.join(sorted(known)[:_LISTED])}" if known else "it has no names at all"


def _last_line(error: BaseException) -> str:
    """The last line of the traceback, the innermost location in the operator's code, and where it was raised."""
    line = traceback.format_exception_only(error)[-1].strip()
    if isinstance(error, StellwerkError):
        line = error.message
    if isinstance(error, ModuleNotFoundError):
        line += f"; {_remedy(error.name or '')}"
    if isinstance(error, SyntaxError):
        return f"{line} ({error.filename}, line {error.lineno})"
    frames = traceback.extract_tb(error.__traceback__)
    places = [frame for frame in frames if not frame.filename.startswith((_OURS, "<frozen "))]
    if not places:
        return line
    raised = f"{places[-1].filename}, line {places[-1].lineno}"
    own = [frame for frame in places if not frame.filename.startswith(_LIBRARIES)]
    if not own or own[-1] is places[-1]:
        return f"{line} ({raised})"
    return f"{line} ({own[-1].filename}, line {own[-1].lineno}; raised in {raised})"


def _remedy(module: str) -> str:
    """What to do about a module that cannot be found: its package may be there without it."""
    package = module.partition(".")[0]
    if module.endswith(".pydantic_v1") and package in _WITHOUT_PYDANTIC_1:
        return f"{package} 1.0 removed it; import the same names from pydantic"
    if package == module or find_spec(package) is None:
        return "install it into this environment"
    return f"{package} is installed without it; another version may have it, or it has moved"
