"""The database is deleted or replaced under a running server: nothing is acknowledged that is not stored."""

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from stellwerk.errors import SettingsError
from stellwerk.settings import Settings
from tests.conftest import running_server
from tests.crash.waiting import eventually

pytestmark = pytest.mark.only_sqlite

BEGIN = {"agent_system_id": "demo"}
WRITERS = 8


def delete(data: Path) -> None:
    for path in data.glob("stellwerk.db*"):
        path.unlink()


def replace(data: Path) -> None:
    shutil.copy(data / "stellwerk.db", data / "copy")
    (data / "copy").rename(data / "stellwerk.db")


def is_gone(answer: httpx2.Response) -> bool:
    return answer.status_code == 503 and answer.json()["code"] == "storage_gone"


@pytest.mark.requirement("trust.I2")
@pytest.mark.parametrize("lose", [delete, shutil.rmtree, replace], ids=lambda way: way.__name__)
async def test_nothing_is_acknowledged_once_the_database_is_gone(tmp_path: Path, lose: Callable[[Path], None]) -> None:
    data, lost, acknowledged = tmp_path / "data", asyncio.Event(), [0, 0]

    async def write(client: httpx2.AsyncClient) -> None:
        refused = 0
        while refused < 5:
            late = lost.is_set()
            answer = await client.post("/sessions", json=BEGIN)
            assert answer.status_code == 201 or is_gone(answer), answer.text
            acknowledged[late] += answer.status_code == 201
            refused += answer.status_code != 201

    async def enough() -> bool:
        return acknowledged[0] >= 5 * WRITERS

    async with running_server(Settings(data=data)) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
            sid = (await client.post("/sessions", json=BEGIN)).json()["id"]
            assert (await client.get("/readyz")).status_code == 200
            writing = [asyncio.create_task(write(client)) for _ in range(WRITERS)]
            await eventually(enough, within=60, what="nothing is written")
            lose(data)
            lost.set()
            await asyncio.gather(*writing)
            assert acknowledged[1] == 0
            ready = await client.get("/readyz")
            assert is_gone(ready), ready.text
            assert "deleted or replaced" in ready.json()["detail"]
            assert is_gone(await client.post(f"/sessions/{sid}/messages", json={"text": "hello"}))
            assert is_gone(await client.post("/files", files={"file": ("a.txt", b"a")}))
            assert is_gone(await client.delete(f"/sessions/{sid}"))
            assert (await client.get("/healthz")).status_code == 200
    assert not (data / "stellwerk.db").exists() or lose is replace


async def test_a_run_under_way_shows_nothing_that_is_not_stored_and_the_server_still_ends(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with running_server(Settings(data=data)) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
            sid = (await client.post("/sessions", json=BEGIN)).json()["id"]
            await client.post(f"/sessions/{sid}/messages", json={"text": "slow"})
            async with client.stream("GET", f"/sessions/{sid}/stream") as stream:
                lines, seen = stream.aiter_lines(), list[int]()
                async for line in lines:
                    seen += [json.loads(line[6:])["position"]] if line.startswith("data: ") else []
                    if len(seen) == 5:
                        break
                before = (await client.get(f"/sessions/{sid}")).json()["position"]
                delete(data)
                assert is_gone(await client.get("/readyz"))
                assert is_gone(await client.post(f"/sessions/{sid}/stop"))
                async with asyncio.timeout(60):  # a reader that opens the database only now is refused
                    while is_gone(answer := await client.get(f"/sessions/{sid}")):
                        pass
                after = answer.json()
                assert after["position"] - before <= 20, "no more than the batch that was under way"
                assert after["status"] == "running"
    with pytest.raises(SettingsError, match="is gone"):  # the next one does not begin with a new database
        async with running_server(Settings(data=data)):
            pass


async def test_a_server_that_is_asked_nothing_logs_that_its_database_is_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_server(Settings(data=tmp_path)):
        delete(tmp_path)
        await eventually(lambda: "database_gone" in caplog.text, within=60, what="the log has no line about it")
        assert str(tmp_path / "stellwerk.db") in caplog.text


async def test_readiness_is_a_row_that_is_written(tmp_path: Path) -> None:
    async with running_server(Settings(data=tmp_path)) as address, httpx2.AsyncClient(base_url=address) as client:
        written = tmp_path / "stellwerk.db-wal"
        before = written.stat()
        assert (await client.get("/readyz")).status_code == 200
        after = written.stat()
        assert (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns)
