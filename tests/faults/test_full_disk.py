"""A disk that is full to the last byte: what is under way can be stopped and deleted, and is so for good."""

from pathlib import Path

import httpx2
import pytest

from stellwerk.testing.order import order_problems
from tests.api.reading import whole_round
from tests.crash.disks import small_disk
from tests.crash.full_disk import (
    MEGABYTES,
    accepted_again,
    delete_others,
    is_refusal,
    mounted,
    nothing_is_half_written,
    work_until_refused,
)
from tests.crash.full_disk import send as post
from tests.faults.conftest import FaultServer
from tests.runs.talking import begin, events, log_of, rest_of_run, seen, send, stop

pytestmark = pytest.mark.only_sqlite


@mounted
@pytest.mark.requirement("trust.I22", "fault-20")
async def test_on_a_full_disk_runs_are_stopped_and_sessions_deleted_in_mid_run(
    faulty: FaultServer, tmp_path: Path
) -> None:
    serves = [str(faulty.system)]
    with small_disk(tmp_path, megabytes=MEGABYTES, config=faulty.config, serves=serves) as disk:
        async with httpx2.AsyncClient(base_url=disk.server.address, timeout=60) as client:
            running, doomed = await begin(client, "faulty"), await begin(client, "faulty")
            for sid in (running, doomed):
                await send(client, sid, "hold")
                await seen(client, sid, "tool_start")
            ballast = disk.ballast()
            disk.fill()
            await work_until_refused(client)
            disk.fill(leaving=ballast)
            stopped = await stop(client, running)
            told = await events(client, running)
            assert (stopped["status"], stopped["position"]) == ("stopped", len(told))
            assert told[-1]["type"] == "run_end"
            assert order_problems(log_of(told)) == []
            is_refusal(await post(client, running))
            assert (await client.delete(f"/sessions/{doomed}")).status_code == 204
            assert (await client.get(f"/sessions/{doomed}")).status_code == 404
            faulty.open_gate()
            disk.make_room()
            other = await begin_when_possible(client, running)
            await rest_of_run(client, running, len(told))
            assert (await events(client, running))[: len(told)] == told, "the late result has changed nothing"
            await delete_others(client, {running, other})
        disk.server.stop()
        nothing_is_half_written(disk.root / "data", tmp_path)


async def begin_when_possible(client: httpx2.AsyncClient, sid: str) -> str:
    await accepted_again(client, sid)
    other = await begin(client, "faulty")
    assert (await whole_round(client, other, "hello"))[-1]["payload"]["status"] == "completed"
    return other
