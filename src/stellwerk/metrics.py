"""Metrics: counters, histograms and gauges in the Prometheus text format.

All counting happens on the event loop, so a count is one addition: no lock, no
task, no clock. Labels are names of our own, never input, so their number is
bounded.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Sample = tuple[tuple[str, ...], float]


class Counter:
    """Something that only rises, for each combination of its labels."""

    def __init__(self, name: str, about: str, *labels: str) -> None:
        self.name, self._about, self._labels = name, about, labels
        self._counts: dict[tuple[str, ...], float] = {} if labels else {(): 0}

    def add(self, *values: str, by: float = 1) -> None:
        self._counts[values] = self._counts.get(values, 0) + by

    def lines(self) -> Iterator[str]:
        yield from _family(self.name, "counter", self._about, self._labels, self._counts.items())


class Histogram:
    """How long something took: how often up to each bound, how often at all, and the sum."""

    def __init__(self, name: str, about: str, *labels: str, bounds: Sequence[float]) -> None:
        self.name, self._about, self._labels, self._bounds = name, about, labels, bounds
        self._counts: dict[tuple[str, ...], list[int]] = {}
        self._sums: dict[tuple[str, ...], float] = {}

    def add(self, seconds: float, *values: str) -> None:
        counts = self._counts.setdefault(values, [0] * (len(self._bounds) + 1))
        counts[bisect_left(self._bounds, seconds)] += 1
        self._sums[values] = self._sums.get(values, 0) + seconds

    def lines(self) -> Iterator[str]:
        yield from _head(self.name, "histogram", self._about)
        bounds = [*map(_number, self._bounds), "+Inf"]
        for values, counts in sorted(self._counts.items()):
            for bound, count in zip(bounds, accumulate(counts), strict=True):
                yield _line(f"{self.name}_bucket", (*self._labels, "le"), (*values, bound), count)
            yield _line(f"{self.name}_sum", self._labels, values, self._sums[values])
            yield _line(f"{self.name}_count", self._labels, values, sum(counts))


def gauge(name: str, about: str, labels: Sequence[str], samples: Iterable[Sample]) -> Iterator[str]:
    """Something that rises and falls, as it is now."""
    return _family(name, "gauge", about, labels, samples)


def _family(name: str, kind: str, about: str, labels: Sequence[str], samples: Iterable[Sample]) -> Iterator[str]:
    yield from _head(name, kind, about)
    for values, value in sorted(samples):
        yield _line(name, labels, values, value)


def _head(name: str, kind: str, about: str) -> Iterator[str]:
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} {kind}"


def _line(name: str, labels: Sequence[str], values: Sequence[str], value: float) -> str:
    pairs = [f'{label}="{_escaped(said)}"' for label, said in zip(labels, values, strict=True)]
    return f"{name}{{{','.join(pairs)}}} {_number(value)}" if pairs else f"{name} {_number(value)}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.9g}"
