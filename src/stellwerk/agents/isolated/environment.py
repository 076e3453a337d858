"""The environment of a worker: which versions it needs there, and the start of the worker in it.

This module imports nothing that a project may lack, so that it can say what is missing.
"""

import re
import sys
from importlib import metadata
from typing import Any, NoReturn

NEEDED = {
    "langgraph": "1.0.6",  # the first that goes with langgraph-checkpoint 4
    "langgraph-checkpoint": "4.0.1",  # the first that can be limited to listed types in stored state
    "langchain-core": "1.0",
    "pydantic": "2.7.4",
}
"""Each is the lowest version with which the tests of isolated graphs pass: `make floors`."""


def work(request: dict[str, Any], answer: int) -> NoReturn:
    if wrong := problems():
        newer = " ".join(f"'{name}>={version}'" for name, version in NEEDED.items())
        sys.exit(f"{'; '.join(wrong)}. Update the environment {sys.prefix}: pip install {newer}")
    from stellwerk.agents.isolated import worker

    worker.work(request, answer)


def problems() -> list[str]:
    """What is missing in this environment, or too old."""
    found: list[str] = []
    for name, needed in NEEDED.items():
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            found.append(f"{name} is not installed, and a worker needs {needed} or newer")
        else:
            if numbers(version) < numbers(needed):
                found.append(f"{name} {version} is too old: a worker needs {needed} or newer")
    return found


def numbers(version: str) -> tuple[int, ...]:
    """The numbers of a release, to compare it with others; what follows them does not count."""
    release = re.match(r"\d+(\.\d+)*", version)
    parts = [int(each) for each in release[0].split(".")] if release else []
    return (*parts, 0, 0, 0)[:3]
