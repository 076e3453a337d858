"""The server as ``stellwerk serve`` runs it, with two things to learn from: a profile, and another saver.

``python -m benchmarks.server --port 0 --data FOLDER [--profile FILE] [--memory]``
"""

import argparse
import cProfile
import pstats
import threading
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks.processes import allow_many_connections
from stellwerk import app
from stellwerk.agents.checkpoints.saver import DurableSaver
from stellwerk.ops import serve
from stellwerk.settings import Settings

# isort: split
from langgraph.checkpoint.memory import InMemorySaver


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.server", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--profile", type=Path, help="write what each function cost, for pstats")
    parser.add_argument("--memory", action="store_true", help="keep checkpoints in memory, to see what ours cost")
    given = parser.parse_args()
    allow_many_connections()
    if given.memory:
        vars(app)[DurableSaver.__name__] = lambda *_, **__: InMemorySaver()
    settings = Settings(port=given.port, data=given.data)
    if given.profile:
        _profiled(settings, given.profile)
    else:
        serve.serve(settings, _say)


def _say(text: str) -> None:
    print(text, flush=True)


def _profiled(settings: Settings, file: Path) -> None:
    """Threads too, as the database does its work on them."""
    profiles = [cProfile.Profile()]

    def begin(frame: FrameType, event: str, arg: Any) -> None:
        profiles.append(cProfile.Profile())
        profiles[-1].enable()

    threading.setprofile(begin)
    profiles[0].runcall(serve.serve, settings, _say)
    merged = pstats.Stats(profiles[0])
    for profile in profiles[1:]:
        merged.add(profile)
    merged.dump_stats(file)


if __name__ == "__main__":
    main()
