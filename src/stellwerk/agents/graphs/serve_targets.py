"""Targets of `stellwerk serve` and `run`: a graph, an agent system, or a LangGraph project."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from os.path import isfile
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from stellwerk.agents.graphs.langgraph_json import HttpApp, LanggraphProject, read_langgraph_json
from stellwerk.errors import SettingsError, SpecError, StellwerkError
from stellwerk.logs import get_logger
from stellwerk.spec.load import load_system
from stellwerk.spec.operator import Operator, StoreIndex, StoreTtl, WebhookPolicy
from stellwerk.spec.yaml import SIZE_LIMIT

logger = get_logger(__name__)
Setting = TypeVar("Setting", bound=BaseModel)

DEMO = "demo"
_FORMS = """write one of these:
  path/to/file.py:graph or package.module:graph   a graph of yours, called like its file
  name=path/to/file.py:graph                      the same, called as you like
  system.yaml, .yml or .json                      an agent system
  langgraph.json                                  the graphs of a LangGraph project
  prefix=path/to/langgraph.json                   the same, with a prefix in front of their names"""
_SYSTEM = (".yaml", ".yml", ".json")
_GRAPH = re.compile(r"(?:(?P<name>[^=/]*)=)?(?P<reference>(?P<place>[^:]+):[A-Za-z_]\w*)")
_PROJECT = re.compile(r"(?:(?P<prefix>[^=/]*)=)?(?P<file>.+\.json)")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class ServedSystems(dict[str, str]):
    """Systems by name, and what their LangGraph projects set for the whole server."""

    store_index: StoreIndex | None = None
    store_ttl: StoreTtl | None = None
    webhooks: WebhookPolicy | None = None
    ttls: Mapping[str, float] = {}
    """Seconds without activity after which a session is deleted, by system."""

    def __init__(self, systems: Mapping[str, str] | None = None) -> None:
        super().__init__(systems or {})
        self.projects: dict[str, LanggraphProject] = {}
        """The LangGraph projects of graphs, by their names."""


def systems_of(targets: Sequence[str], *, ignore_auth: bool = False, isolate: bool = False) -> ServedSystems:
    """The systems of the targets by name.

    The modules and variables of a LangGraph project are adopted, unless its graphs are isolated.

    Raises:
        SettingsError: a target is none, a project has an ``auth`` that must not be ignored, or two have another index.
    """
    found = ServedSystems()
    projects: dict[str, LanggraphProject] = {}
    for target in targets:
        systems = _systems(target, projects, ignore_auth=ignore_auth, isolate=isolate)
        project = projects.get(target.rpartition("=")[2])
        if project is not None:
            found.projects |= dict.fromkeys(project.graphs, project)
        for name, place in systems.items():
            if name in found:
                remedy = ""
                if target.endswith(".json") and not place.endswith(_SYSTEM):
                    remedy = f", or its project a prefix: my={target.rpartition('=')[2]}"
                raise SettingsError(_twice(name, found[name], place) + remedy)
            found[name] = place
    found.store_index = _only(projects, lambda each: each.store_index, "indexes under store.index")
    found.store_ttl = _only(projects, lambda each: each.store_ttl, "times under store.ttl")
    found.webhooks = _only(projects, lambda each: each.webhooks, "webhooks")
    found.ttls = {name: each.ttl for each in projects.values() if each.ttl is not None for name in each.graphs}
    return found


def webhooks_of(operator: Operator, own: Mapping[str, str]) -> WebhookPolicy:
    """The policy of the operator's file, or else that of the LangGraph projects that are served."""
    if "webhooks" not in operator.model_fields_set and isinstance(own, ServedSystems) and own.webhooks is not None:
        return own.webhooks
    return operator.webhooks


def ttls_of(own: Mapping[str, str]) -> Mapping[str, float]:
    return own.ttls if isinstance(own, ServedSystems) else {}


def _only(
    projects: Mapping[str, LanggraphProject], find: Callable[[LanggraphProject], Setting | None], what: str
) -> Setting | None:
    """A setting that the whole server has, of the projects that have it."""
    given = {file: found for file, project in projects.items() if (found := find(project)) is not None}
    if len({each.model_dump_json() for each in given.values()}) > 1:
        remedy = "the server has one setting: write it into the operator's file, and take it out of these"
        raise SettingsError(f"{' and '.join(given)} have different {what}; {remedy}")
    return next(iter(given.values()), None)


def http_app_of(targets: Sequence[str]) -> HttpApp | None:
    """The app that a LangGraph project among the targets has beside its graphs.

    Raises:
        SettingsError: two projects have one, and both would have the same paths.
    """
    found: dict[str, HttpApp] = {}
    for target in targets:
        project = _PROJECT.fullmatch(target)
        if project and _GRAPH.fullmatch(target) is None and is_project(project["file"]):
            read = read_langgraph_json(Path(project["file"]), prefix=project["prefix"], ignore_auth=True)
            if read.http_app is not None:
                found[target] = read.http_app
    if len(found) > 1:
        problem = f"{' and '.join(found)} have an http.app each, and both would have the same paths"
        raise SettingsError(f"{problem}; leave it out of all but one")
    return next(iter(found.values()), None)


