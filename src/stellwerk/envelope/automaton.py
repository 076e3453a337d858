"""An Aho-Corasick automaton: finds all of many words in one pass through a text, however alike the words begin.

Its states are made while a text is read, as in a lazy DFA: long words cost nothing until a text comes close to them.
Each character is looked at once; a state that is missing is made once, and those that are kept are bounded.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

_KEPT = 16_384
"""Transitions that are kept, in addition to two for each character of the longest word; some 250 bytes each."""


class _State(dict[str, "_State"]):
    """A prefix of some words, which is what the text read so far ends with; its items are the states that follow."""

    __slots__ = ("age", "automaton", "depth", "found", "high", "low", "shorter")

    automaton: "Automaton"
    age: int
    """How often states had been forgotten when this one was made."""
    low: int
    high: int
    """The words that begin with this prefix are ``words[low:high]``."""
    depth: int
    """How long the prefix is."""
    shorter: "_State | None"
    """The failure link: the longest other prefix that this one ends with."""
    found: int
    """The length of the longest word that this prefix ends with; 0 if there is none."""

    def __missing__(self, letter: str) -> "_State":
        return self.automaton.follow(self, letter)


class Automaton:
    """Threads may share it: each makes the same states, and whichever is stored last is as good as the others."""

    def __init__(self, words: Iterable[str], *, kept: int = _KEPT) -> None:
        self.words = sorted(set(words))
        self.longest = max(map(len, self.words), default=0)
        self.made = 0
        """Transitions that were worked out so far."""
        self._forget_at = self._limit = kept + 2 * self.longest
        self._age = 0
        self._states: list[_State] = []
        self._root = self._state(0, len(self.words), 0, None)

    @property
    def states(self) -> int:
        """How many there are at the moment."""
        return len(self._states)

    def ends(self, text: Iterable[str]) -> Iterator[tuple[int, int]]:
        """Where words are, in the order of their ends; of those that end together, the longest."""
        state = self._root
        for end, letter in enumerate(text, 1):
            state = state[letter]
            if state.found:
                yield end - state.found, end

    def spans(self, text: Iterable[str]) -> list[tuple[int, int]]:
        """Where words are, from the left; those that overlap as one."""
        found = list[tuple[int, int]]()
        for start, end in self.ends(text):
            while found and start < found[-1][1]:
                start = min(start, found.pop()[0])
            found.append((start, end))
        return found

    def begun(self, text: Iterable[str]) -> int:
        """How long the longest end of the text is with which a word begins, and goes on."""
        state = self._root
        for letter in text:
            state = state[letter]
        while state.shorter is not None and len(self.words[state.high - 1]) == state.depth:
            state = state.shorter
        return state.depth

    def begins(self, text: str) -> bool:
        """Whether a word begins with this text, and goes on."""
        place = bisect_right(self.words, text)
        return place < len(self.words) and self.words[place].startswith(text)

    def follow(self, state: _State, letter: str) -> _State:
        """The state behind this letter, which is not known yet: that of the longest prefix that goes on with it."""
        if state.age != self._age:
            state = self._again(state)
        passed, shorter = list[_State](), state
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
        if self.made > self._forget_at:
            self._forget()
            return self._again(known)
        return known

    def _longer(self, state: _State, letter: str, shorter: _State) -> _State:
        """The prefix with one more letter; the shorter one if no word goes on with it."""
        words, low, high, depth = self.words, state.low, state.high, state.depth
        if high - low > 1:
            low = bisect_left(words, letter, low, high, key=lambda word: word[depth : depth + 1])
            high = bisect_right(words, letter, low, high, key=lambda word: word[depth : depth + 1])
        elif high > low and words[low][depth : depth + 1] != letter:
            high = low
        return self._state(low, high, depth + 1, shorter) if high > low else shorter

    def _state(self, low: int, high: int, depth: int, shorter: _State | None) -> _State:
        state = _State()
        state.automaton, state.age = self, self._age
        state.low, state.high, state.depth, state.shorter = low, high, depth, shorter
        is_word = depth > 0 and len(self.words[low]) == depth
        state.found = depth if is_word else 0 if shorter is None else shorter.found
        self._states.append(state)
        return state

    def _forget(self) -> None:
        """Empty all states: they refer to each other in a circle, which Python would not notice for a while."""
        former, self._states = self._states, []
        self._age += 1
        self._forget_at = self.made + self._limit
        self._root = self._state(0, len(self.words), 0, None)
        for each in former:
            each.clear()

    def _again(self, forgotten: _State) -> _State:
        """The state of the same prefix, made as before: one that goes on alone would miss those shorter than it."""
        state = self._root
        for letter in self.words[forgotten.low][: forgotten.depth] if forgotten.depth else "":
            state = state[letter]
        return state
