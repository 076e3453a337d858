"""Which name may have been meant, in bounded time."""

from collections.abc import Collection
from difflib import get_close_matches

LETTER_PAIRS = 200_000
LISTED = 30


class Hints:
    """Names that may be meant.

    To compare names letter by letter has a budget, one for each document: fifty
    near misses among two hundred long names would take seconds.
    """

    def __init__(self) -> None:
        self._pairs_left = LETTER_PAIRS

    def did_you_mean(self, found: str, known: Collection[str], *, otherwise: str | None = None) -> str:
        """The nearest name; or what to do when none is near, by default a list of all."""
        self._pairs_left -= len(found) * sum(map(len, known))
        near = get_close_matches(found, known, n=1, cutoff=0.75) if self._pairs_left >= 0 else []
        return f"did you mean {near[0]!r}?" if near else otherwise or _listed(known)


def _listed(known: Collection[str]) -> str:
    if not known:
        return "none is known"
    names = ", ".join(sorted(known)[:LISTED])
    return f"known are: {names}" + (f" and {len(known) - LISTED} more" if len(known) > LISTED else "")
