"""What a coalition does with its racers, judges, customers and proposers; and what honest ones do."""

from dataclasses import dataclass
from enum import Enum

from gpu_tasks.market.courts.cases import ClaimKind
from gpu_tasks.market.courts.opinions import Answered, Unanswerable
from scripts.chains.court_chain import RIGHT, WRONG, Says

Said = tuple[ClaimKind, bytes | None]


class Against(Enum):
    """Who the coalition's customer and second racer are."""

    STRANGERS = "neither"
    CUSTOMER = "customer"
    SYBIL = "customer and Sybil"


@dataclass(frozen=True)
class Habit:
    """One way to cheat."""

    name: str
    says: str
    party: Against = Against.STRANGERS
    racer: Said = (ClaimKind.ANSWERED, WRONG)
    judges_lie: bool = True
    judges_speak: bool = True
    input_is_good: bool = True
    appeals: bool = False
    grinds: bool = False


HONEST = Habit("honest", "does as all others do", racer=(ClaimKind.ANSWERED, RIGHT), judges_lie=False)
HABITS = (
    Habit("lies", "its racers lie, its judges say the same"),
    Habit("customer", "and the customer is its own", Against.CUSTOMER),
    Habit("sybil", "and every second racer is a Sybil of its own", Against.SYBIL),
    Habit("proposer", "and its proposers choose between two beacons", Against.SYBIL, grinds=True),
    Habit(
        "withholds",
        "its racers withhold what they committed to",
        Against.SYBIL,
        racer=(ClaimKind.WITHHELD, None),
    ),
    Habit("absent", "its racers do not answer at all", Against.SYBIL, racer=(ClaimKind.ABSENT, None)),
    Habit(
        "seals",
        "its customer seals boxes that honest racers cannot open, its judges say they are good",
        Against.SYBIL,
        racer=(ClaimKind.ANSWERED, RIGHT),
        input_is_good=False,
    ),
    Habit("declines", "its racers decline good inputs", Against.SYBIL, racer=(ClaimKind.DECLINED, None)),
    Habit("appeals", "and it appeals against every verdict that costs it something", Against.SYBIL, appeals=True),
    Habit("silent", "its racers lie, its judges say nothing", Against.SYBIL, judges_speak=False),
)


def honest_claim(habit: Habit) -> Said:
    """What an honest racer does: it answers, or declines where its box is bad."""
    return (ClaimKind.ANSWERED, RIGHT) if habit.input_is_good else (ClaimKind.DECLINED, None)


def honest_opinion(habit: Habit) -> Says:
    """What an honest judge says: it checks every box before it works."""
    return Says(Answered(RIGHT) if habit.input_is_good else Unanswerable())


def coalition_opinion(habit: Habit, *, has_stake: bool) -> Says:
    """What a judge of the coalition says, where the coalition has something to win."""
    if not has_stake or not habit.judges_lie:
        return honest_opinion(habit)
    if not habit.judges_speak:
        return Says(None)
    if habit.racer[0] is ClaimKind.DECLINED:
        return Says(Unanswerable())
    return Says(Answered(RIGHT if not habit.input_is_good or habit.racer[0] is ClaimKind.ABSENT else WRONG))
