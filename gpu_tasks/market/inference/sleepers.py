"""Sleeping units: units without a match, which cost nothing until a slot of their service is freed or changed.

Invariants: a sleeping unit is in its service's list once, by the block since which it sleeps. A stirred service wakes
units that slept earlier, longest sleepers first. It wakes a few for each slot, and twice as many in each further turn,
until all have been tried. So no slot idles beside a unit that it could serve, and no unserviceable unit blocks the
others.
"""

from dataclasses import replace
from itertools import islice, takewhile

from gpu_tasks.market.ids import aged, since_of, unit_of
from gpu_tasks.market.inference.storage import InferenceStorage, Stirred, StirredServices
from gpu_tasks.market.inference.units import UNITS_OPEN_MAX

WAKES_PER_SLOT = 4
SLOTS_STIRRED_MAX = 64
"""The most slots of one service that wake units in one block. More slots share those wake-ups."""


def lay_down(market: InferenceStorage, service_number: int, asleep_since: int, unit_id: bytes) -> None:
    """Add a unit that sleeps from block `asleep_since` on."""
    market.waiting_units[service_number, aged(asleep_since, unit_id)] = True
    market.waiting_unit_count[service_number] += 1


def rouse(market: InferenceStorage, service_number: int, asleep_since: int, unit_id: bytes) -> None:
    """Remove a unit."""
    waiting_key = aged(asleep_since, unit_id)
    assert (service_number, waiting_key) in market.waiting_units, "a woken unit was asleep"
    del market.waiting_units[service_number, waiting_key]
    units_left = market.waiting_unit_count[service_number] - 1
    if units_left:
        market.waiting_unit_count[service_number] = units_left
    else:
        del market.waiting_unit_count[service_number]


def stir(market: InferenceStorage, changed_by_service: dict[int, int], before: int) -> None:
    """Queue services to wake units that have slept since before block `before`.

    `changed_by_service` has the number of changed slots for each service.
    """
    turns_by_service = {stirred.service: stirred for stirred in market.services_to_retry.get()}
    for service_number, changed_slots in changed_by_service.items():
        if market.waiting_unit_count[service_number]:
            stirred_before = turns_by_service.get(service_number, Stirred(service_number, before, 0))
            allowed_slots = min(max(changed_slots, stirred_before.slots), SLOTS_STIRRED_MAX)
            turns_by_service[service_number] = Stirred(
                service_number, max(before, stirred_before.before), allowed_slots
            )
    keep_stirred(market, tuple(turns_by_service.values()))


def keep_stirred(market: InferenceStorage, turns: StirredServices) -> None:
    """Set the services to wake, in this order."""
    # An idle market must cost no write.
    if turns != market.services_to_retry.get():
        market.services_to_retry.set(turns[:UNITS_OPEN_MAX])


def of_turn(market: InferenceStorage, turn: Stirred) -> tuple[list[bytes], bool]:
    """Return the units to wake in a service's turn, and True if more are left for its next turn."""
    wakes_allowed = WAKES_PER_SLOT * turn.slots
    waiting_keys = (key for key, _ in market.waiting_units.under(turn.service))
    keys_to_wake = list(islice(takewhile(lambda key: since_of(key) < turn.before, waiting_keys), wakes_allowed + 1))
    return [unit_of(key) for key in keys_to_wake[:wakes_allowed]], len(keys_to_wake) > wakes_allowed


def grown(turn: Stirred) -> Stirred:
    """Return the next turn of an unfinished service. Its wakes are limited by their cost, not by this number."""
    # With four in each turn, 2,400 unserviceable units were still being tried when the units behind them expired.
    return replace(turn, slots=min(2 * turn.slots, SLOTS_STIRRED_MAX))
