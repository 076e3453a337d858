"""A real S3 server for tests, and a line to it that can be cut and mended."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

SERVER = Path(__file__).with_name("s3_server.py")
PYTHON = Path(__file__).parents[2] / ".venv-s3/bin/python"
BUCKET = "documents"
UNCHECKED = 7
"""Requests of the server's script before rights are checked: a bucket, and three for each user."""
User = tuple[str, str]


@dataclass(frozen=True)
class ObjectStore:
    address: str
    writer: User
    reader: User

    def show(self, patch: pytest.MonkeyPatch, user: User | None = None, address: str | None = None) -> None:
        """Let clients find the store and a user in the environment."""
        key, secret = user or self.writer
        patch.setenv("AWS_ENDPOINT_URL", address or self.address)
        patch.setenv("AWS_ACCESS_KEY_ID", key)
        patch.setenv("AWS_SECRET_ACCESS_KEY", secret)
        patch.setenv("AWS_REGION", "us-east-1")
        patch.delenv("SSL_CERT_DIR", raising=False)  # the client takes no empty list of authorities


@contextmanager
def running_object_store() -> Iterator[ObjectStore]:
    assert PYTHON.exists(), "the S3 server of the tests is not installed: make s3"
    environment = {
        "AWS_ACCESS_KEY_ID": "first",
        "AWS_SECRET_ACCESS_KEY": "first",
        "AWS_DEFAULT_REGION": "us-east-1",
        "INITIAL_NO_AUTH_ACTION_COUNT": str(UNCHECKED),
    }
    with subprocess.Popen(
        [PYTHON, SERVER],
        env=environment,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as server:
        assert server.stdin is not None and server.stdout is not None
        try:
            found = json.loads(server.stdout.readline())
            yield ObjectStore(found["address"], tuple(found["writer"]), tuple(found["reader"]))
        finally:
            server.stdin.close()


class Line:
    """A TCP relay to a server."""

    def __init__(self, target: str) -> None:
        self._target, self._port = urlsplit(target), 0
        self._under_way = set[asyncio.Task[None]]()
        self._server: asyncio.Server | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def mend(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """Nothing answers at the address, and what was under way is broken off."""
        if self._server is not None:
            self._server.close()
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._under_way.add(task)
        up_reader, up_writer = await asyncio.open_connection(self._target.hostname, self._target.port)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_pass_on(reader, up_writer))
                both.create_task(_pass_on(up_reader, writer))
        finally:
            self._under_way.discard(task)
            for side in (writer, up_writer):
                side.transport.abort()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(65_536):
            writer.write(piece)
            await writer.drain()
    except ConnectionError:
        pass
    writer.close()


@asynccontextmanager
async def line_to(target: str) -> AsyncIterator[Line]:
    line = Line(target)
    await line.mend()
    try:
        yield line
    finally:
        await line.cut()
