"""What every test may use: pinned time and ids, and a real server on a free loopback port."""

import asyncio
import gc
import re
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import cache, partial
from importlib.metadata import EntryPoints, entry_points
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from anyio.from_thread import start_blocking_portal
from hypothesis import settings

from stellwerk.agents.graphs.langgraph_json import HttpApp
from stellwerk.api.http.server import listener
from stellwerk.app import Parts
from stellwerk.database.port import Database
from stellwerk.demo import built_in
from stellwerk.ops.serve import serving
from stellwerk.settings import Settings
from tests import keyed, postgres, stores
from tests.commands import Command
from tests.forked import surroundings
from tests.runs import in_process
from tests.runs.in_process import Gates, InProcessServer
from tests.stores import Store

_POSTGRES = pytest.StashKey[Path]()

# No deadline: a busy machine is no failure. Fewer examples than usual, as there are many properties; and the same ones
# each time, so that a change is judged by itself. `--hypothesis-profile=default` looks for others,
# `deep` for many (`make crash`).
settings.register_profile("stellwerk", deadline=None, max_examples=40, derandomize=True)
settings.register_profile("deep", deadline=None, max_examples=200)
settings.load_profile("stellwerk")

# While modules are imported nothing becomes garbage, and looking for it takes a third of the time.
gc.disable()


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        opened = ExitStack()
        config.stash[_POSTGRES] = opened.enter_context(postgres.folder_of_run())
        config.add_cleanup(opened.close)
    else:
        config.stash[_POSTGRES] = Path(config.workerinput["postgres"])


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Of pytest-xdist: all workers share a server."""
    node.workerinput["postgres"] = str(node.config.stash[_POSTGRES])


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """What runs on both stores does so in one run; with ``--store=postgres`` SQLite had its turn before."""
    if metafunc.definition.get_closest_marker("both_stores") and metafunc.config.getoption("--store") == "sqlite":
        metafunc.parametrize("store", ["sqlite", "postgres"], indirect=True)
    elif metafunc.definition.get_closest_marker("only_postgres"):
        metafunc.parametrize("store", ["postgres"], indirect=True)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Those with a timeout of their own take long: they begin first, so that nobody waits for one in the end."""
    if config.getoption("--store") == "postgres":
        left_out = [item for item in items if item.get_closest_marker("only_sqlite")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("only_sqlite")]
    items.sort(key=lambda item: item.get_closest_marker("timeout") is None)


