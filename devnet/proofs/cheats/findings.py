"""The findings of cheats: counts, amounts beside those of the money tables, and failed requirements."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class AmountCheck:
    """One amount: the chain's and the table's."""

    what: str
    unit: str
    block: int
    taken: int
    expected: int


@dataclass(slots=True)
class CheatFinding:
    """The findings of one scene."""

    mode: str
    units: int = 0
    caught: int = 0
    """Units in which a cheat lost money, or all its calls were refused."""
    drawn: int = 0
    """Slots of tasks with a cheat."""
    slashed: int = 0
    fined: int = 0
    tried: int = 0
    """Forbidden messages that cheats sent."""
    refused: int = 0
    checks: list[AmountCheck] = field(default_factory=list)
    answers: dict[str, int] = field(default_factory=dict)
    """Events of the money table, and the chain's answers to forbidden messages, counted."""
    failures: list[str] = field(default_factory=list)
    tasks: int = 0
    sessions: int = 0
    grains: dict[str, int] = field(default_factory=dict)
    """The gain of each name after a task, less fees."""
    gained: int | None = None
    """The gain of a task's cheats. For units the checks have the amounts."""

    def count(self, answer: str) -> None:
        """Count an event or an answer."""
        self.answers[answer] = self.answers.get(answer, 0) + 1


@dataclass(slots=True)
class CheatFindings:
    """The findings of several scenes, judged together."""

    findings: list[CheatFinding]

    @property
    def failures(self) -> list[str]:
        """The failures of all scenes."""
        return [f"{finding.mode}: {failure}" for finding in self.findings for failure in finding.failures]
