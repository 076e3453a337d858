"""Limits of a worker: memory, and the number of processes that it and its children may be.

Memory is limited by the kernel for each process (RLIMIT_DATA). The number of processes is limited by
a cgroup where the server may create one; elsewhere the supervisor counts them.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import structlog

logger = structlog.get_logger(__name__)

PROCESSES = 128
"""Processes below one supervisor; more are an accident."""
_PREFIX = "stellwerk-"
_COUNTED = f"processes of isolated graphs are counted twice a second; if there are more than {PROCESSES}, all are ended"
BASES = (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
"""Where version 1 has the controller of processes, where version 2 is mounted, and where it is beside version 1."""


def apply_limits(request: dict[str, Any]) -> None:
    """Limit this process, and all that it starts."""
    if (memory := request["memory"]) is not None and sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    if (group := request["cgroup"]) is not None:
        Path(group, "cgroup.procs").write_text(str(os.getpid()))


class Cgroups:
    """The cgroups of a server's workers."""

    def __init__(self, bases: Sequence[Path] = BASES) -> None:
        self._bases = bases
        self._is_logged = False

    def make(self, number: int) -> Path | None:
        """A cgroup with a limit of processes; None where this server may not create one, which is logged once."""
        made = next(filter(None, (_made(base, number) for base in self._bases)), None)
        if made is None and not self._is_logged:
            self._is_logged = True
            logger.warning("worker_without_cgroup", looked=[str(base) for base in self._bases], instead=_COUNTED)
        return made


def _made(base: Path, number: int) -> Path | None:
    if not os.access(base / "cgroup.procs", os.W_OK):  # no cgroup, or the server's own process may not leave it
        return None
    for left in base.glob(f"{_PREFIX}*-*"):  # of a server that was killed
        if not Path("/proc", left.name.split("-")[1]).exists():
            remove_cgroup(left)
    group = base / f"{_PREFIX}{os.getpid()}-{number}"
    try:
        group.mkdir()
    except OSError:
        return None
    try:
        _limit(base, group)
    except OSError:
        remove_cgroup(group)
        return None
    return group


def _limit(base: Path, group: Path) -> None:
    """
    Raises:
        OSError: there is no controller of processes, or this cgroup can have no process.
    """
    kind = group / "cgroup.type"  # of version 2
    if kind.exists() and not (base / "cgroup.type").exists() and not (group / "pids.max").exists():
        (base / "cgroup.subtree_control").write_text("+pids")  # at the root only: another one may have processes
    if kind.exists() and kind.read_text("ascii").strip() != "domain":
        raise OSError("it can have no process")
    (group / "pids.max").write_text(str(PROCESSES))


def is_full(group: Path | None) -> bool:
    """Whether a process was refused in this cgroup: those that are there may never end."""
    try:
        return group is not None and not (group / "pids.events").read_text("ascii").startswith("max 0")
    except OSError:
        return False


def remove_cgroup(group: Path) -> None:
    """Remove a cgroup whose processes have ended."""
    try:
        group.rmdir()
    except OSError:  # it is gone, or one of its processes is stuck in the kernel
        return
