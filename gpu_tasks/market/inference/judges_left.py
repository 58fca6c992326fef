"""Who of those in office stays outside a race, to judge what comes of it, and whether they can pay for their seats.

Always: a unit is drawn, and a place of its race filled, only if `judges_needed` of those in office who may judge it
neither race, nor declined it, nor are its customer, and those of two thirds of the stake of those who may judge it have
what a seat takes at its price; a case looks again when it opens, for nobody knows now what is spent by then.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.judges import in_office, judge_of
from runtime.encoding.types import Weight
from runtime.frame.weights import work

LEFT_MIN = 3
"""A committee, and a court, if nobody else may sit."""
LEFT_MIN_SMALL = 2
"""Two who agree decide; in a small set there is no court."""
SMALL_SET = 6
"""Fewer are a small set."""
DEVELOPMENT_SET = 4
"""Fewer are a chain for development, whose units race unjudged: two racers would leave nobody who could decide."""
LOOK_WEIGHT = work(reads=5, microseconds=5)
"""One in office, whether it may judge, and what it can spend."""
COVERING, COVERED = 2, 3
"""Of so many parts of the stake that may judge a unit, so many must be able to pay for seats.

A price chooses its judges by what a seat takes. Who has less than a third of the stake, and all it takes, has less than
half of what the price leaves: the others decide its benches.
"""


@dataclass(frozen=True, slots=True)
class JudgeMeans:
    """What somebody in office weighs, and what it can spend."""

    stake: int
    free: int


@dataclass(frozen=True, slots=True)
class JudgesLeft:
    """Those in office who may judge, each with the block since which it can read inputs, and how many must stay."""

    needed: int
    since: Mapping[bytes, int]
    means: Mapping[bytes, JudgeMeans] = field(default_factory=dict)
    """The stake and the free grains of each: what programs ask about a race does without."""

    def spare(self, sealed_at: int, barred: Iterable[bytes]) -> int:
        """How many may race for an input of that height, the barred apart; below 0 it has too few judges already."""
        outside = sum(self.since[stash] <= sealed_at for stash in dict.fromkeys(barred) if stash in self.since)
        return sum(since <= sealed_at for since in self.since.values()) - outside - self.needed

    def can_pay(self, sealed_at: int, barred: Collection[bytes], seat: int) -> bool:
        """Whether enough of those who may judge an input of that height, the barred apart, can pay for a seat."""
        there = (stash for stash, since in self.since.items() if since <= sealed_at and stash not in barred)
        means = [self.means[stash] for stash in there]
        paying = sum(each.stake for each in means if each.free >= seat)
        return is_covered(paying, sum(each.stake for each in means))

    def racing(self, owners: Collection[bytes], spare: int) -> int:
        """How many of the owners may race for one unit, where so many who may judge are to spare."""
        judging = sum(owner in self.since for owner in owners)
        return len(owners) - judging + min(judging, max(0, spare))


@dataclass(frozen=True, slots=True)
class JudgesFound:
    """Whether there are enough, and at how many of those in office it took a look to know."""

    is_enough: bool
    looks: int


def judges_needed(in_office: int) -> int:
    """How many of so many in office must stay outside a race."""
    if in_office < DEVELOPMENT_SET:
        return 0
    return LEFT_MIN_SMALL if in_office < SMALL_SET else LEFT_MIN


def is_covered(paying: int, stake: int) -> bool:
    """Whether so much stake can pay for seats, of that which may judge."""
    return COVERED * paying >= COVERING * stake


def read_judges(devices: Devices) -> tuple[JudgesLeft, Weight]:
    """Those who may judge now, and what reading them weighs."""
    seats = in_office(devices)
    needed = judges_needed(len(seats))
    if not needed:
        return JudgesLeft(0, {}), Weight(0, 0)
    since, means, balances = dict[bytes, int](), dict[bytes, JudgeMeans](), devices.stake.balances
    for stash, stake in seats:
        judge = judge_of(devices, stash)
        if judge is not None:
            since[stash] = judge.key_since
            means[stash] = JudgeMeans(stake, balances.free_balance(stash))
    return JudgesLeft(needed, since, means), Weight(len(seats) * LOOK_WEIGHT.ref_time, 0)


def find_judges(devices: Devices, customer: bytes, sealed_at: int, seat: int) -> JudgesFound:
    """Whether enough in office may judge an input of that height, and can pay for a seat, racers not thought of.

    Looks at no more than that takes: where all in office can, at those of two thirds of the stake.
    """
    seats, balances = in_office(devices), devices.stake.balances
    own, needed = (customer, devices.operator(customer)), judges_needed(len(seats))
    stake = sum(weight for _, weight in seats)
    able = paying = looks = 0
    is_enough = not needed
    while not is_enough and looks < len(seats):
        stash, weight = seats[looks]
        looks += 1
        judge = None if stash in own else judge_of(devices, stash)
        if judge is None or judge.key_since > sealed_at:
            stake -= weight
        else:
            able += 1
            paying += weight if balances.free_balance(stash) >= seat else 0
        is_enough = able >= needed and is_covered(paying, stake)
    return JudgesFound(is_enough, looks)
