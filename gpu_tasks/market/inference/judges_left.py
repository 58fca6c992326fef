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
from gpu_tasks.market.devices.judges import DEVELOPMENT_SET, in_office, reads_since
from gpu_tasks.market.draws import Spare, spare_of_stake
from runtime.encoding.types import Weight
from runtime.frame.weights import work

LEFT_MIN = 3
"""The judges of a committee. They also suffice for a court if no other validator may sit."""
LEFT_MIN_SMALL = 2
"""Two agreeing judges decide. A small set has no court."""
SMALL_SET = 6
"""An active set below this size is small."""
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

    def spare(self, sealed_at: int, barred: Iterable[bytes], place_count: int) -> Spare:
        """Return the limits for validators that race for an input sealed at `sealed_at`, without the barred ones."""
        barred_stashes = dict.fromkeys(barred)
        able = (stash for stash, since in self.since.items() if since <= sealed_at and stash not in barred_stashes)
        spare_count = sum(1 for _ in able) - self.needed
        # A small set has no court, so the number of its judges is the only limit.
        if self.needed < LEFT_MIN:
            return Spare(spare_count, sum(self.stakes.values()))
        by_stake = spare_of_stake(self.stakes, barred_stashes, place_count)
        return replace(by_stake, count=min(spare_count, by_stake.count))

    def can_pay(self, sealed_at: int, barred: Collection[bytes], seat_grains: int) -> bool:
        """Return True if enough eligible judges of an input sealed at `sealed_at` can pay for a seat.

        The barred do not count.
        """
        able = [stash for stash, since in self.since.items() if since <= sealed_at and stash not in barred]
        paying = sum(self.stakes[stash] for stash in able if self.free[stash] >= seat_grains)
        return is_covered(paying, sum(self.stakes[stash] for stash in able))

    def racing(self, owners: Collection[bytes], spare: Spare) -> int:
        """Return the number of these owners that may race for one unit, within the limits of `spare`."""
        stakes = [self.stakes[owner] for owner in owners if owner in self.stakes]
        fitting_count = sum(owner_stake <= spare.heaviest for owner_stake in stakes)
        return len(owners) - len(stakes) + min(fitting_count, max(0, spare.count))


@dataclass(frozen=True, slots=True)
class JudgesFound:
    """The result of a search for judges, and the number of validators that it read."""

    is_enough: bool
    looks: int


def judges_needed(seat_count: int) -> int:
    """Return how many judges of an active set of this size must stay outside a race."""
    if seat_count < DEVELOPMENT_SET:
        return 0
    return LEFT_MIN_SMALL if seat_count < SMALL_SET else LEFT_MIN


def is_covered(paying: int, eligible_stake: int) -> bool:
    """Return True if `paying` is enough of the eligible `eligible_stake`."""
    return COVERED * paying >= COVERING * eligible_stake


def read_judges(devices: Devices) -> tuple[JudgesLeft, Weight]:
    """Return the eligible judges, and the weight of reading them."""
    stakes = dict(in_office(devices))
    needed_judges = judges_needed(len(stakes))
    if not needed_judges:
        return JudgesLeft(0, {}, {}), Weight(0, 0)
    since_blocks, free_grains, balances = dict[bytes, int](), dict[bytes, int](), devices.stake.balances
    for stash in stakes:
        since_block = reads_since(devices, stash)
        if since_block is not None:
            since_blocks[stash] = since_block
            free_grains[stash] = balances.free_balance(stash)
    return JudgesLeft(needed_judges, since_blocks, stakes, free_grains), Weight(len(stakes) * LOOK_WEIGHT.ref_time, 0)


def find_judges(devices: Devices, customer: bytes, sealed_at: int, seat_grains: int) -> JudgesFound:
    """Search for enough judges of an input sealed at `sealed_at` that can pay for a seat, before any racer is drawn.

    The search stops as soon as the answer is known. If all can pay, it reads validators with two thirds of the stake.
    """
    seats, balances = in_office(devices), devices.stake.balances
    # A customer that is a stash's provider key is the same party as the stash.
    customer_stashes, needed_judges = (customer, devices.operator(customer)), judges_needed(len(seats))
    eligible_stake = sum(seat_stake for _, seat_stake in seats)
    able_count = paying = look_count = 0
    is_enough = not needed_judges
    while not is_enough and look_count < len(seats):
        stash, seat_stake = seats[look_count]
        look_count += 1
        since_block = None if stash in customer_stashes else reads_since(devices, stash)
        # Ineligible stake is taken off when it is found, so the answer may be known before the last validator.
        if since_block is None or since_block > sealed_at:
            eligible_stake -= seat_stake
        else:
            able_count += 1
            paying += seat_stake if balances.free_balance(stash) >= seat_grains else 0
        is_enough = able_count >= needed_judges and is_covered(paying, eligible_stake)
    return JudgesFound(is_enough, look_count)
