"""Servers that we start: they end with everything that they have started, however we end."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from stellwerk.agents.mcp.servers import McpServers
from stellwerk.errors import McpUnreachable, ToolFailed
from stellwerk.spec.operator import McpServer
from tests.agents.living import lives
from tests.agents.mcp.conftest import RAW, Start
from tests.agents.mcp.shared import called
from tests.crash.waiting import eventually


async def runaway(servers: McpServers) -> list[int]:
    """The server, and a child of its own that has left the group and ignores SIGTERM."""
    said = await called(servers, "raw_with_child", stubborn=True, gone_away=True)
    return [int(pid) for pid in str(said.content).split()]


async def test_a_child_that_has_left_the_group_is_gone_when_the_servers_are_closed(start: Start) -> None:
    servers = start(raw=McpServer(command=RAW))
    pids = await runaway(servers)
    assert all(lives(pid) for pid in pids)
    await servers.close()
    assert [pid for pid in pids if lives(pid)] == []


SERVER = """
import asyncio, uvloop
from tests.agents.mcp.test_processes import McpServer, McpServers, RAW, runaway

async def main():
    pids = await runaway(McpServers({"raw": McpServer(command=RAW)}))
    print(*pids, flush=True)
    await asyncio.Event().wait()

uvloop.run(main())
"""


async def test_when_we_are_killed_they_end_too() -> None:
    ours = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SERVER),
        cwd=Path(__file__).parents[3],
        stdout=asyncio.subprocess.PIPE,
    )
    assert ours.stdout is not None
    try:
        pids = [int(pid) for pid in (await ours.stdout.readline()).split()]
        assert len(pids) == 2 and all(lives(pid) for pid in pids)
    finally:
        os.kill(ours.pid, signal.SIGKILL)
        await ours.wait()
    await eventually(lambda: not any(lives(pid) for pid in pids), within=20, what="somebody outlived us")


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=lambda how: how.name)
async def test_killing_or_stopping_the_supervisor_leaves_no_process_behind(start: Start, how: signal.Signals) -> None:
    servers = start(raw=McpServer(command=RAW))
    pids = await runaway(servers)
    keeper = parent_of(pids[0])
    os.kill(keeper, how)
    await servers.close()
    assert [pid for pid in (*pids, keeper) if lives(pid)] == []


async def test_why_a_command_cannot_be_run_is_in_the_log(start: Start, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("nothing that the system can run")
    program.chmod(0o700)
    servers = start(raw=McpServer(command=[str(program)]))
    with capture_logs() as logs, pytest.raises(McpUnreachable, match="it ended before it had answered"):
        await servers.tools("raw")
    assert [line["line"] for line in logs if line["event"] == "mcp_stderr"] == ["cannot be started: Exec format error"]


FAILS = """
import os, sys
for number in range(50):
    print(f"line {number} of {'many ' * 200}", file=sys.stderr)
print("the key is", os.environ["LAB_KEY"], file=sys.stderr)
raise SystemExit("ModuleNotFoundError: No module named 'lab'")
"""
LAB_KEY = "sk-live-0123456789abcdef"


@pytest.fixture
def failing(tmp_path: Path) -> McpServer:
    """A server that writes to stderr and ends."""
    (tmp_path / "fails.py").write_text(FAILS)
    return McpServer(command=[sys.executable, str(tmp_path / "fails.py")], env={"LAB_KEY": LAB_KEY})


async def test_a_server_that_fails_to_start_is_reported_with_the_end_of_its_stderr_without_secrets(
    start: Start, failing: McpServer
) -> None:
    servers = start(raw=failing)
    with capture_logs() as logs:
        await servers.all_tools()
    (warning,) = [line for line in logs if line["event"] == "mcp_start_failed"]
    assert (warning["server"], warning["reason"]) == ("raw", "it ended before it had answered")
    stderr = warning["stderr"]
    assert stderr.endswith("the key is [redacted] | ModuleNotFoundError: No module named 'lab'")
    assert "line 49 of" in stderr
    assert "line 40 of" not in stderr
    assert len(stderr) < 1500
    assert LAB_KEY not in str(logs)


async def test_errors_for_models_and_tenants_name_the_log_instead_of_the_stderr_of_a_server(
    start: Start, failing: McpServer
) -> None:
    servers = start(raw=failing)
    said = "it ended before it had answered; Stellwerk's log has what it wrote to stderr; see that it runs"
    with pytest.raises(McpUnreachable, match=said) as refused:
        await servers.tools("raw")
    with pytest.raises(ToolFailed, match=said) as failed:
        async with servers._sessions["raw"].call("hello", {}, _no_progress):
            pytest.fail("a server that ended was called")
    for error in (refused.value, failed.value):
        assert "ModuleNotFoundError" not in error.message
        assert "line 49" not in error.message


async def _no_progress(progress: float, total: float | None, message: str | None) -> None:
    pass


async def test_a_server_with_an_argument_that_is_no_valid_url_is_started(start: Start) -> None:
    servers = start(raw=McpServer(command=[*RAW, "http://[x"]))
    assert await servers.tools("raw")


async def test_programs_of_the_virtual_environment_are_found_without_activating_it(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    servers = start(raw=McpServer(command=[Path(sys.executable).name, *RAW[1:]]))
    assert await servers.tools("raw")
