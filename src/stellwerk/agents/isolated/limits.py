"""Limits of a worker: memory, and the number of processes that it and its children may be.

Memory is limited by the kernel for each process (RLIMIT_DATA). The number of processes is limited by
a cgroup where the server may create one; the supervisor counts them in any case.
"""

import os
import sys
from pathlib import Path
from typing import Any

PROCESSES = 128
"""Processes below one supervisor; more are an accident."""
_PREFIX = "stellwerk-"
_CGROUPS = (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup"))


def apply_limits(request: dict[str, Any]) -> None:
    """Limit this process, and all that it starts."""
    if (memory := request["memory"]) is not None and sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    if (group := request["cgroup"]) is not None:
        Path(group, "cgroup.procs").write_text(str(os.getpid()))


def make_cgroup(number: int) -> Path | None:
    """A cgroup with a limit of processes; None where this server may not create one."""
    for root in _CGROUPS:
        for left in root.glob(f"{_PREFIX}*-*"):  # of a server that was killed
            if not Path("/proc", left.name.split("-")[1]).exists():
                remove_cgroup(left)
        group = root / f"{_PREFIX}{os.getpid()}-{number}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / "pids.max").write_text(str(PROCESSES))
        except OSError:
            remove_cgroup(group)
        else:
            return group
    return None


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
