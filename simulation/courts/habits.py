"""The behaviours of a coalition's providers, judges, customers and proposers, and those of honest ones."""

from dataclasses import dataclass, replace
from enum import Enum

from gpu_tasks.market.courts.cases import CourtCase, PartyFault, fault_of
from gpu_tasks.market.courts.opinions import Answered, Opinion, Unanswerable
from simulation.chains.court_chain import RIGHT, WRONG


class Brought(Enum):
    """The subject of a case. The first two are results, the others reports of an input."""

    RIGHT = "a right result"
    WRONG = "a wrong result"
    READABLE = "a report that a good input cannot be opened"
    UNREADABLE = "a report that a bad input cannot be opened"

    @property
    def is_result(self) -> bool:
        """Whether a provider has computed, or claims to have."""
        return self in (Brought.RIGHT, Brought.WRONG)

    @property
    def truth(self) -> Opinion:
        """The right opinion."""
        return Unanswerable() if self is Brought.UNREADABLE else Answered(RIGHT)


class Judging(Enum):
    """The opinions of the coalition's judges."""

    HONEST = "as all others"
    WRONG = "a wrong answer"
    GOOD = "a bad input is good"
    BAD = "a good input is bad"
    SILENT = "none"


@dataclass(frozen=True)
class Habit:
    """One behaviour of a coalition."""

    name: str
    says: str
    brought: Brought = Brought.WRONG
    judging: Judging = Judging.WRONG
    has_provider: bool = True
    """True if the provider is a member."""
    has_customer: bool = False
    """True if the customer is a member."""
    appeals: bool = False
    """True if its provider appeals against every verdict that costs it something."""
    grinds: bool = False
    """True if its proposers choose between two beacons."""


HABITS = (
    Habit("lies", "its provider gives a wrong result, its judges say the same"),
    Habit("customer", "and the customer is its own", has_customer=True),
    Habit("appeals", 'as "lies", and it appeals against every verdict that costs it something', appeals=True),
    Habit("proposer", 'as "lies", and in its slots its proposers choose between two beacons', grinds=True),
    Habit("silent", 'as "lies", but its judges say nothing', judging=Judging.SILENT),
    Habit("frames", "its judges call an honest result wrong", Brought.RIGHT, has_provider=False),
    Habit(
        "disputes", "and its customer brought the case", Brought.RIGHT, has_provider=False, has_customer=True
    ),
    Habit("blocks", "its judges say nothing about an honest result", Brought.RIGHT, Judging.SILENT, has_provider=False),
    Habit("declines", "its provider reports a good input, its judges call it bad", Brought.READABLE, Judging.BAD),
    Habit(
        "seals", "its customer gives a bad input, its judges call it good",
        Brought.UNREADABLE, Judging.GOOD, has_provider=False, has_customer=True,
    ),
)  # fmt: skip


def honest(habit: Habit) -> Habit:
    """Return the honest behaviour of the same provider and judges."""
    return replace(habit, brought=Brought.RIGHT, judging=Judging.HONEST, appeals=False, grinds=False)


def opinion_of_coalition(habit: Habit) -> Opinion | None:
    """Return the opinion of the coalition's judges, or None if they say nothing."""
    opinions: dict[Judging, Opinion | None] = {
        Judging.HONEST: habit.brought.truth,
        Judging.WRONG: Answered(WRONG),
        Judging.GOOD: Answered(RIGHT),
        Judging.BAD: Unanswerable(),
        Judging.SILENT: None,
    }
    return opinions[habit.judging]


def is_found_at_fault(case: CourtCase, party: bytes) -> PartyFault | None:
    """Return the fault of a party by the present verdict, or None."""
    own = [claim for claim in case.terms.claims if claim.account == party]
    return next((fault for claim in own if (fault := fault_of(claim, case.verdict)) is not None), None)
