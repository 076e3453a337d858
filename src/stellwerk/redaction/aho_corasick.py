"""An Aho-Corasick automaton: finds many patterns in one pass, however alike they begin.

States are made while a text is read, as in a lazy DFA: long patterns cost nothing until a text
comes close to them. Each character is looked at once. A missing state is made once, and the number
of states that are kept is bounded.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

_KEPT = 16_384
"""Transitions kept, plus two per character of the longest pattern; some 250 bytes each."""


class _State(dict[str, "_State"]):
    """A prefix of some patterns, with which the text so far ends; its items are the next states."""

    __slots__ = ("automaton", "depth", "found", "generation", "high", "low", "shorter")

    automaton: "Automaton"
    generation: int
    """How often the automaton had dropped its states when this one was made."""
    low: int
    high: int
    """The patterns that begin with this prefix are ``patterns[low:high]``."""
    depth: int
    """The length of the prefix."""
    shorter: "_State | None"
    """The failure link: the longest other prefix that this one ends with."""
    found: int
    """The length of the longest pattern that this prefix ends with; 0 if there is none."""

    def __missing__(self, letter: str) -> "_State":
        return self.automaton.follow(self, letter)


class Automaton:
    """Threads may share it: each makes the same states, so it does not matter who stores last."""

    def __init__(self, patterns: Iterable[str], *, kept: int = _KEPT) -> None:
        self.patterns = sorted(set(patterns))
        self.longest = max(map(len, self.patterns), default=0)
        self.made = 0
        """Transitions that were computed so far."""
        self._limit = kept + 2 * self.longest
        self._drop_at = self._limit
        self._generation = 0
        self._states: list[_State] = []
        self._root = self._state(0, len(self.patterns), 0, None)

    @property
    def states(self) -> int:
        """The number of states at the moment."""
        return len(self._states)

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
        if state.generation != self._generation:
            state = self._remade(state)
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
        if self.made > self._drop_at:
            self._drop_states()
            return self._remade(known)
        return known

    def _longer(self, state: _State, letter: str, shorter: _State) -> _State:
        """The prefix with one more letter; the shorter one if no pattern goes on with it."""
        low, high, depth = state.low, state.high, state.depth
        if high - low > 1:
            low = bisect_left(self.patterns, letter, low, high, key=lambda pattern: pattern[depth : depth + 1])
            high = bisect_right(self.patterns, letter, low, high, key=lambda pattern: pattern[depth : depth + 1])
        elif high > low and self.patterns[low][depth : depth + 1] != letter:
            high = low
        return self._state(low, high, depth + 1, shorter) if high > low else shorter

    def _state(self, low: int, high: int, depth: int, shorter: _State | None) -> _State:
        state = _State()
        state.automaton = self
        state.generation = self._generation
        state.low, state.high = low, high
        state.depth = depth
        state.shorter = shorter
        is_pattern = depth > 0 and len(self.patterns[low]) == depth
        state.found = depth if is_pattern else 0 if shorter is None else shorter.found
        self._states.append(state)
        return state

    def _drop_states(self) -> None:
        """Also empty them: they refer to each other, which Python would notice late."""
        dropped, self._states = self._states, []
        self._generation += 1
        self._drop_at = self.made + self._limit
        self._root = self._state(0, len(self.patterns), 0, None)
        for each in dropped:
            each.clear()

    def _remade(self, dropped: _State) -> _State:
        """The state of the same prefix, made from the root; alone, it would lack shorter ones."""
        state = self._root
        for letter in self.patterns[dropped.low][: dropped.depth] if dropped.depth else "":
            state = state[letter]
        return state
