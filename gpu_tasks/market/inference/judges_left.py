"""Who of those in office stays outside a race, to judge what comes of it, and whether they can pay for their seats.

Always: a unit is drawn, and a place of its race filled, only if `judges_needed` of those in office who may judge it
neither race, nor declined it, nor are its customer; in sets that are not small these hold a third of the stake in
office at most; and those of two thirds of the stake of those who may judge it have what a seat takes at its price; a
case looks again when it opens, for nobody knows now what is spent by then.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.judges import in_office, reads_since
from gpu_tasks.market.draws import Spare, spare_of_stake
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
LOOK_WEIGHT = work(reads=5, microseconds=30)
"""One in office, whether it may judge, and what it can spend: read from the disk, as after a start."""
COVERING, COVERED = 2, 3
"""Of so many parts of the stake that may judge a unit, so many must be able to pay for seats.

A price chooses its judges by what a seat takes. Who has less than a third of the stake, and all it takes, has less than
half of what the price leaves: the others decide its benches.
"""


@dataclass(frozen=True, slots=True)
class JudgesLeft:
    """Those in office who may judge, each with the block since which it can read inputs, and how many must stay."""

    needed: int
    since: Mapping[bytes, int]
    stakes: Mapping[bytes, int]
    """What each in office weighs, whether or not it may judge."""
    free: Mapping[bytes, int] = field(default_factory=dict)
    """The free grains of each who may judge: what programs ask about a race does without."""

    def spare(self, sealed_at: int, barred: Iterable[bytes], places: int) -> Spare:
        """Who may take so many places of a race for an input of that height, the barred apart."""
        outside = dict.fromkeys(barred)
        able = (stash for stash, since in self.since.items() if since <= sealed_at and stash not in outside)
        count = sum(1 for _ in able) - self.needed
        if self.needed < LEFT_MIN:
            return Spare(count, sum(self.stakes.values()))
        by_stake = spare_of_stake(self.stakes, outside, places)
        return replace(by_stake, count=min(count, by_stake.count))

    def can_pay(self, sealed_at: int, barred: Collection[bytes], seat: int) -> bool:
        """Whether enough of those who may judge an input of that height, the barred apart, can pay for a seat."""
        there = [stash for stash, since in self.since.items() if since <= sealed_at and stash not in barred]
        paying = sum(self.stakes[stash] for stash in there if self.free[stash] >= seat)
        return is_covered(paying, sum(self.stakes[stash] for stash in there))

    def racing(self, owners: Collection[bytes], spare: Spare) -> int:
        """How many of the owners may race for one unit, where so many who may judge are to spare."""
        in_office = [self.stakes[owner] for owner in owners if owner in self.stakes]
        fit = sum(stake <= spare.heaviest for stake in in_office)
        return len(owners) - len(in_office) + min(fit, max(0, spare.count))


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
    stakes = dict(in_office(devices))
    needed = judges_needed(len(stakes))
    if not needed:
        return JudgesLeft(0, {}, {}), Weight(0, 0)
    since, free, balances = dict[bytes, int](), dict[bytes, int](), devices.stake.balances
    for stash in stakes:
        reads = reads_since(devices, stash)
        if reads is not None:
            since[stash] = reads
            free[stash] = balances.free_balance(stash)
    return JudgesLeft(needed, since, stakes, free), Weight(len(stakes) * LOOK_WEIGHT.ref_time, 0)


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
        since = None if stash in own else reads_since(devices, stash)
        if since is None or since > sealed_at:
            stake -= weight
        else:
            able += 1
            paying += weight if balances.free_balance(stash) >= seat else 0
        is_enough = able >= needed and is_covered(paying, stake)
    return JudgesFound(is_enough, looks)
