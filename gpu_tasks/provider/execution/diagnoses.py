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
    code: str = ""
    """The finding for programs; empty if no program asks for it."""


def good(check_name: str, finding: str) -> Diagnosis:
    """Return a diagnosis without a problem."""
    return Diagnosis(check_name, Grade.GOOD, finding)


def weak(check_name: str, finding: str, remedy: str) -> Diagnosis:
    """Return a diagnosis of a weakness."""
    return Diagnosis(check_name, Grade.WEAK, finding, remedy)


def bad(check_name: str, finding: str, remedy: str, code: str = "") -> Diagnosis:
    """Return a diagnosis of a problem that prevents all earnings."""
    return Diagnosis(check_name, Grade.BAD, finding, remedy, code)
