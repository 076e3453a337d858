"""Faults of nodes, network and database under load, again and again, on one PostgreSQL that lives through it all.

``python -m tests.cluster.fault_loop --rounds 200`` starts three nodes on a PostgreSQL with a standby, and drives
sessions over HTTP as the kill loop does, each request at any node. In each round one fault is drawn: a node is killed,
paused beyond its lease, cut from the database or from its clients, asked to end, or comes back with a wrong clock; the
database is killed, fails over to its standby, or has a slow disk. Then the ledger of the clients and the effects of the
tools are compared with what is stored and with what any node serves. It ends with 1 and the evidence if anything was
lost or changed, said twice or done twice, if a run stands still, or if a takeover took too long.
"""

import argparse
import asyncio
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from stellwerk.envelope.model import SubgraphResume, decode
from tests import stores
from tests.cluster import faults
from tests.cluster.faults import Strike
from tests.cluster.fleet import AnyNode, Fleet, in_thread
from tests.cluster.relays import Relays
from tests.cluster.replicated import ReplicatedPostgres
from tests.cluster.takeovers import Takeovers
from tests.cluster.traffic import Traffic
from tests.crash import kill_loop
from tests.crash.kill_loop import KillLoop, Say
from tests.crash.load import SESSIONS
from tests.crash.snapshot import Snapshot
from tests.postgres import folder_of_run
from tests.postgres_store import PostgresStore

NODES = 3
LEASE = 3.0
SHORTEST, LONGEST = 0.3, 2.0
"""Seconds of load before a fault, and after it."""
USUALLY, ALWAYS, SHARE = 2.0, 5.0, 0.95
"""A takeover takes no longer than the lease and so many seconds: in this share of all, and in all."""
_FEW = 6
"""Sessions at once, where it must not take long."""
_TURN_ENDS = 60
"""Seconds that requests may take which were on their way when the load ended."""


@dataclass
class Outcome(kill_loop.Outcome):
    faults: Counter[str] = field(default_factory=Counter)
    takeovers: list[float] = field(default_factory=list)
    """Seconds from the fault until another node had the run."""
    refused: int = 0
    slow: int = 0
    """Requests that were given up after a while; among them those to nodes in trouble."""
    reconnected: int = 0
    slowest_end: float = 0.0

    def late(self, lease: float) -> list[str]:
        """What is wrong with the times of the takeovers."""
        times = sorted(self.takeovers)
        found = [f"a takeover took {each:.1f} s, with a lease of {lease} s" for each in times if each > lease + ALWAYS]
        soon = sum(each <= lease + USUALLY for each in times)
        if soon < SHARE * len(times):
            found.append(f"only {soon} of {len(times)} takeovers took at most {lease + USUALLY} s")
        return found


