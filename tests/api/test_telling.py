"""A dialect is translated once for all who follow it, and each of them sees what he would see alone."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.api import telling as module
from stellwerk.api.services import Services
from stellwerk.api.streaming import WHOLE
from stellwerk.api.telling import Frame, Telling, Tellings, Told
from stellwerk.api.translation import TranslatedReader
from stellwerk.app import _services
from stellwerk.dialects import chunks, events
from stellwerk.dialects.base import Chunk, Cursor
from stellwerk.envelope.frames import Stored
from stellwerk.log import follow
from stellwerk.log.wake import Wakes
from stellwerk.runs.commands import Input
from stellwerk.settings import Settings
from stellwerk.tenants.principals import LOCAL, LOCAL_TENANT
from tests.golden.files import BY_NAME, DIALECTS, run_file

TOLD = Told("s", chunks.LIVE, "user")


def log_of(name: str) -> list[Stored]:
    return [Stored(n, body) for n, body in enumerate(run_file(name).read_bytes().splitlines(), start=1)]


def alone(log: list[Stored]) -> list[Frame]:
    return Telling(TOLD, 0).tell(log) or []


@dataclass
class Someone:
    """Reads as TranslatedReader does, but as much at a time as he is told to."""

    log: list[Stored]
    tellings: Tellings
    telling: Telling = field(default_factory=lambda: Telling(TOLD, 0))
    position: int = 0
    seen: list[Frame] = field(default_factory=list)

    def reads(self, count: int) -> None:
        batch = self.log[self.position : self.position + count]
        frames = self.telling.tell(batch) if batch else []
        if frames is None:
            self.tellings.left(self.telling)
            self.telling, self.position = Telling(TOLD, 0), 0
            return
        last: Cursor = self.seen[-1][0] if self.seen else (0, -1)
        self.seen += [frame for frame in frames if frame[0] > last]
        self.position += len(batch)
        self.telling = self.tellings.joined(self.telling)

    def finishes(self) -> None:
        while self.position < len(self.log):
            self.reads(10)
        self.tellings.left(self.telling)


@given(
    name=st.sampled_from(sorted(BY_NAME)),
    turns=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 12)), max_size=40),
    tail=st.sampled_from([0, 300, 2_000, 100_000]),
)
def test_whoever_shares_sees_what_he_would_see_alone(name: str, turns: list[tuple[int, int]], tail: int) -> None:
    log, tellings = log_of(name), Tellings()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_TAIL_BYTES", tail)
        readers = [Someone(log, tellings) for _ in range(3)]
        for who, count in turns:
            readers[who].reads(count)
        for reader in readers:
            reader.finishes()
    assert [reader.seen for reader in readers] == [alone(log)] * 3
    assert tellings == Tellings()


def test_what_many_follow_is_translated_once() -> None:
    made: list[Cursor] = []

    def frame(cursor: Cursor, chunk: Chunk) -> bytes:
        made.append(cursor)
        return b""

    log = log_of("one-tool")
    told = replace(TOLD, dialect=replace(chunks.LIVE, frame=frame))
    tellings = Tellings()
    following = [tellings.joined(Telling(told, 0)) for _ in range(100)]
    for stored in log:
        for telling in following:
            telling.tell([stored])
    assert made == [cursor for cursor, _ in alone(log)]


def test_the_tail_is_bounded_and_only_kept_for_several(monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of("nested-agents")
    single = Telling(TOLD, 0)
    single.tell(log)
    assert not single.reaches(len(log) - 1)
    monkeypatch.setattr(module, "_TAIL_BYTES", 1_000)
    shared = Telling(TOLD, 0, readers=2)
    shared.tell(log)
    assert shared.reaches(len(log)) and not shared.reaches(0)
    back = next(n for n in range(len(log)) if shared.reaches(n))
    assert sum(len(frame) for _, frame in shared.tell(log[back:]) or []) <= 1_000


async def read(services: Services, told: Told, after: Cursor = (0, 0)) -> bytes:
    lines = TranslatedReader(services, LOCAL, told).stream(after=after, head=after[0], until_run_end=True)
    return b"".join([piece async for piece in lines])


def by_dialect(session_id: str) -> Iterator[Told]:
    for dialect in (chunks.DIALECT, chunks.LIVE, events.DIALECT):
        yield Told(session_id, dialect, "user")


async def test_readers_of_a_running_session_see_what_one_sees_who_comes_later(tmp_path: Path) -> None:
    async with _services(Settings(data=tmp_path, demo=True), Wakes(), {}) as services, asyncio.timeout(20):
        session = await services.sessions.begin(LOCAL_TENANT, "demo", None)
        reading = [asyncio.create_task(read(services, told)) for told in by_dialect(session.id) for _ in range(3)]
        await services.sessions.send(LOCAL_TENANT, session.id, Input(text="delegate this"))
        received = await asyncio.gather(*reading)
        whole = [await read(services, told) for told in by_dialect(session.id)]
        assert received == [one for one in whole for _ in range(3)]
        assert services.tellings == Tellings()


async def test_a_reader_cut_off_in_a_later_trace_sees_the_rest_of_its_run(tmp_path: Path) -> None:
    async with _services(Settings(data=tmp_path, demo=True), Wakes(), {}) as services, asyncio.timeout(60):
        session, after = await services.sessions.begin(LOCAL_TENANT, "demo", None), 0
        for text in ("plan it", "delegate this"):
            after = (await services.sessions.send(LOCAL_TENANT, session.id, Input(text=text))).after
            await read(services, Told(session.id, chunks.DIALECT, "user"), (after, WHOLE))
        for dialect in DIALECTS.values():
            await cut_anywhere(services, Told(session.id, dialect, "user"), after)


async def cut_anywhere(services: Services, told: Told, after: int) -> None:
    log = await services.log.read(LOCAL_TENANT, told.session_id, after=0, limit=1000)
    second = [frame for frame in Telling(told, 0).tell(log) or [] if frame[0][0] > after]
    assert second
    for seen in range(0, len(second), 9):
        rest = b"".join(frame for _, frame in second[seen + 1 :])
        assert await read(services, told, second[seen][0]) == rest, told.dialect


async def whole(services: Services, told: Told) -> bytes:
    log = await services.log.read(LOCAL_TENANT, told.session_id, after=0, limit=1000)
    return b"".join(frame for _, frame in Telling(told, 0).tell(log) or [])


async def test_whoever_falls_behind_those_he_shares_with_misses_nothing_of_an_earlier_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "PAGE", 2)
    async with _services(Settings(data=tmp_path, demo=True), Wakes(), {}) as services, asyncio.timeout(60):
        session = await services.sessions.begin(LOCAL_TENANT, "demo", None)
        told = Told(session.id, chunks.DIALECT, "user")
        ahead, behind = (
            TranslatedReader(services, LOCAL, told).stream(after=(0, 0), head=0, until_run_end=False) for _ in range(2)
        )
        for text in ("weather", "table"):
            accepted = await services.sessions.send(LOCAL_TENANT, session.id, Input(text=text))
            await read(services, told, (accepted.after, WHOLE))
        first = await anext(ahead) + await anext(ahead)
        seen = b"".join([await anext(behind) for _ in range(3)])  # from the third page on he shares
        while first != await whole(services, told):
            first += await anext(ahead)
        seen += await anext(behind)
        monkeypatch.setattr(module, "_TAIL_BYTES", 0)  # as if what came now were more than is kept
        await services.sessions.send(LOCAL_TENANT, session.id, Input(text="weather"))
        first += await anext(ahead)
        while len(seen) < len(first):
            seen += await anext(behind)
            assert seen[: len(first)] == first[: len(seen)]
