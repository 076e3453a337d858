"""Real MCP servers: one process on its pipes and one on a loopback port, for all tests."""

import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from stellwerk.agents.mcp.servers import McpServers
from stellwerk.spec.operator import McpServer

HERE = Path(__file__).parent
LAB = [sys.executable, str(HERE / "lab.py")]
RAW = [sys.executable, str(HERE / "raw.py")]
Start = Callable[..., McpServers]


@contextmanager
def serving_http(port: int = 0) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """The lab on a loopback port: its address, and its process."""
    with subprocess.Popen([*LAB, "http", str(port)], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}/mcp", process
        finally:
            process.kill()


@pytest.fixture(scope="session")
def lab_address() -> Iterator[str]:
    with serving_http() as (found, _):
        yield found


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def servers(lab_address: str) -> AsyncIterator[McpServers]:
    """The same server over both transports, as ``pipe`` and, trusted, as ``web``."""
    held = McpServers({"pipe": McpServer(command=LAB), "web": McpServer(url=lab_address, trusted=True)})
    await held.all_tools()
    yield held
    await held.close()


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Makes servers that are closed after the test, whatever it did."""
    made: list[McpServers] = []

    def make(start_timeout: float = 30, retry_delay: float = 5, **servers: McpServer) -> McpServers:
        made.append(McpServers(servers, start_timeout=start_timeout, retry_delay=retry_delay))
        return made[-1]

    yield make
    for servers in made:
        await servers.close()
