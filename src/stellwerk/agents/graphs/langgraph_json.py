"""Reader of ``langgraph.json``: the graphs of a LangGraph project, its folders and environment.

Reading runs no code; ``LanggraphProject.adopt`` makes the folders importable and sets variables.
The file belongs to the operator and is trusted like the code that it names.
"""

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
        """Make the project's modules importable, and set its variables unless they are set."""
        adopt_environment(self.env)
        sys.path.extend(str(folder) for folder in self.folders if str(folder) not in sys.path)


def read_langgraph_json(path: Path) -> LanggraphProject:
    """Read the file."""
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
    folders = _folders(path, file.dependencies)
    env = file.env
    if isinstance(env, str):
        env_file = (path.parent / env).resolve()
        if not env_file.is_file():
            remedy = "variables come from the server's own environment"
            notes.append(f"its env file {env_file} does not exist; {remedy}")
        env = dotenv_values(env_file)
    variables = {name: str(value) for name, value in env.items() if value is not None}
    if ignored := sorted(set(file.model_extra or ()) - {"$schema"}):
        notes.append(f"these keys have no meaning here and are ignored: {', '.join(ignored)}")
    notes = [f"{path.name}: {note}" for note in notes]
    return LanggraphProject(graphs, variables, folders, tuple(notes))


def _reference(path: Path, name: str, value: str | _GraphPath) -> str:
    written = value if isinstance(value, str) else value.path
    place, _, attribute = written.rpartition(":")
    problem = None
    if not place or not attribute:
        problem = "names no object; write ./agent.py:graph or package.module:graph"
    elif place.endswith(_SCRIPTS):
        problem = "is JavaScript; only graphs in Python can run here"
    if problem:
        raise SettingsError(f"{path}, graphs.{name}: {written!r} {problem}")
    return absolute_reference(path.parent, written)


def _folders(path: Path, dependencies: list[str]) -> tuple[Path, ...]:
    """Folders among the dependencies, with their ``src``; packages must be installed already."""
    folders: list[Path] = []
    for written in dependencies:
        if written.startswith((".", "/")):
            folder = (path.parent / written).resolve()
            if not folder.is_dir():
                raise SettingsError(f"{path}, dependencies: there is no folder {folder}")
            folders += [place for place in (folder, folder / "src") if place.is_dir()]
    return tuple(dict.fromkeys(folders))
