"""What `stellwerk serve` is pointed at: a graph in a file, or a LangGraph project."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import structlog

from stellwerk.agents.graph_files import read_langgraph_json
from stellwerk.errors import SettingsError

logger = structlog.get_logger(__name__)


def graphs_of(targets: Sequence[str]) -> dict[str, str]:
    """The graphs that the targets name, and where they lie. A project's modules and variables are adopted.

    Raises:
        SettingsError: two graphs of one name, or a project that cannot be read.
    """
    found: dict[str, str] = {}
    for target in targets:
        for name, reference in _graphs(target).items():
            if name in found:
                raise SettingsError(f"both {found[name]} and {reference} would be called {name!r}; serve one of them")
            found[name] = reference
    return found


def system_of(graph: str) -> str:
    """The agent system of a graph that is served as it is."""
    agent = {"id": graph, "kind": "graph", "graph": graph}
    return json.dumps({"version": 1, "system": {"name": graph}, "agents": [agent]})


def _graphs(target: str) -> Mapping[str, str]:
    if target.endswith(".json"):
        project = read_langgraph_json(Path(target))
        for note in project.notes:
            logger.warning("langgraph_json", file=target, note=note)
        project.adopt()
        return project.graphs
    place, _, _ = target.rpartition(":")
    stem = Path(place).stem if place.endswith(".py") else place.rpartition(".")[2]
    return {re.sub(r"[^A-Za-z0-9_-]+", "-", stem).lstrip("_-") or "graph": target}
