"""From the queue into a race, and back.

Always: a unit recorded at block b is drawn with the beacon of b + 2, in the first block whose
`final_ref` covers b + 2; unmatched, it counts as recorded anew, so nobody can wait for a beacon
that suits him; its price keeps rising with its age, and it leaves the queue when its time is up.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from gpu_tasks.market.draws import FreeSlot, Wanted, draw_racers
from gpu_tasks.market.inference import agenda, money
from gpu_tasks.market.inference.ending import refund, release_racers
from gpu_tasks.market.inference.events import UnitMatched, UnitRequeued
from gpu_tasks.market.inference.units import DECLINES_TO_REFUND, Duty, Racer, Refund, Unit, UnitState
from gpu_tasks.market.rounds import Round

if TYPE_CHECKING:
    from gpu_tasks.market.inference.inference import InferenceMarket

BEACON_DELAY = 2
"""A draw for something recorded at b uses the beacon of b + 2, which nobody knew at b."""


class Slots:
    """The slots that can be drawn in this block. It is read once; what is drawn leaves it."""

    def __init__(self, market: "InferenceMarket") -> None:
        """Begin with everything that is free when the block's draws begin."""
        self._market = market
        self._of_service: dict[int, list[FreeSlot]] = {}
        self._taken: dict[bytes, None] = {}

    def of_service(self, service: int) -> list[FreeSlot]:
        """The free slots that offer a service, by ascending device."""
        if service not in self._of_service:
            self._of_service[service] = _free_slots(self._market, service)
        return [one for one in self._of_service[service] if one.device not in self._taken]

    def take(self, drawn: list[FreeSlot]) -> None:
        """Remove slots that were drawn."""
        self._taken.update((one.device, None) for one in drawn)


def step_queued(market: "InferenceMarket", unit_id: bytes, unit: Unit, slots: Slots) -> None:
    """Draw the unit's racers if its beacon is final; give up if its time is."""
    height = market.system.number.get()
    if height >= unit.posted_at + market.queue_blocks:
        refund(market, unit_id, unit, Refund.EXPIRED)
        return
    if market.beacon.final_height() < unit.recorded_at + BEACON_DELAY:
        return
    wanted = _wanted(market, unit, height)
    drawn = _draw(market, unit_id, unit, wanted, slots)
    if drawn:
        slots.take(drawn)
        _start_race(market, unit_id, unit, wanted, drawn)
    else:
        _record(market, unit_id, replace(unit, recorded_at=height))


def requeue(market: "InferenceMarket", unit_id: bytes, unit: Unit) -> None:
    """End a race that gave no result; the unit keeps its age. Two owners who declined end the unit."""
    height = market.system.number.get()
    if len(unit.declined_by) >= DECLINES_TO_REFUND:
        refund(market, unit_id, unit, Refund.INPUT_DECLINED)
        return
    if height >= unit.posted_at + market.queue_blocks:
        refund(market, unit_id, unit, Refund.EXPIRED)
        return
    release_racers(market, unit_id, unit)
    again = replace(unit, state=UnitState.QUEUED, recorded_at=height, racers=(), round=None, price=0)
    _record(market, unit_id, again)
    market.emit(UnitRequeued(unit_id, height))


def enqueue(market: "InferenceMarket", unit_id: bytes, unit: Unit) -> None:
    """Put a new unit into the queue."""
    agenda.at_height(market, unit.posted_at + market.queue_blocks, unit_id)
    _record(market, unit_id, unit)


def _record(market: "InferenceMarket", unit_id: bytes, unit: Unit) -> None:
    market.units[unit_id] = unit
    agenda.once_final(market, unit.recorded_at + BEACON_DELAY, unit_id)


def _wanted(market: "InferenceMarket", unit: Unit, height: int) -> Wanted:
    terms = market.service(unit.service).terms
    price = money.ramped_price(terms.price_min, unit.terms.price_max, height - unit.posted_at, terms.ramp)
    return Wanted(
        price=price,
        collateral=money.collateral(price, unit.terms.price_max),
        sealed_at=unit.terms.sealed_at,
        recorded_at=unit.recorded_at,
        excluded=(market.devices.operator(unit.customer), unit.customer, *unit.declined_by),
    )


def _free_slots(market: "InferenceMarket", service: int) -> list[FreeSlot]:
    found = []
    for device_id, offer in market.offers.under(service):
        device = market.devices.devices[device_id]
        if device is None or offer is None or not market.devices.can_work(device):
            continue
        provider = market.devices.providers[device.owner]
        found.append(
            FreeSlot(
                device=device_id,
                owner=device.owner,
                bond=device.bond,
                free_bond=max(0, device.bond - device.secured),
                ask=offer.ask,
                key_since=max(device.registered_at, provider.key_since if provider else 0),
                changed_at=max(device.changed_at, offer.since),
            )
        )
    return sorted(found, key=lambda one: one.device)


def _draw(market: "InferenceMarket", unit_id: bytes, unit: Unit, wanted: Wanted, slots: Slots) -> list[FreeSlot]:
    seed = market.beacon.value_at(unit.recorded_at + BEACON_DELAY)
    if seed is None:  # finality stood still for longer than the beacon remembers
        return []
    label = unit_id + unit.attempt.to_bytes(4, "little")
    return draw_racers(slots.of_service(unit.service), wanted, unit.terms.racers, seed=seed, label=label)


def _start_race(market: "InferenceMarket", unit_id: bytes, unit: Unit, wanted: Wanted, drawn: list[FreeSlot]) -> None:
    height = market.system.number.get()
    for candidate in drawn:
        market.devices.assign(candidate.device, unit_id, wanted.collateral)
        market.duties[candidate.owner, unit_id] = Duty.RACE
    racing = replace(
        unit,
        state=UnitState.RACING,
        attempt=unit.attempt + 1,
        price=wanted.price,
        round=Round(drawn_at=height),
        racers=tuple(Racer(one.owner, one.device, wanted.collateral) for one in drawn),
    )
    market.units[unit_id] = racing
    agenda.once_final(market, height, unit_id)
    market.emit(UnitMatched(unit_id, racing.attempt, racing.price, tuple(one.owner for one in drawn)))
