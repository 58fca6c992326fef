"""The validators that stay outside a race, to check its result and to vote about it.

Invariants:

* A unit is drawn, and a place of its race filled, only if `checkers_needed` eligible validators of the active set stay
  outside. They neither race, nor declined the unit, nor are its customer.
* Except in small sets, racers, decliners and customer together hold at most a third of the active set's stake.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from gpu_tasks.market.claims.disputes import VOTERS_MIN
from gpu_tasks.market.devices.checkers import DEVELOPMENT_SET, in_office, reads_since
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.draws import Spare, spare_of_stake
from runtime.encoding.types import Weight
from runtime.frame.weights import work

SMALL_SET = 6
"""An active set below this size is small: a third of its stake would be less than two equal racers."""
RACERS_USUAL = 2
"""Racers that every checked set can spare. Of four validators, two others are left: one of them can check, but a
dispute has too few voters, so it ends with a refund."""
LOOK_WEIGHT = work(reads=4, microseconds=30)
"""The weight of reading one validator's eligibility from the disk."""


@dataclass(frozen=True, slots=True)
class CheckersLeft:
    """The eligible voters, each with the block since which it can read inputs, and the number that must stay."""

    needed: int
    since: Mapping[bytes, int]
    stakes: Mapping[bytes, int]
    """The stake of each validator of the active set, eligible as voter or not."""

    def spare(self, sealed_at: int, barred: Iterable[bytes], place_count: int) -> Spare:
        """Return the limits for validators that race for an input sealed at `sealed_at`, without the barred ones."""
        barred_stashes = dict.fromkeys(barred)
        able = (stash for stash, since in self.since.items() if since <= sealed_at and stash not in barred_stashes)
        spare_count = sum(1 for _ in able) - self.needed
        if len(self.stakes) < SMALL_SET:
            return Spare(spare_count, sum(self.stakes.values()))
        by_stake = spare_of_stake(self.stakes, barred_stashes, place_count)
        return replace(by_stake, count=min(spare_count, by_stake.count))

    def racing(self, owners: Collection[bytes], spare: Spare) -> int:
        """Return the number of these owners that may race for one unit, within the limits of `spare`."""
        stakes = [self.stakes[owner] for owner in owners if owner in self.stakes]
        fitting_count = sum(owner_stake <= spare.heaviest for owner_stake in stakes)
        return len(owners) - len(stakes) + min(fitting_count, max(0, spare.count))


@dataclass(frozen=True, slots=True)
class CheckersFound:
    """The result of a search for voters, and the number of validators that it read."""

    is_enough: bool
    looks: int


def is_checked_set(validator_count: int) -> bool:
    """Return True if results are checked in an active set of this size."""
    return validator_count >= DEVELOPMENT_SET


def checkers_needed(validator_count: int) -> int:
    """Return how many validators of an active set of this size must stay outside a race."""
    return min(VOTERS_MIN, validator_count - RACERS_USUAL) if is_checked_set(validator_count) else 0


def read_checkers(devices: Devices) -> tuple[CheckersLeft, Weight]:
    """Return the eligible voters, and the weight of reading them."""
    stakes = dict(in_office(devices))
    needed = checkers_needed(len(stakes))
    if not needed:
        return CheckersLeft(0, {}, {}), Weight(0, 0)
    read = ((stash, reads_since(devices, stash)) for stash in stakes)
    since_blocks = {stash: since_block for stash, since_block in read if since_block is not None}
    return CheckersLeft(needed, since_blocks, stakes), Weight(len(stakes) * LOOK_WEIGHT.ref_time, 0)


def find_checkers(devices: Devices, customer: bytes, sealed_at: int) -> CheckersFound:
    """Search for enough voters about an input sealed at `sealed_at`, before any racer is drawn.

    The search stops as soon as it has found enough.
    """
    seats = in_office(devices)
    # A customer that is a stash's provider key is the same party as the stash.
    customer_stashes, needed = (customer, devices.operator(customer)), checkers_needed(len(seats))
    able_count = look_count = 0
    while able_count < needed and look_count < len(seats):
        stash, _ = seats[look_count]
        look_count += 1
        since_block = None if stash in customer_stashes else reads_since(devices, stash)
        able_count += since_block is not None and since_block <= sealed_at
    return CheckersFound(able_count >= needed, look_count)
