"""The n-th commit fails, or succeeds and nobody hears of it; n is 1, 2, 3 … until a whole round meets no fault."""

import asyncio
from pathlib import Path
from typing import Any, Literal

import httpx2
import pytest

from stellwerk.app import Parts
from stellwerk.database.sqlite import Sqlite
from stellwerk.errors import StorageGone
from stellwerk.testing.order import order_problems
from stellwerk.timings import Timings
from tests.faults.conftest import FaultServer
from tests.runs.talking import begin, events, log_of, rest_of_run, seen

pytestmark = pytest.mark.only_sqlite

Kind = Literal["refused", "unheard"]


class FaultySqlite(Sqlite):
    """Once, at the commit that is named, it fails: before it has stored anything, or after it has stored all."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.countdown, self.kind = 0, "refused"

    def _commit(self, batch: list[Any]) -> list[Any]:
        self.countdown -= 1
        if self.countdown:
            return super()._commit(batch)
        if self.kind == "unheard":
            super()._commit(batch)
        raise StorageGone("the disk did not answer")


@pytest.fixture
def database(faulty: FaultServer) -> FaultySqlite:
    return FaultySqlite(faulty.database)


@pytest.fixture
def parts(database: FaultySqlite) -> Parts:
    return Parts(database=lambda _: database, timings=Timings(storage_retry=0.01))


async def send(client: httpx2.AsyncClient, sid: str) -> int:
    """Until it is accepted; the cursor that shows its run."""
    async with asyncio.timeout(60):
        while True:
            headers = {"Idempotency-Key": "the same each time"}
            answer = await client.post(f"/sessions/{sid}/messages", json={"text": "aside"}, headers=headers)
            if answer.status_code == 202:
                return int(answer.json()["after"])
            assert (answer.status_code, answer.json()["code"]) == (503, "storage_gone")


@pytest.mark.requirement("fault-07", "trust.I1", "trust.I2", "trust.I10", "trust.I12")
@pytest.mark.parametrize("kind", ["refused", "unheard"])
async def test_whichever_commit_fails_the_round_is_whole_and_nothing_is_in_it_twice(
    faulty: FaultServer, database: FaultySqlite, parts: Parts, kind: Kind
) -> None:
    async with faulty.served(parts) as client:
        for n in range(1, 200):
            sid = await begin(client, "faulty")
            database.kind, database.countdown = kind, n
            told = await rest_of_run(client, sid, await send(client, sid))
            spared = database.countdown > 0
            database.countdown = 0
            log = await events(client, sid)
            assert [e["position"] for e in log] == list(range(1, len(log) + 1)), n
            assert order_problems(log_of(log)) == [], n
            assert "".join(e["payload"]["text"] for e in log if e["type"] == "llm_token") == "Both at once. ", n
            assert [e["type"] for e in log].count("run_start") == 1, n
            assert (told[-1]["type"], told[-1]["payload"]["status"]) == ("run_end", "awaiting_user"), n
            assert faulty.ledger() == ["note beside"] * n, n
            if spared:
                break
    assert 3 < n < 199, "no round met a fault, or none was spared"


@pytest.mark.requirement("fault-07", "trust.I10")
async def test_a_message_that_was_stored_without_an_answer_is_run_once(
    faulty: FaultServer, database: FaultySqlite, parts: Parts
) -> None:
    async with faulty.served(parts) as client:
        sid = await begin(client, "faulty")
        database.kind, database.countdown = "unheard", 1
        refused = await client.post(f"/sessions/{sid}/messages", json={"text": "aside"})
        assert refused.status_code == 503
        told = await rest_of_run(client, sid)
        assert (told[-1]["payload"]["status"], order_problems(log_of(told))) == ("awaiting_user", [])
    assert faulty.ledger() == ["note beside"]


@pytest.mark.requirement("fault-20")
async def test_a_stop_that_was_stored_without_an_answer_stops_all_the_same(
    faulty: FaultServer, database: FaultySqlite, parts: Parts
) -> None:
    async with faulty.served(parts, slots=1) as client:
        sid = await begin(client, "faulty")
        await client.post(f"/sessions/{sid}/messages", json={"text": "hold"})
        await seen(client, sid, "tool_start")
        database.kind, database.countdown = "unheard", 1
        refused = await client.post(f"/sessions/{sid}/stop")
        assert (refused.status_code, refused.json()["code"]) == (503, "storage_gone")
        told = await rest_of_run(client, sid)
        assert (told[-1]["payload"]["status"], order_problems(log_of(told))) == ("stopped", [])
