"""kill -9 under load, again and again, on one data folder that lives through it all.

``python -m tests.crash.kill_loop --kills 150`` drives twenty sessions over HTTP
that talk, order, delegate, answer, enqueue, stop, regenerate and fork; kills the server in
mid-sentence, compares the ledger of the clients and the effects of the tools
with what the crash left and with what the restarted server serves, and goes on.
It ends with 1 and the evidence if anything acknowledged or shown was lost or
changed, said twice or done twice.
"""

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

import httpx2

from stellwerk.envelope.model import SubgraphResume, decode
from tests.crash import checks, effects, process, served, snapshot
from tests.crash.ledger import Book, Kind, Ledger
from tests.crash.load import Load
from tests.crash.waiting import eventually

SHORTEST, LONGEST = 0.060, 1.200
"""Seconds of load before a kill."""
TAKEN_UP = 5
"""Seconds after which every run that was under way has gone on, or has ended."""
_ALL_ENDED = 90
_MORE = 5
"""How many times as many kills there are on a machine that is so busy that little happens between two."""
SYSTEM = Path(__file__).parent / "kill_loop_system"

Say = Callable[[str], object]


@dataclass
class Outcome:
    """What was seen, and what was wrong with it."""

    ledger: Ledger = field(default_factory=Ledger)
    problems: list[str] = field(default_factory=list)
    kills: int = 0
    cut: int = 0
    """Sessions in which a kill interrupted a run."""
    resumed: int = 0
    effects: int = 0
    slowest_recovery: float = 0.0
    resent: int = 0
    slowest_start: float = 0.0
    last: snapshot.Snapshot | None = None

    @property
    def is_varied(self) -> bool:
        """Whether everything that a session can do was done, and cut off, at least once."""
        done = [self.ledger.count(kind) for kind in get_args(Kind)]
        return all((*done, self.ledger.forks(), self.cut, self.resumed, self.effects, self.resent))


