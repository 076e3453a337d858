"""A team's ``langgraph.json``, read as it is: which graphs there are, and what their code needs around it.

Reading runs nothing. ``LanggraphProject.adopt`` then makes the project's
folders importable and hands its variables to its code; the file is the
operator's own and is trusted like the code that it names.
"""

import importlib.metadata
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from dotenv import dotenv_values

from stellwerk.errors import SettingsError
from stellwerk.settings import adopt_environment

_LARGEST = 1024 * 1024
_READ = ("graphs", "env", "dependencies", "$schema")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SCRIPTS = (".js", ".ts", ".mjs", ".tsx")


@dataclass(frozen=True, slots=True)
class LanggraphProject:
    """What a ``langgraph.json`` says, with all paths made absolute."""

    graphs: Mapping[str, str]
    """Names, and references as ``load_reference`` takes them."""
    descriptions: Mapping[str, str]
    env: Mapping[str, str] = field(repr=False)
    folders: tuple[Path, ...]
    """Where the project's own modules lie."""
    notes: tuple[str, ...]
    """What was ignored, or is missing, for a human to read."""

    def adopt(self) -> None:
        """Make the project's modules importable from now on, and set its variables where they are not set yet."""
        adopt_environment(self.env)
        sys.path.extend(str(folder) for folder in self.folders if str(folder) not in sys.path)


def read_langgraph_json(path: Path) -> LanggraphProject:
    """Read the file.

    Raises:
        SettingsError: it cannot be read, or one of its entries has no meaning; says which.
    """
    path = path.expanduser().resolve()
    return _Reader(path, _object(path)).project()


def _object(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise SettingsError(f"{path} has more than {_LARGEST} bytes; this is hardly a langgraph.json")
        found = json.loads(content)
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{path} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise SettingsError(f'{path} must hold an object, such as {{"graphs": {{"agent": "./agent.py:graph"}}}}')
    return found


class _Reader:
    def __init__(self, path: Path, content: dict[str, Any]) -> None:
        self._path, self._content = path, content
        self._notes: list[str] = []

    def project(self) -> LanggraphProject:
        graphs = self._expect("graphs", self._content.get("graphs"), dict)
        if not graphs:
            self._fail("graphs", "names no graph; write, for instance, {'agent': './agent.py:graph'}")
        references = {name: self._reference(name, value) for name, value in graphs.items()}
        folders, env = self._folders(), self._env()
        if ignored := sorted(set(self._content) - set(_READ)):
            self._note(f"these keys have no meaning here and are ignored: {', '.join(ignored)}")
        return LanggraphProject(
            graphs=references,
            descriptions={
                name: str(value["description"])
                for name, value in graphs.items()
                if isinstance(value, dict) and value.get("description")
            },
            env=env,
            folders=folders,
            notes=tuple(self._notes),
        )

    def _reference(self, name: str, value: object) -> str:
        where = f"graphs.{name}"
        if not _NAME.fullmatch(name):
            self._fail(where, "a name has at most 64 letters, digits, - and _; rename it")
        if isinstance(value, dict):
            value = value.get("path")
        written = self._expect(where, value, str)
        place, colon, attribute = written.rpartition(":")
        if not colon or not place or not attribute:
            self._fail(where, f"{written!r} names no object; write ./agent.py:graph or package.module:graph")
        if place.endswith(_SCRIPTS):
            self._fail(where, f"{written!r} is JavaScript; only graphs in Python can run here")
        return f"{self._absolute(place)}:{attribute}" if place.endswith(".py") else written

    def _folders(self) -> tuple[Path, ...]:
        folders: list[Path] = []
        for dependency in self._expect("dependencies", self._content.get("dependencies", ["."]), list):
            written = self._expect("dependencies", dependency, str)
            if written.startswith((".", "/")):
                folders += self._local(written)
            else:
                self._check_package(written)
        return tuple(dict.fromkeys(folders))

    def _local(self, written: str) -> list[Path]:
        folder = self._absolute(written)
        if not folder.is_dir():
            self._fail("dependencies", f"there is no folder {folder}")
        source = folder / "src"
        return [folder, source] if source.is_dir() else [folder]

    def _check_package(self, written: str) -> None:
        named = _PACKAGE.match(written)
        try:
            importlib.metadata.distribution(named.group() if named else written)
        except importlib.metadata.PackageNotFoundError:
            self._note(f"it depends on {written!r}, which is not installed here; if an import fails, install it")

    def _env(self) -> dict[str, str]:
        env = self._content.get("env", {})
        if isinstance(env, str):
            file = self._absolute(env)
            if not file.is_file():
                self._note(f"its env file {file} does not exist; variables come from the server's own environment")
            env = dotenv_values(file)
        found = self._expect("env", env, dict)
        return {name: str(value) for name, value in found.items() if value is not None}

    def _absolute(self, written: str) -> Path:
        return (self._path.parent / written).resolve()

    def _expect(self, where: str, value: object, kind: type[dict[str, Any] | list[Any] | str]) -> Any:
        if not isinstance(value, kind):
            wanted = {"dict": "an object", "list": "a list", "str": "a text"}
            self._fail(where, f"{wanted[kind.__name__]} is needed, not {json.dumps(value, default=str)[:80]}")
        return value

    def _fail(self, where: str, problem: str) -> NoReturn:
        raise SettingsError(f"{self._path}, {where}: {problem}")

    def _note(self, note: str) -> None:
        self._notes.append(f"{self._path.name}: {note}")
