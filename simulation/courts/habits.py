"""The behaviour of a coalition's racers, judges, customers and proposers, and of honest daemons."""

from dataclasses import dataclass
from enum import Enum

from gpu_tasks.market.courts.cases import CaseStage, ClaimKind, CourtCase
from gpu_tasks.market.courts.opinions import Answered, Unanswerable
from gpu_tasks.provider.duties.appeals import is_found_declining, is_found_lying
from simulation.chains.court_chain import RIGHT, WRONG, Says


class Against(Enum):
    """The parties of the case that belong to the coalition."""

    STRANGERS = "neither"
    CUSTOMER = "customer"
    SYBIL = "customer and Sybil"


class Racing(Enum):
    """A racer's behaviour."""

    RIGHT = "commits to the right answer, and opens it"
    WRONG = "commits to a wrong one, and opens it"
    WITHHOLDS = "commits to a wrong one, and does not open it"
    DECLINES = "says that the input cannot be opened"
    ABSENT = "does nothing"


class Input(Enum):
    """The readers of a unit's input."""

    GOOD = "all required recipients"
    SEALED = "the coalition alone; the others have a box that does not open"
    HIDDEN = "the coalition alone; the others find it in no store"
    LATE = "the coalition alone, until the others have given up; then all"
    LAST = "the coalition alone, until a court sits; then all"


@dataclass(frozen=True)
class Habit:
    """One way to cheat."""

    name: str
    says: str
    party: Against = Against.STRANGERS
    racing: Racing = Racing.WRONG
    racers: int = 2
    judges_lie: bool = True
    judges_speak: bool = True
    input: Input = Input.GOOD
    appeals: bool = False
    grinds: bool = False


HONEST = Habit("honest", "does as all others do", racing=Racing.RIGHT, judges_lie=False)
HABITS = (
    Habit("lone", "a unit has one racer; its racer lies, its judges say the same", racers=1),
    Habit("lies", "two race; its racers lie, its judges say the same"),
    Habit("customer", "and the customer is its own", Against.CUSTOMER),
    Habit("sybil", "and of nine units of ten the first racer is a Sybil of its own", Against.SYBIL),
    Habit("proposer", "and in its slots its proposers choose between two beacons", Against.SYBIL, grinds=True),
    Habit("withholds", 'as "sybil", but its racers do not open their commitments', Against.SYBIL, Racing.WITHHOLDS),
    Habit("absent", 'as "sybil", but its racers do not answer at all', Against.SYBIL, Racing.ABSENT),
    Habit(
        "seals",
        "its customer seals boxes that honest racers and judges cannot open; its judges say that they are good",
        Against.SYBIL,
        Racing.RIGHT,
        input=Input.SEALED,
    ),
    Habit(
        "hides",
        "its customer gives the input only to its own; its judges repeat its racers' answer",
        Against.SYBIL,
        Racing.RIGHT,
        input=Input.HIDDEN,
    ),
    Habit(
        "waits",
        'as "hides", but its racers answer only when the others have given up, and then everybody is given the input',
        Against.SYBIL,
        Racing.RIGHT,
        input=Input.LATE,
    ),
    Habit(
        "keeps",
        'as "hides", but it gives the input to a court, where one sits',
        Against.SYBIL,
        Racing.RIGHT,
        input=Input.LAST,
    ),
    Habit(
        "shows",
        'gives the input to nobody, and all decline; it appeals against "the input is bad", and gives it to the court',
        Against.SYBIL,
        Racing.DECLINES,
        judges_lie=False,
        input=Input.LAST,
        appeals=True,
    ),
    Habit(
        "declines", "its racers decline good inputs; its judges say that they are bad", Against.SYBIL, Racing.DECLINES
    ),
    Habit(
        "appeals",
        'as "sybil", and it appeals against every verdict that costs it something',
        Against.SYBIL,
        appeals=True,
    ),
    Habit("silent", 'as "sybil", but its judges say nothing', Against.SYBIL, judges_speak=False),
)


def honest_racing(habit: Habit) -> Racing:
    """Return an honest racer's behaviour: it answers, or declines an unreadable input."""
    return Racing.RIGHT if habit.input is Input.GOOD else Racing.DECLINES


def honest_opinion(habit: Habit, case: CourtCase) -> Says:
    """Return an honest judge's opinion. It has none on an answered input that it cannot find."""
    if habit.input in (Input.GOOD, Input.LATE) or (habit.input is Input.LAST and case.stage is CaseStage.COURT):
        return Says(Answered(RIGHT))
    has_answer = any(claim.kind in (ClaimKind.ANSWERED, ClaimKind.WITHHELD) for claim in case.terms.claims)
    is_silent = habit.input is not Input.SEALED and has_answer
    return Says(None if is_silent else Unanswerable())


def coalition_opinion(habit: Habit, case: CourtCase, *, has_stake: bool) -> Says:
    """Return the opinion of the coalition's judge, in a case with a stake for the coalition."""
    if not has_stake or not habit.judges_lie:
        return honest_opinion(habit, case)
    if not habit.judges_speak:
        return Says(None)
    if habit.racing is Racing.DECLINES:
        return Says(Unanswerable())
    return Says(Answered(WRONG if habit.racing in (Racing.WRONG, Racing.WITHHOLDS) else RIGHT))


def honest_party_appeals(habit: Habit, case: CourtCase, party: bytes) -> bool:
    """Return whether a racer's daemon appeals (`duties.appealing`).

    It appeals against a verdict that calls its own answer a lie, or that calls an input good which its own copy shows
    to be bad.
    """
    found = is_found_declining(case, party) and habit.input is Input.SEALED
    return found or is_found_lying(case, party)
