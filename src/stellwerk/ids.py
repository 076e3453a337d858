"""Ids, digests and the clock: the only source of time and randomness."""

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
        """Seconds since the epoch. Information, never an order: the clock may be set."""

    def steady(self) -> float:
        """Monotonic seconds: two of them say how long something took."""


class SystemClock:
    def now(self) -> float:
        return time.time()

    def steady(self) -> float:
        return time.monotonic()


class AnchoredClock:
    """The time at which it was made plus a monotonic duration, so differences are durations."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead = clock.now() - clock.steady()

    def now(self) -> float:
        return self._ahead + self._clock.steady()

    def steady(self) -> float:
        return self._clock.steady()


class SortableIds:
    """48 bits of milliseconds, 80 bits of chance, in base 62: sortable, short, safe in a URL."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def new(self) -> str:
        """A fresh id of 22 characters that sorts after those made a millisecond ago."""
        milliseconds = int(self._clock.now() * 1000)
        chance = int.from_bytes(os.urandom(_RANDOM_BITS // 8))
        return _base62((milliseconds << _RANDOM_BITS) | chance)


def random_token(length: int) -> str:
    """Random letters and digits, almost six bits in each."""
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
