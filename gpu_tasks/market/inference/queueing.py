"""From the queue into a race, and back.

Always: a unit recorded at block b is drawn with the beacon of b + 2, in the first block whose
`final_ref` covers b + 2; unmatched, it counts as recorded anew, so nobody can wait for a beacon
that suits him; its price keeps rising with its age, and it leaves the queue when its time is up.
"""

from dataclasses import dataclass, replace

from gpu_tasks.market.draws import BEACON_DELAY, FreeSlot, Wanted, draw_racers
from gpu_tasks.market.inference import money
from gpu_tasks.market.inference.ending import Ending
from gpu_tasks.market.inference.events import UnitMatched, UnitRequeued
from gpu_tasks.market.inference.services import Offer
from gpu_tasks.market.inference.state import MarketState
from gpu_tasks.market.inference.units import DECLINES_TO_REFUND, Duty, OpenUnit, Racer, Refund, Unit, UnitState
from gpu_tasks.market.rounds import Round


class Slots:
    """The slots that can be drawn in this block. It is read once; what is drawn leaves it."""

    def __init__(self, state: MarketState) -> None:
        """Begin with everything that is free when the block's draws begin."""
        self._state = state
        self._of_service: dict[int, list[FreeSlot]] = {}
        self._taken: dict[bytes, None] = {}

    def of_service(self, service: int) -> list[FreeSlot]:
        """The free slots that offer a service, by ascending device."""
        if service not in self._of_service:
            self._of_service[service] = self._free(service)
        return [slot for slot in self._of_service[service] if slot.device not in self._taken]

    def take(self, drawn: list[FreeSlot]) -> None:
        """Remove slots that were drawn."""
        self._taken.update((slot.device, None) for slot in drawn)

    def _free(self, service: int) -> list[FreeSlot]:
        found = []
        for device, offer in self._state.catalogue.offers.under(service):
            slot = self._slot(device, offer) if offer is not None else None
            if slot is not None:
                found.append(slot)
        return sorted(found, key=lambda slot: slot.device)

    def _slot(self, device_id: bytes, offer: Offer) -> FreeSlot | None:
        """The device as a slot; None if it cannot be drawn now."""
        devices = self._state.devices
        device = devices.devices[device_id]
        if device is None or not devices.can_work(device):
            return None
        provider = devices.providers[device.owner]
        return FreeSlot(
            device=device_id,
            owner=device.owner,
            bond=device.bond,
            free_bond=max(0, device.bond - device.secured),  # a slash may leave less than is secured
            ask=offer.ask,
            key_since=max(device.registered_at, provider.key_since if provider else 0),
            changed_at=max(device.changed_at, offer.since),
        )


@dataclass(frozen=True, slots=True)
class Queueing:
    """The queue: units that wait for their draw."""

    state: MarketState
    ending: Ending
    queue_blocks: int

    def enqueue(self, unit: OpenUnit) -> None:
        """Put a new unit into the queue."""
        self.state.agenda.at_height(unit.record.posted_at + self.queue_blocks, unit.id)
        self._record(unit.id, unit.record)

    def step(self, units: list[OpenUnit]) -> None:
        """Draw the racers of every unit whose beacon is final; give up those whose time is."""
        slots, height = Slots(self.state), self.state.system.number.get()
        final_height = self.state.beacon.final_height()
        for unit in units:
            if self._refund_if_over(unit, height):
                continue
            if final_height >= unit.record.recorded_at + BEACON_DELAY:
                self._match(unit, slots, height)

    def requeue(self, unit: OpenUnit) -> None:
        """End a race that gave no result; the unit keeps its age. Two owners who declined end the unit."""
        height = self.state.system.number.get()
        if self._refund_if_over(unit, height):
            return
        self.ending.release_racers(unit)
        again = replace(unit.record, state=UnitState.QUEUED, recorded_at=height, racers=(), round=None, price=0)
        self._record(unit.id, again)
        self.state.emit(UnitRequeued(unit.id, height))

    def _record(self, unit_id: bytes, record: Unit) -> None:
        self.state.units[unit_id] = record
        self.state.agenda.once_final(record.recorded_at + BEACON_DELAY, unit_id)

    def _refund_if_over(self, unit: OpenUnit, height: int) -> bool:
        """Refund a unit that may not wait for a draw; whether it was refunded."""
        record = unit.record
        if len(record.declined_by) >= DECLINES_TO_REFUND:
            reason = Refund.INPUT_DECLINED
        elif height >= record.posted_at + self.queue_blocks:
            reason = Refund.EXPIRED
        else:
            return False
        self.ending.refund(unit, reason)
        return True

    def _match(self, unit: OpenUnit, slots: Slots, height: int) -> None:
        """Start the race of a unit whose beacon is final, or have it wait for another beacon."""
        record, free = unit.record, slots.of_service(unit.record.service)
        if len(free) >= record.terms.racers:  # asked first: a backlog that nobody can serve shall cost little
            wanted = self._wanted(record, height)
            drawn = self._draw(unit, wanted, free)
            if drawn:
                slots.take(drawn)
                self._start_race(unit, wanted, drawn, height)
                return
        # recorded anew, so that nobody can wait with his slots for a beacon that suits him
        self._record(unit.id, replace(record, recorded_at=height))

    def _wanted(self, record: Unit, height: int) -> Wanted:
        service, asked = self.state.catalogue.service(record.service).terms, record.terms
        price = money.ramped_price(service.price_min, asked.price_max, height - record.posted_at, service.ramp)
        return Wanted(
            price=price,
            collateral=money.collateral(price, asked.price_max),
            sealed_at=asked.sealed_at,
            recorded_at=record.recorded_at,
            excluded=(self.state.devices.operator(record.customer), record.customer, *record.declined_by),
        )

    def _draw(self, unit: OpenUnit, wanted: Wanted, free: list[FreeSlot]) -> list[FreeSlot]:
        record = unit.record
        seed = self.state.beacon.value_at(record.recorded_at + BEACON_DELAY)
        if seed is None:  # finality stood still for longer than the beacon remembers
            return []
        label = unit.id + record.attempt.to_bytes(4, "little")
        return draw_racers(free, wanted, record.terms.racers, seed=seed, label=label)

    def _start_race(self, unit: OpenUnit, wanted: Wanted, drawn: list[FreeSlot], height: int) -> None:
        for slot in drawn:
            self.state.devices.assign(slot.device, unit.id, wanted.collateral)
            self.state.duties[slot.owner, unit.id] = Duty.RACE
        racing = replace(
            unit.record,
            state=UnitState.RACING,
            attempt=unit.record.attempt + 1,
            price=wanted.price,
            round=Round(drawn_at=height),
            racers=tuple(Racer(slot.owner, slot.device, wanted.collateral) for slot in drawn),
        )
        self.state.units[unit.id] = racing
        self.state.agenda.once_final(height, unit.id)
        owners = tuple(slot.owner for slot in drawn)
        self.state.emit(UnitMatched(unit.id, racing.attempt, racing.price, owners))
