"""Measures of clarity, and the bars of the merge gate.

A headless clause takes the place of a noun, with a relative pronoun and no antecedent. The patterns are heuristics:
they compare texts, and prove nothing about one sentence.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

LONG_SENTENCE_WORDS = 35
SENTENCE_WORDS_MIN = 4
"""A shorter piece is a heading or a label."""

HEADLESS = re.compile(
    r"(?:^|[.;:,(\u2014\u2013]\s+|\b(?:of|to|by|from|for|with|in|on|than|as|and|or|that|if)\s+)"
    r"(?:who(?:ever|m|se)?|what(?:ever)?|whichever)\s+(?:\w+\s+)?"
    r"(?:is|are|was|were|has|have|had|does|do|did|can|could|may|must|will|would|comes|came|goes|stands|says|asks|wants"
    r"|takes|makes|gives|sends|runs|pays|has|it|they|one|there|a|an|the|its|their)\b",
    re.IGNORECASE | re.MULTILINE,
)
QUESTION_WORD = re.compile(
    r"(?:What|Who|Whose|Whom|Which|Whether|Where|When|Why|How|Whatever|Whoever|So many|So much)\b"
)
CODE_BLOCK = re.compile(r"```.*?```", re.DOTALL)
CODE = re.compile(r"`[^`]*`")
LINK_TARGET = re.compile(r"\]\([^)]*\)")
WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n\s*\n|\n\s*[-*|#]\s|\|")


@dataclass(frozen=True, slots=True)
class Figures:
    """The measures of a group of texts."""

    texts: int
    words: int
    headless_per_1000: float
    """Headless clauses per 1,000 words."""
    sentence_words: float
    """Mean words of a sentence."""
    long_percent: float
    """Share of the sentences above `LONG_SENTENCE_WORDS` words."""
    question_percent: float
    """Share of the texts that begin with a question word."""


BARS = Figures(0, 0, headless_per_1000=1.5, sentence_words=16, long_percent=3, question_percent=1)
"""The highest values of help, messages and docstrings. The limit on question words is for docstrings only."""


def measure(texts: Iterable[str]) -> Figures:
    """Count a group of texts."""
    words = headless = sentences = sentence_words = long = begun = count = 0
    for text in texts:
        prose = plain(text)
        lengths = sentence_lengths(prose)
        count += 1
        words += len(WORD.findall(prose))
        headless += len(HEADLESS.findall(prose))
        sentences += len(lengths)
        sentence_words += sum(lengths)
        long += sum(length > LONG_SENTENCE_WORDS for length in lengths)
        begun += bool(QUESTION_WORD.match(prose.lstrip()))
    return Figures(
        count,
        words,
        round(1000 * headless / max(words, 1), 2),
        round(sentence_words / max(sentences, 1), 1),
        round(100 * long / max(sentences, 1), 2),
        round(100 * begun / max(count, 1), 2),
    )


def sentence_lengths(prose: str) -> list[int]:
    """Return the words of each sentence."""
    lengths = [len(sentence.split()) for sentence in SENTENCE_END.split(prose)]
    return [length for length in lengths if length >= SENTENCE_WORDS_MIN]


def plain(text: str) -> str:
    """Return the prose alone: X for code, and no targets of links."""
    return LINK_TARGET.sub("]", CODE.sub("X", CODE_BLOCK.sub(" ", text)))


def faults(text: str) -> list[str]:
    """Return the faults of one text, for an editor."""
    prose = plain(text)
    found = [f"headless: {' '.join(clause.split())}" for clause in HEADLESS.findall(prose)]
    found += [f"{length} words" for length in sentence_lengths(prose) if length > LONG_SENTENCE_WORDS]
    word = QUESTION_WORD.match(prose.lstrip())
    return found + ([f"begins with {word.group()}"] if word else [])
