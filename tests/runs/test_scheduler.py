"""Slots, waiting and restarts, with real runs on a real database."""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import httpx2
import pytest
from structlog.testing import capture_logs

from stellwerk.app import Parts, _services
from stellwerk.database.folder import DATABASE
from stellwerk.database.port import Operation, P, R, Transaction
from stellwerk.database.sqlite import Sqlite
from stellwerk.log.notify import WakeUps
from stellwerk.runs.transactions import claim_many
from stellwerk.settings import Settings
from stellwerk.tenants.principals import LOCAL_TENANT
from stellwerk.timings import Timings
from tests import stores
from tests.api.reading import Event, sse, whole_round
from tests.conftest import own_server, running_server
from tests.crash.waiting import eventually
from tests.forked import completed


async def begin(client: httpx2.AsyncClient) -> str:
    return str((await client.post("/sessions", json={"agent_system_id": "demo"})).json()["id"])


async def send(client: httpx2.AsyncClient, sid: str, text: str = "hello") -> httpx2.Response:
    return await client.post(f"/sessions/{sid}/messages", json={"text": text})


async def ending(client: httpx2.AsyncClient, sid: str) -> Event:
    async with asyncio.timeout(30):
        return (await sse(client, f"/sessions/{sid}/stream", until="run_end"))[-1]


async def test_more_runs_than_slots_wait_in_order_and_all_end(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path, slots=2)
    async with own_server(settings) as client:
        sids = [await begin(client) for _ in range(5)]
        for sid in sids:
            assert (await send(client, sid)).status_code == 202
        endings = [await ending(client, sid) for sid in sids]
        assert {e["payload"]["status"] for e in endings} == {"completed"}
        firsts = [e["ts"] for e in endings]
        assert max(firsts[:2]) < min(firsts[2:])


async def test_past_the_depth_of_the_queue_a_message_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path, slots=1, waiting=1)
    async with own_server(settings) as client:
        sids = [await begin(client) for _ in range(3)]
        answers = [await send(client, sid) for sid in sids]
        assert [a.status_code for a in answers] == [202, 202, 429]
        assert answers[2].json()["code"] == "overloaded"
        assert answers[2].headers["retry-after"]
        assert (await client.get(f"/sessions/{sids[2]}")).json()["position"] == 0
        for sid in sids[:2]:
            await ending(client, sid)


@pytest.mark.requirement("trust.I10")
async def test_after_a_restart_what_was_running_goes_on_and_what_was_waiting_is_run(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path, slots=1)
    async with own_server(settings) as client:
        running, waiting = await begin(client), await begin(client)
        await send(client, running)
        await send(client, waiting)
    async with own_server(settings) as client:
        for sid in (running, waiting):
            assert (await ending(client, sid))["payload"]["status"] == "completed"
        assert (await whole_round(client, running, "again"))[0]["payload"]["round"] == 2


