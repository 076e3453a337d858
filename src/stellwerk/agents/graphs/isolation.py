"""Isolation: which graphs run in processes of their own."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from stellwerk.agents.graphs.langgraph_json import LanggraphProject
from stellwerk.agents.graphs.worker_settings import WorkerSettings
from stellwerk.spec.operator import ALL_GRAPHS, GraphProcess, Operator


@dataclass(frozen=True, slots=True)
class Isolation:
    """Which graphs are isolated: all with ``--isolate``, or those of the operator's file."""

    operator: Operator
    every: bool = False
    projects: Mapping[str, LanggraphProject] = field(default_factory=dict)
    """The LangGraph projects of graphs, by their names."""
    window: float = 0
    """That of the recorders, in seconds: at its end they take what processes have sent."""

    def worker_of(self, name: str, origin: str) -> WorkerSettings | None:
        """The settings for a graph; None if it runs in the server's process."""
        chosen = self.operator.isolate.get(name) or self.operator.isolate.get(ALL_GRAPHS)
        if chosen is None and not self.every:
            return None
        chosen = chosen or GraphProcess()
        place = origin.rpartition(":")[0]
        folder = str(Path(place).expanduser().resolve().parent) if place.endswith(".py") else ""
        project = self.projects.get(name)
        settings = WorkerSettings(
            python=chosen.python,
            memory=chosen.memory_bytes,
            processes=chosen.processes,
            runs=chosen.runs,
            project=folder,
        )
        if project is None:
            return settings
        folders = tuple(map(str, project.folders))
        return replace(
            settings,
            folders=folders,
            is_apart=project.is_apart,
            env=tuple(sorted(project.env.items())),
            project=folders[0] if folders else folder,
        )
