"""Sleeping units: units without a match, which cost nothing until a slot of their service is freed or changed.

Invariants: a sleeping unit is in its service's list once, by the block since which it sleeps. A stirred service wakes
units that slept earlier, longest sleepers first. It wakes a few for each slot, and twice as many in each further turn,
until all have been tried. So no slot idles beside a unit that it could serve, and no unserviceable unit blocks the
others.
"""

from dataclasses import replace
from itertools import islice, takewhile

from gpu_tasks.market.ids import aged, since_of, unit_of
from gpu_tasks.market.inference.storage import Eased, InferenceStorage, Stirred, StirredServices
from gpu_tasks.market.inference.units import UNITS_OPEN_MAX
from runtime.encoding.types import Weight
from runtime.frame.schedule import WeightMeter
from runtime.frame.weights import work

WAKES_PER_SLOT = 4
SLOTS_STIRRED_MAX = 64
"""The most slots of one service that wake units in one block. More slots share those wake-ups."""


# The right to race or to judge depends on a parameter too: a lower value wakes sleeping units.
#
# Invariant: the next block notices a lower `validator_bond_min`. Then every service is stirred once, some in each block
# while the budget lasts, and earlier sleepers are woken in their turn.
EASE_WEIGHT: Weight = work(reads=2, writes=1)
"""The weight of one service: a look, and a stir if units sleep there."""


def step(market: InferenceStorage, budget: WeightMeter) -> None:
    """Notice a lowered parameter, and stir more services while the budget lasts."""
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
    stir(market, found, eased.before)
    is_done = number >= end
    return replace(eased, before=0 if is_done else eased.before, next_service=0 if is_done else number)


def lay_down(market: InferenceStorage, service: int, since: int, unit: bytes) -> None:
    """Add a unit that sleeps from block `since` on."""
    market.waiting_units[service, aged(since, unit)] = True
    market.waiting_unit_count[service] += 1


def rouse(market: InferenceStorage, service: int, since: int, unit: bytes) -> None:
    """Remove a unit."""
    key = aged(since, unit)
    assert (service, key) in market.waiting_units, "a woken unit was asleep"
    del market.waiting_units[service, key]
    left = market.waiting_unit_count[service] - 1
    if left:
        market.waiting_unit_count[service] = left
    else:
        del market.waiting_unit_count[service]


def stir(market: InferenceStorage, slots: dict[int, int], before: int) -> None:
    """Queue services to wake units that have slept since before block `before`.

    `slots` has the number of changed slots for each service.
    """
    queue = {stirred.service: stirred for stirred in market.services_to_retry.get()}
    for service, changed in slots.items():
        if market.waiting_unit_count[service]:
            known = queue.get(service, Stirred(service, before, 0))
            allowed = min(max(changed, known.slots), SLOTS_STIRRED_MAX)
            queue[service] = Stirred(service, max(before, known.before), allowed)
    keep_stirred(market, tuple(queue.values()))


def keep_stirred(market: InferenceStorage, queue: StirredServices) -> None:
    """Set the services to wake, in this order."""
    # An idle market must cost no write.
    if queue != market.services_to_retry.get():
        market.services_to_retry.set(queue[:UNITS_OPEN_MAX])


def of_turn(market: InferenceStorage, turn: Stirred) -> tuple[list[bytes], bool]:
    """Return the units to wake in a service's turn, and True if more are left for its next turn."""
    room = WAKES_PER_SLOT * turn.slots
    keys = (key for key, _ in market.waiting_units.under(turn.service))
    found = list(islice(takewhile(lambda key: since_of(key) < turn.before, keys), room + 1))
    return [unit_of(key) for key in found[:room]], len(found) > room


def grown(turn: Stirred) -> Stirred:
    """Return the next turn of an unfinished service. Its wakes are limited by their cost, not by this number."""
    # With four in each turn, 2,400 unserviceable units were still being tried when the units behind them expired.
    return replace(turn, slots=min(2 * turn.slots, SLOTS_STIRRED_MAX))
