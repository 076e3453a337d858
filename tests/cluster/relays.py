"""TCP relays that can stop relaying: what a cut network is to the two programs at its ends.

They run on a thread of their own, so that a busy or waiting test cuts nothing by accident.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

_PIECE = 1 << 16
_BLOCKING = 30


class Relay:
    """One port that leads to another; ``target`` may change with each connection, None refuses it."""

    def __init__(self, run: Callable[[Coroutine[Any, Any, Any]], Any], target: Callable[[], int | None]) -> None:
        self._run, self._target = run, target
        self._passing = asyncio.Event()
        self._refuses = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server = run(self._listen())
        self.port: int = self._server.sockets[0].getsockname()[1]

    def hold(self) -> None:
        """From now on nothing arrives, in either direction, and no end is told of it."""
        self._run(self._set(passing=False))

    def refuse(self) -> None:
        """End all connections, and each new one."""
        self._run(self._set(passing=True, refuses=True))

    def pass_on(self) -> None:
        """Again; what was held arrives late."""
        self._run(self._set(passing=True))

    async def close(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._abort()

    async def _listen(self) -> asyncio.Server:
        self._passing.set()
        return await asyncio.start_server(self._accept, "127.0.0.1", 0)

    async def _set(self, *, passing: bool, refuses: bool = False) -> None:
        self._refuses = refuses
        if refuses:
            self._abort()
        if passing:
            self._passing.set()
        else:
            self._passing.clear()

    def _abort(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._relay(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        mine = {writer}
        self._writers |= mine
        try:
            await self._passing.wait()
            port = self._target()
            if self._refuses or port is None:
                return
            reader_there, writer_there = await asyncio.open_connection("127.0.0.1", port)
            mine.add(writer_there)
            self._writers.add(writer_there)
            pumps = [
                asyncio.create_task(self._pump(*ends)) for ends in ((reader, writer_there), (reader_there, writer))
            ]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.wait(pumps)
        except OSError:
            pass
        finally:
            self._writers -= mine
            for each in mine:
                each.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while True:
                data = await reader.read(_PIECE)
                await self._passing.wait()
                if not data:
                    return
                writer.write(data)
                await writer.drain()


class Relays:
    """The thread, and all relays on it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relays", daemon=True)
        self._relays: list[Relay] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for relay in self._relays:
            self._run(relay.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def add(self, target: Callable[[], int | None]) -> Relay:
        relay = Relay(self._run, target)
        self._relays.append(relay)
        return relay

    def _run(self, awaited: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(awaited, self._loop).result(_BLOCKING)
