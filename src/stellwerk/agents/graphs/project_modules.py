"""Modules of a LangGraph project under a package name of their own.

Two projects may have modules of the same name: `src/agent/graph.py` is that of LangGraph's own
template. A project with a prefix is imported below a package that belongs to its folders, so that
`agent.graph` becomes `project_1a2b3c4d.agent.graph`. Its import statements find its own modules
first, also those in functions; a module that is named in a string (`importlib.import_module`) is
not found there.
"""

import builtins
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from stellwerk.ids import digest_id

_INSTALLED = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))


class ProjectModules(MetaPathFinder):
    """The modules of one project; importable once it is in ``sys.meta_path``."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = list(folders)
        # It depends on the path alone, so that stored state finds its types after a restart.
        self.name = f"project_{digest_id(str(folders[0]))[:8]}"
        self._own: dict[str, bool] = {}
        self._package = ModuleType(self.name)
        self._package.__path__ = [str(folder) for folder in folders]

    def install(self) -> None:
        sys.modules[self.name] = self._package
        sys.meta_path.insert(0, self)

    def module_name(self, file: Path) -> str | None:
        """The name of the module of a file; None if the file is not part of the project."""
        around = [folder for folder in self._folders if file.is_relative_to(folder)]
        if not around:
            return None
        inside = file.relative_to(max(around, key=lambda folder: len(folder.parts))).with_suffix("")
        return ".".join((self.name, *inside.parts))

    def add_folder(self, folder: Path) -> None:
        """Modules next to a file that is in no package can be imported from it."""
        if folder not in self._folders:
            self._folders.append(folder)
            self._package.__path__ = [*self._package.__path__, str(folder)]
            self._own.clear()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(f"{self.name}."):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _Loader(spec.loader.name, spec.loader.path, self)
        return spec

    def has(self, name: str) -> bool:
        """Whether a top-level module of this name is the project's own."""
        if name not in self._own:
            self._own[name] = name not in sys.stdlib_module_names and self._is_own(name)
        return self._own[name]

    def _is_own(self, name: str) -> bool:
        spec = PathFinder.find_spec(name, [str(folder) for folder in self._folders])
        if spec is None:
            return False
        if spec.origin is not None:
            return True
        # A folder without __init__.py; as always in Python, an installed package goes first.
        installed = PathFinder.find_spec(name, [place for place in sys.path if place.startswith(_INSTALLED)])
        return installed is None or installed.origin is None

    def import_module(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """``__import__`` of the project's modules: what every import statement calls."""
        top = name.partition(".")[0]
        if level or not self.has(top):
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        found = builtins.__import__(f"{self.name}.{name}", globals, locals, fromlist or (), 0)
        return found if fromlist else sys.modules[f"{self.name}.{top}"]


class _Loader(SourceFileLoader):
    """Runs a module with the project's ``__import__``; functions of the module keep it."""

    def __init__(self, fullname: str, path: str, modules: ProjectModules) -> None:
        super().__init__(fullname, path)
        self._modules = modules

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": self._modules.import_module}
        super().exec_module(module)


_projects: dict[tuple[Path, ...], ProjectModules] = {}


def keep_apart(folders: Sequence[Path]) -> ProjectModules:
    """Import the modules in these folders under names of their own from now on."""
    key = tuple(folders)
    if key not in _projects:
        _projects[key] = ProjectModules(folders)
        _projects[key].install()
    return _projects[key]


def project_of(file: Path) -> ProjectModules | None:
    """The project that is kept apart and has this file."""
    return next((project for project in _projects.values() if project.module_name(file)), None)
