"""Servers that fail in every way we could think of: each costs one call, and the next one works."""

import asyncio
import sys

import pytest
from structlog.testing import capture_logs

from stellwerk.agents.mcp.servers import McpServers
from stellwerk.agents.mcp.transports import MAX_LOG_LINES
from stellwerk.errors import McpUnreachable, SpecError, ToolFailed
from stellwerk.processes.supervised_process import MARK
from stellwerk.spec.load import load_operator
from stellwerk.spec.operator import McpServer
from tests.agents.living import lives
from tests.agents.mcp.conftest import RAW, Start
from tests.agents.mcp.shared import called, open_files, tool_named


async def pid_of(servers: McpServers, server: str = "raw") -> int:
    return int(str((await called(servers, f"{server}_hello")).content))


@pytest.mark.requirement("fault-42")
async def test_garbage_among_the_messages_does_no_harm_and_is_logged(start: Start) -> None:
    servers = start(raw=McpServer(command=RAW))
    with capture_logs() as logs:
        assert (await called(servers, "raw_garbage")).content == "after the garbage"
    assert [line["line"] for line in logs if line["event"] == "mcp_garbage"][1:] == ["{", "[1, 2]"]


async def test_a_file_that_cannot_be_read_costs_its_call(start: Start) -> None:
    servers = start(raw=McpServer(command=RAW))
    with pytest.raises(ToolFailed, match="'broken_image' of the MCP server 'raw' gave a file that cannot be read"):
        await called(servers, "raw_broken_image")


@pytest.mark.requirement("fault-40")
async def test_a_call_without_an_answer_fails_at_its_timeout_and_the_session_goes_on(start: Start) -> None:
    servers = start(raw=McpServer(command=RAW, timeout=2))
    before = await pid_of(servers)
    with pytest.raises(ToolFailed, match="'no_answer_but_garbage' of the MCP server 'raw' did not answer within 2 sec"):
        await called(servers, "raw_no_answer_but_garbage")
    assert await pid_of(servers) == before


@pytest.mark.requirement("fault-40")
async def test_a_server_that_hangs_is_ended_and_restarted(start: Start) -> None:
    servers = start(raw=McpServer(command=RAW, timeout=2))
    before = await pid_of(servers)
    with pytest.raises(ToolFailed, match="'stuck' of the MCP server 'raw' did not answer within 2 seconds"):
        await called(servers, "raw_stuck")
    assert await pid_of(servers) != before
    assert not lives(before)


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("server", ["pipe", "web"])
async def test_other_calls_go_on_while_one_is_never_answered(servers: McpServers, server: str) -> None:
    ponder = await tool_named(servers, f"{server}_ponder")
    endless = asyncio.create_task(ponder.ainvoke({}))
    assert (await called(servers, f"{server}_say", text="I am free")).content == "I am free"
    endless.cancel()
    await asyncio.wait({endless})
    assert endless.cancelled(), "a run that is stopped takes its call with it"
    assert (await called(servers, f"{server}_say", text="and still")).content == "and still"


@pytest.mark.requirement("fault-42")
async def test_a_server_that_dies_in_mid_call_costs_that_call(start: Start) -> None:
    servers = start(raw=McpServer(command=RAW))
    before = await pid_of(servers)
    with pytest.raises(ToolFailed, match="'leave' of the MCP server 'raw' failed: "):
        await called(servers, "raw_leave")
    assert await pid_of(servers) != before


async def test_a_dead_server_is_noticed_though_its_child_keeps_the_pipe_open(start: Start) -> None:
    servers = start(raw=McpServer(command=RAW))
    _, child = str((await called(servers, "raw_with_child", stubborn=True)).content).split()
    with pytest.raises(ToolFailed, match="'leave' of the MCP server 'raw' failed: "):
        await called(servers, "raw_leave")
    await pid_of(servers)
    assert not lives(int(child)), "it ignores SIGTERM, so it was killed before another server was started"


@pytest.mark.requirement("fault-42")
async def test_a_message_beyond_all_bounds_costs_its_call(start: Start) -> None:
    servers = start(raw=McpServer(command=RAW))
    with pytest.raises(ToolFailed, match="'long_line' of the MCP server 'raw' failed: "):
        await called(servers, "raw_long_line")
    assert await pid_of(servers)


async def test_no_process_is_left_when_the_servers_are_closed(start: Start) -> None:
    servers = start(raw=McpServer(command=RAW))
    leader, child = map(int, str((await called(servers, "raw_with_child")).content).split())
    hello = await tool_named(servers, "raw_hello")
    await servers.close()
    assert not lives(leader)
    assert not lives(child)
    with pytest.raises(ToolFailed, match="Stellwerk is stopping"):
        await hello.ainvoke({})


