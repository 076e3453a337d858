"""kill -9 with real processes: a delayed run starts once, a tick starts one run, a report arrives."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.crash.process import server_process
from tests.crash.waiting import eventually
from tests.jobs.receiver import POLICY, SECRET, receiving
from tests.runs.talking import begin, events, rest_of_run, send

pytestmark = pytest.mark.timeout(600)


async def test_after_kill_9_delayed_runs_start_and_reports_arrive(tmp_path: Path) -> None:
    config = tmp_path / "operator.yaml"
    config.write_text(POLICY)
    place: dict[str, Any] = {"errors": tmp_path / "errors", "config": config}
    with receiving() as receiver:
        receiver.statuses = [500]
        with server_process(tmp_path / "data", **place) as server:
            async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
                assert (await client.put("/secrets/webhook_secret", json={"value": SECRET})).status_code == 204
                told, later = await begin(client), await begin(client)
                await send(client, told, "weather", webhook=receiver.url)
                await send(client, later, "weather", after_seconds=3, webhook=receiver.url)
                await receiver.has(1)
            server.kill()
        with server_process(tmp_path / "data", **place) as server:
            async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
                ended = await rest_of_run(client, later)
                assert ended[-1]["payload"]["status"] == "completed"
                assert [event["type"] for event in await events(client, later)].count("run_start") == 1

                async def all_arrived() -> bool:
                    found = (await client.get("/webhook-deliveries")).json()["deliveries"]
                    return [one["state"] for one in found] == ["delivered", "delivered"]

                async with asyncio.timeout(120):
                    await eventually(all_arrived, within=120, what="a report did not arrive")
    ids = [got.headers["webhook-id"] for got in receiver.requests]
    assert len(set(ids)) == 2
    assert all(got.is_signed_with(SECRET) for got in receiver.requests)
    assert {got.event["data"]["session_id"] for got in receiver.requests} == {told, later}
