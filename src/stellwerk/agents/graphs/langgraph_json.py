"""Reader of ``langgraph.json``: the graphs of a LangGraph project, its folders and environment.

Reading runs no code; ``LanggraphProject.adopt`` makes the folders importable and sets variables.
The file belongs to the operator and is trusted like the code that it names.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from dotenv import dotenv_values
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stellwerk.agents.graphs.import_reference import absolute_reference
from stellwerk.agents.graphs.project_modules import keep_apart
from stellwerk.errors import SettingsError
from stellwerk.settings import adopt_environment
from stellwerk.spec.messages import messages
from stellwerk.spec.operator import StoreIndex, StoreTtl, WebhookPolicy

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_NEVER_IMPORTED = {"setup", "conftest", "tests", "__init__"}
_DEMO = "demo"
"""The id of the demo system, which no graph can have."""
_AUTH = (
    "its key 'auth' guards the graphs with code that is not run here, "
    "and ignoring it would open what its author closed; "
    "start with --ignore-auth if the API keys of this server guard them instead"
)


class _GraphPath(BaseModel):
    path: str


class _Http(BaseModel):
    model_config = ConfigDict(extra="allow")

    app: str | None = None
    enable_custom_route_auth: bool = True


class _Index(StoreIndex):
    model_config = ConfigDict(extra="allow")


class _StoreTtl(StoreTtl):
    model_config = ConfigDict(extra="allow")

    sweep_interval_minutes: float | None = None
    """Has no meaning: items expire at their time."""


class _Store(BaseModel):
    model_config = ConfigDict(extra="allow")

    index: _Index | None = None
    ttl: _StoreTtl | None = None


class _WebhookUrl(BaseModel):
    model_config = ConfigDict(extra="allow")

    require_https: bool = True
    allowed_domains: list[str] = []
    allowed_ports: list[int] = []


class _Webhooks(BaseModel):
    model_config = ConfigDict(extra="allow")

    url: _WebhookUrl = _WebhookUrl()

    def policy(self) -> WebhookPolicy:
        url = self.url
        return WebhookPolicy(
            allowed_hosts=url.allowed_domains, allowed_ports=url.allowed_ports, allow_http=not url.require_https
        )


class _Ttl(BaseModel):
    model_config = ConfigDict(extra="allow")

    strategy: Literal["delete"] = "delete"
    default_ttl: Annotated[float | None, Field(gt=0)] = None
    sweep_interval_minutes: float | None = None


class _Checkpointer(BaseModel):
    model_config = ConfigDict(extra="allow")

    ttl: _Ttl = _Ttl()


class _File(BaseModel):
    model_config = ConfigDict(extra="allow")

    graphs: Annotated[dict[str, str | _GraphPath], Field(min_length=1)]
    env: str | dict[str, Any] = {}
    dependencies: list[str] = ["."]
    http: _Http = _Http()
    store: _Store | None = None
    webhooks: _Webhooks | None = None
    checkpointer: _Checkpointer | None = None

    def unused(self) -> set[str]:
        """Keys of ``webhooks`` and ``checkpointer`` that have no meaning here."""
        webhooks = self.webhooks or _Webhooks()
        found = {f"webhooks.{key}" for key in webhooks.model_extra or ()}
        found |= {f"webhooks.url.{key}" for key in webhooks.url.model_extra or ()}
        return found | {f"checkpointer.{key}" for key in (self.checkpointer or _Checkpointer()).model_extra or ()}


@dataclass(frozen=True, slots=True)
class HttpApp:
    """An app of the project, for requests that are not for this server's own routes."""

    reference: str
    is_open: bool
    """Whether it asks for no credential of this server."""


@dataclass(frozen=True, slots=True)
class LanggraphProject:
    """The content of a ``langgraph.json``, with absolute paths."""

    graphs: Mapping[str, str]
    """References for ``load_reference``, by name."""
    env: Mapping[str, str] = field(repr=False)
    folders: tuple[Path, ...]
    """Folders of the project's own modules."""
    notes: tuple[str, ...]
    """What was ignored, renamed or is missing, for the operator."""
    is_apart: bool = False
    """Whether its modules are imported under names of their own, beside those of other projects."""
    http_app: HttpApp | None = None
    store_index: StoreIndex | None = None
    store_ttl: StoreTtl | None = None
    webhooks: WebhookPolicy | None = None
    ttl: float | None = None
    """Seconds without activity after which a session with one of its graphs is deleted."""

    def adopt(self) -> None:
        """Make the project's modules importable, and set its variables unless they are set."""
        adopt_environment(self.env)
        if self.is_apart:
            keep_apart(self.folders)
            return
        sys.path.extend(str(folder) for folder in self.folders if str(folder) not in sys.path)

    def clashes(self, other: "LanggraphProject") -> Iterator[str]:
        """What this project does not get as it expects if ``other`` was adopted before it."""
        variables = sorted(name for name, value in self.env.items() if other.env.get(name, value) != value)
        if variables:
            yield f"its variables have other values there, which are used: {', '.join(variables)}"
        modules = set() if self.is_apart or other.is_apart else self._modules() & other._modules()
        if modules:
            remedy = "put a prefix in front of one: name=path/to/langgraph.json"
            yield f"modules have the same names, and one of each is used: {', '.join(sorted(modules))}; {remedy}"

    def _modules(self) -> set[str]:
        """The top-level modules of its folders."""
        files = [file for folder in self.folders for file in (*folder.glob("*.py"), *folder.glob("*/__init__.py"))]
        return {file.parent.name if file.name == "__init__.py" else file.stem for file in files} - _NEVER_IMPORTED