def store_index_of(operator: Operator, own: Mapping[str, str]) -> StoreIndex | None:
    """The index of the operator's file, or else that of the LangGraph projects that are served."""
    if operator.store.index is None and isinstance(own, ServedSystems):
        return own.store_index
    return operator.store.index


def store_ttl_of(operator: Operator, own: Mapping[str, str]) -> StoreTtl:
    """When items expire by the operator's file, or else by the LangGraph projects that are served."""
    if "ttl" not in operator.store.model_fields_set and isinstance(own, ServedSystems) and own.store_ttl is not None:
        return own.store_ttl
    return operator.store.ttl


def names_system(target: str) -> bool:
    """Whether the target is the file of an agent system, by its name and content."""
    return target.endswith(_SYSTEM) and isfile(target) and not is_project(target)


def graphs_among(systems: Mapping[str, str]) -> dict[str, str]:
    return {name: place for name, place in systems.items() if not place.endswith(_SYSTEM)}


def served(own: Mapping[str, str], registered: Mapping[str, str]) -> dict[str, str]:
    """Every system to serve beside the demo: of the command line, and graphs of the operator's file.

    An agent system may have the name of a registered graph, and then replaces it.
    """
    for name, place in graphs_among(own).items():
        if name in registered:
            raise SettingsError(_twice(name, f"{registered[name]} of the operator's file", place))
    for name, place in {**registered, **own}.items():
        if name == DEMO:
            problem = f"{place} would be called {name!r}, like the demo system"
            raise SettingsError(f"{problem}; {_another_name(place)}")
    return {**own, **{name: place for name, place in registered.items() if name not in own}}


def text_of(name: str, place: str) -> str:
    """The text of the agent system to register."""
    if place.endswith(_SYSTEM):
        return content_of(place).decode(errors="surrogateescape")
    return system_of(name)


def system_of(graph: str) -> str:
    """The agent system of a graph that is served as it is."""
    agent = {"id": graph, "kind": "graph", "graph": graph}
    return json.dumps({"version": 1, "system": {"name": graph}, "agents": [agent]})


def build_failure(name: str, text: bytes, error: StellwerkError) -> str:
    """Why a registered system cannot be built; a graph of an earlier `serve` may be missing."""
    if not isinstance(error, SpecError) or text != system_of(name).encode():
        return error.message
    remedy = f"start it with `{name}=path/file.py:graph` again, or remove the system"
    return f"the server was started without its graph; {remedy}"


def _systems(
    target: str, projects: dict[str, LanggraphProject], *, ignore_auth: bool, isolate: bool
) -> Mapping[str, str]:
    """``projects`` were adopted before; that of the target is added."""
    graph = _GRAPH.fullmatch(target)
    project = _PROJECT.fullmatch(target)
    if graph is None and project and is_project(project["file"]):
        _check_name(project["prefix"], target)
        read = read_langgraph_json(Path(project["file"]), prefix=project["prefix"], ignore_auth=ignore_auth)
        _adopt(project["file"], read, projects, isolate=isolate)
        return read.graphs
    if graph is None and target.endswith(_SYSTEM):
        return {load_system(content_of(target), source=target).system.system.name: target}
    if graph is None:
        raise SettingsError(f"{target!r} is nothing that can be run; {_FORMS}")
    name, place = graph["name"], graph["place"]
    if name is None:
        stem = Path(place).stem if place.endswith(".py") else place.rpartition(".")[2]
        name = re.sub(r"[^A-Za-z0-9_-]+", "-", stem).lstrip("_-")[:64] or "graph"
    _check_name(name, target)
    return {name: graph["reference"]}


def _check_name(name: str | None, target: str) -> None:
    if name is not None and not _NAME.fullmatch(name):
        rule = "a name has at most 64 letters, digits, - and _"
        raise SettingsError(f"{target!r} cannot be called {name!r}: {rule}")


def _adopt(file: str, project: LanggraphProject, before: dict[str, LanggraphProject], *, isolate: bool) -> None:
    notes = list(project.notes)
    for other, adopted in before.items():
        if not isolate:
            notes += [f"beside {other}, {clash}" for clash in project.clashes(adopted)]
    for note in notes:
        logger.warning("langgraph_json", file=file, note=note)
    if not isolate or project.http_app is not None:  # an app runs in the server
        project.adopt()
    before[file] = project


def is_project(target: str) -> bool:
    """Whether a JSON file is a LangGraph project; otherwise it is read as an agent system."""
    if not target.endswith(".json"):
        return False
    try:
        found = json.loads(content_of(target))
    except (ValueError, RecursionError):
        return Path(target).name == "langgraph.json"
    is_system = isinstance(found, dict) and found.keys() & {"version", "system", "agents"}
    return not is_system or "graphs" in found


def content_of(target: str, *, forms: str = _FORMS) -> bytes:
    try:
        with Path(target).open("rb") as file:
            return file.read(SIZE_LIMIT + 1)
    except OSError as error:
        raise SettingsError(f"cannot read {target}: {error.strerror}; {forms}") from error


def _twice(name: str, one: str, other: str) -> str:
    return f"both {one} and {other} would be called {name!r}; {_another_name(other)}"


def _another_name(place: str) -> str:
    if place.endswith(_SYSTEM):
        return "choose another system.name"
    return f"give it another name, such as my-{Path(place.rpartition(':')[0]).stem}={place}"