class FaultLoop(KillLoop):
    """The checks of the kill loop; what happens to the servers is another thing."""

    outcome: Outcome

    def __init__(self, fleet: Fleet, *, seed: int, say: Say, is_short: bool = False) -> None:
        self._longest = SHORTEST if is_short else LONGEST
        self.outcome = Outcome()
        self._fleet, self._system = fleet, fleet.system
        self._data, self._scratch = fleet.data, fleet.folder / "copy"
        # What time decides in the load must not decide which faults are drawn.
        self._faults, self._random, self._say = random.Random(seed), random.Random(seed + 1), say
        self._load: Traffic = Traffic(self.outcome.ledger, self._random, sessions=_FEW if is_short else SESSIONS)
        self._kinds: list[str] = []

    async def run_rounds(self, kinds: Sequence[str | None]) -> Outcome:
        """One round for each; None is drawn. The first with a problem is the last."""
        try:
            await self._fleet.open()
            for number, kind in enumerate(kinds, 1):
                strike = faults.strike(kind or self._drawn(), self._fleet, self._faults)
                began = time.monotonic()
                await self._round(strike)
                self._tell_round(number, len(kinds), strike, time.monotonic() - began)
                if self.outcome.problems:
                    break
            await self._end()
            stories = ([decode(body) for body in book.log] for book in self.outcome.ledger.books.values())
            self.outcome.resumed = sum(isinstance(e, SubgraphResume) for story in stories for e in story)
        finally:
            await self._fleet.close()
        return self.outcome

    def _drawn(self) -> str:
        """Each kind once before one comes again, in any order."""
        if not self._kinds:
            self._kinds = faults.known(self._fleet)
            self._faults.shuffle(self._kinds)
        return self._kinds.pop()

    async def _round(self, strike: Strike) -> None:
        spread = AnyNode(self._fleet.nodes, self._random)
        before, after = (strike.random.uniform(SHORTEST, self._longest) for _ in range(2))
        self._load.begin()
        async with self._fleet.client(spread) as client:
            load = asyncio.create_task(self._load.run(client))
            try:
                await asyncio.sleep(before)
                await self._fault(strike)
                await asyncio.sleep(after)
            finally:
                self._load.end()
                async with asyncio.timeout(_TURN_ENDS):
                    await load
        self.outcome.refused += spread.refused
        self.outcome.slow += spread.slow
        self._note([*spread.problems, *self._load.ended_early])
        await self._check()
        if strike.kind == "failover":
            await in_thread(self._fleet.postgres.add_standby)

    async def _fault(self, strike: Strike) -> None:
        for node in self._fleet.nodes:
            node.in_trouble = node is strike.node or strike.kind in faults.OF_DATABASE
        takeovers = Takeovers(self._fleet.postgres, strike.node.pid)
        if strike.kind in faults.TAKEN_OVER:
            await takeovers.begin()
        try:
            await faults.FAULTS[strike.kind](self._fleet, strike)
            await self._fleet.mend()
        finally:
            self.outcome.takeovers += await takeovers.end()
        self.outcome.faults[strike.kind] += 1
        self.outcome.kills += 1

    async def _check(self) -> None:
        spread = AnyNode(self._fleet.nodes, self._random)
        async with httpx2.AsyncClient(transport=spread, base_url="http://127.0.0.1", timeout=60) as client:
            try:
                await self._after_the_crash(client, self._look_at_the_file())
            except httpx2.TransportError as error:
                self._note([f"a request failed although nothing was wrong: {error!r}"])
        self._note(spread.problems)
        self.outcome.reconnected = self._load.reconnected

    async def _all_are_taken_up(self, client: httpx2.AsyncClient, found: Snapshot) -> None:
        """Whether it was soon enough is seen elsewhere."""

    async def _all_runs_end(self, client: httpx2.AsyncClient) -> None:
        began = time.monotonic()
        await super()._all_runs_end(client)
        self.outcome.slowest_end = max(self.outcome.slowest_end, time.monotonic() - began)

    async def _end(self) -> None:
        for node in self._fleet.nodes:
            if (code := await node.stop()) != 0:
                self._note([f"node {node.number} ended with {code}"])
        self._look_at_the_file()

    def _look_at_the_file(self) -> Snapshot:
        with stores.using(PostgresStore.of_url(self._fleet.postgres.url())):
            return super()._look_at_the_file()

    def _tell_round(self, number: int, of: int, strike: Strike, seconds: float) -> None:
        ledger, times = self.outcome.ledger, self.outcome.takeovers
        slowest = f", slowest takeover {max(times):.1f} s" if times else ""
        self._say(
            f"{number}/{of} {strike.kind}, node {strike.node.number}, {seconds:.0f} s: "
            f"{ledger.acknowledgements()} acknowledgements, {ledger.frames()} events received, "
            f"{self.outcome.effects} effects{slowest}, {len(self.outcome.problems)} problems"
        )


