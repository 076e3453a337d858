"""A session of 500 rounds: a reader at its end gets the last round, and a translator is fed nothing else."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from stellwerk.api.services import Services
from stellwerk.api.streams.shared_translation import StreamKey
from stellwerk.api.streams.translated import TranslatedReader
from stellwerk.app import Parts, _services
from stellwerk.dialects.base import Chunk, Dialect, RecallingTranslator
from stellwerk.dialects.langgraph.runs import RunsOptions
from stellwerk.dialects.registry import DIALECTS
from stellwerk.envelope.model import Envelope, encode, type_of
from stellwerk.log.log import Lease, LogEntry
from stellwerk.log.notify import WakeUps
from stellwerk.settings import Settings
from stellwerk.tenants.principals import LOCAL, LOCAL_TENANT
from tests.conftest import without_pauses
from tests.dialects.sample_logs import Story

ROUNDS = 500
_MODES = RunsOptions(modes=frozenset({"messages-tuple", "updates", "custom"}))
_WHOLE_STATES = ("langgraph-threads",)
"""Events of the channel ``values`` are whole states by definition; a client chooses whether it wants them."""
TAILS = [
    replace(dialect, options=_MODES) if dialect.name == "langgraph" else dialect
    for dialect in DIALECTS.values()
    if dialect.memory == "trace"
]


@dataclass
class Counting:
    """A translator that counts what it is fed."""

    inner: Any
    fed: list[str] = field(default_factory=list)
    recalled: list[str] = field(default_factory=list)

    def feed(self, position: int, envelope: Envelope) -> Iterator[Chunk]:
        self.fed.append(type_of(envelope))
        yield from self.inner.feed(position, envelope)

    def recall(self, envelope: Envelope) -> None:
        self.recalled.append(type_of(envelope))
        inner: RecallingTranslator = self.inner
        inner.recall(envelope)


def counted(dialect: Dialect) -> tuple[Dialect, list[Counting]]:
    made: list[Counting] = []

    def new(session_id: str, options: Any) -> Counting:
        made.append(Counting(dialect.new_translator(session_id, options)))
        return made[-1]

    return replace(dialect, new_translator=new), made


@pytest.fixture(scope="module")
def earlier() -> list[Envelope]:
    story = Story()
    for number in range(ROUNDS):
        story.begin(f"question {number}").speak(f"a{number}", "an answer of some words")
        story.says("assistant", "an answer of some words", f"a{number}").end()
    return story.log


@pytest.fixture
async def services(tmp_path: Path) -> AsyncIterator[Services]:
    parts = Parts(demo_systems=without_pauses)
    async with _services(Settings(data=tmp_path, demo=True), WakeUps(), {}, parts=parts) as opened:
        yield opened


async def with_last_round(services: Services, earlier: list[Envelope]) -> tuple[str, str]:
    """A session in which this happened before its only run, and the id of that."""
    session = await services.sessions.begin(LOCAL_TENANT, "demo", None)
    if earlier:
        entries = [LogEntry(type_of(each), each.ts, encode(each)) for each in earlier]
        await services.log.append(Lease(LOCAL_TENANT, session.id, "test", 0), 1, entries)
    accepted = await services.sessions.send(LOCAL_TENANT, session.id, "weather")
    await read(services, StreamKey(session.id, DIALECTS["events"], "user"), accepted.run_id)
    return session.id, accepted.run_id


async def read(services: Services, key: StreamKey, run_id: str) -> bytes:
    head = await services.log.head(LOCAL_TENANT, key.session_id)
    reader = TranslatedReader(services.streams, LOCAL, key)
    return b"".join([each async for each in reader.stream(after=(0, 0), head=head.position, run_id=run_id)])


async def test_a_reader_at_the_end_of_a_long_session_gets_and_costs_what_one_of_a_short_session_does(
    services: Services, earlier: list[Envelope]
) -> None:
    assert {dialect.name for dialect in TAILS} >= {"ag-ui", "ai-sdk", "langgraph", "openai-completions"}
    short, long = await with_last_round(services, []), await with_last_round(services, earlier)
    for dialect in TAILS:
        sizes, fed = [], []
        for session_id, run_id in (short, long):
            counting, made = counted(dialect)
            sizes.append(len(await read(services, StreamKey(session_id, counting, "user"), run_id)))
            (translator,) = made
            fed.append(translator.fed)
            assert set(translator.recalled) <= set(dialect.recalls), dialect.name
        assert fed[0] == fed[1], dialect.name
        assert "llm_token" not in dialect.recalls, dialect.name
        assert sizes[1] < sizes[0] * 1.1 or dialect.name in _WHOLE_STATES, (dialect.name, sizes)