async def test_a_server_that_is_not_there_is_a_warning_in_the_inventory_and_an_error_at_its_use(start: Start) -> None:
    servers = start(
        none=McpServer(command=["no-such-command-anywhere"]),
        closed=McpServer(url="http://127.0.0.1:9/mcp"),
        raw=McpServer(command=RAW),
    )
    with capture_logs() as logs:
        found = await servers.all_tools()
    assert {line["server"] for line in logs if line["event"] == "mcp_unreachable"} == {"none", "closed"}
    assert {tool.name for tool in found} >= {"raw_hello"}
    for gone in ("none", "closed"):
        with pytest.raises(McpUnreachable, match=f"the MCP server '{gone}' cannot be reached: .* under mcp_servers"):
            await servers.tools(gone)


@pytest.mark.requirement("fault-41")
async def test_a_server_that_never_gets_ready_is_given_up_and_leaves_nothing_open(
    start: Start,
) -> None:
    servers = start(start_timeout=0.3, retry_delay=0, deaf=McpServer(command=[*RAW, "deaf"]))
    seen: list[int] = []
    for _ in range(3):
        with pytest.raises(McpUnreachable, match="the MCP server 'deaf' cannot be reached: it did not answer in time"):
            await servers.tools("deaf")
        seen.append(open_files())
    assert max(seen) - min(seen) < 3, "a server has three pipes"


@pytest.mark.parametrize(
    "server",
    [
        McpServer(command=[sys.executable, "-c", "pass", "--token=hush"]),
        McpServer(command=["/nowhere/--token=hush"]),
        McpServer(command=[sys.executable], cwd="/nowhere/hush"),
        McpServer(command=[__file__, "--token=hush"]),
        McpServer(url="http://user:hush@127.0.0.1:9/mcp?key=hush", headers={"Authorization": "Bearer hush"}),
        McpServer(url="http://user:hush@127.0.0.1:99999/mcp?key=hush"),
        McpServer.model_construct(url="http://127.0.0.1:9/mcp", headers={"Authorization": "Bearer hush\n"}),
    ],
    ids=["ends at once", "no command", "no folder", "no program", "nobody there", "no address", "illegal header"],
)
async def test_the_operators_configuration_is_not_shown_to_a_model(start: Start, server: McpServer) -> None:
    with pytest.raises(McpUnreachable) as refused:
        await start(keyed=server).tools("keyed")
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    "entry",
    [
        r'{url: "http://127.0.0.1/mcp", headers: {Authorization: "Bearer hush\n"}}',
        r'{url: "http://127.0.0.1/mcp", headers: {Authorization: "Bearer hush€"}}',
        r'{url: "http://127.0.0.1/mcp", headers: {"X-Key\r\nX-Other": hush}}',
        r'{command: ["run\tme", hush]}',
        r'{command: [run], env: {KEY: "hush\n"}}',
        r'{command: [run], env: {"KEY=": hush}}',
    ],
)
def test_what_no_header_and_no_process_can_have_is_refused_at_the_start_without_being_repeated(entry: str) -> None:
    with pytest.raises(SpecError, match="mcp_servers.keyed") as refused:
        load_operator(f"mcp_servers: {{keyed: {entry}}}", source="operator.yaml")
    assert "hush" not in str(refused.value)


async def test_stderr_of_a_server_is_logged_up_to_a_rate_limit(start: Start) -> None:
    servers = start(raw=McpServer(command=RAW))
    with capture_logs() as logs:
        await called(servers, "raw_chatter")
        await servers.close()
    said = [line["line"] for line in logs if line["event"] == "mcp_stderr"]
    assert len(said) == MAX_LOG_LINES
    assert said[0].startswith("line 0 xx")
    assert max(map(len, said)) <= 500
    assert [line["limit"] for line in logs if line["event"] == "mcp_lines_dropped"] == [MAX_LOG_LINES]


async def test_a_server_sees_the_path_and_what_the_operator_gave_it_and_nothing_else(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    servers = start(raw=McpServer(command=RAW, env={"INPUT_NOTE": "yes"}))
    seen = str((await called(servers, "raw_environment")).content)
    names = {line.partition("=")[0] for line in seen.splitlines()}
    itself = {"LC_CTYPE", "_", "PWD", "SHLVL"}  # set by the interpreter and the shell
    assert names - itself == {"PATH", "INPUT_NOTE", MARK}
    assert "canary" not in seen
