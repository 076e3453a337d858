"""A line that breaks: a proxy in front of a server that cuts every answer after some bytes."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from tests import keyed


@asynccontextmanager
async def cutting(address: str, after: Iterator[int]) -> AsyncIterator[str]:
    """Each connection is cut when as many bytes have gone through as ``after`` says; none any more when it ends."""
    where = urlsplit(address)
    under_way: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        limit = next(after, None)
        up_reader, up_writer = await asyncio.open_connection(where.hostname, where.port)
        asking = asyncio.create_task(_pass_on(reader, up_writer, None))
        under_way.add(asking)
        try:
            await _pass_on(up_reader, writer, limit)
        finally:
            asking.cancel()
            for side in (writer, up_writer):
                side.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    before = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    keyed.same_door(before, address)
    try:
        yield before
    finally:
        server.close()
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: int | None) -> None:
    gone = 0
    while piece := await reader.read(4096):
        part = piece if limit is None else piece[: limit - gone]
        writer.write(part)
        await writer.drain()
        gone += len(part)
        if gone == limit:
            return
