"""Results of the doctor's checks: a grade, an observation and a remedy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Grade(StrEnum):
    """The severity of a diagnosis."""

    GOOD = "ok"
    WEAK = "warning"
    """Work continues, but earns less or is less safe."""
    BAD = "problem"
    """Nothing is earned until this is fixed."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The result of one check."""

    check: str
    grade: Grade
    says: str
    """The observation, and why it matters."""
    todo: str = ""
    """The remedy; empty if none is needed."""


def good(check: str, says: str) -> Diagnosis:
    """Return a diagnosis without a problem."""
    return Diagnosis(check, Grade.GOOD, says)


def weak(check: str, says: str, todo: str) -> Diagnosis:
    """Return a diagnosis of a weakness."""
    return Diagnosis(check, Grade.WEAK, says, todo)


def bad(check: str, says: str, todo: str) -> Diagnosis:
    """Return a diagnosis of a problem that prevents all earnings."""
    return Diagnosis(check, Grade.BAD, says, todo)
