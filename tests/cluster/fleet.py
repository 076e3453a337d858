"""Several servers on one PostgreSQL, each behind relays; clients send each request to any of them.

A node listens behind one relay and reaches each PostgreSQL server through another, so it can be cut from either side.
"""

import asyncio
import shutil
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import httpx2

from tests import keyed
from tests.cluster.relays import Relays
from tests.cluster.replicated import DATABASE, ReplicatedPostgres
from tests.crash import process
from tests.crash.process import ServerProcess
from tests.crash.waiting import eventually
from tests.postgres import ROLE

SYSTEM = Path(__file__).parents[1] / "crash/kill_loop_system"
PATIENCE = 4.0
"""Seconds without a byte after which a client goes to another node."""
_READY = 90
_FAKETIME = "lib/*/faketime/libfaketime.so.1"


class FleetNode:
    """``skew`` is what its clock is wrong by at its next start, in seconds."""

    def __init__(self, fleet: "Fleet", number: int) -> None:
        self._fleet, self.number = fleet, number
        self.server: ServerProcess | None = None
        self.skew = 0
        self.in_trouble = False
        """Its clients may see anything of it but a wrong answer."""
        self.clients = fleet.relays.add(self._port)
        self.database = [fleet.relays.add(partial(int, port)) for port in fleet.postgres.ports]

    def _port(self) -> int | None:
        return None if self.server is None else urlsplit(self.server.address).port

    async def start(self) -> None:
        try:
            await in_thread(self._start)
        except RuntimeError:
            await asyncio.sleep(0)  # raises CancelledError, if it did not start because of Ctrl-C
            raise
        assert self.server is not None
        keyed.same_door(f"http://127.0.0.1:{self.clients.port}", self.server.address)

    def _start(self) -> None:
        hosts = ",".join(f"127.0.0.1:{relay.port}" for relay in self.database)
        preload, moved = faketime(), f"{self.skew:+d}"
        inside = ("env", f"LD_PRELOAD={preload}", f"FAKETIME={moved}", "FAKETIME_DONT_FAKE_MONOTONIC=1")
        self.server = process.start(
            self._fleet.data,
            errors=self._fleet.folder / f"stderr-{self.number}.txt",
            inside=inside if self.skew and preload else (),
            serves=[str(self._fleet.system / "system.yaml")],
            config=self._fleet.system / "operator.yaml",
            database=f"postgresql://{ROLE}@{hosts}/{DATABASE}?sslmode=disable&gssencmode=disable",
            lease=self._fleet.lease,
            slots=6 if self.number == 2 else 200,
            demo="false",
        )

    @property
    def pid(self) -> int:
        assert self.server is not None
        return self.server.pid

    def send_signal(self, signum: signal.Signals) -> None:
        assert self.server is not None
        self.server.process.send_signal(signum)

    async def kill(self) -> None:
        if self.server is not None:
            await in_thread(self.server.kill)

    async def stop(self) -> int | None:
        """SIGTERM; returns the exit code."""
        assert self.server is not None
        await in_thread(self.server.stop)
        return self.server.process.poll()

    def is_running(self) -> bool:
        return self.server is not None and self.server.process.poll() is None


class Fleet:
    """``folder`` has the data folder of all nodes, their system, what its tools do, and what the nodes say."""

    def __init__(self, folder: Path, postgres: ReplicatedPostgres, relays: Relays, *, lease: float, nodes: int) -> None:
        self.folder, self.postgres, self.relays, self.lease = folder, postgres, relays, lease
        self.data, self.system = folder / "data", folder / "system"
        shutil.copytree(SYSTEM, self.system, dirs_exist_ok=True)
        (self.system / "operator.yaml").write_text("tools: [tools.py:tools]\n")
        self.nodes = [FleetNode(self, number) for number in range(nodes)]

    async def open(self) -> None:
        for error in await asyncio.gather(*(node.start() for node in self.nodes), return_exceptions=True):
            if error is not None:  # only now that all have come so far that they can be ended
                raise error
        await self.ready()

    async def close(self) -> None:
        for node in self.nodes:
            if node.is_running():
                node.send_signal(signal.SIGCONT)
            await node.kill()

    async def mend(self) -> None:
        """End every fault: all nodes run, and all of them are reached and ready."""
        for node in self.nodes:
            for relay in (node.clients, *node.database):
                relay.pass_on()
            if node.is_running():
                node.send_signal(signal.SIGCONT)
            else:
                await node.start()
        await self.ready()
        for node in self.nodes:
            node.in_trouble = False

    async def ready(self) -> None:
        async with httpx2.AsyncClient(timeout=PATIENCE) as client:
            for node in self.nodes:
                what = f"node {node.number} is not ready"
                await eventually(partial(_is_ready, client, node), within=_READY, what=what)

    def client(self, transport: "AnyNode") -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=PATIENCE)


async def _is_ready(client: httpx2.AsyncClient, node: FleetNode) -> bool:
    with suppress(httpx2.TransportError):
        answer = await client.get(f"http://127.0.0.1:{node.clients.port}/readyz")
        return answer.status_code == 200
    return False


class AnyNode(httpx2.AsyncBaseTransport):
    """Each request goes to one node, chosen at random; 503 is no answer, as another node may give one."""

    def __init__(self, nodes: Sequence[FleetNode], random: Random) -> None:
        self._nodes, self._random = nodes, random
        self._inner = httpx2.AsyncHTTPTransport(limits=httpx2.Limits(max_connections=None))
        self.refused = self.slow = 0
        self.problems: list[str] = []
        """What a node without any trouble should not have answered."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        node = self._random.choice(self._nodes)
        request.url = request.url.copy_with(port=node.clients.port)
        request.headers["Host"] = f"127.0.0.1:{node.clients.port}"
        try:
            answer = await self._inner.handle_async_request(request)
        except httpx2.TimeoutException:  # a busy machine is no failure; what hangs for ever is found later
            self.slow += 1
            raise
        except httpx2.TransportError as error:
            self._note(node, request, repr(error))
            raise
        answer.extensions["node"] = node
        if answer.status_code == 503:
            text = (await answer.aread()).decode()
            await answer.aclose()
            self.refused += 1
            self._note(node, request, text)
            raise httpx2.ReadError(text, request=request)
        return answer

    def _note(self, node: FleetNode, request: httpx2.Request, what: str) -> None:
        if not any(each.in_trouble for each in self._nodes):
            self.problems.append(f"node {node.number}, {request.method} {request.url.path}: {what}")

    async def aclose(self) -> None:
        await self._inner.aclose()


async def in_thread(call: Callable[..., object], *arguments: object) -> None:
    """Call it to its end, also if the caller is cancelled meanwhile: nothing that it starts is left behind."""
    calling = asyncio.create_task(asyncio.to_thread(call, *arguments))
    try:
        await asyncio.shield(calling)
    except asyncio.CancelledError:
        await asyncio.gather(calling, return_exceptions=True)
        raise


def faketime() -> str | None:
    """The library that gives a process another clock, if it is installed."""
    found = [*Path("/usr").glob(_FAKETIME)]
    return str(found[0]) if found else None
