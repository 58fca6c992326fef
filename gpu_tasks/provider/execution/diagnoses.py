"""What is said of a thing that was looked at: whether it is as it should be, what was seen, what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Grade(StrEnum):
    """How much a diagnosis matters."""

    GOOD = "ok"
    WEAK = "warning"
    """Work goes on, but earns less or is less safe."""
    BAD = "problem"
    """Nothing is earned as it is."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One thing that was looked at."""

    check: str
    grade: Grade
    says: str
    """What was seen, and why it matters."""
    todo: str = ""
    """What to do; empty where nothing is."""


def good(check: str, says: str) -> Diagnosis:
    """It is as it should be."""
    return Diagnosis(check, Grade.GOOD, says)


def weak(check: str, says: str, todo: str) -> Diagnosis:
    """It could be better."""
    return Diagnosis(check, Grade.WEAK, says, todo)


def bad(check: str, says: str, todo: str) -> Diagnosis:
    """As it is, nothing is earned."""
    return Diagnosis(check, Grade.BAD, says, todo)
