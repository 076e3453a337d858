"""The PostgreSQL of a run of pytest does not outlive it, however the run ends."""

import signal
import subprocess
import sys
from pathlib import Path

import psycopg

from tests.postgres import command_of, remove_what_was_left

RUN = """
import time
from tests.postgres import ServerOfRun, folder_of_run

with folder_of_run() as folder:
    print(ServerOfRun(folder).url("postgres"), folder, flush=True)
    time.sleep(300)
"""


def test_what_a_killed_run_left_is_removed_by_the_next_one_which_leaves_a_running_one_alone() -> None:
    with subprocess.Popen([sys.executable, "-c", RUN], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        url, folder = run.stdout.readline().split()
        server = int((Path(folder) / "data/postmaster.pid").read_text().split()[0])
        remove_what_was_left()
        with psycopg.connect(url) as connection:
            rights = "SELECT rolsuper, rolcreatedb FROM pg_roles WHERE rolname = current_user"
            assert connection.execute(rights).fetchall() == [(False, True)]
        run.send_signal(signal.SIGKILL)
    remove_what_was_left()
    assert not Path(folder).exists()
    assert folder not in command_of(server)
