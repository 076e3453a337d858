"""A dialect is translated once for all of its readers, and each of them sees what it would see alone."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from stellwerk.api.services import Services
from stellwerk.api.streams.reader import WHOLE
from stellwerk.api.streams.shared_translation import Frame, SharedTranslation, SharedTranslations, StreamKey
from stellwerk.api.streams.translated import TranslatedReader
from stellwerk.app import _services
from stellwerk.dialects import chunks, events
from stellwerk.dialects.base import Chunk, Cursor
from stellwerk.envelope.frames import Stored
from stellwerk.log.durable import DurableLog
from stellwerk.log.notify import WakeUps
from stellwerk.settings import Settings
from stellwerk.tenants.principals import LOCAL, LOCAL_TENANT
from tests.golden.files import BY_NAME, DIALECTS, run_file

KEY = StreamKey("s", chunks.LIVE, "user")


def log_of(name: str) -> list[Stored]:
    return [Stored(n, body) for n, body in enumerate(run_file(name).read_bytes().splitlines(), start=1)]


def alone(log: list[Stored]) -> list[Frame]:
    return SharedTranslation(KEY, 0).translate(log) or []


@dataclass
class ManualReader:
    """Reads as TranslatedReader does, but as many envelopes at a time as it is asked to."""

    log: list[Stored]
    translations: SharedTranslations
    tail_bytes: int
    after: int = 0
    translation: SharedTranslation = field(init=False)
    position: int = 0
    seen: list[Frame] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.translation = self._private()

    def _private(self) -> SharedTranslation:
        return SharedTranslation(KEY, 0, tail_bytes=self.tail_bytes, skip=self._last)

    @property
    def _last(self) -> Cursor:
        return self.seen[-1][0] if self.seen else (self.after, WHOLE)

    def read_next(self, count: int) -> None:
        batch = self.log[self.position : self.position + count]
        frames = self.translation.translate(batch) if batch else []
        if frames is None:
            self.translations.leave(self.translation)
            self.translation = self._private()
            self.position = 0
            return
        last = self._last
        self.seen += [frame for frame in frames if frame[0] > last]
        self.position += len(batch)
        self.translation = self.translations.join(self.translation)

    def finish(self) -> None:
        while self.position < len(self.log):
            self.read_next(10)
        self.translations.leave(self.translation)


@given(
    name=st.sampled_from(sorted(BY_NAME)),
    turns=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 12)), max_size=40),
    tail=st.sampled_from([0, 300, 2_000, 100_000]),
    cursors=st.tuples(st.just(0), st.integers(0, 20), st.integers(0, 60)),
)
def test_a_reader_that_shares_sees_what_it_would_see_alone(
    name: str, turns: list[tuple[int, int]], tail: int, cursors: tuple[int, ...]
) -> None:
    log, translations = log_of(name), SharedTranslations()
    readers = [ManualReader(log, translations, tail, after) for after in cursors]
    for who, count in turns:
        readers[who].read_next(count)
    for reader in readers:
        reader.finish()
    whole = alone(log)
    assert [reader.seen for reader in readers] == [[f for f in whole if f[0][0] > after] for after in cursors]
    assert translations == SharedTranslations()


def test_a_shared_stream_is_translated_once() -> None:
    made: list[Cursor] = []

    def frame(cursor: Cursor, chunk: Chunk) -> bytes:
        made.append(cursor)
        return b""

    log = log_of("one-tool")
    key = replace(KEY, dialect=replace(chunks.LIVE, frame=frame))
    translations = SharedTranslations()
    following = [translations.join(SharedTranslation(key, 0)) for _ in range(100)]
    for stored in log:
        for translation in following:
            translation.translate([stored])
    assert made == [cursor for cursor, *_ in alone(log)]


def test_the_tail_is_bounded_and_only_kept_for_several() -> None:
    log = log_of("nested-agents")
    single = SharedTranslation(KEY, 0)
    single.translate(log)
    assert not single.reaches(len(log) - 1)
    shared = SharedTranslation(KEY, 0, readers=2, tail_bytes=1_000)
    shared.translate(log)
    assert shared.reaches(len(log)) and not shared.reaches(0)
    back = next(n for n in range(len(log)) if shared.reaches(n))
    assert sum(len(frame) for *_, frame in shared.translate(log[back:]) or []) <= 1_000


async def read(services: Services, key: StreamKey, after: Cursor = (0, 0)) -> bytes:
    lines = TranslatedReader(services.streams, LOCAL, key).stream(after=after, head=after[0], until_run_end=True)
    return b"".join([piece async for piece in lines])


def by_dialect(session_id: str) -> Iterator[StreamKey]:
    for dialect in (chunks.DIALECT, chunks.LIVE, events.DIALECT):
        yield StreamKey(session_id, dialect, "user")


async def test_readers_of_a_running_session_see_what_one_sees_who_comes_later(tmp_path: Path) -> None:
    async with _services(Settings(data=tmp_path, demo=True), WakeUps(), {}) as services, asyncio.timeout(20):
        session = await services.sessions.begin(LOCAL_TENANT, "demo", None)
        reading = [asyncio.create_task(read(services, key)) for key in by_dialect(session.id) for _ in range(3)]
        await services.sessions.send(LOCAL_TENANT, session.id, "delegate this")
        received = await asyncio.gather(*reading)
        whole = [await read(services, key) for key in by_dialect(session.id)]
        assert received == [one for one in whole for _ in range(3)]
        assert services.streams.translations == SharedTranslations()


async def test_a_reader_cut_off_in_a_later_trace_sees_the_rest_of_its_run(tmp_path: Path) -> None:
    async with _services(Settings(data=tmp_path, demo=True), WakeUps(), {}) as services, asyncio.timeout(60):
        session, after = await services.sessions.begin(LOCAL_TENANT, "demo", None), 0
        for text in ("plan it", "delegate this"):
            after = (await services.sessions.send(LOCAL_TENANT, session.id, text)).after
            await read(services, StreamKey(session.id, chunks.DIALECT, "user"), (after, WHOLE))
        for dialect in DIALECTS.values():
            await cut_anywhere(services, StreamKey(session.id, dialect, "user"), after)


async def cut_anywhere(services: Services, key: StreamKey, after: int) -> None:
    log = await services.log.read(LOCAL_TENANT, key.session_id, after=0, limit=1000)
    second = [frame for frame in SharedTranslation(key, 0).translate(log) or [] if frame[0][0] > after]
    assert second
    for seen in range(0, len(second), 9):
        rest = b"".join(frame for *_, frame in second[seen + 1 :])
        assert await read(services, key, second[seen][0]) == rest + key.dialect.closing, key.dialect


async def whole(services: Services, key: StreamKey) -> bytes:
    log = await services.log.read(LOCAL_TENANT, key.session_id, after=0, limit=1000)
    return b"".join(frame for *_, frame in SharedTranslation(key, 0).translate(log) or [])


class ShortPages(DurableLog):
    """A log that returns two envelopes at a time."""

    def __init__(self, log: DurableLog) -> None:
        vars(self).update(vars(log))

    async def read(self, tenant: str, session_id: str, *, after: int, limit: int) -> list[Stored]:
        return await super().read(tenant, session_id, after=after, limit=min(limit, 2))


async def test_a_reader_that_falls_behind_misses_nothing_of_an_earlier_trace(
    tmp_path: Path,
) -> None:
    async with _services(Settings(data=tmp_path, demo=True), WakeUps(), {}) as services, asyncio.timeout(60):
        session = await services.sessions.begin(LOCAL_TENANT, "demo", None)
        key = StreamKey(session.id, chunks.DIALECT, "user")
        short_pages = replace(services.streams, log=ShortPages(services.log))
        ahead, behind = (
            TranslatedReader(short_pages, LOCAL, key).stream(after=(0, 0), head=0, until_run_end=False)
            for _ in range(2)
        )
        for text in ("weather", "table"):
            accepted = await services.sessions.send(LOCAL_TENANT, session.id, text)
            await read(services, key, (accepted.after, WHOLE))
        first = await anext(ahead) + await anext(ahead)
        seen = b"".join([await anext(behind) for _ in range(3)])  # from the third page on it shares
        while first != await whole(services, key):
            first += await anext(ahead)
        seen += await anext(behind)
        for shared in services.streams.translations._shared.values():
            shared.tail_bytes = 0  # as if more came now than is kept
        await services.sessions.send(LOCAL_TENANT, session.id, "weather")
        first += await anext(ahead)
        while len(seen) < len(first):
            seen += await anext(behind)
            assert seen[: len(first)] == first[: len(seen)]
