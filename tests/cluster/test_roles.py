"""Roles of nodes, and several server processes on one port."""

import asyncio
import os
import signal
from pathlib import Path

import httpx2
import pytest

from tests.cluster.nodes import WITHIN, nodes_in
from tests.crash.waiting import eventually

pytestmark = [pytest.mark.timeout(600), pytest.mark.only_postgres]


async def test_a_node_with_the_role_api_takes_requests_and_one_with_the_role_worker_drives_the_runs(
    tmp_path: Path,
) -> None:
    async with nodes_in(tmp_path) as nodes:
        api, worker = await asyncio.gather(nodes.start(role="api"), nodes.start(role="worker"))
        session_id = await api.begin()
        async with api.stream(session_id) as stream:
            await api.send(session_id, "work at it")
            await nodes.began("work at it")
            nodes.finish("work at it")
            await stream.until("run_end")
        assert await worker.counted("stellwerk_runs_ended_total") == 1
        assert await api.counted("stellwerk_runs_ended_total") == 0
        paths = ("/healthz", "/readyz", "/metrics", "/sessions")
        assert [(await worker.client.get(path)).status_code for path in paths] == [200, 200, 200, 404]
        assert [(await api.client.get(path)).status_code for path in paths] == [200] * 4
        await worker.counts("stellwerk_leader")
        assert await api.counted("stellwerk_leader") == 0


async def test_workers_share_a_port_one_that_dies_is_started_again_and_all_end_with_the_supervisor(
    tmp_path: Path,
) -> None:
    async with nodes_in(tmp_path, demo="false") as nodes:
        node = await nodes.start(workers=2, inside=("env",))
        await eventually(lambda: len(nodes.ids()) == 2, within=WITHIN, what="two nodes")
        session_id = await node.begin()
        async with httpx2.AsyncClient(base_url=node.server.address, timeout=60) as other:
            assert (await other.get(f"/sessions/{session_id}")).status_code == 200

        first = nodes.ids()
        os.kill(_pid(first[0]), signal.SIGKILL)
        await eventually(lambda: len({*nodes.ids(), *first}) == 3, within=WITHIN, what="none is started again")
        node.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(node.server.process.wait, WITHIN) == 0
        assert first[1] not in nodes.ids(), "it has left"


def _pid(node: str) -> int:
    return int(node.split("-")[-2])
