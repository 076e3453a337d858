"""Templates: folders with a service each, and how a service of that kind is started, built and tested."""

import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .names import Refused, project_type

_FOLDER = Path(__file__).parent.parent / "templates"
_NOTE = "service.json"
_NAME = "{{name}}"


@dataclass(frozen=True)
class Template:
    name: str
    language: str
    test: str
    """What a developer types to test it."""
    start: tuple[str, ...]
    """The command that serves it, to which host and port are added."""
    action: str
    """The pipeline step that installs the language, with its version."""
    version: str
    build: tuple[str, ...] = ()
    runs_ours: bool = False
    """Whether the program is the Python that runs us."""

    @property
    def program(self) -> str:
        """What must be installed to run it."""
        return (self.build or self.start)[0]

    def installed(self) -> bool:
        return self.runs_ours or shutil.which(self.program) is not None

    def command(self) -> list[str]:
        return [sys.executable, *self.start[1:]] if self.runs_ours else list(self.start)

    def files(self, service: str) -> dict[str, str]:
        """Everything that a new service begins with, by its path."""
        folder = _FOLDER / self.name
        found = sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        texts = {str(path.relative_to(folder)): path.read_text("utf-8").replace(_NAME, service) for path in found}
        return {**texts, _NOTE: json.dumps({"name": service, "template": self.name}, indent=2) + "\n"}


TEMPLATES = {
    template.name: template
    for template in (
        Template(
            name="python-service",
            language="Python",
            test="python -m unittest",
            start=("python", "service.py"),
            action="actions/setup-python@v5",
            version="3.13",
            runs_ours=True,
        ),
        Template(
            name="node-service",
            language="Node",
            test="node --test",
            start=("node", "service.js"),
            action="actions/setup-node@v4",
            version="22",
        ),
        Template(
            name="go-service",
            language="Go",
            test="go test ./...",
            start=("./.service",),
            action="actions/setup-go@v5",
            version="1.24",
            build=("go", "build", "-o", ".service", "."),
        ),
    )
}


def find(written: str) -> Template:
    """The template of this name, or for this language.

    Raises:
        Refused: there is none.
    """
    return TEMPLATES[project_type(written)]


def template_of(files: Mapping[str, str]) -> Template | None:
    """The template that a repository was begun with, as a file in it says."""
    try:
        return TEMPLATES[json.loads(files[_NOTE])["template"]]
    except (KeyError, ValueError, TypeError):
        return None


def needed(repository: str, files: Mapping[str, str]) -> Template:
    """The same, where nothing can be done without one.

    Raises:
        Refused: it has none.
    """
    found = template_of(files)
    if found is None:
        raise Refused(
            f"{repository} has no template yet; apply one of {', '.join(TEMPLATES)} with apply_template first"
        )
    return found
