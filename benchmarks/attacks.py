"""Bad agent systems: how long the slowest of them keeps the server busy until it is refused."""

import time
from pathlib import Path
from statistics import median

from benchmarks.figures import Figure, at_most
from stellwerk.errors import SpecError
from stellwerk.spec.load import load_system
from stellwerk.spec.resolve import admit
from tests.spec.attack_texts import CASES, CATALOGUE

REPEATS = 5


async def measure(_: Path) -> list[Figure]:
    spent = {name: median(_seconds(text) for _ in range(REPEATS)) for name, (text, _) in CASES.items()}
    slowest = max(spent, key=spent.__getitem__)
    note = f"{slowest}; of {len(spent)}"
    return [at_most("bad YAML refused, the slowest of all attacks", spent[slowest] * 1e3, "ms", 100, note)]


def _seconds(text: str | bytes) -> float:
    start = time.thread_time()
    try:
        admit(load_system(text, source="attack.yaml"), CATALOGUE)
    except SpecError:
        return time.thread_time() - start
    raise AssertionError("an attack was let in")
