"""The Aho-Corasick automaton finds what a naive search finds and looks at each character once."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stellwerk.redaction.aho_corasick import Automaton

WORDS = st.sets(st.text("ab", min_size=1, max_size=7), min_size=1, max_size=6)
TEXTS = st.text("abc", max_size=60)


def naive(words: set[str], text: str) -> list[tuple[int, int]]:
    """Every word at every place; those that overlap as one."""
    found = list[tuple[int, int]]()
    for start in range(len(text)):
        for word in words:
            if text.startswith(word, start):
                if found and start < found[-1][1]:
                    found[-1] = (found[-1][0], max(found[-1][1], start + len(word)))
                else:
                    found.append((start, start + len(word)))
    return found


@given(WORDS, st.lists(TEXTS, min_size=1, max_size=3), st.sampled_from([1, 7, 100_000]))
@example({"b", "aabaa"}, ["aabaab"], 1)
def test_it_finds_what_a_naive_search_finds(words: set[str], texts: list[str], kept: int) -> None:
    automaton = Automaton(words, kept=kept)
    for text in texts:
        assert automaton.spans(text) == naive(words, text)


@given(WORDS, TEXTS)
def test_it_knows_with_which_end_of_a_text_a_word_begins(words: set[str], text: str) -> None:
    lengths = range(len(text), 0, -1)
    begun = next((n for n in lengths if any(word.startswith(text[-n:]) and len(word) > n for word in words)), 0)
    assert Automaton(words).begun(text) == begun


def test_threads_that_share_it_find_what_is_there_also_while_states_are_dropped() -> None:
    chance = Random(1)
    words = {"".join(chance.choices("ab", k=12)) for _ in range(40)}
    texts = ["".join(chance.choices("ab", k=300)) for _ in range(50)]
    expected = [naive(words, text) for text in texts]
    automaton = Automaton(words, kept=100)
    with ThreadPoolExecutor(4) as threads:
        found = [threads.submit(lambda: [automaton.spans(text) for text in texts]) for _ in range(4)]
    assert all(each.result() == expected for each in found)
    assert automaton.made > 1000 > len(automaton.states)


def test_without_words_nothing_is_found() -> None:
    automaton = Automaton(())
    assert (automaton.spans("abc"), automaton.begun("abc")) == ([], 0)


ALIKE = {
    "one": ["a" * 8000],
    "ends that differ": ["a" * 8000 + f"X{n}" for n in range(100)],
    "middles that differ": ["a" * 4000 + f"X{n}" + "a" * 4000 for n in range(100)],
    "one inside the other": ["a" * (7900 + n) for n in range(100)],
    "periods": [("a" * n + "b") * (8000 // (n + 1)) for n in range(1, 100)],
}


@pytest.mark.parametrize("words", ALIKE.values(), ids=ALIKE.keys())
@pytest.mark.parametrize(
    "text", ["a" * 100_000, "aab" * 30_000, ("a" * 8000 + "b") * 12], ids=["letter", "period", "b"]
)
def test_each_character_is_looked_at_once_and_moved_on_from_in_a_few_steps(words: list[str], text: str) -> None:
    visited = 0

    def characters() -> Iterator[str]:
        nonlocal visited
        for letter in text:
            visited += 1
            yield letter

    automaton = Automaton(words)
    automaton.spans(characters())
    assert visited == len(text)
    assert automaton.made <= 2 * len(text)


def test_a_text_of_many_words_makes_a_bounded_number_of_states_and_keeps_fewer() -> None:
    words = [f"{chr(0x4E00 + n)}-" * 3000 for n in range(100)]
    text = "".join(words)
    automaton = Automaton(words, kept=1000)
    assert automaton.spans(text) == [(6000 * n, 6000 * (n + 1)) for n in range(100)]
    assert automaton.made <= 3 * len(text)
    assert len(automaton.states) <= 1000 + 3 * 6000
