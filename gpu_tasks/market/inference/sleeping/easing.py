"""Who may be drawn or judge depends on a parameter too: where that is lowered, units that sleep are tried again.

Always: between two blocks a lower `validator_bond_min` is noticed in the second; then every service is stirred once,
some in each block while the budget lasts, and what sleeps there since before is woken in its turn.
"""

from dataclasses import replace

from gpu_tasks.market.inference.sleeping import sleepers
from gpu_tasks.market.inference.storage import Eased, InferenceStorage
from runtime.encoding.types import Weight
from runtime.frame.schedule import WeightMeter
from runtime.frame.weights import work

EASE_WEIGHT: Weight = work(reads=2, writes=1)
"""One service looked at, and stirred if units sleep there."""


def step(market: InferenceStorage, budget: WeightMeter) -> None:
    """Notice what changed, and stir some more services while the budget lasts."""
    before, bond_min = market.lowered_bond_min.get(), market.stake.validator_bond_min
    now = replace(before, bond_min=bond_min)
    if bond_min < before.bond_min:
        now = Eased(bond_min, market.height, 0)
    if now.before:
        now = _stirred(market, now, budget)
    if now != before:
        market.lowered_bond_min.set(now)


def _stirred(market: InferenceStorage, eased: Eased, budget: WeightMeter) -> Eased:
    number, end, found = eased.next_service, market.next_service.get(), dict[int, int]()
    while number < end and not budget.is_spent:
        budget.spend(EASE_WEIGHT)
        found[number] = 1
        number += 1
    sleepers.stir(market, found, eased.before)
    is_done = number >= end
    return replace(eased, before=0 if is_done else eased.before, next_service=0 if is_done else number)
