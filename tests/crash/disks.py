"""Disks that misbehave: slow ones, one that stands still, and one that is small and becomes full."""

import asyncio
import os
import shutil
import subprocess
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stellwerk.database.port import OpenableDatabase
from stellwerk.database.sqlite import Sqlite
from stellwerk.envelope.model import Envelope, LlmStart, LlmToken, RunEnd, decode
from stellwerk.envelope.payloads import ModelCalled, RunEnded, Token
from stellwerk.errors import StorageFull
from stellwerk.log.durable import DurableLog
from stellwerk.log.log import CreateSession
from stellwerk.log.notify import WakeUps
from stellwerk.log.tick import Tick
from stellwerk.runs import accept
from stellwerk.runs.commands import Send
from stellwerk.runs.recorder import Recorder
from stellwerk.timings import Timings
from tests.crash.process import ServerProcess, server_process

TENANT = "local"


class SlowSqlite(Sqlite):
    """Every commit takes 20 ms longer."""

    delay = 0.020

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.commits = 0

    def _commit(self, batch: list[Any]) -> list[Any]:
        self.commits += 1
        threading.Event().wait(self.delay)
        return super()._commit(batch)


class WitnessedSqlite(SlowSqlite):
    """Looks after every commit, the moments between which a crash can fall, whether log and checkpoints agree."""

    told = "SELECT json_extract(CAST(body AS TEXT), '$.payload.checkpoint_id') FROM event WHERE type = ?"
    stored = "SELECT id FROM checkpoint WHERE ns = ''"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.disagreements: list[str] = []
        self.checkpoints: set[str] = set()

    def _commit(self, batch: list[Any]) -> list[Any]:
        outcomes = super()._commit(batch)
        told = {str(row[0]) for row in self._connection.execute(self.told, ["subgraph_checkpoint"])}
        self.checkpoints = {str(row[0]) for row in self._connection.execute(self.stored)}
        if told != self.checkpoints:
            self.disagreements.append(f"commit {self.commits}: {sorted(told ^ self.checkpoints)}")
        return outcomes


