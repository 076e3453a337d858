"""The limit of processes of a worker: by a cgroup where this machine lets the server create one, else by counting."""

import os
import subprocess
from pathlib import Path

import pytest
import structlog

from stellwerk.agents.graphs.worker_settings import WorkerSettings
from stellwerk.agents.isolated import limits
from stellwerk.agents.isolated.process import WorkerProcess
from stellwerk.errors import WorkerLost
from stellwerk.timings import Timings
from tests.crash.waiting import eventually
from tests.isolated.serving import alive, descendants

BOMB = """
import os
import time
from pathlib import Path

for _ in range(1000):
    if os.fork() == 0:
        time.sleep(600)
        os._exit(0)
time.sleep(600)
"""


def has_controller(base: Path) -> bool:
    """Whether this folder is a cgroup whose processes the kernel can count."""
    controllers = base / "cgroup.controllers"
    is_there = (base / "cgroup.procs").exists()
    return is_there and (not controllers.exists() or "pids" in controllers.read_text("ascii").split())


@pytest.mark.parametrize("base", limits.BASES, ids=str)
def test_a_cgroup_has_a_limit_and_takes_processes_or_is_not_made(base: Path, tmp_path: Path) -> None:
    made = limits.Cgroups([base]).make(4711)
    if made is None:
        assert not list(base.glob(f"stellwerk-{os.getpid()}-4711"))
        assert not (has_controller(base) and base == limits.BASES[0] and os.access(base / "cgroup.procs", os.W_OK))
        return
    enter = f"echo $$ > {made}/cgroup.procs && cat /proc/self/cgroup > {tmp_path}/in"
    script = f"{enter}; for n in $(seq 200); do sleep 600 & done; wait"
    shell = subprocess.Popen(["/bin/sh", "-c", script], stderr=subprocess.PIPE, text=True)
    assert shell.stderr is not None
    try:
        assert has_controller(base)
        assert (made / "pids.max").read_text("ascii").strip() == str(limits.PROCESSES)
        assert "fork" in shell.stderr.readline(), "one more is refused"
        assert f"/{made.name}\n" in (tmp_path / "in").read_text("ascii")
        assert limits.is_full(made)
    finally:
        for pid in (made / "cgroup.procs").read_text("ascii").split():
            os.kill(int(pid), 9)
        shell.communicate()
        limits.remove_cgroup(made)
    assert not made.exists()


def test_a_folder_that_is_no_cgroup_is_left_alone_and_what_is_done_instead_is_logged_once(tmp_path: Path) -> None:
    cgroups = limits.Cgroups([tmp_path, tmp_path / "missing"])
    with structlog.testing.capture_logs() as logs:
        assert [cgroups.make(number) for number in (1, 2)] == [None, None]
    assert list(tmp_path.iterdir()) == []
    [line] = logs
    assert (line["event"], line["log_level"]) == ("worker_without_cgroup", "warning")
    assert "counted twice a second; if there are more than 128, all are ended" in line["instead"]


async def test_without_a_cgroup_a_fork_bomb_is_counted_and_ended(tmp_path: Path) -> None:
    (tmp_path / "bomb.py").write_text(BOMB)
    before = descendants(os.getpid())
    worker = WorkerProcess(WorkerSettings(), {}, Timings(), lambda: None, cgroups=limits.Cgroups([]))
    spec = {"tenant": "a", "name": "x", "agent": "x", "options": "{}", "origin": f"{tmp_path}/bomb.py:graph"}
    try:
        await worker.ready
        with pytest.raises(WorkerLost):
            await worker.call("describe", spec)
        assert "there are too many processes; all are ended" in worker._printed
    finally:
        await worker.ended()
    left = descendants(os.getpid()) - before
    await eventually(lambda: not alive(left), within=60, what="a process is left")
