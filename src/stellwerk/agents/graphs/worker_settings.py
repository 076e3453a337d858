"""Settings of worker processes: how the process of a graph is started."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What the workers of a project are started with. Graphs with equal ones share workers."""

    python: str | None = None
    """The interpreter of its environment; None is that of the server."""
    memory: int | None = None
    """Bytes that each process may have."""
    processes: int = 4
    """Workers at one time."""
    runs: int = 8
    """Runs that share a worker before the next one is started."""
    folders: tuple[str, ...] = ()
    """Folders of the project's modules."""
    is_apart: bool = False
    """Whether its modules have a package name of their own."""
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    project: str = ""
    """The folder that it is in: another project has other workers."""
