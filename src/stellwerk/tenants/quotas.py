"""Quotas: what tenants use, counted in memory, and refused where a limit is reached.

Whoever wants something asks here first. What was used today is read from the
database at the start, so that a restart forgets nothing. There is no lock: all
of it happens on the event loop.
"""

from collections.abc import Callable
from weakref import WeakValueDictionary

import msgspec

from stellwerk.database.port import Database, Transaction
from stellwerk.ids import Clock
from stellwerk.tenants.ledger import Ledger, Meter, Place, Spent, excess_in_session, recent
from stellwerk.tenants.limits import MINUTE, Limits, all_limits, excess, refuse_bytes, set_many
from stellwerk.tenants.usage import day_of


class Used(msgspec.Struct, frozen=True, kw_only=True):
    """What a tenant uses at the moment, and has used today."""

    requests: int | None
    """In the last minute; null, as nobody counts them, where they are not limited."""
    runs: int
    streams: int
    bytes: int
    steps: int
    tokens: int
    seconds: float


class Quotas:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock
        self._ledgers: dict[str, Ledger] = {}
        self._meters: WeakValueDictionary[str, Meter] = WeakValueDictionary()
        """Of the runs that are under way, by session."""

    async def open(self) -> None:
        today = day_of(self._clock.now())
        for tenant, limits in (await all_limits(self._database)).items():
            self._ledger(tenant).limits = limits
        for tenant, held in await self._database.read(lambda tx: tx.rows("bytes_held")):
            self._ledger(tenant).held = held
        for tenant, steps, tokens, seconds in await self._database.read(lambda tx: tx.rows("used_on", today)):
            counted = self._ledger(tenant).today()
            counted.steps, counted.tokens, counted.seconds = steps, tokens, seconds

    def limits(self, tenant: str) -> Limits:
        return self._ledger(tenant).limits

    async def limit(self, tenant: str, limits: Limits) -> None:
        """From now on; what is under way and above them is not cut off before its next call, nor is a graph of
        somebody's own that began without any limit before its next run.

        Raises:
            NotFound: there is no such tenant.
        """
        await self._database.submit(set_many, (tenant, limits))
        self._ledger(tenant).limits = limits

    def request(self, tenant: str, session_id: str | None) -> None:
        """Count a request.

        Raises:
            LimitReached: there were too many in the last minute; this one does not count.
        """
        ledger, now = self._ledger(tenant), self._clock.steady()
        windows = list(ledger.windows(session_id))
        for limit, allowed, sent in windows:
            if not recent(sent, now):
                continue
            if (found := excess(limit, len(sent), allowed, now=now, free_in=sent[0] + MINUTE - now)) is not None:
                raise found.refusal()
        for _, _, sent in windows:
            sent.append(now)

    def stream(self, tenant: str, session_id: str | None = None) -> Place:
        """A place for a stream, which is taken until whoever got it has entered and left it.

        Raises:
            LimitReached: as many are open as may be.
        """
        ledger, now = self._ledger(tenant), self._clock.now()
        found = excess("streams", ledger.streams.total(), ledger.limits.streams, now=now)
        if found is None and session_id is not None:
            found = excess("session_streams", ledger.streams[session_id], ledger.limits.session_streams, now=now)
        if found is not None:
            raise found.refusal()
        return Place(ledger, session_id or "")

    def room(self, tenant: str) -> Callable[[Transaction, int], None]:
        """Asked where a file is stored, whether one of its size still may be: nobody can come in between there."""
        limits = self.limits(tenant)
        return lambda tx, size: refuse_bytes(tx, limits, size, tenant)

    async def admit(self, tenant: str, session_id: str) -> None:
        """Whether a run may begin, as far as that depends on what was used before.

        Raises:
            LimitReached: what it may use is used up.
        """
        ledger, now = self._ledger(tenant), self._clock.now()
        if ledger.limits.bytes is not None:
            await self._held(tenant)
        found = ledger.excess()
        if found is None and ledger.limits.on_sessions:
            found = excess_in_session(ledger.limits, await self._spent(tenant, session_id), now)
        if found is not None:
            raise found.refusal()

    async def meter(self, tenant: str, session_id: str) -> Meter:
        ledger = self._ledger(tenant)
        await self._held(tenant)
        before = await self._spent(tenant, session_id) if ledger.limits.on_sessions else Spent()
        meter = self._meters[session_id] = Meter(ledger, before, self._clock.steady())
        return meter

    def grew(self, session_id: str, size: int) -> None:
        """The log of a session; of one that nobody drives it is enough to ask the database, when somebody does."""
        if (meter := self._meters.get(session_id)) is not None:
            meter.grow(size)

    async def look(self, tenant: str, session_id: str) -> None:
        """Something was filed in a session, which may have been there before: ask the database what it holds now."""
        meter, limits = self._meters.get(session_id), self.limits(tenant)
        if meter is not None and not limits.bytes == limits.session_bytes is None:
            await self._held(tenant)
            meter.bytes = (await self._spent(tenant, session_id)).bytes - meter.session.bytes

    async def used(self, tenant: str) -> Used:
        ledger = self._ledger(tenant)
        runs = await self._database.read(lambda tx: _number(tx, "count_runs_of", tenant))
        recent(ledger.requests, self._clock.steady())
        today = ledger.today()
        return Used(
            requests=None if ledger.limits.requests is None else len(ledger.requests),
            runs=runs,
            streams=ledger.streams.total(),
            bytes=await self._held(tenant),
            steps=today.steps,
            tokens=today.tokens,
            seconds=round(ledger.seconds(), 3),
        )

    async def _held(self, tenant: str) -> int:
        ledger = self._ledger(tenant)
        ledger.held = await self._database.read(lambda tx: _number(tx, "bytes_of", tenant))
        return ledger.held

    async def _spent(self, tenant: str, session_id: str) -> Spent:
        row = await self._database.read(lambda tx: tx.row("used_in_session", session_id, tenant))
        return Spent(*row) if row else Spent()

    def _ledger(self, tenant: str) -> Ledger:
        if tenant not in self._ledgers:
            self._ledgers[tenant] = Ledger(self._clock)
        return self._ledgers[tenant]


def _number(tx: Transaction, query: str, *params: object) -> int:
    row = tx.row(query, *params)
    return int(row[0]) if row else 0
