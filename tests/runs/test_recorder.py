"""The recorder: what is told of a write is in the log if, and only if, the write is in the database."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from stellwerk.agents.checkpoints.reconcile import waiting_messages
from stellwerk.database.port import Transaction, locking, session_lock
from stellwerk.database.sqlite import Sqlite
from stellwerk.envelope.model import AskUser, Envelope, LlmToken, Message, RunEnd, SubgraphCheckpoint, decode
from stellwerk.envelope.payloads import Asked, Checkpointed, RunEnded, Said, TextPart
from stellwerk.errors import StorageGone
from stellwerk.log.durable import DurableLog
from stellwerk.redaction.redactor import Redactor
from stellwerk.testing.order import order_problems
from stellwerk.timings import Timings
from tests import stores
from tests.crash.disks import TENANT, FullSqlite, Recording, begin_run, opened
from tests.crash.waiting import eventually

KEY = "checkpoint"


class ErringSqlite(Sqlite):
    """Each commit meets the next of its errors, until there is none; some have stored everything all the same."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.errors: list[Exception] = []
        self.unheard = False

    def _commit(self, batch: list[Any]) -> list[Any]:
        if not self.errors:
            return super()._commit(batch)
        if self.unheard:
            super()._commit(batch)
            self.unheard = False
        raise self.errors.pop(0)


@locking(lambda session_id: [session_lock(session_id)])
def write_many(tx: Transaction, sessions: Sequence[str]) -> list[None | Exception]:
    for session_id in sessions:
        tx.run("remember_answer", TENANT, session_id, KEY, "", b"", 0.0)
    return [None for _ in sessions]


def write_nothing(tx: Transaction, sessions: Sequence[str]) -> list[None | Exception]:
    return [None for _ in sessions]


def told_of(run: Recording) -> Envelope:
    return SubgraphCheckpoint(
        ts=0.0,
        trace_id=run.run_id,
        run_id=run.run_id,
        parent_id=None,
        call_id=run.run_id,
        seq=0,
        payload=Checkpointed(checkpoint_id=KEY, node="model", state_digest=""),
    )


@pytest.mark.parametrize("refusals", [1, 3], ids=["within its patience", "beyond its patience"])
@pytest.mark.only_sqlite
async def test_a_write_that_is_cancelled_while_the_disk_is_full_is_stored_with_what_tells_of_it_or_neither_is(
    tmp_path: Path, refusals: int
) -> None:
    timings = Timings(storage_patience=1)
    database = FullSqlite(tmp_path / "test.db")
    async with opened(database) as (log, wakes):
        run = await begin_run(log, wakes, "run", window=60, timings=timings)
        run.say("first ")
        database.full = True
        write = asyncio.create_task(run.recorder.commit_with(write_many, run.session_id, [told_of(run)]))
        await eventually(lambda: database.refusals > 0, within=30, what="nothing is written")
        write.cancel()
        await asyncio.wait([write])
        run.say("second")
        ending = asyncio.create_task(run.finish())
        await eventually(lambda: database.refusals >= refusals, within=30, what="it is not tried again")
        database.full = False
        story = await ending
        row = await database.read(lambda tx: tx.row("recall_answer", TENANT, run.session_id, KEY))
    assert any(isinstance(envelope, SubgraphCheckpoint) for envelope in story) == (row is not None)
    assert order_problems(story) == []
    assert "".join(e.payload.text for e in story if isinstance(e, LlmToken)) == "first second"


@pytest.mark.only_sqlite
async def test_whoever_waits_until_all_is_stored_is_told_that_it_is_not(tmp_path: Path) -> None:
    database, told = ErringSqlite(tmp_path / "test.db"), asyncio.Event()
    async with opened(database) as (log, wakes):
        run = await begin_run(log, wakes, "run", window=60, lost=told.set)
        run.say("never stored")
        database.errors = [RuntimeError("a bad row")]
        with pytest.raises(RuntimeError, match="a bad row"):
            await run.recorder.stored()
        assert told.is_set()
        with pytest.raises(RuntimeError, match="a bad row"):
            await run.recorder.stored()


@pytest.mark.only_sqlite
async def test_readers_are_shown_what_is_in_the_log_also_if_nobody_heard_that_it_was_stored(
    tmp_path: Path,
) -> None:
    timings = Timings(storage_patience=0.01, storage_retry=0.01)
    database = ErringSqlite(tmp_path / "test.db")
    async with opened(database) as (log, wakes):
        run = await begin_run(log, wakes, "run", window=60, timings=timings)
        with wakes.watch(run.session_id) as channel:
            run.say("first ")
            database.errors, database.unheard = [StorageGone("not heard"), StorageGone("gone")], True
            with pytest.raises(StorageGone):
                await run.recorder.commit_with(write_many, run.session_id, [told_of(run)])
            run.say("second")
            await run.finish()
            stored = await log.read(TENANT, run.session_id, after=0, limit=100)
            seen = [event for after in range(len(stored)) for event in channel.since(after)[:1]]
    assert seen
    assert [event for event in seen if event not in stored] == []


