"""Quotas, rate limits and usage: counted per tenant in memory, and rejected where a limit is reached.

Today's usage is read from the database at the start, so a restart forgets nothing. There is
no lock: everything happens on the event loop. Usage by day, user, system and model is counted
when runs end, and outlives their sessions.
"""

import math
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple
from weakref import WeakValueDictionary

import msgspec

from stellwerk.database.port import Database, Lock, Transaction
from stellwerk.errors import LimitReached, QuotaExceeded
from stellwerk.ids import Clock
from stellwerk.tenants.principals import unknown_tenant

DAY = 86_400
MINUTE = 60.0
_RETRY_SOON = 5  # Retry-After, in seconds, where it is unknown when there will be room
_RETRY_LATE = 3600  # Retry-After, in seconds, where only a higher limit makes room
_PRUNE_ABOVE = 1000
"""Sessions with counted requests above which the quiet ones are dropped for the first time."""
_DAYS_KEPT = 3


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The first seven of a tenant, the others of each of its sessions."""

    requests: int | None = None
    runs: int | None = None
    streams: int | None = None
    bytes: int | None = None
    steps: int | None = None
    tokens: int | None = None
    seconds: int | None = None
    session_requests: int | None = None
    session_streams: int | None = None
    session_bytes: int | None = None
    session_steps: int | None = None
    session_tokens: int | None = None
    session_seconds: int | None = None

    @property
    def on_sessions(self) -> bool:
        """Whether the total usage of a session is limited."""
        limits = (self.session_steps, self.session_tokens, self.session_seconds, self.session_bytes)
        return any(limit is not None for limit in limits)


NO_LIMITS = Limits()
_TOMORROW = "there are new ones from midnight UTC on"
_ANOTHER = "begin another session"
_TEXTS: Mapping[str, tuple[str, str]] = {
    "requests": ("requests that your tenant may send in a minute", "wait a little"),
    "runs": ("runs that your tenant may have at the same time", "wait until one has ended, or stop one"),
    "streams": ("streams that your tenant may have open", "close one"),
    "bytes": ("bytes that the files, the sessions and the store of your tenant may have", "delete some"),
    "steps": ("model calls that your tenant may make in a day", _TOMORROW),
    "tokens": ("tokens that your tenant may use in a day", _TOMORROW),
    "seconds": ("seconds that runs of your tenant may take in a day", _TOMORROW),
    "session_requests": ("requests that may be sent to a session in a minute", "wait a little"),
    "session_streams": ("streams that a session may have open", "close one"),
    "session_bytes": ("bytes that the log and the files of a session may have", _ANOTHER),
    "session_steps": ("model calls that a session may make", _ANOTHER),
    "session_tokens": ("tokens that a session may use", _ANOTHER),
    "session_seconds": ("seconds that the runs of a session may take", _ANOTHER),
}
"""What is limited, and what to do."""
_OF_A_DAY = ("steps", "tokens", "seconds")
_FOR_EVER = ("session_bytes", "session_steps", "session_tokens", "session_seconds")


@dataclass(frozen=True, slots=True)
class ExceededLimit:
    name: str
    used: float
    allowed: float
    retry_after: float  # seconds until there is room again, as far as that is known

    def rejection(self) -> LimitReached:
        """For a request."""
        return LimitReached(self._text(), retry_after=self.retry_after)

    def run_error(self) -> QuotaExceeded:
        """For a run under way."""
        return QuotaExceeded(self.name, used=self.used, limit=self.allowed, message=self._text())

    def _text(self) -> str:
        what, remedy = _TEXTS[self.name]
        return f"{self.name}: {self.used:.10g} are used of the {self.allowed:.10g} {what}; {remedy}"


def _exceeded(limits: Limits, now: float, **used: float) -> ExceededLimit | None:
    """The first limit, by its name, that leaves no room for one more."""
    for name, amount in used.items():
        allowed: int | None = getattr(limits, name)
        if allowed is not None and amount >= allowed:
            retry_after: float = _RETRY_LATE if name in _FOR_EVER else _RETRY_SOON
            if name in _OF_A_DAY:
                retry_after = DAY - now % DAY
            return ExceededLimit(name, amount, allowed, retry_after)
    return None


def refuse_another_run(tx: Transaction, limits: Limits, tenant: str) -> None:
    """Running and waiting ones count."""
    if limits.runs is not None:
        used = count_rows(tx, "count_runs_of", tenant)
        if used >= limits.runs:
            raise ExceededLimit("runs", used, limits.runs, _RETRY_SOON).rejection()


def limit_locks(limits: Limits, tenant: str) -> list[Lock]:
    """What is counted before it is stored must not grow in between."""
    return [] if limits.runs is None and limits.bytes is None else [Lock("limits", tenant)]


def refuse_bytes(tx: Transaction, limits: Limits, size: int, tenant: str, session_id: str | None = None) -> None:
    """Checked in the transaction that stores the bytes, so that no other write comes in between."""
    if limits.bytes is not None:
        used = count_rows(tx, "bytes_of", tenant)
        if used + size > limits.bytes:
            raise ExceededLimit("bytes", used, limits.bytes, MINUTE).rejection()
    if limits.session_bytes is not None and session_id is not None:
        used = count_rows(tx, "bytes_in_session", session_id, tenant)
        if used + size > limits.session_bytes:
            raise ExceededLimit("session_bytes", used, limits.session_bytes, _RETRY_LATE).rejection()


def set_many(tx: Transaction, items: Sequence[tuple[str, Limits]]) -> list[None | Exception]:
    stored = [tx.run("set_limits", tenant, msgspec.json.encode(limits)) for tenant, limits in items]
    return [None if done else unknown_tenant(tenant) for done, (tenant, _) in zip(stored, items, strict=True)]


@dataclass(slots=True)
class SessionUsage:
    steps: int = 0
    tokens: int = 0
    seconds: float = 0.0
    bytes: int = 0  # stored now, in the log and the files

    def exceeded(self, limits: Limits, now: float, running: float = 0) -> ExceededLimit | None:
        """``running`` are the seconds of a run that has not ended."""
        return _exceeded(
            limits,
            now,
            session_steps=self.steps,
            session_tokens=self.tokens,
            session_seconds=round(self.seconds + running, 1),
            session_bytes=self.bytes,
        )


class StoredUsage(NamedTuple):
    """What the database knows of the usage of a tenant and a session, as far as it is limited."""

    bytes: int | None
    session: SessionUsage


def stored_usage(tx: Transaction, limits: Limits, tenant: str, session_id: str) -> StoredUsage:
    stored = None if limits.bytes is None else count_rows(tx, "bytes_of", tenant)
    session = _session_usage(tx, tenant, session_id) if limits.on_sessions else SessionUsage()
    return StoredUsage(stored, session)


def _session_usage(tx: Transaction, tenant: str, session_id: str) -> SessionUsage:
    row = tx.row("used_in_session", session_id, tenant)
    return SessionUsage(*row) if row else SessionUsage()


@dataclass(eq=False)
class RunUsage:
    """The usage of one run. It counts for the session and the tenant, too."""

    tenant: "TenantUsage"
    session: SessionUsage  # what the session has used, with this run except for its seconds
    began: float  # by the monotonic clock

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the seconds of the run."""
        self.tenant.runs.add(self)
        try:
            yield
        finally:
            self.tenant.runs.discard(self)
            self.tenant.today().seconds += self.seconds_today()

    def seconds_today(self) -> float:
        clock = self.tenant.clock
        return min(clock.steady() - self.began, clock.now() % DAY)

    def check(self) -> None:
        """Called before each model and tool call; ``QuotaExceeded`` ends the run as failed."""
        clock = self.tenant.clock
        running = clock.steady() - self.began
        in_session = self.session.exceeded(self.tenant.limits, clock.now(), running)
        exceeded = self.tenant.exceeded() or in_session
        if exceeded is not None:
            raise exceeded.run_error()

    def steps_left(self) -> float:
        """Model calls that the limits of now leave to the run."""
        limits = self.tenant.limits
        counts = ((limits.session_steps, self.session.steps), (limits.steps, self.tenant.today().steps))
        return min((allowed - used for allowed, used in counts if allowed is not None), default=math.inf)

    def step(self) -> None:
        """Count a model call."""
        self.session.steps += 1
        self.tenant.today().steps += 1

    def spend(self, tokens: int) -> None:
        self.session.tokens += tokens
        self.tenant.today().tokens += tokens

    def grow(self, size: int) -> None:
        """Count bytes that were appended to the log of the session."""
        self.session.bytes += size
        self.tenant.bytes += size


