"""Units that could not be matched: they sleep, and cost nothing, until a slot of their service is freed or changed.

Always: a sleeping unit lies once in the list of its service, by the block since which it sleeps; a service that was
stirred wakes those who slept before, who slept longest first, a few for each slot and twice as many in each turn that
follows, until all of them have been tried: no slot stays idle beside a unit that it could serve, and no unit that
nobody can serve bars the others.
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
"""Slots of one service that wake units in one block: more than that share those wake-ups."""


# Who may be drawn or judge depends on a parameter too: where that is lowered, units that sleep are tried again.
#
# Always: between two blocks a lower `validator_bond_min` is noticed in the second; then every service is stirred once,
# some in each block while the budget lasts, and what sleeps there since before is woken in its turn.
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
    stir(market, found, eased.before)
    is_done = number >= end
    return replace(eased, before=0 if is_done else eased.before, next_service=0 if is_done else number)


def lay_down(market: InferenceStorage, service: int, since: int, unit: bytes) -> None:
    """Add a unit that sleeps from block `since` on."""
    market.waiting_units[service, aged(since, unit)] = True
    market.waiting_unit_count[service] += 1


def rouse(market: InferenceStorage, service: int, since: int, unit: bytes) -> None:
    """Take a unit out."""
    key = aged(since, unit)
    assert (service, key) in market.waiting_units, "who is woken has slept"
    del market.waiting_units[service, key]
    left = market.waiting_unit_count[service] - 1
    if left:
        market.waiting_unit_count[service] = left
    else:
        del market.waiting_unit_count[service]


def stir(market: InferenceStorage, slots: dict[int, int], before: int) -> None:
    """Have those woken who sleep since before block `before`; `slots` says how many changed, by service."""
    queue = {stirred.service: stirred for stirred in market.services_to_retry.get()}
    for service, changed in slots.items():
        if market.waiting_unit_count[service]:
            known = queue.get(service, Stirred(service, before, 0))
            allowed = min(max(changed, known.slots), SLOTS_STIRRED_MAX)
            queue[service] = Stirred(service, max(before, known.before), allowed)
    keep_stirred(market, tuple(queue.values()))


def keep_stirred(market: InferenceStorage, queue: StirredServices) -> None:
    """Have these services woken, the first one first."""
    if queue != market.services_to_retry.get():
        market.services_to_retry.set(queue[:UNITS_OPEN_MAX])


def of_turn(market: InferenceStorage, turn: Stirred) -> tuple[list[bytes], bool]:
    """Whom to wake when it is the turn of a service, and whether more are left for its next."""
    room = WAKES_PER_SLOT * turn.slots
    keys = (key for key, _ in market.waiting_units.under(turn.service))
    found = list(islice(takewhile(lambda key: since_of(key) < turn.before, keys), room + 1))
    return [unit_of(key) for key in found[:room]], len(found) > room


def grown(turn: Stirred) -> Stirred:
    """The next turn of a service that was not finished: wakes are bounded by what they cost, not by this."""
    # four in each: 2,400 units that nobody could serve were still being tried when those behind them ended
    return replace(turn, slots=min(2 * turn.slots, SLOTS_STIRRED_MAX))
