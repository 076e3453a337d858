"""Guidelines: Markdown files, ranked for a question by BM25. Ranking is pure; reading the files is not."""

import math
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

_FOLDER = Path(__file__).parent.parent / "guidelines"
_WORD = re.compile(r"[^\W_]+")
_SATURATION, _BY_LENGTH = 1.5, 0.75
"""BM25's k1 and b: how soon a word said again counts no more, and how much a long text is held against it."""
_HEADING = 3
"""A word in the heading counts like so many in the text."""
_PLURAL = 4
_NOISE = frozenset(
    "a an and are as at be by can do does for from go how i in is it must my of on or should that the this to we what "
    "when where which who with you".split()
)


def read_guidelines() -> dict[str, str]:
    """Every guideline, by the name of its file."""
    return {path.name: path.read_text("utf-8") for path in sorted(_FOLDER.glob("*.md"))}


def words(text: str) -> list[str]:
    """Its words in small letters and in the singular, as far as an s at the end tells; without the commonest."""
    found = (word for word in _WORD.findall(text.casefold()) if word not in _NOISE)
    return [word[:-1] if len(word) >= _PLURAL and word.endswith("s") and word[-2] != "s" else word for word in found]


def ranked(query: str, texts: Mapping[str, str]) -> list[tuple[str, float]]:
    """The texts that have a word of the query, the best first; equals by name."""
    counts = {name: Counter(words(text) + _HEADING * words(heading(text))) for name, text in texts.items()}
    lengths = {name: count.total() for name, count in counts.items()}
    average = sum(lengths.values()) / max(1, len(lengths))
    scores = dict.fromkeys(texts, 0.0)
    for word in set(words(query)):
        having = [name for name, count in counts.items() if word in count]
        weight = math.log(1 + (len(texts) - len(having) + 0.5) / (len(having) + 0.5))
        for name in having:
            often, relative = counts[name][word], lengths[name] / average
            damping = often + _SATURATION * (1 - _BY_LENGTH + _BY_LENGTH * relative)
            scores[name] += weight * often * (_SATURATION + 1) / damping
    return sorted(((name, score) for name, score in scores.items() if score > 0), key=lambda one: (-one[1], one[0]))


def heading(text: str) -> str:
    return text.lstrip().partition("\n")[0].lstrip("# ").strip()


def passage(query: str, text: str) -> str:
    """The paragraph below the heading that ranks best; the first, if only the heading has a word of the query."""
    paragraphs = [" ".join(part.split()) for part in text.split("\n\n")[1:] if part.strip()]
    best = ranked(query, {part: part for part in paragraphs})
    return best[0][0] if best else next(iter(paragraphs), "")
