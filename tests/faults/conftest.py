"""A server to be disturbed: an agent system, its tools, a ledger of what they really did, and a gate."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from stellwerk.app import Parts
from stellwerk.database.folder import DATABASE
from stellwerk.settings import Settings
from tests.conftest import running_server
from tests.crash.process import ServerProcess, server_process
from tests.crash.waiting import eventually

SYSTEM = Path(__file__).parent / "fault_system"


class FaultServer:
    def __init__(self, folder: Path) -> None:
        shutil.copytree(SYSTEM, folder / "system")
        self.folder, self.data = folder / "system", folder / "data"
        self.database = self.data / DATABASE
        self.config, self.system = self.folder / "operator.yaml", self.folder / "system.yaml"
        self.config.write_text("tools: [tools.py:tools]\n")

    @asynccontextmanager
    async def served(self, parts: Parts = Parts(), **settings: Any) -> AsyncIterator[httpx2.AsyncClient]:
        """The server, and a client of it; whoever waits at the gate at the end is let go."""
        chosen = Settings(data=self.data, config=self.config, **settings)
        async with running_server(chosen, own={"faulty": str(self.system)}, parts=parts) as address:
            async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
                try:
                    yield client
                finally:
                    self.open_gate()

    @asynccontextmanager
    async def server(self) -> AsyncIterator[tuple[ServerProcess, httpx2.AsyncClient]]:
        """The server as a process of its own, which is killed at the end, and a client of it."""
        errors, serves = self.folder / "errors", [str(self.system)]
        with server_process(self.data, errors=errors, config=self.config, serves=serves) as server:
            async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
                yield server, client

    def ledger(self) -> list[str]:
        path = self.folder / "ledger"
        return path.read_text().splitlines() if path.exists() else []

    async def has_noted(self, line: str) -> None:
        await eventually(lambda: line in self.ledger(), within=60, what=f"nobody noted {line!r}")

    def open_gate(self) -> None:
        (self.folder / "gate").touch()


@pytest.fixture
def faulty(tmp_path: Path) -> FaultServer:
    return FaultServer(tmp_path)


@pytest.fixture
async def client(faulty: FaultServer) -> AsyncIterator[httpx2.AsyncClient]:
    async with faulty.served() as made:
        yield made