def pytest_collection_finish() -> None:
    gc.freeze()  # what was imported stays: no search walks over it again
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure() -> None:
    """Once more, for what complains when it goes; then a worker has nothing to search, and ends while it is awaited."""
    gc.collect()
    gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-skips", action="store_true", help="A test that is skipped fails the whole.")
    parser.addoption("--screenshots", action="store_true", help="Tests of the console write docs/images.")
    parser.addoption(
        "--store", choices=["sqlite", "postgres"], default="sqlite", help="The database of the servers under test."
    )
    parser.addoption(
        "--other-keys", action="store_true", help="Modules that run with keys run without, and the others with them."
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    skipped = terminalreporter.stats.get("skipped", []) if config.getoption("--no-skips") else []
    for report in skipped:
        path, line, reason = report.longrepr
        terminalreporter.write_line(f"{path}:{line}: this may not be left out here. {reason}", red=True)


def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if session.config.getoption("--no-skips") and reporter and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session", autouse=True)
def _nobody_outside_is_trusted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nor is the machine's list of authorities read for each client, which takes longer than most tests."""
    with pytest.MonkeyPatch.context() as environment:
        environment.delenv("SSL_CERT_FILE", raising=False)
        environment.setenv("SSL_CERT_DIR", str(tmp_path_factory.mktemp("authorities")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _servers_end_at_once() -> Iterator[None]:
    """uvicorn looks ten times a second whether it is to end, and then waits as long: hundreds of servers end here."""
    often = SimpleNamespace(**{**vars(asyncio), "sleep": lambda seconds: asyncio.sleep(seconds / 10)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("uvicorn.server.asyncio", often)
        yield


@pytest.fixture(scope="session", autouse=True)
def _what_is_installed_is_looked_up_once() -> Iterator[None]:
    """Hundreds of servers start here, and each would read the entry points of all that is installed, twice."""

    @cache
    def found(group: str, _: tuple[str, ...]) -> EntryPoints:
        return entry_points(group=group)

    with pytest.MonkeyPatch.context() as patch:
        for module in ("tools.registry", "graphs.registry"):
            patch.setattr(f"stellwerk.agents.{module}.entry_points", lambda *, group: found(group, tuple(sys.path)))
        yield


def without_pauses() -> dict[str, str]:
    """The built-in systems without pauses between tokens, for tests that only look at the end of a run."""
    return {source: re.sub(r"pace: [0-9.]+", "pace: 0", text) for source, text in built_in().items()}


@pytest.fixture(scope="module")
def parts() -> Parts:
    """The replaced parts of the servers of a module; a module that replaces some overrides this."""
    return Parts()


@pytest.fixture(scope="module", autouse=True)
def _keys_are_shown(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if keyed.wanted(request.module.__name__, other=request.config.getoption("--other-keys")):
            keyed.show_keys(patch)
        yield


@pytest.fixture(scope="session")
def postgres_store(request: pytest.FixtureRequest) -> Iterator[Store]:
    from tests.postgres_store import PostgresStore  # needs an extra

    given = surroundings().get("STELLWERK_TEST_POSTGRES")
    server = postgres.ServerOfRun(request.config.stash[_POSTGRES]).url
    made = PostgresStore(server if given is None else partial(postgres.url_beside, given))
    yield made
    made.close()


@pytest.fixture(scope="module", autouse=True)
def _store_of_module(request: pytest.FixtureRequest) -> Iterator[None]:
    with _chosen(request, request.config.getoption("--store")):
        yield


@pytest.fixture(autouse=True)
def store(request: pytest.FixtureRequest) -> Iterator[None]:
    with _chosen(request, getattr(request, "param", request.config.getoption("--store"))):
        yield


@contextmanager
def _chosen(request: pytest.FixtureRequest, name: str) -> Iterator[None]:
    chosen = stores.SqliteStore() if name == "sqlite" else request.getfixturevalue("postgres_store")
    with stores.using(chosen), chosen.scope() as variables, pytest.MonkeyPatch.context() as environment:
        for variable, value in variables.items():
            environment.setenv(variable, value)
        yield


@asynccontextmanager
async def running_server(
    settings: Settings,
    *,
    own: Mapping[str, str] | None = None,
    http_app: HttpApp | None = None,
    port: int = 0,
    parts: Parts = Parts(),
) -> AsyncIterator[str]:
    """The real server, in this process, on real sockets; yields its address."""
    ready = asyncio.Event()
    settings = stores.settings(settings)
    with listener("127.0.0.1", port, parts.timings) as socket:
        async with serving(settings, ready.set, own=own, http_app=http_app, parts=parts) as server:
            running = asyncio.create_task(server.serve(sockets=[socket]))
            try:
                async with asyncio.timeout(60):
                    await ready.wait()
                address = f"http://127.0.0.1:{socket.getsockname()[1]}"
                await asyncio.to_thread(keyed.close_door, address, settings.data)
                yield address
            finally:
                server.should_exit = True
                await running


@contextmanager
def server_beside(settings: Settings, *, own: Mapping[str, str] | None = None, parts: Parts = Parts()) -> Iterator[str]:
    """The same in another thread, so that it outlives the event loop of a test."""
    serving_one = running_server(settings, own=own, parts=parts)
    with start_blocking_portal() as another_thread, another_thread.wrap_async_context_manager(serving_one) as found:
        yield found


@asynccontextmanager
async def own_server(settings: Settings, *, parts: Parts = Parts()) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a server that no other test uses."""
    async with running_server(settings, parts=parts) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
            yield client


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    async with stores.opened(tmp_path / "test.db") as found:
        yield found


@pytest.fixture
async def address(tmp_path: Path, parts: Parts) -> AsyncIterator[str]:
    async with running_server(Settings(data=tmp_path / "data"), parts=parts) as found:
        yield found


@pytest.fixture(scope="module")
def shared_address(tmp_path_factory: pytest.TempPathFactory, parts: Parts) -> Iterator[str]:
    """One server for all tests of a module that leave nothing behind that another of them would see."""
    with server_beside(Settings(data=tmp_path_factory.mktemp("shared") / "data"), parts=parts) as found:
        yield found


@pytest.fixture
async def client(address: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=address, timeout=60) as made:
        yield made


@pytest.fixture
async def sid(client: httpx2.AsyncClient) -> str:
    """A new session with the demo system."""
    answer = await client.post("/sessions", json={"agent_system_id": "demo"})
    return str(answer.json()["id"])


@pytest.fixture
def gates(monkeypatch: pytest.MonkeyPatch) -> Gates:
    made = Gates()  # for this test, as an event loop has its own
    monkeypatch.setattr(in_process, "gates", made)
    return made


@pytest.fixture
async def backend(tmp_path: Path) -> AsyncIterator[InProcessServer]:
    made = InProcessServer(tmp_path)
    await made.up()
    yield made
    await made.down()


@pytest.fixture
def command(capfd: "pytest.CaptureFixture[str]", monkeypatch: pytest.MonkeyPatch) -> Command:
    return Command(capfd, monkeypatch)