async def test_no_commit_holds_a_question_without_the_end_of_its_run(tmp_path: Path) -> None:
    async with opened(stores.database(tmp_path / "test.db")) as (log, wakes):
        run = await begin_run(log, wakes, "run", window=0)
        run.say("before ")
        place: dict[str, Any] = {"ts": 0.0, "trace_id": run.run_id, "run_id": run.run_id, "seq": 0}
        asked = Asked(ask_id="a", question="Which way?")
        ask = AskUser(**place, parent_id=run.run_id, call_id="ask", payload=asked)
        run.recorder.feed(ask)
        run.say("behind")
        await run.recorder.stored()
        await run.recorder.commit_with(write_many, run.session_id, [told_of(run)])
        before = await told_in(log, run)
        end = RunEnd(**place, parent_id=None, call_id=run.run_id, payload=RunEnded(status="awaiting_user"))
        (closing,) = run.recorder.calls.closing(ts=0.0, run_id=run.run_id)
        await run.recorder.finish([closing, end], [ask])
        after = await told_in(log, run)
    assert not any(isinstance(envelope, AskUser) for envelope in before)
    assert "".join(e.payload.text for e in before if isinstance(e, LlmToken)) == "before behind"
    assert [type(envelope) for envelope in after[-2:]] == [AskUser, RunEnd]
    assert order_problems(after) == []


class CountingRedactor(Redactor):
    """Counts the texts that are searched; it knows one secret, so that none is passed over."""

    def __init__(self) -> None:
        super().__init__(["sk-live-0123456789abcdef"])
        self.searched = 0

    def may_occur_in(self, text: str) -> bool:
        self.searched += "waits for its turn" in text
        return super().may_occur_in(text)


class TracedSqlite(ErringSqlite):
    """Has the statements that keep waiting messages."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.kept: list[str] = []

    def trace(self) -> None:
        self._connection.set_trace_callback(lambda sql: self.kept.append(sql) if "SET unrecorded" in sql else None)


def waiting_message(run: Recording, number: int) -> Message:
    content = [TextPart(text=f"{number} waits for its turn")]
    said = Said(role="assistant", content=[*content], message_id=f"m{number}", status="step")
    place: dict[str, Any] = {"ts": 0.0, "trace_id": run.run_id, "run_id": run.run_id, "seq": 0}
    return Message(**place, parent_id=run.run_id, call_id=run.run_id, payload=said)


@pytest.mark.only_sqlite
async def test_a_message_that_waits_is_encoded_once_and_written_when_the_waiting_messages_change(
    tmp_path: Path,
) -> None:
    database, redactor = TracedSqlite(tmp_path / "test.db"), CountingRedactor()
    async with opened(database) as (log, wakes):
        run = await begin_run(log, wakes, "run", window=60)
        run.recorder.redactor = redactor
        database.trace()

        async def commit(waiting: Sequence[Message] | None) -> list[str]:
            await run.recorder.commit_with(write_nothing, run.session_id, [told_of(run)], waiting)
            return [one.payload.message_id for one in await waiting_messages(database, TENANT, run.run_id)]

        first, second = waiting_message(run, 1), waiting_message(run, 2)
        for _ in range(20):
            assert await commit([first]) == ["m1"]
        for _ in range(20):
            assert await commit([first, second]) == ["m1", "m2"]
        assert (redactor.searched, len(database.kept)) == (2, 2)
        assert await commit(None) == ["m1", "m2"], "the state of a subgraph says nothing of the run's own"
        assert await commit([]) == []
        assert await commit([]) == []
        assert (redactor.searched, len(database.kept)) == (2, 3)


@pytest.mark.only_sqlite
async def test_waiting_messages_whose_write_failed_are_written_with_the_next_one(tmp_path: Path) -> None:
    database = TracedSqlite(tmp_path / "test.db")
    async with opened(database) as (log, wakes):
        run = await begin_run(log, wakes, "run", window=60)
        waiting = [waiting_message(run, 1)]
        database.errors = [RuntimeError("a bad row")]
        with pytest.raises(RuntimeError, match="a bad row"):
            await run.recorder.commit_with(write_nothing, run.session_id, [told_of(run)], waiting)
        assert await waiting_messages(database, TENANT, run.run_id) == []
        await run.recorder.commit_with(write_nothing, run.session_id, [told_of(run)], waiting)
        assert [one.payload.message_id for one in await waiting_messages(database, TENANT, run.run_id)] == ["m1"]


async def test_text_that_may_begin_a_secret_is_shown_although_the_model_is_silent(tmp_path: Path) -> None:
    async with opened(stores.database(tmp_path / "test.db")) as (log, wakes):
        log.redactors.set_secrets(TENANT, ["sk-live-0123456789abcdef"])
        run = await begin_run(log, wakes, "run", window=0.04)
        run.say("it begins with sk-live-")
        await run.shown(5)
        texts = [e.payload.text for e in await told_in(log, run) if isinstance(e, LlmToken)]
    assert texts == ["it begins with ", "sk-live-"]


async def told_in(log: DurableLog, run: Recording) -> list[Envelope]:
    return [decode(event.body) for event in await log.read(TENANT, run.session_id, after=0, limit=100)]
