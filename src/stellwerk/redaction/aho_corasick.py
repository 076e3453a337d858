"""An Aho-Corasick automaton: finds many patterns in one pass, however alike they begin.

States are made while a text is read, as in a lazy DFA: long patterns cost nothing until a text
comes close to them. Each character is looked at once. A missing state is made once, and the number
of states that are kept is bounded: all are dropped at once, and made again as they are needed.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

_KEPT = 16_384
"""Transitions kept, plus two per character of the longest pattern; some 250 bytes each."""


class _State(dict[str, "_State"]):
    """A prefix of some patterns, with which the text so far ends; its items are the next states."""

    __slots__ = ("automaton", "depth", "found", "high", "low", "shorter")

    def __init__(
        self, automaton: "Automaton", low: int, high: int, shorter: "_State | None" = None, depth: int = 0
    ) -> None:
        self.automaton = automaton
        self.low = low
        self.high = high
        """The patterns that begin with this prefix are ``patterns[low:high]``."""
        self.shorter = shorter
        """The failure link: the longest other prefix that this one ends with."""
        self.depth = depth
        """The length of the prefix."""
        self.found: int = 0 if shorter is None else shorter.found
        """The length of the longest pattern that this prefix ends with; 0 if there is none."""
        if depth and len(automaton.patterns[low]) == depth:
            self.found = depth
        automaton.states.append(self)

    def __missing__(self, letter: str) -> "_State":
        return self.automaton.follow(self, letter)


class Automaton:
    """Threads may share it: each makes the same states, so it does not matter which stores last."""

    def __init__(self, patterns: Iterable[str], *, kept: int = _KEPT) -> None:
        self.patterns = sorted(set(patterns))
        self.longest = max(map(len, self.patterns), default=0)
        self.made = 0
        """Transitions that were computed so far."""
        self.states: list[_State] = []
        self._limit = kept + 2 * self.longest
        self._drop_at = self._limit
        self._root = _State(self, 0, len(self.patterns))

    def spans(self, text: Iterable[str]) -> list[tuple[int, int]]:
        """Where patterns are, from the left; those that overlap are one."""
        found = list[tuple[int, int]]()
        state = self._root
        for end, letter in enumerate(text, 1):
            state = state[letter]
            if state.found:
                start = end - state.found
                while found and start < found[-1][1]:
                    start = min(start, found.pop()[0])
                found.append((start, end))
        return found

    def begun(self, text: Iterable[str]) -> int:
        """The length of the longest end of the text with which a pattern begins, and goes on."""
        state = self._root
        for letter in text:
            state = state[letter]
        while state.shorter is not None and len(self.patterns[state.high - 1]) == state.depth:
            state = state.shorter
        return state.depth

    def follow(self, state: _State, letter: str) -> _State:
        """Compute a missing transition: to the longest prefix that goes on with this letter."""
        passed = list[_State]()
        shorter = state
        known: _State | None = None
        while known is None:
            passed.append(shorter)
            if shorter.shorter is None:
                known = self._root
            else:
                shorter = shorter.shorter
                known = shorter.get(letter)
        for each in reversed(passed):
            each[letter] = known = self._longer(each, letter, known)
        self.made += len(passed)
        return known if self.made <= self._drop_at else self._remade(known)

    def _longer(self, state: _State, letter: str, shorter: _State) -> _State:
        """The prefix with one more letter; the shorter one if no pattern goes on with it."""
        low, high, depth = state.low, state.high, state.depth
        if high - low > 1:
            low = bisect_left(self.patterns, letter, low, high, key=lambda each: each[depth : depth + 1])
            high = bisect_right(self.patterns, letter, low, high, key=lambda each: each[depth : depth + 1])
        elif high > low and self.patterns[low][depth : depth + 1] != letter:
            high = low
        return _State(self, low, high, shorter, depth + 1) if high > low else shorter

    def _remade(self, state: _State) -> _State:
        """Drop all states, and make the one of the same prefix from the root.

        The dropped ones are emptied: they refer to each other, which Python would notice late. One
        that another thread still holds stays correct, because prefix and failure link remain.
        """
        dropped = self.states
        self.states = []
        self._drop_at = self.made + self._limit
        self._root = _State(self, 0, len(self.patterns))
        for each in dropped:
            each.clear()
        made = self._root
        for letter in self.patterns[state.low][: state.depth]:
            made = made[letter]
        return made
