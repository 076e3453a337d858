"""Readers cut off at random bytes, who come back by the same way or by another one, have what an uncut one has."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.sync.client import connect

from tests import keyed
from tests.crash import wire
from tests.crash.process import server_process
from tests.crash.wire import NDJSON, PARSERS, SSE, Frame

TEXTS = ("plan it", "delegate this", "ask", "blue", "table and file", "fail")
# Whoever adds a transport for envelopes adds it here, and how it is read to Told.
TRANSPORTS = (SSE, NDJSON, "polling", "socket")
DIALECTS = ({"dialect": "chunks"}, {"dialect": "chunks", "live": "true"}, {"dialect": "events"})
EVERYTHING = 10**9
"""Bytes; more than there are."""
_PATIENCE = 60


class Told(NamedTuple):
    """A session of several rounds, whose stream is read over and over."""

    client: httpx2.Client
    path: str
    log: list[Frame]
    last_run: int
    """The cursor that shows the last run whole."""

    def polled(self, after: int, limit: int, profile: str) -> list[Frame]:
        query: dict[str, Any] = {"after": after, "limit": limit, "profile": profile}
        answer = self.client.get(f"{self.path}/events", params=query)
        lines = msgspec.json.decode(answer.content, type=dict[str, list[msgspec.Raw] | int])["events"]
        assert isinstance(lines, list)
        return [wire.frame(bytes(line)) for line in lines]

    def over_socket(self, after: int, limit: int, last: int, profile: str) -> list[Frame]:
        """So many frames of a WebSocket, or all up to the last."""
        found: list[Frame] = []
        address = str(self.client.base_url).rstrip("/").replace("http", "ws", 1)
        url, shown = f"{address}{self.path}/ws?after={after}&profile={profile}", keyed.shown_to(address)
        with connect(url, max_queue=None, additional_headers=shown) as socket:
            while len(found) < limit and (not found or found[-1].position < last):
                sent = msgspec.json.decode(socket.recv(_PATIENCE), type=dict[str, msgspec.Raw])
                found.append(wire.frame(bytes(sent["event"])))
        return found

    def streamed(self, size: int, end: bytes, accept: str = NDJSON, **query: str) -> bytes:
        """The first bytes of the stream, or all of it up to the line in which the last event is."""
        got = b""
        with self.client.stream("GET", f"{self.path}/stream", params=query, headers={"Accept": accept}) as answer:
            for piece in answer.iter_bytes():
                got += piece
                if len(got) >= size or (end in got and got.endswith(b"\n")):
                    return got[:size]
        raise AssertionError("the stream ended before its last event")


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    folder: Path = tmp_path_factory.mktemp("fuzz")
    with (
        server_process(folder / "data", errors=folder / "errors") as server,
        httpx2.Client(base_url=server.address, timeout=_PATIENCE) as client,
    ):
        sid = client.post("/sessions", json={"agent_system_id": "demo"}).json()["id"]
        log, after = list[Frame](), 0
        for text in TEXTS:
            after = client.post(f"/sessions/{sid}/messages", json={"text": text}).json()["after"]
            query = {"after": str(after), "until": "run_end", "profile": "debug"}
            lines = client.get(f"/sessions/{sid}/stream", params=query, headers={"Accept": NDJSON}).content
            log += wire.ndjson(lines)
        yield Told(client, f"/sessions/{sid}", log, after)


legs = st.lists(st.tuples(st.sampled_from(TRANSPORTS), st.integers(1, 20_000)), min_size=1, max_size=6)
fuzzed = settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.requirement("trust.I4", "trust.I5", "fault-04")
@fuzzed
@given(legs=legs, profile=st.sampled_from(["user", "debug"]))
def test_a_reader_may_come_back_by_any_transport_and_has_each_event_once(
    told: Told, legs: Sequence[tuple[str, int]], profile: str
) -> None:
    whole = told.polled(0, 1000, profile)
    end = b'{"position":%d,' % whole[-1].position
    received: list[Frame] = []
    for transport, size in [*legs, (NDJSON, EVERYTHING)]:
        after = received[-1].position if received else 0
        if received and received[-1] == whole[-1]:
            break
        if transport == "polling":
            received += told.polled(after, 1 + size % 97, profile)
        elif transport == "socket":
            received += told.over_socket(after, 1 + size % 97, whole[-1].position, profile)
        else:
            received += PARSERS[transport](told.streamed(size, end, transport, after=str(after), profile=profile))
    assert received == whole
    if profile == "debug":
        assert whole == told.log


@pytest.mark.requirement("trust.I4", "trust.I5", "fault-05")
@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda query: "-".join(query.values()))
@fuzzed
@given(cuts=st.lists(st.integers(1, 15_000), min_size=1, max_size=5))
def test_a_reader_of_a_dialect_has_each_line_once(told: Told, dialect: dict[str, str], cuts: Sequence[int]) -> None:
    last = {**dialect, "after": str(told.last_run), "until": "run_end"}
    end = lines(told.client.get(f"{told.path}/stream", params=last).content)[-1]
    whole = lines(told.streamed(EVERYTHING, end, after="0", **dialect))
    received: list[bytes] = []
    for size in [*cuts, EVERYTHING]:
        after = msgspec.json.decode(received[-1], type=dict[str, Any])["id"] if received else "0"
        if received != whole:
            received += lines(told.streamed(size, end, after=after, **dialect))
    assert received == whole


def lines(data: bytes) -> list[bytes]:
    """Those that are complete; the blanks in front of a line are no part of it."""
    return [line.strip() for line in data.split(b"\n")[:-1]]
