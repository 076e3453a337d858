"""A whole server that is stopped for three leases and goes on: others have its runs, and it must not touch them."""

import asyncio
import signal
import time
from pathlib import Path

import pytest

from tests import stores
from tests.cluster.nodes import nodes_in
from tests.crash import effects

LEASE = 2.0
LEASES = 3
_RECORDED = ("session", "event", "run", "checkpoint", "checkpoint_item")
_FUNCTION = """CREATE FUNCTION note_writer() RETURNS trigger LANGUAGE plpgsql AS $body$ BEGIN
    INSERT INTO written VALUES (current_setting('stellwerk.node', true), TG_TABLE_NAME); RETURN NULL;
END $body$"""

pytestmark = [pytest.mark.timeout(600), pytest.mark.only_postgres]


def record_writers(data: Path) -> None:
    """From now on the database notes which node writes a row of a session."""
    with stores.beside(data) as tables:
        tables.change("CREATE TABLE written (node text, kind text)")
        tables.change(_FUNCTION)
        for table in _RECORDED:
            tables.change(
                f"CREATE TRIGGER note_writer AFTER INSERT OR UPDATE OR DELETE ON {table} "
                "FOR EACH ROW EXECUTE FUNCTION note_writer()"
            )


def written(data: Path, pid: int) -> int:
    """How many rows the process has written since."""
    with stores.beside(data) as tables:
        return int(tables.value("SELECT count(*) FROM written WHERE node LIKE ?", f"%-{pid}-%"))


@pytest.mark.requirement("trust.I7")
async def test_a_server_that_was_stopped_for_three_leases_writes_nothing_and_its_readers_read_on_to_the_end(
    tmp_path: Path,
) -> None:
    async with nodes_in(tmp_path, lease=LEASE) as nodes:
        zombie, other = await asyncio.gather(nodes.start(), nodes.start())
        wishes = ("work one", "work two", "order three")
        record_writers(tmp_path / "data")
        sessions = [await zombie.begin() for _ in wishes]
        for session_id, wish in zip(sessions, wishes, strict=True):
            await zombie.send(session_id, wish)
            await nodes.began(wish)
        async with zombie.stream(sessions[0]) as stream:
            await stream.until("tool_start")
            zombie.send_signal(signal.SIGSTOP)
            stopped, before = time.monotonic(), written(tmp_path / "data", zombie.server.pid)
            for wish in wishes[:2]:
                await nodes.began(wish, 2)  # at the other node
            for wish in wishes:
                nodes.finish(wish)
            ends = [(await other.ended(session_id)).payload.status for session_id in sessions]
            assert ends == ["completed", "completed", "failed"]
            logs = [await other.log(session_id) for session_id in sessions]
            await asyncio.sleep(stopped + LEASES * LEASE - time.monotonic())
            zombie.send_signal(signal.SIGCONT)
            await zombie.counts("stellwerk_beats_late_total")
            await zombie.counts("stellwerk_runs_lost_total", len(sessions))
            await stream.until("run_end")
        assert before > 0
        assert written(tmp_path / "data", zombie.server.pid) == before
        assert [await zombie.log(session_id) for session_id in sessions] == logs
        assert len(stream.lines) == len(logs[0])
        assert not [problem for log in logs for problem in (*effects.doubled_text(log), *effects.repeated_calls(log))]
        assert nodes.calls("order three") == 1
        assert (await zombie.send(sessions[2], "hello"))["round"] == 2
