"""The search for guidelines: what ranks first, and that ranking depends on the texts alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.envelope.results import Table
from tests.examples.idp_tools import call, part

ranked = part("guidelines").ranked
TEXTS = {
    "a": "# Cats\n\nCats sleep. Cats eat fish.",
    "b": "# Dogs\n\nDogs bark and eat meat, and one dog has a cat.",
    "c": "# Fish\n\nFish swim.",
}


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("How do I name a service?", "naming.md"),
        ("pull request review", "branches.md"),
        ("BRANCH protection", "branches.md"),
        ("flaky tests in the pipeline", "testing.md"),
        ("which metrics and alerts", "observability.md"),
        ("readiness probe and memory limits", "kubernetes.md"),
        ("where do passwords go", "secrets.md"),
        ("roll back a release in staging", "releases.md"),
        ("status codes of an HTTP error", "apis.md"),
        ("pin versions in a lock file", "dependencies.md"),
    ],
)
def test_the_guideline_that_is_meant_comes_first(query: str, first: str) -> None:
    found = call("search_knowledge_base_for_guidelines", query=query)
    assert isinstance(found, Table)
    assert found.rows[0][1] == first
    scores = [row[2] for row in found.rows]
    assert scores == sorted(scores, reverse=True) and scores[-1] > 0
    assert all(row[3] for row in found.rows)


@pytest.mark.parametrize("query", ["", "   ", "zzz", "the of and", "🚀", "%$#"])
def test_what_nothing_answers_is_an_empty_table(query: str) -> None:
    found = call("search_knowledge_base_for_guidelines", query=query)
    assert (found.rows, found.total) == ((), 0)


@pytest.mark.parametrize(
    ("query", "order"),
    [
        ("cat", ["a", "b"]),
        ("CATS", ["a", "b"]),
        ("fish", ["c", "a"]),
        ("bark", ["b"]),
        ("dog fish", ["b", "c", "a"]),
        ("eat", ["a", "b"]),
        ("horse", []),
        ("", []),
    ],
)
def test_texts_are_ranked_by_rare_words_headings_and_length(query: str, order: list[str]) -> None:
    assert [name for name, _ in ranked(query, TEXTS)] == order


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=60), max_size=5), st.text(max_size=30))
def test_any_texts_and_any_query_can_be_ranked(texts: dict[str, str], query: str) -> None:
    found = ranked(query, texts)
    assert found == ranked(query, dict(reversed(texts.items())))
    assert all(score > 0 and name in texts for name, score in found)


def test_the_passage_is_the_paragraph_that_fits_and_without_one_the_first() -> None:
    text = "# Pets\n\nCats sleep\nall day.\n\nDogs bark."
    passage = part("guidelines").passage
    assert [passage(query, text) for query in ("dog", "cat", "pets", "")] == [
        *("Dogs bark.", "Cats sleep all day.", "Cats sleep all day.", "Cats sleep all day."),
    ]
    assert passage("x", "# Nothing below") == ""
