"""A reader cut off at any byte comes back with its last id, and has what an uncut one has."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import get_args

import httpx2
import pytest

from stellwerk.dialects.native import Profile
from stellwerk.settings import Settings
from tests.crash import many_readers, wire
from tests.crash.inside import serving
from tests.crash.wire import NDJSON, PARSERS, SSE, Frame

INSIDE = re.compile(rb'"type":"(subgraph_checkpoint|update)"')
"""What only the debug profile shows."""
FORMS = (SSE, NDJSON)
CUTS = (1, 100, 400, 1_000, 2_500, 5_000, 9_000)
"""Bytes after which a live stream is cut; a run has some 15,000."""


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    async with serving(Settings(data=tmp_path / "data")) as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as made:
            yield made


async def whole(
    client: httpx2.AsyncClient, session_id: str, media_type: str, *, after: int = 0, profile: Profile = "debug"
) -> bytes:
    """The bytes of the stream from a cursor to the end of the run."""
    headers = {"Accept": media_type, "Last-Event-ID": str(after)}
    answer = await client.get(f"/sessions/{session_id}/stream?until=run_end&profile={profile}", headers=headers)
    assert answer.headers["content-type"].startswith(media_type)
    return answer.content


async def continuations(
    client: httpx2.AsyncClient, session_id: str, media_type: str, last: int, profile: Profile
) -> list[list[Frame]]:
    """What a reader gets who comes back with each of the ids there are, 0 for none."""
    parse = PARSERS[media_type]
    return [
        parse(await whole(client, session_id, media_type, after=after, profile=profile)) for after in range(last + 1)
    ]


def assert_every_cut_heals(stream: bytes, media_type: str, continued: Sequence[Sequence[Frame]]) -> None:
    parse = PARSERS[media_type]
    uncut = parse(stream)
    for cut in range(len(stream) + 1):
        kept = parse(stream[:cut])
        last = kept[-1].position if kept else 0
        assert [*kept, *continued[last]] == uncut, f"cut after byte {cut}"


@pytest.mark.requirement("trust.I5")
@pytest.mark.parametrize("profile", get_args(Profile))
async def test_a_stream_cut_at_any_byte_live_or_replayed_is_continued_without_a_seam(
    client: httpx2.AsyncClient, profile: Profile
) -> None:
    session_id = await many_readers.begin(client)
    following = [asyncio.create_task(follow(client, session_id, media_type, profile)) for media_type in FORMS]
    log = [wire.frame(line) for line in await many_readers.run(client, session_id)]
    assert [frame.position for frame in log] == list(range(1, len(log) + 1))
    told = [frame for frame in log if profile == "debug" or not INSIDE.search(frame.line)]
    for media_type, live in zip(FORMS, await asyncio.gather(*following), strict=True):
        replayed = await whole(client, session_id, media_type, profile=profile)
        assert b'"origin":"live"' in live and b'"origin":"live"' not in replayed
        assert PARSERS[media_type](live) == PARSERS[media_type](replayed) == told
        continued = await continuations(client, session_id, media_type, len(log), profile)
        for stream in (live, replayed):
            assert_every_cut_heals(stream, media_type, continued)


async def follow(client: httpx2.AsyncClient, session_id: str, media_type: str, profile: Profile = "debug") -> bytes:
    """Everything from before the run until it has ended."""
    stream, path = b"", f"/sessions/{session_id}/stream?profile={profile}"
    async with client.stream("GET", path, headers={"Accept": media_type}) as answer:
        async for chunk in answer.aiter_bytes():
            stream += chunk
            if b'"type":"run_end"' in stream and stream.endswith(b"\n"):
                return stream
    raise AssertionError("the stream ended before the run")


@pytest.mark.parametrize("media_type", FORMS)
@pytest.mark.requirement("fault-03")
async def test_a_reader_who_hangs_up_in_mid_run_and_comes_back_has_exactly_the_log(
    client: httpx2.AsyncClient, media_type: str
) -> None:
    session_id = await many_readers.begin(client)
    unlucky = [asyncio.create_task(cut_and_resume(client, session_id, media_type, [cut])) for cut in CUTS]
    often = asyncio.create_task(cut_and_resume(client, session_id, media_type, CUTS))
    lines = await many_readers.run(client, session_id)
    log = [wire.frame(line) for line in lines]
    for received in await asyncio.gather(*unlucky, often):
        assert received == log


async def cut_and_resume(
    client: httpx2.AsyncClient, session_id: str, media_type: str, cuts: Sequence[int]
) -> list[Frame]:
    """Hang up after that many bytes of each connection; the last connection stays to the end of the run."""
    received: list[Frame] = []
    for cut in cuts:
        received += await first_bytes(client, session_id, media_type, received, cut)
    if not received:
        return PARSERS[media_type](await follow(client, session_id, media_type))
    if b'"type":"run_end"' in received[-1].line:
        return received
    return received + PARSERS[media_type](await whole(client, session_id, media_type, after=received[-1].position))


async def first_bytes(
    client: httpx2.AsyncClient, session_id: str, media_type: str, received: Sequence[Frame], cut: int
) -> list[Frame]:
    headers = {"Accept": media_type, "Last-Event-ID": str(received[-1].position if received else 0)}
    stream = b""
    async with client.stream("GET", f"/sessions/{session_id}/stream?profile=debug", headers=headers) as answer:
        async for chunk in answer.aiter_bytes():
            stream += chunk
            if len(stream) >= cut or b'"type":"run_end"' in stream:
                break  # leaving the block closes the socket
    return PARSERS[media_type](stream[:cut])