class KillLoop:
    def __init__(self, folder: Path, *, seed: int, say: Say, taken_up: float = TAKEN_UP) -> None:
        self._system, self._taken_up = folder / "system", taken_up
        shutil.copytree(SYSTEM, self._system, dirs_exist_ok=True)
        (self._system / "operator.yaml").write_text("tools: [tools.py:tools]\n")
        self._data, self._scratch, self._errors = folder / "data", folder / "copy", folder / "stderr.txt"
        self._random, self._say = random.Random(seed), say
        self.outcome = Outcome()
        self._load = Load(self.outcome.ledger, self._random)

    async def run(self, kills: int) -> Outcome:
        """Kill that often, or until something is wrong; more often, if too little was going on."""
        server = self._start()
        try:
            for number in range(1, _MORE * kills + 1):
                # A machine that is so busy that little happens gets more time, too.
                lived = self._random.uniform(SHORTEST, LONGEST) * max(1, number // kills)
                await self._kill_under_load(server, lived, number % 3)
                found = self._look_at_the_file()
                server = self._start()
                async with served.client(server) as client:
                    await self._after_the_crash(client, found)
                self._tell(number, lived)
                if self.outcome.problems or (number >= kills and self.outcome.is_varied):
                    break
            server.stop()
            self._look_at_the_file()
        finally:
            server.kill()
        return self.outcome

    def _start(self) -> process.ServerProcess:
        began = time.monotonic()
        # Now and then with fewer slots than sessions, so that the queue goes through a crash, too.
        slots = self._random.choice((200, 200, 6))
        serves, config = [str(self._system / "system.yaml")], self._system / "operator.yaml"
        server = process.start(self._data, errors=self._errors, serves=serves, config=config, slots=slots)
        self.outcome.slowest_start = max(self.outcome.slowest_start, time.monotonic() - began)
        return server

    async def _kill_under_load(self, server: process.ServerProcess, seconds: float, begun: int) -> None:
        """The time counts from the first request, the first acknowledgement or the first event, in turn."""
        progress = (self._requests, self.outcome.ledger.acknowledgements, self.outcome.ledger.frames)[begun]
        before = progress()
        async with served.client(server) as client:
            clients = asyncio.create_task(self._load.run(client))
            await eventually(lambda: progress() > before, within=60, what="the load does not begin")
            await asyncio.wait([clients], timeout=seconds)
            server.kill()
            self.outcome.kills += 1
            async with asyncio.timeout(60):
                await clients

    def _requests(self) -> int:
        return self._load.requests

    def _look_at_the_file(self) -> snapshot.Snapshot:
        found = self.outcome.last = snapshot.read(self._data, self._scratch)
        self._note(checks.snapshot_problems(self.outcome.ledger, found))
        for session_id, book in self.outcome.ledger.books.items():
            book.log = [body for _, body in found.logs[session_id]]
        return found

    async def _after_the_crash(self, client: httpx2.AsyncClient, found: snapshot.Snapshot) -> None:
        await self._all_are_taken_up(client, found)
        await self._all_runs_end(client)
        standings = await served.standings(client)
        for book in self.outcome.ledger.books.values():
            if book.session_id in standings:  # a lost one was noted already
                await self._compare(client, book, standings[book.session_id])
        self._look_at_the_effects()
        idle = [book for book in self._load.talking if not standings[book.session_id]["awaiting_user_input"]]
        await asyncio.gather(*(self._send_again(client, book) for book in idle))
        await self._one_more_round(client, idle)

    async def _all_are_taken_up(self, client: httpx2.AsyncClient, found: snapshot.Snapshot) -> None:
        async def orphans() -> set[str]:
            return checks.ownerless(found, await served.standings(client))

        taken = await self.none_is_left(orphans, within=self._taken_up, what="has no owner")
        self.outcome.slowest_recovery = max(self.outcome.slowest_recovery, taken)

    async def _all_runs_end(self, client: httpx2.AsyncClient) -> None:
        async def at_work() -> set[str]:
            return {name for name, each in (await served.standings(client)).items() if checks.works(each)}

        await self.none_is_left(at_work, within=_ALL_ENDED, what="is still running")

    async def none_is_left(self, look: Callable[[], Awaitable[set[str]]], *, within: float, what: str) -> float:
        """Wait for that, and note whoever is left; the seconds it took."""
        left: set[str] = set()

        async def none() -> bool:
            nonlocal left
            left = await look()
            return not left

        try:
            return await eventually(none, within=within, what="")
        except AssertionError:
            self._note([f"{within} s after the restart, session {name} {what}" for name in sorted(left)])
            return within

    async def _compare(self, client: httpx2.AsyncClient, book: Book, standing: dict[str, Any]) -> None:
        if standing["position"] == len(book.log):
            return  # nothing was added to what the file has shown
        log = await served.read_log(client, book.session_id)
        self.outcome.cut += len(log) > len(book.log)
        self._note(checks.recovery_problems(book, log, standing))
        story, told = [decode(body) for body in log], book.session_id
        for look in (effects.repeated_calls, effects.doubled_text):
            self._note(f"session {told}: {problem}" for problem in look(story))
        self.outcome.resumed += sum(isinstance(e, SubgraphResume) for e in story[len(book.log) :])
        book.log = log

    def _look_at_the_effects(self) -> None:
        done = effects.read(self._system / "effects")
        self.outcome.effects = done.total()
        stories = ([decode(body) for body in book.log] for book in self.outcome.ledger.books.values())
        self._note(effects.effect_problems(done, stories))

    async def _send_again(self, client: httpx2.AsyncClient, book: Book) -> None:
        """What has a key is sent once more: it gets the answer it had, or has its first effect now."""
        for sent in [*book.open(), *[s for s in book.answered() if s.key][-2:]]:
            again = replace(sent, answer=None)
            await self._load.send(client, book, again)
            self.outcome.resent += 1
            if again.answer is None and sent.kind in ("answers", "regenerate") and sent.answer is None:
                sent.refused = True  # the run that it would have answered was stopped, or has yet to be
                continue
            if again.answer is None:
                self._note([f"session {book.session_id}: key {sent.key} was refused when it was sent again"])
                continue
            self._note(checks.changed_answer(book, sent, again.answer, book.log))
            sent.answer = again.answer
            if sent.accepted()["status"] != "enqueued":  # that one may wait behind a question, for ever
                await served.run_end(client, book, sent)

    async def _one_more_round(self, client: httpx2.AsyncClient, idle: Sequence[Book]) -> None:
        if not idle:
            return
        book = self._random.choice(idle)
        sent = self._load.new_message("order it")
        book.sent.append(sent)
        await self._load.send(client, book, sent)
        if sent.answer is None:
            self._note([f"session {book.session_id} takes no message after the crash"])
            return
        end = await served.run_end(client, book, sent)
        if end["payload"]["status"] != "completed" or end["run_id"] != sent.accepted()["run_id"]:
            self._note([f"session {book.session_id}: a round after the crash ended as {end}"])

    def _note(self, problems: Iterable[str]) -> None:
        self.outcome.problems += [problem for problem in problems if problem not in self.outcome.problems]

    def _tell(self, number: int, lived: float) -> None:
        ledger = self.outcome.ledger
        self._say(
            f"kill {number:>3} after {lived * 1000:3.0f} ms: {ledger.acknowledgements()} acknowledgements, "
            f"{ledger.frames()} events received, {self.outcome.cut} runs cut, {len(self.outcome.problems)} problems\n"
        )


def summary(outcome: Outcome, *, seed: int, folder: Path) -> str:
    ledger = outcome.ledger
    lines = [
        f"{outcome.kills} kills (seed {seed}): {len(ledger.books)} sessions, "
        f"{ledger.acknowledgements()} acknowledgements and {ledger.frames()} received events checked, "
        f"among them {ledger.count('answers')} answers, {ledger.count('stop')} stops, "
        f"{ledger.count('regenerate')} answers given anew, {ledger.forks()} forks, "
        f"{ledger.count('messages', enqueued=True)} messages to wait; {outcome.resent} keys sent again",
        f"{outcome.cut} sessions cut, {outcome.resumed} runs went on, {outcome.effects} effects of tools; "
        f"slowest start {outcome.slowest_start:.1f} s, slowest recovery {outcome.slowest_recovery:.1f} s",
        *outcome.problems[:50],
        f"{len(outcome.problems)} problems; the evidence is in {folder}" if outcome.problems else "nothing was lost",
    ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.kill_loop", description=__doc__)
    parser.add_argument("--kills", type=int, default=150, help="how often to kill the server (default: 150)")
    parser.add_argument("--seed", type=int, help="repeat the choices of an earlier run; time still plays its part")
    parser.add_argument("--data", type=Path, help="an empty folder to work in (default: a temporary one)")
    chosen = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(10**6) if chosen.seed is None else chosen.seed
    folder = chosen.data or Path(tempfile.mkdtemp(prefix="stellwerk-kills-"))
    folder.mkdir(parents=True, exist_ok=True)
    say = sys.stdout.write if sys.stdout.isatty() else (lambda _: None)
    say(f"seed {seed}, data in {folder}\n")
    outcome = asyncio.run(KillLoop(folder, seed=seed, say=say).run(chosen.kills))
    sys.stdout.write(summary(outcome, seed=seed, folder=folder))
    if outcome.problems:
        return 1
    if chosen.data is None:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
