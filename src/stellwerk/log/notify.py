"""Wake-ups: notifications that a session has new events, and the shared tail of watched sessions.

A hint may be lost, doubled or late; a reader always goes by its own position.
The tail spares a thousand readers of one session a thousand reads of the same
rows; it holds nothing that is not committed, and may be dropped at any time.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from stellwerk.envelope.frames import Stored

HEARTBEAT = 15
"""Seconds of silence after which readers are reminded."""
_TAIL_EVENTS = 512
_TAIL_BYTES = 256 * 1024


class SessionChannel:
    """One session as its watchers in this process see it."""

    def __init__(self) -> None:
        self.head = 0
        self.watchers = 0
        self.gone = False
        self.rewrites = 0
        """How often the log was rewritten, as far as the database was asked."""
        self.rewritten = 0
        """Rises with each rewrite: what was made of the log before is of no use."""
        self._tail: list[Stored] = []
        self._bytes = 0
        self._bell = asyncio.Event()
        self._quiet = 0
        self._reminders = 0

    def since(self, after: int) -> list[Stored]:
        """What the tail holds behind ``after``; nothing if it does not reach back that far."""
        if not self._tail or after + 1 < self._tail[0].position:
            return []
        return self._tail[after + 1 - self._tail[0].position :]

    async def beyond(self, after: int) -> bool:
        """Wait until the log is longer than ``after``; False if a heartbeat is due first."""
        reminders = self._reminders
        while self.head <= after and not self.gone:
            if self._reminders != reminders:
                return False
            await self._bell.wait()
        return True

    def heartbeat(self) -> None:
        """Called every second: after some quiet seconds, the readers are woken once."""
        self._quiet += 1
        if self._quiet >= HEARTBEAT:
            self.wake_all()

    def wake_all(self) -> None:
        self._reminders += 1
        self.ring(self.head)

    def show(self, events: list[Stored]) -> None:
        if self._tail and events[0].position != self._tail[-1].position + 1:
            self.forget()  # events were missed: start over
        self._tail += events
        self._bytes += sum(len(e.body) for e in events)
        if len(self._tail) > _TAIL_EVENTS or self._bytes > _TAIL_BYTES:
            self._tail = self._tail[len(self._tail) // 2 :]
            self._bytes = sum(len(e.body) for e in self._tail)
        self.ring(events[-1].position)

    def forget(self) -> None:
        self._tail, self._bytes = [], 0

    def ring(self, head: int) -> None:
        self.head = max(self.head, head)
        self._quiet = 0
        self._bell.set()
        self._bell.clear()

    def close(self) -> None:
        self.gone = True
        self.ring(self.head)


class WakeUps:
    def __init__(self) -> None:
        self._channels: dict[str, SessionChannel] = {}
        self.closed = False
        self.on_rewrite: list[Callable[[str], None]] = []
        """Called with each session whose log was rewritten."""
        self.is_shared = False
        """Whether other processes write, too: what was made of a log that is not watched any more is of no use."""

    @contextmanager
    def watch(self, session_id: str) -> Iterator[SessionChannel]:
        channel = self._channels.setdefault(session_id, SessionChannel())
        channel.gone = channel.gone or self.closed
        channel.watchers += 1
        try:
            yield channel
        finally:
            channel.watchers -= 1
            if not channel.watchers and self._channels.get(session_id) is channel:
                del self._channels[session_id]
                if self.is_shared:
                    self._forget_beside(session_id)

    def show(self, session_id: str, events: list[Stored]) -> None:
        channel = self._channels.get(session_id)
        if channel is not None and events:
            channel.show(events)

    def ring(self, heads: Mapping[str, int]) -> None:
        """Positions that were read from the log. Only sessions that moved on wake their readers."""
        for session_id, head in heads.items():
            channel = self._channels.get(session_id)
            if channel is not None and head > channel.head:
                channel.ring(head)

    def heads(self, sessions: Iterable[str]) -> dict[str, int]:
        """How far the watched ones of these sessions are known here."""
        return {each: self._channels[each].head for each in sessions if each in self._channels}

    def compare(self, sessions: Iterable[str], rows: Iterable[tuple[Any, ...]]) -> None:
        """Watched sessions with what the database has of them: id, last position, number of rewrites."""
        found = {session_id: (head, rewrites) for session_id, head, rewrites in rows}
        for session_id in sessions:
            if session_id not in found:
                self.close_deleted(session_id)
            elif (channel := self._channels.get(session_id)) is not None:
                head, rewrites = found[session_id]
                if channel.rewrites != rewrites:
                    self.forget(session_id)
                channel.rewrites = rewrites
        self.ring({session_id: head for session_id, (head, _) in found.items()})

    def heartbeat(self) -> None:
        """Called every second: one clock for all readers, instead of a timer for each."""
        for channel in self._channels.values():
            channel.heartbeat()

    def recheck(self) -> None:
        """Wake all readers: what they may read has changed."""
        for channel in self._channels.values():
            channel.wake_all()

    def forget(self, session_id: str) -> None:
        """What the tail holds was rewritten; readers look into the log instead."""
        if (channel := self._channels.get(session_id)) is not None:
            channel.forget()
            channel.rewritten += 1
        self._forget_beside(session_id)

    def _forget_beside(self, session_id: str) -> None:
        for forget in self.on_rewrite:
            forget(session_id)

    def close_deleted(self, session_id: str) -> None:
        channel = self._channels.pop(session_id, None)
        if channel is not None:
            channel.close()

    def close(self) -> None:
        """End all watches: the process is shutting down."""
        self.closed = True
        for channel in self._channels.values():
            channel.close()

    def watched(self) -> list[str]:
        return list(self._channels)
