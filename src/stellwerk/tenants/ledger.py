"""Ledgers: what one tenant uses at the moment and has used today; and the meters of its runs."""

from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from stellwerk.ids import Clock
from stellwerk.tenants.limits import DAY, MINUTE, Excess, Limits, excess

_CROWD = 1000
"""Sessions whose requests are counted, above which it is looked for the first time which of them are quiet."""
_DAYS = 3
"""Days whose counts are kept."""


@dataclass(frozen=True, slots=True)
class Spent:
    steps: int = 0
    tokens: int = 0
    seconds: float = 0.0
    bytes: int = 0
    """That it holds now, in its log and its files."""


@dataclass(eq=False)
class Meter:
    """Counts one run. What it uses, its tenant and its session use."""

    ledger: "Ledger"
    session: Spent
    """What the session had used before."""
    began: float
    """By the clock that cannot be set."""
    steps: int = 0
    tokens: int = 0
    bytes: int = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the seconds, while the run is under way and afterwards."""
        self.ledger.meters.add(self)
        try:
            yield
        finally:
            self.ledger.meters.discard(self)
            self.ledger.today().seconds += self.seconds_today()

    def seconds_today(self) -> float:
        clock = self.ledger.clock
        return min(clock.steady() - self.began, clock.now() % DAY)

    @property
    def limited(self) -> bool:
        """Whether there is anything that a call could be refused for."""
        limits = self.ledger.limits
        of_tenant = not limits.steps == limits.tokens == limits.seconds == limits.bytes is None
        return of_tenant or limits.on_sessions

    def check(self) -> None:
        """To be asked before each model and tool call.

        Raises:
            QuotaExceeded: the run ends as failed.
        """
        if (found := self.ledger.excess() or self._excess_in_session()) is not None:
            raise found.end()

    def step(self) -> None:
        """A model is called."""
        self.steps += 1
        self.ledger.today().steps += 1

    def spend(self, tokens: int) -> None:
        self.tokens += tokens
        self.ledger.today().tokens += tokens

    def grow(self, size: int) -> None:
        """The log of the session has got longer."""
        self.bytes += size
        self.ledger.held += size

    def _excess_in_session(self) -> Excess | None:
        clock = self.ledger.clock
        seconds = self.session.seconds + clock.steady() - self.began
        held = self.session.bytes + self.bytes
        spent = Spent(self.session.steps + self.steps, self.session.tokens + self.tokens, seconds, held)
        return excess_in_session(self.ledger.limits, spent, clock.now())


@dataclass
class _Today:
    steps: int = 0
    tokens: int = 0
    seconds: float = 0.0
    """Of the runs that are over."""


@dataclass
class Ledger:
    """One tenant."""

    clock: Clock
    limits: Limits = Limits()
    requests: deque[float] = field(default_factory=deque)
    """When the last ones came, for as long as they count; by the clock that cannot be set."""
    of_sessions: dict[str, deque[float]] = field(default_factory=dict)
    streams: Counter[str] = field(default_factory=Counter)
    """Open ones of each session; of none, where its id is not known yet."""
    meters: set[Meter] = field(default_factory=set)
    held: int = 0
    """Bytes, in the logs of its sessions and in files; as the database says, and what came since it was asked."""
    _crowd: int = _CROWD
    _days: dict[int, _Today] = field(default_factory=dict)
    """By days since the epoch; those before today are kept for a while, as the clock may be set back."""

    def today(self) -> _Today:
        number = int(self.clock.now() // DAY)
        if number not in self._days:
            self._days[number] = _Today()
            for oldest in list(self._days)[:-_DAYS]:
                del self._days[oldest]
        return self._days[number]

    def seconds(self) -> float:
        """Of today: of the runs that are over, and of those under way."""
        return self.today().seconds + sum(each.seconds_today() for each in tuple(self.meters))

    def excess(self) -> Excess | None:
        """Of what is used up in a day, or stored."""
        limits, today, now = self.limits, self.today(), self.clock.now()
        return (
            excess("steps", today.steps, limits.steps, now=now)
            or excess("tokens", today.tokens, limits.tokens, now=now)
            or excess("seconds", 0 if limits.seconds is None else round(self.seconds(), 1), limits.seconds, now=now)
            or excess("bytes", self.held, limits.bytes, now=now)
        )

    def windows(self, session_id: str | None) -> Iterator[tuple[str, int, deque[float]]]:
        """The limits on requests that there are, each with what counts against it."""
        if self.limits.requests is not None:
            yield "requests", self.limits.requests, self.requests
        if self.limits.session_requests is not None and session_id is not None:
            if len(self.of_sessions) > self._crowd:
                now = self.clock.steady()
                self.of_sessions = {sid: sent for sid, sent in self.of_sessions.items() if recent(sent, now)}
                self._crowd = max(_CROWD, 2 * len(self.of_sessions))
            yield "session_requests", self.limits.session_requests, self.of_sessions.setdefault(session_id, deque())


class Place:
    """Of one open stream; free again when it is left."""

    def __init__(self, ledger: Ledger, session_id: str) -> None:
        self._ledger, self._session_id = ledger, session_id
        ledger.streams[session_id] += 1

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_raised: object) -> None:
        self._ledger.streams[self._session_id] -= 1
        if not self._ledger.streams[self._session_id]:
            del self._ledger.streams[self._session_id]


def excess_in_session(limits: Limits, spent: Spent, now: float) -> Excess | None:
    return (
        excess("session_steps", spent.steps, limits.session_steps, now=now)
        or excess("session_tokens", spent.tokens, limits.session_tokens, now=now)
        or excess("session_seconds", round(spent.seconds, 1), limits.session_seconds, now=now)
        or excess("session_bytes", spent.bytes, limits.session_bytes, now=now)
    )


def recent(sent: deque[float], now: float) -> bool:
    """Drop what counts no longer; whether there is anything left."""
    while sent and sent[0] <= now - MINUTE:
        sent.popleft()
    return bool(sent)
