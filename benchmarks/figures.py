"""Figures: what was measured, what was allowed, and whether the one fits the other."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    value: float
    unit: str
    budget: str = ""
    met: bool | None = None
    """None where there is no budget."""
    note: str = ""


def seen(name: str, value: float, unit: str, note: str = "") -> Figure:
    """A figure that nothing depends on, but that explains others."""
    return Figure(name, value, unit, note=note)


def at_most(name: str, value: float, unit: str, limit: float, note: str = "") -> Figure:
    return Figure(name, value, unit, f"≤ {number(limit)}", value <= limit, note)


def at_least(name: str, value: float, unit: str, limit: float, note: str = "") -> Figure:
    return Figure(name, value, unit, f"≥ {number(limit)}", value >= limit, note)


def number(value: float) -> str:
    """Three digits that count, and no more."""
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def share(values: Iterable[float], part: float) -> float:
    """The value below which ``part`` of them lie: 0.5 gives the median, 0.99 what one in a hundred exceeds."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)]