def summary(outcome: Outcome, *, seed: int, lease: float, folder: Path) -> str:
    ledger, times = outcome.ledger, sorted(outcome.takeovers)
    drawn = ", ".join(f"{times} {kind}" for kind, times in sorted(outcome.faults.items()))
    lines = [
        f"{outcome.kills} faults (seed {seed}): {drawn}",
        f"{len(ledger.books)} sessions, {ledger.acknowledgements()} acknowledgements and {ledger.frames()} received "
        f"events checked, among them {ledger.count('answers')} answers, {ledger.count('stop')} stops, "
        f"{ledger.count('regenerate')} answers given anew, {ledger.forks()} forks, "
        f"{ledger.count('messages', enqueued=True)} messages to wait; {outcome.resent} keys sent again",
        f"{outcome.resumed} runs went on, {outcome.effects} effects of tools",
        f"{outcome.refused} requests refused, {outcome.slow} given up, "
        f"{outcome.reconnected} times a reader came back; slowest end of all runs {outcome.slowest_end:.1f} s",
        _of_takeovers(times, lease),
        *outcome.problems[:50],
        f"{len(outcome.problems)} problems; the evidence is in {folder}" if outcome.problems else "nothing was lost",
    ]
    return "\n".join(lines) + "\n"


def _of_takeovers(times: Sequence[float], lease: float) -> str:
    if not times:
        return "no run was taken over"
    p50, p95 = (times[min(len(times) - 1, int(share * len(times)))] for share in (0.5, 0.95))
    return (
        f"{len(times)} takeovers with a lease of {lease} s: p50 {p50:.1f} s, p95 {p95:.1f} s, slowest {times[-1]:.1f} s"
    )


async def run(
    folder: Path, kinds: Sequence[str | None], *, seed: int, lease: float, say: Say, is_short: bool = False
) -> Outcome:
    with ExitStack() as ends:
        place = ends.enter_context(folder_of_run())
        place.chmod(0o755)  # another user runs the servers in it, if root starts them
        postgres = ReplicatedPostgres(place, has_standby=not is_short)
        ends.callback(postgres.close)
        await in_thread(postgres.open)
        fleet = Fleet(folder, postgres, ends.enter_context(Relays()), lease=lease, nodes=NODES)
        return await FaultLoop(fleet, seed=seed, say=say, is_short=is_short).run_rounds(kinds)


def _say(line: str) -> None:
    """One line that changes; where it cannot, a line for each."""
    sys.stdout.write(f"\r\x1b[K{line}" if sys.stdout.isatty() else f"{line}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.fault_loop", description=__doc__)
    parser.add_argument("--rounds", type=int, default=200, help="how many faults (default: 200)")
    parser.add_argument("--seed", type=int, help="repeat the choices of an earlier run; time still plays its part")
    parser.add_argument("--lease", type=float, default=LEASE, help=f"of the nodes, in seconds (default: {LEASE})")
    parser.add_argument(
        "--only", choices=[*faults.FAULTS], action="append", help="draw only this kind; may be repeated"
    )
    parser.add_argument("--data", type=Path, help="an empty folder to work in (default: a temporary one)")
    chosen = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(10**6) if chosen.seed is None else chosen.seed
    folder = chosen.data or Path(tempfile.mkdtemp(prefix="stellwerk-cluster-"))
    folder.mkdir(parents=True, exist_ok=True)
    kinds = [chosen.only[n % len(chosen.only)] if chosen.only else None for n in range(chosen.rounds)]
    sys.stdout.write(f"seed {seed}, data in {folder}\n")
    problems = True
    for signum in (signal.SIGINT, signal.SIGTERM):  # also where Ctrl-C is ignored, as in the background of a script
        signal.signal(signum, signal.default_int_handler)
    try:
        outcome = asyncio.run(run(folder, kinds, seed=seed, lease=chosen.lease, say=_say))
        outcome.problems += outcome.late(chosen.lease)
        sys.stdout.write("\n" + summary(outcome, seed=seed, lease=chosen.lease, folder=folder))
        problems = bool(outcome.problems)
    except KeyboardInterrupt:
        problems = False
        return 130
    finally:
        if chosen.data is None and not problems:
            shutil.rmtree(folder)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