class SlowClaims(Sqlite):
    """A claim of waiting runs begins, and waits until the server is closing."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.claiming = threading.Event()
        self.closing = threading.Event()

    def submit(self, operation: Operation[P, R], item: P, *, urgent: bool = False) -> "asyncio.Future[R]":
        def slowly(tx: Transaction, items: Sequence[P]) -> Sequence[R | Exception]:
            self.claiming.set()
            assert self.closing.wait(60)
            return operation(tx, items)

        return super().submit(slowly if operation is claim_many else operation, item, urgent=urgent)


@pytest.mark.parametrize("beside", [0, 1], ids=["nothing under way", "a run under way"])
@pytest.mark.only_sqlite
async def test_a_run_that_is_claimed_while_the_server_goes_down_is_left_to_the_next(
    tmp_path: Path, beside: int
) -> None:
    database = SlowClaims(tmp_path / DATABASE)
    settings = Settings(data=tmp_path, slots=1 + beside, demo=True)
    parts = Parts(database=lambda _: database)
    async with _services(settings, WakeUps(), {}, parts=parts) as services, asyncio.timeout(60):
        for text in (*["slow"] * beside, "weather", "table"):
            session = await services.sessions.begin(LOCAL_TENANT, "demo", None)
            await services.sessions.send(LOCAL_TENANT, session.id, text)
        await eventually(database.claiming.is_set, within=60, what="nobody claims what waits")
        driving = services.sessions._scheduler
        letting_go = asyncio.create_task(eventually(lambda: driving._closing, within=60, what="it stays open"))
        letting_go.add_done_callback(lambda _: database.closing.set())
    with stores.beside(tmp_path) as stored:
        *_, last = stored.rows("SELECT state, attempt FROM run ORDER BY queued_at")
    assert last == ("waiting", 1)


async def test_a_run_whose_driver_dies_is_closed_and_the_session_goes_on(client: httpx2.AsyncClient, sid: str) -> None:
    await send(client, sid)
    (driver,) = [task for task in asyncio.all_tasks() if task.get_name().startswith("run ")]
    driver.cancel()
    broken = (await ending(client, sid))["payload"]
    assert (broken["status"], broken["code"]) == ("failed", "crashed")
    assert (await whole_round(client, sid, "again"))[-1]["payload"]["status"] == "completed"


async def test_a_message_whose_sender_left_is_run_all_the_same(tmp_path: Path) -> None:
    async with own_server(Settings(data=tmp_path)) as client:
        sids = [await begin(client) for _ in range(10)]
        senders = [asyncio.create_task(send(client, sid)) for sid in sids]
        await client.get("/healthz")
        for sender in senders:
            sender.cancel()
        for sid in sids:
            session = (await client.get(f"/sessions/{sid}")).json()
            assert session["status"] != "running" or (await ending(client, sid))["payload"]["status"] == "completed"


@pytest.mark.requirement("004.stream.decoupled-from-post")
async def test_a_message_that_has_no_reader_is_run(client: httpx2.AsyncClient, sid: str) -> None:
    assert (await send(client, sid)).status_code == 202

    async def is_completed() -> bool:
        return bool((await client.get(f"/sessions/{sid}")).json()["status"] == "completed")

    await eventually(is_completed, within=30, what="it never completes")


@pytest.mark.requirement("trust.I6")
async def test_derived_tables_may_be_dropped_and_every_view_is_the_same(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path)
    async with own_server(settings) as client:
        for text in ("hello", "weather", "plan", "file", "ask"):
            await whole_round(client, await begin(client), text)
        await begin(client)
        before = await views(client)
    with stores.beside(tmp_path) as stored:
        stored.change("DROP TABLE standing")
        stored.change("DROP TABLE overview")
    async with own_server(settings) as client:
        assert await views(client) == before


ENDS = ("", "/events", "/stream?until=run_end", "/state", "/usage", "/artifacts", "/artifacts/todolist.md", "/messages")


async def views(client: httpx2.AsyncClient) -> list[bytes]:
    listed = await client.get("/sessions")
    ids = [session["id"] for session in listed.json()["sessions"]]
    paths = [f"/sessions/{sid}{end}" for sid in ids for end in ENDS]
    return [listed.content, *[(await client.get(path)).content for path in paths]]


@pytest.mark.only_sqlite
async def test_a_second_process_cannot_open_the_same_data_folder(tmp_path: Path) -> None:
    async with running_server(Settings(data=tmp_path)):
        second = await asyncio.to_thread(completed, "serve", "--port", "0", "--data", str(tmp_path))
    assert second.returncode != 0
    assert "another Stellwerk uses the data folder" in second.stderr


@pytest.mark.requirement("002.practice.missing-completion-is-noticed")
async def test_a_run_that_does_not_end_is_told_to_the_operator(
    tmp_path: Path,
) -> None:
    async with own_server(Settings(data=tmp_path), parts=Parts(timings=Timings(slow_run=0.01))) as client:
        sid = await begin(client)
        with capture_logs() as logs:
            await whole_round(client, sid, "hello")
    (told,) = [line for line in logs if line["event"] == "run_lasts_long"]
    assert (told["session"], told["log_level"]) == (sid, "warning")