def read_langgraph_json(path: Path, *, prefix: str | None = None, ignore_auth: bool = False) -> LanggraphProject:
    """Read the file. With a prefix in front of its graphs, its modules are kept apart too.

    Raises:
        SettingsError: the file is malformed, or its key ``auth`` would have to be ignored.
    """
    path = path.expanduser().resolve()
    try:
        file = _File.model_validate_json(path.read_bytes())
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        place, problem = next(messages(error, _File))
        raise SettingsError(f"{path}{', ' if place else ''}{place}: {problem}") from error
    extra = file.model_extra or {}
    if extra.get("auth") and not ignore_auth:
        raise SettingsError(f"{path}: {_AUTH}")
    notes: list[str] = []
    ids = _ids(file.graphs, prefix)
    for name, id_ in ids.items():
        if id_ not in (name, f"{prefix}-{name}"):
            notes.append(f"the graph {name!r} is served as {id_!r}")
    folders = _folders(path, file.dependencies)
    if prefix is not None:
        folders = tuple(dict.fromkeys((path.parent, *folders)))
    written = {ids[name]: _reference(path, f"graphs.{name}", value) for name, value in file.graphs.items()}
    graphs = {id_: _in_folders(folders, each) if prefix else each for id_, each in written.items()}
    http_app = _http_app(path, file.http, folders if prefix else ())
    env = file.env
    if isinstance(env, str):
        env_file = (path.parent / env).resolve()
        if not env_file.is_file():
            remedy = "variables come from the server's own environment"
            notes.append(f"its env file {env_file} does not exist; {remedy}")
        env = dotenv_values(env_file)
    variables = {name: str(value) for name, value in env.items() if value is not None}
    in_http = {f"http.{key}" for key in file.http.model_extra or {}}
    store_index, unused = _store_index(path, file.store or _Store())
    if ignored := sorted({*extra, *in_http, *unused, *file.unused()} - {"$schema"}):
        notes.append(f"these keys have no meaning here and are ignored: {', '.join(ignored)}")
    notes = [f"{path.name}: {note}" for note in notes]
    minutes = None if file.checkpointer is None else file.checkpointer.ttl.default_ttl
    return LanggraphProject(
        graphs=graphs,
        env=variables,
        folders=folders,
        notes=tuple(notes),
        is_apart=prefix is not None,
        http_app=http_app,
        store_index=store_index,
        store_ttl=_store_ttl(file.store or _Store()),
        webhooks=None if file.webhooks is None else file.webhooks.policy(),
        ttl=None if minutes is None else minutes * 60,
    )


def _store_index(path: Path, store: _Store) -> tuple[StoreIndex | None, set[str]]:
    """The index, with the path of its function; and keys of ``store`` that have no meaning here."""
    unused = {f"store.{key}" for key in store.model_extra or ()}
    unused |= {f"store.ttl.{key}" for key in (store.ttl or _StoreTtl()).model_extra or ()}
    if store.index is None:
        return None, unused
    unused |= {f"store.index.{key}" for key in store.index.model_extra or ()}
    embed = absolute_reference(path.parent, store.index.embed)
    return StoreIndex(embed=embed, dims=store.index.dims, fields=store.index.fields), unused


def _store_ttl(store: _Store) -> StoreTtl | None:
    if store.ttl is None:
        return None
    return StoreTtl(default_ttl=store.ttl.default_ttl, refresh_on_read=store.ttl.refresh_on_read)


def _ids(names: Iterable[str], prefix: str | None) -> dict[str, str]:
    """The id of each graph: its name, with the prefix, as far as an id can have it."""
    wanted = {name: f"{prefix}-{name}" if prefix else name for name in names}
    ids = {name: id_ for name, id_ in wanted.items() if _NAME.fullmatch(id_) and id_ != _DEMO}
    for name, id_ in wanted.items():
        if name not in ids:
            stem = re.sub(r"[^A-Za-z0-9_-]+", "-", id_).strip("-_")[:60].rstrip("-_") or "graph"
            choices = (stem, *(f"{stem}-{number}" for number in range(2, len(wanted) + 3)))
            ids[name] = next(one for one in choices if one != _DEMO and one not in ids.values())
    return {name: ids[name] for name in wanted}


def _reference(path: Path, field: str, value: str | _GraphPath) -> str:
    written = value if isinstance(value, str) else value.path
    place, _, attribute = written.rpartition(":")
    if not place or not attribute:
        problem = "names no object; write ./agent.py:graph or package.module:graph"
        raise SettingsError(f"{path}, {field}: {written!r} {problem}")
    return absolute_reference(path.parent, written)


def _http_app(path: Path, http: _Http, folders: Iterable[Path]) -> HttpApp | None:
    if http.app is None:
        return None
    reference = _in_folders(folders, _reference(path, "http.app", http.app))
    return HttpApp(reference, is_open=not http.enable_custom_route_auth)


def _in_folders(folders: Iterable[Path], reference: str) -> str:
    """The reference by file, if it names a module in one of the folders: an installed one stays."""
    place, _, attribute = reference.rpartition(":")
    for folder in folders:
        module = folder.joinpath(*place.split("."))
        for file in (module.with_name(f"{module.name}.py"), module / "__init__.py"):
            if file.is_file():
                return f"{file}:{attribute}"
    return reference


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
