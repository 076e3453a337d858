"""Reader of ``langgraph.json``: the graphs of a LangGraph project, its dependencies and environment.

Reading runs no code. ``LanggraphProject.adopt`` then makes the project's folders importable and sets
its environment variables; the file belongs to the operator and is trusted like the code that it names.
"""

import importlib.metadata
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from dotenv import dotenv_values
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stellwerk.agents.graphs.import_reference import absolute_reference
from stellwerk.errors import SettingsError
from stellwerk.settings import adopt_environment
from stellwerk.spec.messages import messages
from stellwerk.spec.script import Name

_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SCRIPTS = (".js", ".ts", ".mjs", ".tsx")


class _GraphPath(BaseModel):
    path: str


class _File(BaseModel):
    model_config = ConfigDict(extra="allow")

    graphs: Annotated[dict[Name, str | _GraphPath], Field(min_length=1)]
    env: str | dict[str, Any] = {}
    dependencies: list[str] = ["."]


@dataclass(frozen=True, slots=True)
class LanggraphProject:
    """The content of a ``langgraph.json``, with absolute paths."""

    graphs: Mapping[str, str]
    """References for ``load_reference``, by name."""
    env: Mapping[str, str] = field(repr=False)
    folders: tuple[Path, ...]
    """Folders of the project's own modules."""
    notes: tuple[str, ...]
    """What was ignored or is missing, for the operator."""

    def adopt(self) -> None:
        """Make the project's modules importable, and set its variables unless they are set already."""
        adopt_environment(self.env)
        sys.path.extend(str(folder) for folder in self.folders if str(folder) not in sys.path)


def read_langgraph_json(path: Path) -> LanggraphProject:
    """Read the file.

    Raises:
        SettingsError: it cannot be read, or an entry is invalid.
    """
    path = path.expanduser().resolve()
    try:
        file = _File.model_validate_json(path.read_bytes())
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        place, problem = next(messages(error, _File))
        raise SettingsError(f"{path}{', ' if place else ''}{place}: {problem}") from error
    notes: list[str] = []
    graphs = {name: _reference(path, name, value) for name, value in file.graphs.items()}
    folders = _folders(path, file.dependencies, notes)
    env = _env(path, file.env, notes)
    if ignored := sorted(set(file.model_extra or ()) - {"$schema"}):
        notes.append(f"these keys have no meaning here and are ignored: {', '.join(ignored)}")
    return LanggraphProject(graphs, env, folders, tuple(f"{path.name}: {note}" for note in notes))


def _reference(path: Path, name: str, value: str | _GraphPath) -> str:
    written = value if isinstance(value, str) else value.path
    place, _, attribute = written.rpartition(":")
    if not place or not attribute:
        problem = f"{written!r} names no object; write ./agent.py:graph or package.module:graph"
        raise SettingsError(f"{path}, graphs.{name}: {problem}")
    if place.endswith(_SCRIPTS):
        raise SettingsError(f"{path}, graphs.{name}: {written!r} is JavaScript; only graphs in Python can run here")
    return absolute_reference(path.parent, written)


def _folders(path: Path, dependencies: list[str], notes: list[str]) -> tuple[Path, ...]:
    """Folders among the dependencies, with their ``src``; other packages must be installed already."""
    folders: list[Path] = []
    for written in dependencies:
        if written.startswith((".", "/")):
            folder = (path.parent / written).resolve()
            if not folder.is_dir():
                raise SettingsError(f"{path}, dependencies: there is no folder {folder}")
            folders += [place for place in (folder, folder / "src") if place.is_dir()]
            continue
        named = _PACKAGE.match(written)
        try:
            importlib.metadata.distribution(named.group() if named else written)
        except importlib.metadata.PackageNotFoundError:
            notes.append(f"it depends on {written!r}, which is not installed here; if an import fails, install it")
    return tuple(dict.fromkeys(folders))


def _env(path: Path, env: str | dict[str, Any], notes: list[str]) -> dict[str, str]:
    if isinstance(env, str):
        file = (path.parent / env).resolve()
        if not file.is_file():
            notes.append(f"its env file {file} does not exist; variables come from the server's own environment")
        env = dict(dotenv_values(file))
    return {name: str(value) for name, value in env.items() if value is not None}
