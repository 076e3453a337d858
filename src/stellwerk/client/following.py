"""Following: a stream that breaks and comes back by position, so that each event is given once."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass

import httpx2
import msgspec

from stellwerk.client.answers import Event, Session
from stellwerk.client.problems import Problem, Unreachable, problem_of, reason_of
from stellwerk.envelope.lines import LineBuffer, LineTooLong

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0
_SILENCE = 45.0
"""Seconds without a heartbeat, of which three should have come, after which the server is taken for gone."""
_NDJSON = {"Accept": "application/x-ndjson"}

Lost = Callable[[Unreachable | Problem], None]


def nothing_said(error: Unreachable | Problem) -> None:
    pass


@dataclass(slots=True)
class Following:
    http: httpx2.AsyncClient
    place: tuple[str, str]
    """The server, and the path of the stream."""
    wanted: Mapping[str, str]
    standing: Callable[[], Awaitable[Session]]
    lost: Lost
    connected: bool = False
    """It has been, once: from then on it comes back."""

    async def events(self, after: int) -> AsyncGenerator[Event, None]:
        pause = FIRST_PAUSE
        while True:
            try:
                async with aclosing(self._connection(after)) as connection:
                    async for event in connection:
                        if event.position <= after:
                            continue
                        yield event
                        after, pause = event.position, FIRST_PAUSE
                        if event.type == self.wanted.get("until"):
                            return
                if await self._all_read(after):
                    return
            except (Unreachable, Problem) as error:
                if not self.connected or (isinstance(error, Problem) and not error.passing):
                    raise
                self.lost(error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _connection(self, after: int) -> AsyncGenerator[Event, None]:
        (url, path), lines = self.place, LineBuffer()
        wanted, timeout = {**self.wanted, "after": str(after)}, httpx2.Timeout(_SILENCE, connect=10)
        try:
            async with self.http.stream("GET", url + path, params=wanted, headers=_NDJSON, timeout=timeout) as answer:
                if not answer.is_success:
                    await answer.aread()
                    raise problem_of(answer)
                self.connected = True
                async for piece in answer.aiter_raw():
                    for line in lines.feed(piece):
                        yield Event(line)
        except (httpx2.TransportError, httpx2.InvalidURL, LineTooLong, msgspec.DecodeError) as error:
            raise Unreachable(url, reason_of(error)) from error

    async def _all_read(self, after: int) -> bool:
        """Whether the stream ended because there was no more to wait for, and not because the server ends."""
        if "until" not in self.wanted:
            return False
        session = await self.standing()
        return session.status != "running" and session.position <= after
