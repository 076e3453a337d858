"""Several nodes on one database: each session is on all of them, and a node that dies leaves nothing behind."""

import asyncio
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from stellwerk.envelope.model import Envelope, RunEnd
from tests.cluster.nodes import WITHIN, Node, nodes_in
from tests.crash import effects
from tests.crash.waiting import eventually

pytestmark = [pytest.mark.timeout(600), pytest.mark.only_postgres]


async def test_a_message_to_one_node_is_streamed_from_another_as_it_happens(tmp_path: Path) -> None:
    async with nodes_in(tmp_path) as nodes:
        one, other = await asyncio.gather(nodes.start(), nodes.start())
        session_id = await one.begin()
        async with other.stream(session_id) as stream:
            await one.send(session_id, "work at it")
            await nodes.began("work at it")
            await stream.until("tool_start")  # while the tool is at work
            nodes.finish("work at it")
            await stream.until("run_end")
        seen = [_position(line) for line in stream.lines]
        assert seen == list(range(1, len(seen) + 1))
        assert len(await other.log(session_id)) == len(seen)


async def test_a_stop_a_message_and_a_deletion_on_one_node_reach_the_run_on_another(tmp_path: Path) -> None:
    async with nodes_in(tmp_path) as nodes:
        one, other = await asyncio.gather(nodes.start(), nodes.start())
        session_id = await one.begin()
        await one.send(session_id, "work long")
        await nodes.began("work long")
        enqueued = await other.send(session_id, "hello", if_busy="enqueue")
        assert enqueued["status"] == "enqueued"
        stopped = await other.stop(session_id)
        assert stopped["status"] == "stopped"
        assert [each["message_id"] for each in stopped["withdrawn"]] == [enqueued["message_id"]]
        await one.counts("stellwerk_runs_lost_total")
        assert (await one.send(session_id, "hello"))["round"] == 2
        assert (await other.ended(session_id)).payload.status == "completed"

        await one.send(session_id, "work on")
        await nodes.began("work on")
        await other.send(session_id, "hello", if_busy="enqueue")
        nodes.finish("work on")
        await eventually(lambda: _has_ends(one, session_id, 4), within=WITHIN, what="no answer to the message")

        await one.send(session_id, "work for nothing")
        await nodes.began("work for nothing")
        assert (await other.client.delete(f"/sessions/{session_id}")).status_code == 204
        await one.counts("stellwerk_runs_lost_total", 2)
        assert (await one.client.get(f"/sessions/{session_id}")).status_code == 404


async def test_the_runs_of_a_node_that_was_killed_go_on_at_another_and_nothing_is_done_or_said_twice(
    tmp_path: Path,
) -> None:
    async with nodes_in(tmp_path) as nodes:
        one, other = await asyncio.gather(nodes.start(), nodes.start())
        works, orders = await one.begin(), await one.begin()
        await one.send(works, "work at it")
        await one.send(orders, "order it")
        await nodes.began("work at it")
        await nodes.began("order it")
        one.kill()
        async with other.stream(works) as stream:
            await nodes.began("work at it", 2)
            nodes.finish("work at it")
            await stream.until("run_end")
        log = await other.log(works)
        assert _outcome(log) == ("completed", "It is done, and I say so: worked.")
        assert not [*effects.doubled_text(log), *effects.repeated_calls(log)]
        assert (await other.ended(orders)).payload.status == "failed"
        assert nodes.calls("order it") == 1
        assert await other.counted("stellwerk_runs_taken_over_total") == 2


async def test_a_node_that_was_stopped_beyond_its_lease_writes_nothing_when_it_goes_on(tmp_path: Path) -> None:
    async with nodes_in(tmp_path) as nodes:
        one, other = await asyncio.gather(nodes.start(), nodes.start())
        session_id = await one.begin()
        await one.send(session_id, "work at it")
        await nodes.began("work at it")
        one.send_signal(signal.SIGSTOP)
        await nodes.began("work at it", 2)  # at the other node
        nodes.finish("work at it")
        await other.ended(session_id)
        before = await other.log(session_id)
        one.send_signal(signal.SIGCONT)
        await one.counts("stellwerk_runs_lost_total")
        await one.counts("stellwerk_beats_late_total")
        assert await other.log(session_id) == before == await one.log(session_id)
        assert not [*effects.doubled_text(before), *effects.repeated_calls(before)]
        await one.send(session_id, "hello")
        assert (await other.ended(session_id)).payload.status == "completed"


async def test_a_node_that_is_asked_to_end_hands_its_runs_over_and_no_attempt_is_counted(tmp_path: Path) -> None:
    async with nodes_in(tmp_path) as nodes:
        one, other = await asyncio.gather(nodes.start(), nodes.start())
        session_id = await one.begin()
        await one.send(session_id, "work at it")
        await nodes.began("work at it")
        one.send_signal(signal.SIGTERM)
        nodes.finish("work at it")
        assert (await other.ended(session_id)).payload.status == "completed"
        log = await other.log(session_id)
        assert not [*effects.doubled_text(log), *effects.repeated_calls(log)]
        assert await other.counted("stellwerk_runs_taken_over_total") == 0
        await asyncio.to_thread(one.server.process.wait, WITHIN)
        assert len(nodes.ids()) == 1, "it has left"


async def test_without_notifications_nothing_is_lost(tmp_path: Path) -> None:
    async with nodes_in(tmp_path, notifications="false") as nodes:
        one, other = await asyncio.gather(nodes.start(slots=1), nodes.start())
        first, second = await one.begin(), await one.begin()
        async with other.stream(first) as stream:
            await one.send(first, "work at it")
            await nodes.began("work at it")
            await stream.until("tool_start")
            await one.send(second, "hello")  # there is no free slot here
            assert (await one.ended(second)).payload.status == "completed"
            await other.stop(first)
            await stream.until("run_end")
        await one.counts("stellwerk_runs_lost_total")
        assert await one.counted("stellwerk_notifications_total") == 0


async def test_five_nodes_start_at_once_on_an_empty_database_and_when_their_leader_dies_another_one_leads(
    tmp_path: Path,
) -> None:
    async with nodes_in(tmp_path, demo="false") as nodes:
        nodes.empty_database()
        started = await asyncio.gather(*(nodes.start() for _ in range(5)))
        session_id = await started[0].begin()
        assert [(await node.client.get(f"/sessions/{session_id}")).status_code for node in started] == [200] * 5
        leads = {node: await node.counted("stellwerk_leader") for node in started}
        await eventually(lambda: _one_leads(started), within=WITHIN, what="none leads")
        leads = {node: await node.counted("stellwerk_leader") for node in started}
        (leader,) = (node for node, does in leads.items() if does)
        leader.kill()
        rest = [node for node in started if node is not leader]
        await eventually(lambda: _one_leads(rest), within=WITHIN, what="none leads after the leader")


async def _one_leads(among: Sequence[Node]) -> bool:
    return sum([await node.counted("stellwerk_leader") for node in among]) == 1


async def _has_ends(node: Node, session_id: str, count: int) -> bool:
    return sum(isinstance(each, RunEnd) for each in await node.log(session_id)) >= count


def _position(line: str) -> int:
    return int(line.removeprefix('{"position":').partition(",")[0])


def _outcome(log: Sequence[Envelope]) -> tuple[str, str | None]:
    (end,) = (each for each in log if isinstance(each, RunEnd))
    return end.payload.status, end.payload.result
