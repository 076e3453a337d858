"""``python -m benchmarks [subject …]``: measures, prints one table, writes results.json; a miss is said, not failed."""

import argparse
import asyncio
import json
import os
import platform
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path

import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks import (
    append,
    attacks,
    checkpoints,
    dialects,
    end_to_end,
    fanout,
    follow,
    growth,
    isolation,
    join,
    polling,
    postgres,
    replay,
    start,
    state,
    tokens,
)
from benchmarks.figures import Figure, number, seen

RESULTS = Path(__file__).parent / "results.json"
_WIDE = 160


async def _checkpoints(_: Path) -> list[Figure]:
    """Their module has a form of its own, as it can be run alone."""
    measured = await checkpoints.measure()
    figures, budgets, kept = measured["figures"], measured["budgets"], measured["kept"]
    assert isinstance(figures, dict) and isinstance(budgets, dict) and isinstance(kept, dict)
    return [
        seen(f"checkpoints, {name.replace('_', ' ')}", value, "")
        if name not in budgets
        else Figure(f"checkpoints, {name.replace('_', ' ')}", value, "", _allowed(*budgets[name]), kept[name])
        for name, value in figures.items()
    ]


def _allowed(sign: str, limit: float) -> str:
    return f"{'≥' if sign == '>=' else '≤'} {number(limit)}"


SUBJECTS: dict[str, tuple[str, Callable[[Path], Awaitable[list[Figure]]]]] = {
    "append": ("durable appends", append.measure),
    "follow": ("from append to reader", follow.measure),
    "replay": ("stored events read and framed", replay.measure),
    "growth": ("long sessions against short ones", growth.measure),
    "state": ("the state of a long session", state.measure),
    "fanout": ("1 run, 1,000 readers", fanout.measure),
    "postgres": ("PostgreSQL behind the port", postgres.measure),
    "polling": ("200 clients that poll 50 workflows", polling.measure),
    "tokens": ("a token through adapter and sampler", tokens.measure),
    "dialects": ("a token in the streams of other protocols", dialects.measure),
    "join": ("clients that come to the end of 500 rounds", join.measure),
    "end_to_end": ("the whole server against LangGraph alone", end_to_end.measure),
    "isolation": ("graphs in processes of their own against the server's process", isolation.measure),
    "checkpoints": ("LangGraph's checkpoints in our database", _checkpoints),
    "attacks": ("bad agent systems", attacks.measure),
    "start": ("command line and server start", start.measure),
}


def main() -> None:
    given = _arguments()
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDE)
    given.dir.mkdir(parents=True, exist_ok=True)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        figures = runner.run(_measured(given.subjects or list(SUBJECTS), given.dir, console))
    console.print(_table(figures))
    _conclude(figures, console)
    _write(figures)


def _arguments() -> argparse.Namespace:
    listed = "\n".join(f"  {name:12} {about}" for name, (about, _) in SUBJECTS.items())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=f"Measure Stellwerk against its budgets. Subjects:\n{listed}",
        epilog="Without a subject: all. Budgets that are missed are named; the exit code is 0 all the same.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("subjects", nargs="*", metavar="SUBJECT", help="what to measure")
    parser.add_argument("--dir", type=Path, default=Path("data"), help="a folder on a real disk [default: ./data]")
    given = parser.parse_args()
    if unknown := set(given.subjects) - set(SUBJECTS):
        parser.error(f"there is no subject {', '.join(sorted(unknown))}; there are {', '.join(SUBJECTS)}")
    return given


async def _measured(subjects: Sequence[str], disk: Path, console: Console) -> list[Figure]:
    figures: list[Figure] = []
    for name in subjects:
        about, measure = SUBJECTS[name]
        if console.is_terminal:
            console.print(f"[dim]{name}: {about} …[/dim]")
        with tempfile.TemporaryDirectory(prefix="benchmark-", dir=disk, ignore_cleanup_errors=True) as folder:
            figures += await measure(Path(folder))
    return figures


def _table(figures: Sequence[Figure]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("name", "measured", "", "budget", "met", "note"):
        table.add_column(heading, justify="right" if heading in ("measured", "budget") else "left")
    for figure in figures:
        met = {True: "[green]yes[/green]", False: "[bold red]NO[/bold red]", None: ""}[figure.met]
        table.add_row(figure.name, number(figure.value), figure.unit, figure.budget, met, figure.note)
    return table


def _conclude(figures: Sequence[Figure], console: Console) -> None:
    missed = [figure for figure in figures if figure.met is False]
    judged = sum(figure.met is not None for figure in figures)
    console.print()
    if missed:
        console.print(f"{len(missed)} of {judged} budgets missed: {'; '.join(figure.name for figure in missed)}.")
        console.print("Measure again on a quiet machine before you believe it.")
    else:
        console.print(f"All {judged} budgets met.")


def _write(figures: Sequence[Figure]) -> None:
    machine = {"system": platform.platform(), "python": platform.python_version(), "cores": os.cpu_count()}
    results = {"date": date.today().isoformat(), "machine": machine, "figures": [asdict(figure) for figure in figures]}
    RESULTS.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