class StandingSqlite(Sqlite):
    """A disk that can be made to stand still: commits begin and do not end until it moves again."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.moving = threading.Event()
        self.moving.set()

    def _commit(self, batch: list[Any]) -> list[Any]:
        assert self.moving.wait(60), "nobody made the disk move again"
        return super()._commit(batch)


class FullSqlite(Sqlite):
    """A disk that can become full to the last byte; a write then fails like any that finds no room."""

    full = False

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.refusals = 0

    def _commit(self, batch: list[Any]) -> list[Any]:
        if self.full:
            self.refusals += 1
            raise StorageFull()
        return super()._commit(batch)


class NearlyFullSqlite(FullSqlite):
    """A disk that can become full but for its ballast: only urgent writes find room."""

    def _commit(self, batch: list[Any]) -> list[Any]:
        if not self.full:
            return Sqlite._commit(self, batch)
        urgent = [job for job in batch if job.urgent]
        self.refusals += len(batch) - len(urgent)
        outcomes = iter(Sqlite._commit(self, urgent) if urgent else [])
        return [next(outcomes) if job.urgent else StorageFull() for job in batch]


class BoundedSqlite(Sqlite):
    """A database that cannot grow while it is full: SQLite itself says so, on any machine and on any disk."""

    full = False

    def _commit(self, batch: list[Any]) -> list[Any]:
        # SQLite takes no bound below what there is already.
        self._connection.execute(f"PRAGMA max_page_count={1 if self.full else 2**32 - 2}")
        return super()._commit(batch)


@dataclass
class Recording:
    """A run of one session with one model call, fed by hand."""

    log: DurableLog
    wakes: WakeUps
    recorder: Recorder
    run_id: str

    @property
    def session_id(self) -> str:
        return f"session-{self.run_id}"

    def say(self, text: str) -> None:
        self.recorder.feed(LlmToken(**self._place(), payload=Token(text=text)))

    async def shown(self, position: int) -> None:
        with self.wakes.watch(self.session_id) as channel:
            channel.ring((await self.log.head(TENANT, self.session_id)).position)
            async with asyncio.timeout(60):
                while not await channel.beyond(position - 1):
                    pass

    async def finish(self) -> list[Envelope]:
        """End the run and return its log."""
        await self.recorder.finish(self._last_words())
        stored = await self.log.read(TENANT, self.session_id, after=0, limit=10_000)
        return [decode(event.body) for event in stored]

    def _last_words(self) -> Iterator[Envelope]:
        yield from self.recorder.calls.closing(ts=0.0, run_id=self.run_id)
        place = self._place() | {"parent_id": None, "call_id": self.run_id}
        yield RunEnd(**place, payload=RunEnded(status="completed"))

    def _place(self) -> dict[str, Any]:
        run_id = self.run_id
        return {"ts": 0.0, "trace_id": run_id, "run_id": run_id, "parent_id": run_id, "call_id": "answer", "seq": 0}


@asynccontextmanager
async def opened(database: OpenableDatabase) -> AsyncIterator[tuple[DurableLog, WakeUps]]:
    await database.open()
    wakes = WakeUps()
    try:
        yield DurableLog(database, wakes), wakes
    finally:
        await database.close()


def _lost() -> None:
    raise AssertionError("the log takes nothing more")


async def begin_run(
    log: DurableLog,
    wakes: WakeUps,
    run_id: str,
    *,
    window: float,
    lost: Callable[[], None] = _lost,
    timings: Timings = Timings(),
) -> Recording:
    """Three envelopes are in the log when it returns: run_start, message, llm_start."""
    await log.create(CreateSession(TENANT, f"session-{run_id}", "demo", 0.0))
    send = Send(
        tenant=TENANT,
        session_id=f"session-{run_id}",
        run_id=run_id,
        at=0.0,
        text="hello",
        system="demo",
        system_version=1,
        message_id=f"message-{run_id}",
    )
    taken = await log.commit(accept.accept_many, send, send.session_id, lambda t: t.stored)
    assert taken.claimed is not None
    tick = Tick(asyncio.get_running_loop())
    recorder = Recorder(log, tick, taken.claimed.lease, timings, window=window, lost=lost)
    for stored in taken.stored:
        recorder.calls.feed(decode(stored.body))
    recording = Recording(log, wakes, recorder, run_id)
    recorder.feed(LlmStart(**recording._place(), payload=ModelCalled(model="m", message_id="answer")))
    await recording.shown(3)
    return recording


@dataclass(frozen=True)
class SmallDisk:
    """A file system of a few megabytes with a server on it, which nobody else on this machine can see."""

    server: ServerProcess
    root: Path
    """Also good when the server has ended."""

    def free(self) -> int:
        found = os.statvfs(self.root)
        return found.f_bavail * found.f_frsize

    def fill(self, *, leaving: int = 0) -> None:
        """Until no more than that can be had."""
        with (self.root / "filling").open("ab", buffering=0) as file:
            try:
                while not leaving or self.free() > leaving:
                    file.write(bytes(4096))
            except OSError:
                return

    def ballast(self) -> int:
        return (self.root / "data" / "stellwerk.ballast").stat().st_size

    def make_room(self) -> None:
        (self.root / "filling").unlink()


@contextmanager
def small_disk(folder: Path, *, megabytes: int, **settings: Any) -> Iterator[SmallDisk]:
    """The server in a mount namespace of its own, where even an ordinary user may mount a tmpfs."""
    place = folder / "disk"
    place.mkdir()
    mount = f'mount -t tmpfs -o size={megabytes}m tmpfs "$0" && exec "$@"'
    inside = [*_namespace(), "sh", "-c", mount, str(place)]
    with server_process(place / "data", errors=folder / "stderr.txt", inside=inside, **settings) as server:
        # The descriptor keeps the file system alive when the server, and with it the namespace, is gone.
        held = os.open(f"/proc/{server.pid}/root{place}", os.O_RDONLY | os.O_DIRECTORY)
        try:
            yield SmallDisk(server, Path(f"/proc/self/fd/{held}"))
        finally:
            os.close(held)


def _namespace() -> list[str]:
    return ["unshare", "--map-root-user", "--mount"]


def can_mount() -> bool:
    """Whether this machine lets us have a file system of our own."""
    if shutil.which("unshare") is None:
        return False
    trial = [*_namespace(), "sh", "-c", "mount -t tmpfs tmpfs /mnt"]
    return subprocess.run(trial, capture_output=True, check=False).returncode == 0
