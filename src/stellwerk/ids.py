"""Ids, digests and the clock: the one place where time and chance enter.

Everything that decides takes these as arguments, so that tests can pin both
and the same log always gives the same bytes.
"""

import hashlib
import os
import secrets
import time
from typing import Protocol

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
ID_LENGTH = 22
_RANDOM_BITS = 80


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch. Information, never an order: the operator, or the network, may set it."""

    def steady(self) -> float:
        """Seconds since any moment, which cannot be set: two of them say how long something took."""


class SystemClock:
    def now(self) -> float:
        return time.time()

    def steady(self) -> float:
        return time.monotonic()


class AnchoredClock:
    """The time at which it was made, and what has passed since: whatever the other clock is set to meanwhile.

    A run is told by one, so that the differences of its times are how long it took.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock, self._ahead = clock, clock.now() - clock.steady()

    def now(self) -> float:
        return self._ahead + self._clock.steady()

    def steady(self) -> float:
        return self._clock.steady()


class IdSource(Protocol):
    def new(self) -> str:
        """A fresh id of 22 characters that sorts after those made a millisecond ago."""


class SortableIds:
    """48 bits of milliseconds, 80 bits of chance, in base 62: sortable, short, safe in a URL."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def new(self) -> str:
        milliseconds = int(self._clock.now() * 1000)
        chance = int.from_bytes(os.urandom(_RANDOM_BITS // 8))
        return _base62((milliseconds << _RANDOM_BITS) | chance)


def chance(length: int) -> str:
    """Letters and digits that nobody can guess, almost six bits in each."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))


def digest_id(*parts: str) -> str:
    """An id that follows from its parts alone: the same parts, the same id, for ever."""
    hashed = hashlib.sha256("\x1f".join(parts).encode("utf-8", "surrogatepass")).digest()
    return _base62(int.from_bytes(hashed[:16]))


def _base62(number: int) -> str:
    digits = []
    for _ in range(ID_LENGTH):
        number, rest = divmod(number, 62)
        digits.append(_ALPHABET[rest])
    return "".join(reversed(digits))
