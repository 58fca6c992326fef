"""Who may be drawn or judge depends on a parameter too: where that is lowered, units that sleep are tried again.

Always: between two blocks a lower `validator_bond_min` is noticed in the second; then every service is stirred once,
some in each block while the budget lasts, and what sleeps there since before is woken in its turn.
"""

from dataclasses import dataclass, replace

from gpu_tasks.market.ids import ServiceId
from gpu_tasks.market.inference.sleeping.sleepers import Sleepers
from runtime.encoding.codec import struct
from runtime.encoding.types import Balance, BlockNumber, Weight
from runtime.frame.pallet import StorageValue
from runtime.frame.schedule import WeightMeter
from runtime.frame.weights import work

EASE_WEIGHT: Weight = work(reads=2, writes=1)
"""One service looked at, and stirred if units sleep there."""


@struct
class Eased:
    """The parameter as it was seen last, and how far what sleeps has been stirred since it was lowered."""

    bond_min: Balance
    before: BlockNumber
    """Those who sleep since an earlier block are to be woken; 0 where nobody is."""
    next_service: ServiceId
    """The services below have been stirred."""


NEVER_SEEN = Eased(0, 0, 0)


@dataclass(frozen=True, slots=True)
class Easing:
    """Stirs every service after the parameter was lowered."""

    sleepers: Sleepers
    services: StorageValue[ServiceId]
    """The number of the next service."""
    eased: StorageValue[Eased]

    def step(self, height: int, bond_min: int, budget: WeightMeter) -> None:
        """Notice what changed, and stir some more services while the budget lasts."""
        before = self.eased.get()
        now = replace(before, bond_min=bond_min)
        if bond_min < before.bond_min:
            now = Eased(bond_min, height, 0)
        if now.before:
            now = self._stirred(now, budget)
        if now != before:
            self.eased.set(now)

    def _stirred(self, eased: Eased, budget: WeightMeter) -> Eased:
        number, end, found = eased.next_service, self.services.get(), dict[int, int]()
        while number < end and not budget.is_spent:
            budget.spend(EASE_WEIGHT)
            found[number] = 1
            number += 1
        self.sleepers.stir(found, eased.before)
        is_done = number >= end
        return replace(eased, before=0 if is_done else eased.before, next_service=0 if is_done else number)