@dataclass
class _DayUsage:
    steps: int = 0
    tokens: int = 0
    seconds: float = 0.0  # of the runs that have ended


@dataclass
class TenantUsage:
    clock: Clock
    limits: Limits = NO_LIMITS
    requests: deque[float] = field(default_factory=deque)
    """The times of those in the last minute, by the monotonic clock."""
    session_requests: dict[str, deque[float]] = field(default_factory=dict)
    streams: Counter[str] = field(default_factory=Counter)
    """Open streams by session; under the empty string where the session has no id yet."""
    runs: set[RunUsage] = field(default_factory=set)
    bytes: int = 0  # in logs and files: what the database said last, and the growth since
    _prune_above: int = _PRUNE_ABOVE
    _days: dict[int, _DayUsage] = field(default_factory=dict)
    """By days since the epoch. A few earlier days are kept, as the clock may be set back."""

    def today(self) -> _DayUsage:
        number = int(self.clock.now() // DAY)
        if number not in self._days:
            self._days[number] = _DayUsage()
            for oldest in list(self._days)[:-_DAYS_KEPT]:
                del self._days[oldest]
        return self._days[number]

    def seconds(self) -> float:
        """Of today, in runs that have ended and in those under way."""
        return self.today().seconds + sum(run.seconds_today() for run in tuple(self.runs))

    def exceeded(self) -> ExceededLimit | None:
        """The limit of a day, or of storage, that is reached."""
        today = self.today()
        return _exceeded(
            self.limits,
            self.clock.now(),
            steps=today.steps,
            tokens=today.tokens,
            seconds=0 if self.limits.seconds is None else round(self.seconds(), 1),
            bytes=self.bytes,
        )

    def rate_windows(self, session_id: str | None) -> Iterator[tuple[str, int, deque[float]]]:
        """The rate limits that apply to a request, each with the requests that count against it."""
        if self.limits.requests is not None:
            yield "requests", self.limits.requests, self.requests
        if self.limits.session_requests is not None and session_id is not None:
            if len(self.session_requests) > self._prune_above:
                self._prune()
            sent = self.session_requests.setdefault(session_id, deque())
            yield "session_requests", self.limits.session_requests, sent

    def _prune(self) -> None:
        now = self.clock.steady()
        recent = {sid: sent for sid, sent in self.session_requests.items() if _drop_old(sent, now)}
        self.session_requests = recent
        self._prune_above = max(_PRUNE_ABOVE, 2 * len(recent))


def _drop_old(sent: deque[float], now: float) -> bool:
    """Drop requests that are older than a minute. Whether there are others."""
    while sent and sent[0] <= now - MINUTE:
        sent.popleft()
    return bool(sent)


class UsageRow(msgspec.Struct, frozen=True):
    """Of one day (UTC). ``model`` is null where no model is meant: runs, seconds, tool calls."""

    day: str
    user: str | None
    system: str
    model: str | None
    model_calls: int
    input_tokens: int
    output_tokens: int
    tool_calls: int
    runs: int
    seconds: float


class QuotaUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What a tenant uses at the moment, and has used today."""

    requests: int | None
    """In the last minute; null where they are not limited, as they are not counted then."""
    runs: int
    streams: int
    bytes: int
    steps: int
    tokens: int
    seconds: float


class _StreamSlot:
    """An open stream. There is one per reader, so it is small."""

    __slots__ = ("_session_id", "_usage")

    def __init__(self, usage: TenantUsage, session_id: str) -> None:
        self._usage = usage
        self._session_id = session_id
        usage.streams[session_id] += 1

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_raised: object) -> None:
        streams = self._usage.streams
        streams[self._session_id] -= 1
        if not streams[self._session_id]:
            del streams[self._session_id]


class TenantQuotas:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._tenants: dict[str, TenantUsage] = {}
        self._runs: WeakValueDictionary[str, RunUsage] = WeakValueDictionary()
        """Of the runs under way, by session."""

    async def open(self) -> None:
        """Read limits, stored bytes and today's usage of all tenants."""
        await self.read_limits()
        today = _day_of(self._clock.now())
        for tenant, size in await self._database.read(lambda tx: tx.rows("bytes_held")):
            self._usage(tenant).bytes = size
        for tenant, steps, tokens, seconds in await self._database.read(lambda tx: tx.rows("used_on", today)):
            counted = self._usage(tenant).today()
            counted.steps = steps
            counted.tokens = tokens
            counted.seconds = seconds

    async def read_limits(self) -> None:
        """Again when another node has changed some."""
        for tenant, limits in await self._database.read(lambda tx: tx.rows("all_limits")):
            self._usage(tenant).limits = msgspec.json.decode(limits, type=Limits)

    def limits(self, tenant: str) -> Limits:
        return self._usage(tenant).limits

    async def limit(self, tenant: str, limits: Limits) -> None:
        """A run above its new limits ends at its next call; a graph of the operator that began without any
        limit ends with its run."""
        await self._database.submit(set_many, (tenant, limits))
        self._usage(tenant).limits = limits
        await self._refresh_bytes(tenant)

    def request(self, tenant: str, session_id: str | None) -> None:
        """Count a request. One above the limit does not count."""
        now = self._clock.steady()
        windows = list(self._usage(tenant).rate_windows(session_id))
        for name, allowed, sent in windows:
            if _drop_old(sent, now) and len(sent) >= allowed:
                raise ExceededLimit(name, len(sent), allowed, sent[0] + MINUTE - now).rejection()
        for _, _, sent in windows:
            sent.append(now)

    def stream(self, tenant: str, session_id: str | None = None) -> AbstractContextManager[None]:
        """Count a stream as open until the caller has entered and left the result."""
        usage = self._usage(tenant)
        used = {"streams": usage.streams.total()}
        if session_id is not None:
            used["session_streams"] = usage.streams[session_id]
        exceeded = _exceeded(usage.limits, self._clock.now(), **used)
        if exceeded is not None:
            raise exceeded.rejection()
        return _StreamSlot(usage, session_id or "")

    def upload_check(self, tenant: str) -> Callable[[Transaction, int], None]:
        """Called in the transaction that stores a file, with its size."""
        limits = self.limits(tenant)
        return lambda tx, size: refuse_bytes(tx, limits, size, tenant)

    def admit(self, tenant: str, stored: StoredUsage) -> None:
        """Raises ``LimitReached`` if no run may begin: a quota of the tenant or the session is used up."""
        usage = self._usage(tenant)
        if stored.bytes is not None:
            usage.bytes = stored.bytes
        exceeded = usage.exceeded() or stored.session.exceeded(usage.limits, self._clock.now())
        if exceeded is not None:
            raise exceeded.rejection()

    async def run_usage(self, tenant: str, session_id: str) -> RunUsage:
        """Begin to count a run."""
        usage = self._usage(tenant)
        session = SessionUsage()
        limits = usage.limits
        if limits.bytes is not None or limits.on_sessions:
            stored = await self._database.read(lambda tx: stored_usage(tx, limits, tenant, session_id))
            session = stored.session
            if stored.bytes is not None:
                usage.bytes = stored.bytes
        run = self._runs[session_id] = RunUsage(usage, session, self._clock.steady())
        return run

    def log_grew(self, session_id: str, size: int) -> None:
        """Count bytes in the log of a session. Without a run, the database is asked when they matter."""
        if (run := self._runs.get(session_id)) is not None:
            run.grow(size)

    async def files_changed(self, tenant: str, session_id: str) -> None:
        """Read the stored bytes again: the session may have had the same file before."""
        run = self._runs.get(session_id)
        limits = self.limits(tenant)
        is_limited = limits.bytes is not None or limits.session_bytes is not None
        if run is not None and is_limited:
            await self._refresh_bytes(tenant)
            usage = await self._database.read(lambda tx: _session_usage(tx, tenant, session_id))
            run.session.bytes = usage.bytes

    async def used(self, tenant: str) -> QuotaUsage:
        usage = self._usage(tenant)
        runs = await self._database.read(lambda tx: count_rows(tx, "count_runs_of", tenant))
        _drop_old(usage.requests, self._clock.steady())
        today = usage.today()
        return QuotaUsage(
            requests=None if usage.limits.requests is None else len(usage.requests),
            runs=runs,
            streams=usage.streams.total(),
            bytes=await self._refresh_bytes(tenant),
            steps=today.steps,
            tokens=today.tokens,
            seconds=round(usage.seconds(), 3),
        )

    async def usage_page(self, tenant: str, *, days: int, after: int, limit: int) -> list[UsageRow]:
        """Usage of the last days, the newest first; ``after`` is how many rows were seen."""
        since = _day_of(self._clock.now() - (days - 1) * DAY)
        rows = await self._database.read(lambda tx: tx.rows("usage_page", tenant, since, limit, after))
        return [UsageRow(*row) for row in rows]

    async def _refresh_bytes(self, tenant: str) -> int:
        usage = self._usage(tenant)
        usage.bytes = await self._database.read(lambda tx: count_rows(tx, "bytes_of", tenant))
        return usage.bytes

    def _usage(self, tenant: str) -> TenantUsage:
        if tenant not in self._tenants:
            self._tenants[tenant] = TenantUsage(self._clock)
        return self._tenants[tenant]


def _day_of(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d}"


def count_rows(tx: Transaction, query: str, *params: object) -> int:
    row = tx.row(query, *params)
    return int(row[0]) if row else 0
