"""What every test may use: pinned time and ids, and a real server on a free loopback port."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from hypothesis import settings

from stellwerk.api.server import listener
from stellwerk.database.sqlite import Sqlite
from stellwerk.serving import serving
from stellwerk.settings import Settings

# No deadline: a busy machine is no failure. Fewer examples than usual, as there are many properties; and the same ones
# each time, so that a change is judged by itself. `--hypothesis-profile=default` looks for others.
settings.register_profile("stellwerk", deadline=None, max_examples=40, derandomize=True)
settings.load_profile("stellwerk")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-skips", action="store_true", help="A test that is skipped fails the whole.")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    skipped = terminalreporter.stats.get("skipped", []) if config.getoption("--no-skips") else []
    for report in skipped:
        path, line, reason = report.longrepr
        terminalreporter.write_line(f"{path}:{line}: this may not be left out here. {reason}", red=True)


def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if session.config.getoption("--no-skips") and reporter and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@asynccontextmanager
async def running_server(
    settings: Settings, *, own: Mapping[str, str] | None = None, port: int = 0
) -> AsyncIterator[str]:
    """The real server, in this process, on real sockets; yields its address."""
    ready = asyncio.Event()
    with listener("127.0.0.1", port) as socket:
        async with serving(settings, ready.set, own=own) as server:
            running = asyncio.create_task(server.serve(sockets=[socket]))
            try:
                async with asyncio.timeout(20):
                    await ready.wait()
                yield f"http://127.0.0.1:{socket.getsockname()[1]}"
            finally:
                server.should_exit = True
                await running


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Sqlite]:
    opened = Sqlite(tmp_path / "test.db")
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
async def address(tmp_path: Path) -> AsyncIterator[str]:
    async with running_server(Settings(data=tmp_path / "data")) as found:
        yield found


@pytest.fixture
async def client(address: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=address, timeout=20) as made:
        yield made


@pytest.fixture
async def sid(client: httpx2.AsyncClient) -> str:
    """A new session with the demo system."""
    answer = await client.post("/sessions", json={"agent_system_id": "demo"})
    return str(answer.json()["id"])
