"""kill -9 under load, again and again, on one data folder that lives through it all.

``python -m tests.crash.kill_loop --kills 50`` drives ten sessions over HTTP,
kills the server in mid-sentence, compares the ledger of the clients with what
the crash left and with what the restarted server serves, and goes on. It ends
with 1 and the evidence if anything acknowledged or shown was lost or changed.
"""

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import msgspec

from tests.crash import checks, process, snapshot
from tests.crash.ledger import Book, Ledger, Sent
from tests.crash.load import Load
from tests.crash.waiting import eventually
from tests.crash.wire import NDJSON

SHORTEST, LONGEST = 0.060, 0.900
"""Seconds of load before a kill."""
_ENDED_BY_RECOVERY, _ENDED_FROM_THE_QUEUE = 5, 60
_PAGE = 1000

Say = Callable[[str], object]


@dataclass
class Outcome:
    """What was seen, and what was wrong with it."""

    ledger: Ledger = field(default_factory=Ledger)
    problems: list[str] = field(default_factory=list)
    kills: int = 0
    cut: int = 0
    """Runs that a kill interrupted."""
    resent: int = 0
    slowest_start: float = 0.0
    last: snapshot.Snapshot | None = None


class KillLoop:
    def __init__(self, folder: Path, *, seed: int, say: Say) -> None:
        self._data, self._scratch, self._errors = folder / "data", folder / "copy", folder / "stderr.txt"
        self._random, self._say = random.Random(seed), say
        self.outcome = Outcome()
        self._load = Load(self.outcome.ledger, self._random)

    async def run(self, kills: int) -> Outcome:
        """Kill that often, or until something is wrong."""
        server = self._start()
        try:
            for number in range(1, kills + 1):
                lived = self._random.uniform(SHORTEST, LONGEST)
                await self._kill_under_load(server, lived, number % 3)
                found = self._look_at_the_file()
                server = self._start()
                async with _client(server) as client:
                    await self._after_the_crash(client, found)
                self._tell(number, lived)
                if self.outcome.problems:
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
        server = process.start(self._data, errors=self._errors, slots=slots)
        self.outcome.slowest_start = max(self.outcome.slowest_start, time.monotonic() - began)
        return server

    async def _kill_under_load(self, server: process.ServerProcess, seconds: float, begun: int) -> None:
        """The time counts from the first request, the first acknowledgement or the first event, in turn."""
        progress = (self._requests, self.outcome.ledger.acknowledgements, self.outcome.ledger.frames)[begun]
        before = progress()
        async with _client(server) as client:
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
        for waiting, patience in ((found.waiting, _ENDED_BY_RECOVERY), (set[str](), _ENDED_FROM_THE_QUEUE)):
            await self._all_runs_end(client, except_for=waiting, within=patience)
        standings = await _standings(client)
        for book in self.outcome.ledger.books.values():
            if book.session_id in standings:  # a lost one was noted already
                await self._compare(client, book, standings[book.session_id])
        await asyncio.gather(*(self._send_again(client, book) for book in self._load.talking))
        await self._one_more_round(client)

    async def _all_runs_end(self, client: httpx2.AsyncClient, *, except_for: set[str], within: float) -> None:
        running: set[str] = set()

        async def none_is_running() -> bool:
            nonlocal running
            standings = await _standings(client)
            running = {name for name, found in standings.items() if found["status"] == "running"} - except_for
            return not running

        try:
            await eventually(none_is_running, within=within, what="")
        except AssertionError:
            self._note([f"still running {within} s after the restart: {sorted(running)}"])

    async def _compare(self, client: httpx2.AsyncClient, book: Book, standing: dict[str, Any]) -> None:
        if standing["position"] == len(book.log):
            return  # nothing was added to what the file has shown
        log = await _read_log(client, book.session_id)
        self.outcome.cut += len(log) > len(book.log)
        self._note(checks.recovery_problems(book, log, standing))
        book.log = log

    async def _send_again(self, client: httpx2.AsyncClient, book: Book) -> None:
        """What has a key is sent once more: it gets the answer it had, or has its first effect now."""
        for sent in [*book.open(), *[s for s in book.answered() if s.key][-2:]]:
            again = Sent(sent.text, sent.key)
            await self._load.send(client, book, again)
            self.outcome.resent += 1
            if again.answer is None:
                self._note([f"session {book.session_id}: key {sent.key} was refused when it was sent again"])
                continue
            self._note(checks.changed_answer(book, sent, again.answer, book.log))
            sent.answer = again.answer
            await _run_end(client, book, sent)

    async def _one_more_round(self, client: httpx2.AsyncClient) -> None:
        if not self._load.talking:
            return
        book = self._random.choice(self._load.talking)
        sent = self._load.new_message()
        book.sent.append(sent)
        await self._load.send(client, book, sent)
        if sent.answer is None:
            self._note([f"session {book.session_id} takes no message after the crash"])
            return
        end = await _run_end(client, book, sent)
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


def _client(server: process.ServerProcess) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=server.address, timeout=60)


async def _run_end(client: httpx2.AsyncClient, book: Book, sent: Sent) -> dict[str, Any]:
    """The end of the run that the message started, as soon as it is there."""
    path = f"/sessions/{book.session_id}/stream?profile=debug&until=run_end&after={sent.accepted()['after']}"
    answer = await client.get(path, headers={"Accept": NDJSON})
    return msgspec.json.decode(answer.content.strip().split(b"\n")[-1], type=dict[str, Any])


async def _standings(client: httpx2.AsyncClient) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    query: dict[str, str | int] = {"limit": 500}
    while True:
        page = (await client.get("/sessions", params=query)).json()
        found |= {session["id"]: session for session in page["sessions"]}
        if page["next"] is None:
            return found
        query["before"] = page["next"]


async def _read_log(client: httpx2.AsyncClient, session_id: str) -> list[bytes]:
    """The bodies that the server serves, from the first on."""
    log: list[bytes] = []
    while True:
        query: dict[str, str | int] = {"after": len(log), "limit": _PAGE, "profile": "debug"}
        answer = await client.get(f"/sessions/{session_id}/events", params=query)
        page = msgspec.json.decode(answer.content, type=_Page).events
        log += [_body(bytes(event), session_id, len(log) + n) for n, event in enumerate(page, 1)]
        if len(page) < _PAGE:
            return log


class _Page(msgspec.Struct):
    events: list[msgspec.Raw]


def _body(event: bytes, session_id: str, position: int) -> bytes:
    front = f'{{"position":{position},"origin":"replay","session_id":"{session_id}",'.encode()
    if not event.startswith(front):
        raise AssertionError(f"expected {front!r}, the server sent {event[:120]!r}")
    return b"{" + event[len(front) :]


def summary(outcome: Outcome, *, seed: int, folder: Path) -> str:
    ledger = outcome.ledger
    lines = [
        f"{outcome.kills} kills (seed {seed}): {len(ledger.books)} sessions, "
        f"{ledger.acknowledgements()} acknowledgements and {ledger.frames()} received events checked, "
        f"{outcome.cut} runs cut, {outcome.resent} keys sent again, slowest start {outcome.slowest_start:.1f} s",
        *outcome.problems[:50],
        f"{len(outcome.problems)} problems; the evidence is in {folder}" if outcome.problems else "nothing was lost",
    ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.kill_loop", description=__doc__)
    parser.add_argument("--kills", type=int, default=50, help="how often to kill the server (default: 50)")
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
