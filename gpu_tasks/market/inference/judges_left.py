"""The validators that stay outside a race to judge it, and their ability to pay for seats.

Invariants:

* A unit is drawn, and a place of its race filled, only if `judges_needed` eligible judges of the active set stay
  outside. They neither race, nor declined the unit, nor are its customer.
* Except in small sets, racers, decliners and customer together hold at most a third of the active set's stake.
* Judges with two thirds of the eligible stake have the grains that a seat takes at the unit's price. A case checks this
  again when it opens, because judges may have spent their grains by then.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.judges import in_office, reads_since
from gpu_tasks.market.draws import Spare, spare_of_stake
from runtime.encoding.types import Weight
from runtime.frame.weights import work

LEFT_MIN = 3
"""The judges of a committee. They also suffice for a court if no other validator may sit."""
LEFT_MIN_SMALL = 2
"""Two agreeing judges decide. A small set has no court."""
SMALL_SET = 6
"""An active set below this size is small."""
DEVELOPMENT_SET = 4
"""An active set below this size is a development chain. Its units race unjudged, because two racers would leave no
judge."""
LOOK_WEIGHT = work(reads=5, microseconds=30)
"""The weight of one validator: its eligibility as judge and its free grains, read from the disk."""
COVERING, COVERED = 2, 3
"""Of every `COVERED` parts of the eligible stake, `COVERING` parts must be able to pay for seats.

A price selects its judges by the cost of a seat. A coalition with less than a third of the stake and enough grains then
has less than half of the paying stake, so the other judges decide its benches.
"""


@dataclass(frozen=True, slots=True)
class JudgesLeft:
    """The eligible judges, each with the block since which it can read inputs, and the number that must stay."""

    needed: int
    since: Mapping[bytes, int]
    stakes: Mapping[bytes, int]
    """The stake of each validator of the active set, eligible as judge or not."""
    free: Mapping[bytes, int] = field(default_factory=dict)
    """The free grains of each eligible judge. Client programs that only ask about racing leave this empty."""

    def spare(self, sealed_at: int, barred: Iterable[bytes], places: int) -> Spare:
        """Return the limits for validators that race for an input sealed at `sealed_at`, without the barred ones."""
        outside = dict.fromkeys(barred)
        able = (stash for stash, since in self.since.items() if since <= sealed_at and stash not in outside)
        count = sum(1 for _ in able) - self.needed
        if self.needed < LEFT_MIN:
            return Spare(count, sum(self.stakes.values()))
        by_stake = spare_of_stake(self.stakes, outside, places)
        return replace(by_stake, count=min(count, by_stake.count))

    def can_pay(self, sealed_at: int, barred: Collection[bytes], seat: int) -> bool:
        """Return True if enough eligible judges of an input sealed at `sealed_at` can pay for a seat.

        The barred do not count.
        """
        there = [stash for stash, since in self.since.items() if since <= sealed_at and stash not in barred]
        paying = sum(self.stakes[stash] for stash in there if self.free[stash] >= seat)
        return is_covered(paying, sum(self.stakes[stash] for stash in there))

    def racing(self, owners: Collection[bytes], spare: Spare) -> int:
        """Return the number of these owners that may race for one unit, within the limits of `spare`."""
        in_office = [self.stakes[owner] for owner in owners if owner in self.stakes]
        fit = sum(stake <= spare.heaviest for stake in in_office)
        return len(owners) - len(in_office) + min(fit, max(0, spare.count))


@dataclass(frozen=True, slots=True)
class JudgesFound:
    """The result of a search for judges, and the number of validators that it read."""

    is_enough: bool
    looks: int


def judges_needed(in_office: int) -> int:
    """Return how many judges of an active set of this size must stay outside a race."""
    if in_office < DEVELOPMENT_SET:
        return 0
    return LEFT_MIN_SMALL if in_office < SMALL_SET else LEFT_MIN


def is_covered(paying: int, stake: int) -> bool:
    """Return True if `paying` is enough of the eligible `stake`."""
    return COVERED * paying >= COVERING * stake


def read_judges(devices: Devices) -> tuple[JudgesLeft, Weight]:
    """Return the eligible judges, and the weight of reading them."""
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
    """Search for enough judges of an input sealed at `sealed_at` that can pay for a seat, before any racer is drawn.

    The search stops as soon as the answer is known. If all can pay, it reads validators with two thirds of the stake.
    """
    seats, balances = in_office(devices), devices.stake.balances
    # A customer that is a stash's provider key is the same party as the stash.
    own, needed = (customer, devices.operator(customer)), judges_needed(len(seats))
    stake = sum(weight for _, weight in seats)
    able = paying = looks = 0
    is_enough = not needed
    while not is_enough and looks < len(seats):
        stash, weight = seats[looks]
        looks += 1
        since = None if stash in own else reads_since(devices, stash)
        # Ineligible stake is taken off when it is found, so the answer may be known before the last validator.
        if since is None or since > sealed_at:
            stake -= weight
        else:
            able += 1
            paying += weight if balances.free_balance(stash) >= seat else 0
        is_enough = able >= needed and is_covered(paying, stake)
    return JudgesFound(is_enough, looks)
