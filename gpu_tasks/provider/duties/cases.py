"""A committee seat as its provider sees it, and what to do next about it: a function of chain and journal."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from gpu_tasks.market.api import DutyStatus
from gpu_tasks.market.inference.committees import Committee, Judge, member_of
from gpu_tasks.market.inference.units import Unit
from gpu_tasks.provider.journal.records import CaseEntry


class JudgeStep(Enum):
    """What to do next about a case."""

    NOTHING = auto()
    JUDGE = auto()
    COMMIT = auto()
    REVEAL = auto()


@dataclass(frozen=True, slots=True)
class Case:
    """One committee that this provider sits on."""

    unit_id: bytes
    unit: Unit
    committee: Committee
    member: Judge
    reveals_from: int

    @property
    def key(self) -> tuple[bytes, int]:
        """How the journal names it."""
        return self.unit_id, self.committee.number


def case_of(duty: DutyStatus, stash: bytes) -> Case | None:
    """The case that a duty is about; None if it is one no more."""
    committee = duty.status.committee
    member = member_of(committee, stash) if committee else None
    if committee is None or member is None or committee.round is None:
        return None
    return Case(duty.id, duty.status.unit, committee, member, duty.status.reveals_from)


def next_step(case: Case, entry: CaseEntry | None) -> JudgeStep:
    """What chain and journal ask for."""
    is_closed = case.committee.round is None or case.committee.round.closed_at > 0
    if case.member.verdict is not None:
        return JudgeStep.NOTHING
    if case.member.commitment is None:
        if is_closed:
            return JudgeStep.NOTHING
        return JudgeStep.JUDGE if entry is None else JudgeStep.COMMIT
    return JudgeStep.REVEAL if entry is not None and case.reveals_from else JudgeStep.NOTHING
