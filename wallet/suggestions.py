"""Names that a mistyped word resembles."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

SIMILARITY_MIN = 0.75
"""By difflib's measure. One letter of four may differ, and of three none, because gpu is not a misspelt cpu."""
BEGINNING_MIN = 3
"""Letters of a name that is the beginning of the other."""
LENGTH_MAX = 64
"""A file or a node may choose the length of a word, and the comparison takes quadratic time."""


def suggestion(word: str, known: Iterable[str]) -> str | None:
    """Return the known name that resembles a word most, whatever their case; None if none does."""
    return next(iter(suggestions(word, known, 1)), None)


def suggestions(word: str, known: Iterable[str], count_max: int = 3) -> list[str]:
    """Return the known names that resemble a word, the most similar first. Then those of which one begins the other."""
    typed, names = word[:LENGTH_MAX].lower(), {name.lower(): name for name in known if len(name) <= LENGTH_MAX}
    similar = get_close_matches(typed, names, count_max, SIMILARITY_MIN)
    begun = [
        name
        for name in names
        if min(len(name), len(typed)) >= BEGINNING_MIN and (name.startswith(typed) or typed.startswith(name))
    ]
    return [names[name] for name in dict.fromkeys((*similar, *begun))][:count_max]
