"""From the queue into a race, and back.

Always: a unit recorded at block b is drawn with the beacon of b + 2, in the first block whose `final_ref` covers b + 2
and whose budget reaches it, the one that was posted first before the others; unmatched, it sleeps, and counts as
recorded anew in the block that wakes it, so nobody can wait for a beacon that suits him; its price keeps rising with
its age, and it leaves the queue when its time is up.
"""

from dataclasses import dataclass, replace

from gpu_tasks.batches.requests import price_of
from gpu_tasks.market.draws import BEACON_DELAY, Wanted
from gpu_tasks.market.inference import money
from gpu_tasks.market.inference.classes import next_widening
from gpu_tasks.market.inference.events import UnitMatched, UnitRequeued
from gpu_tasks.market.inference.redraws import Refilling
from gpu_tasks.market.inference.services import ServiceTerms
from gpu_tasks.market.inference.settlement import Ending
from gpu_tasks.market.inference.sleeping.sleepers import grown
from gpu_tasks.market.inference.slots import DRAW_WEIGHT, ServiceSlots, Slots, draw_weight, reading_weight
from gpu_tasks.market.inference.state import MarketState
from gpu_tasks.market.inference.units import (
    DECLINES_MAX,
    RACE_DECLINES_MAX,
    OpenUnit,
    Racer,
    Refund,
    Unit,
    UnitState,
)
from gpu_tasks.market.rounds import Round
from gpu_tasks.market.weights import WEIGHTS
from runtime.frame.schedule import WeightMeter
from runtime.frame.weights import work

TURN_WEIGHT = WEIGHTS["InferenceMarket.on_initialize turn"]
"""Looking who sleeps in a service."""
WELCOME_WEIGHT = work(reads=5, writes=4)
"""A slot of an owner who came back as a candidate."""
STIR_WEIGHT = WEIGHTS["InferenceMarket.on_initialize stir"]
"""A slot that changed: its device, its owner, and whether anybody sleeps in each service that it offers."""


@dataclass(frozen=True, slots=True)
class Queueing:
    """The queue: units that wait for their draw, and those that sleep."""

    state: MarketState
    refilling: Refilling
    ending: Ending

    def enqueue(self, unit: OpenUnit) -> None:
        """Put a new unit into the queue."""
        self._record(unit.id, unit.record)

    def step(self, unit: OpenUnit) -> None:
        """Give up a unit whose time is."""
        self._refund_if_over(unit, self.state.system.number.get())

    def draw(self, budget: WeightMeter) -> None:
        """Draw what waits for a beacon that is final, races and places of them, while the budget lasts."""
        slots, height = Slots(self.state, budget), self.state.system.number.get()
        steered: dict[int, int] = {}
        for unit_id in self.state.agenda.drawable(budget):
            unit = self._drawable(unit_id)
            budget.spend(DRAW_WEIGHT)
            if unit.record.is_refilling:
                self.refilling.fill(unit, slots)
                continue
            if self._refund_if_over(unit, height) or self._match(unit, slots, height):
                continue
            # a slot that changed after the recording was no candidate, and was told of before the unit slept
            if slots.of_service(unit.record.service).changed_at > unit.record.recorded_at:
                steered[unit.record.service] = 1
        self.state.sleepers.stir(steered, before=height + 1)

    def wake(self, admission: WeightMeter) -> int:
        """Record sleepers anew whose price has met an ask, or whose service has a slot that changed; how many.

        What their draws may come to is charged to `admission`.
        """
        read = dict[int, None]()
        ways = (self._wake_for_price, self._wake_for_slots)
        # By turns: always first, prices that meet asks in a large service in every block left freed slots idle.
        first = self.state.system.number.get() % len(ways)
        return sum(wake(admission, read) for wake in (*ways[first:], *ways[:first]))

    def stir(self, budget: WeightMeter) -> None:
        """See which services have slots that were freed or changed since the block before."""
        changed: dict[int, int] = {}
        for device_id in self.state.devices.stirred.take(self.state.system.number.get(), budget, STIR_WEIGHT):
            device = self.state.devices.devices[device_id]
            if device is not None and self.state.capacity.can_work(device_id, device):
                for service in self.state.catalogue.offered[device_id]:
                    changed[service] = changed.get(service, 0) + 1
        self.state.sleepers.stir(changed, before=self.state.system.number.get())

    def welcome(self, budget: WeightMeter) -> None:
        """See whose slots can be drawn again since their owners came back."""
        self.state.devices.welcome(budget, WELCOME_WEIGHT)

    def requeue(self, unit: OpenUnit) -> None:
        """End a race that gave no result; the unit keeps its age, and who declined it stands for that."""
        if not self._refund_if_over(unit, self.state.system.number.get()):
            self._again(unit.id, self.ending.release_racers(unit))

    def requeue_after_case(self, unit: OpenUnit) -> None:
        """End a race in which nobody was right; the unit keeps its age, and nobody stands for anything of it."""
        if not self._refund_if_over(unit, self.state.system.number.get()):
            self._again(unit.id, self.ending.release_all(unit))

    def _again(self, unit_id: bytes, record: Unit) -> None:
        height = self.state.system.number.get()
        self._record(unit_id, replace(record, state=UnitState.QUEUED, recorded_at=height, round=None, price=0))
        self.state.emit(UnitRequeued(unit_id, height))

    def _record(self, unit_id: bytes, record: Unit) -> None:
        self.state.units[unit_id] = record
        self.state.agenda.at_height(record.posted_at + record.rules.queue_blocks, unit_id)
        self.state.agenda.draw_at(record.recorded_at + BEACON_DELAY, record.posted_at, unit_id)

    def _drawable(self, unit_id: bytes) -> OpenUnit:
        record = self.state.units[unit_id]
        assert record is not None, "a unit that is gone is on no agenda"
        waits_for = UnitState.RACING if record.is_refilling else UnitState.QUEUED
        assert record.state is waits_for, "who left the queue is neither drawn nor woken, but for a place of its race"
        return OpenUnit(unit_id, record)

    def _refund_if_over(self, unit: OpenUnit, height: int) -> bool:
        """Refund a unit that may not wait for a draw; whether it was refunded."""
        record = unit.record
        may_wait = height < record.posted_at + record.rules.queue_blocks
        if may_wait and len(record.declined_by) <= DECLINES_MAX - RACE_DECLINES_MAX:
            return False
        self.ending.refund(unit, Refund.EXPIRED)
        return True

    def _match(self, unit: OpenUnit, slots: Slots, height: int) -> bool:
        """Start the race of a unit whose beacon is final, or put it to sleep; False if it sleeps."""
        record = unit.record
        seed = self.state.beacon.value_at(record.recorded_at + BEACON_DELAY)
        if seed is None:  # finality stood still for longer than the beacon remembers
            self._record(unit.id, replace(record, recorded_at=height))
            return True
        price = self._price(record, height)
        wanted = slots.wanted(record, price)
        drawn = slots.draw(record.service, wanted, record.terms.racers, seed)
        if drawn:
            racers = tuple(slots.engage(slot, unit.id, wanted.collateral) for slot in drawn)
            self._start_race(unit, price, racers, height)
        else:
            self._sleep(unit, slots.of_service(record.service), wanted, height)
        return bool(drawn)

    def _sleep(self, unit: OpenUnit, found: ServiceSlots, wanted: Wanted, height: int) -> None:
        """Have the unit wait for a slot of its service to change, for its price to meet an ask, or for more classes."""
        record = unit.record
        self.state.units[unit.id] = replace(record, asleep_since=height)
        self.state.sleepers.lay_down(record.service, height, unit.id)
        terms = self.state.catalogue.service(record.service).terms
        ages = (
            _age_of_ask(record, terms, found.next_ask(wanted, record.terms.racers)),
            _age_of_more_classes(record, terms),
        )
        soonest = min((age for age in ages if age is not None), default=None)
        if soonest is not None:
            self.state.agenda.rising.put(max(record.posted_at + soonest, height + 1), unit.id)

    def _wake_for_price(self, admission: WeightMeter, read: dict[int, None]) -> int:
        woken = 0
        for unit_id in self.state.agenda.rising.take(self.state.system.number.get(), admission):
            self._wake(unit_id, admission, read)
            woken += 1
        return woken

    def _wake_for_slots(self, admission: WeightMeter, read: dict[int, None]) -> int:
        queue, unfinished = self.state.sleepers.stirred.get(), []
        place = woken = 0
        while place < len(queue) and not admission.is_spent:  # one turn in a block for each service, at most
            admission.spend(TURN_WEIGHT)
            units, is_unfinished = self.state.sleepers.of_turn(queue[place])
            for unit_id in units:
                if admission.is_spent:
                    is_unfinished = True
                    break
                self._wake(unit_id, admission, read)
                woken += 1
            if is_unfinished:
                unfinished.append(grown(queue[place]))
            place += 1
        self.state.sleepers.keep_stirred((*queue[place:], *unfinished))
        return woken

    def _wake(self, unit_id: bytes, admission: WeightMeter, read: dict[int, None]) -> None:
        unit, height = self._drawable(unit_id), self.state.system.number.get()
        service, record = unit.record.service, unit.record
        offers = self.state.catalogue.offer_count[service]
        if service not in read:
            read[service] = None
            admission.spend(reading_weight(offers))
        admission.spend(draw_weight(offers, record.terms.racers))
        self.state.sleepers.rouse(service, record.asleep_since, unit_id)
        self.state.agenda.rising.drop(unit_id)
        # Recorded anew, so that nobody can wait with his slots for a beacon that suits him; by the block before, whose
        # end woke it: a block later, what was freed in that one always went to who was posted in it.
        self._record(unit_id, replace(record, recorded_at=height - 1, asleep_since=0))

    def _price(self, record: Unit, height: int) -> int:
        """What the unit offers in this block."""
        sold = self.state.catalogue.service(record.service).terms
        floor = price_of(sold.price_min, money.work_allowed(record))
        return money.ramped_price(floor, record.terms.price_max, height - record.posted_at, sold.ramp)

    def _start_race(self, unit: OpenUnit, price: int, racers: tuple[Racer, ...], height: int) -> None:
        racing = replace(
            unit.record,
            state=UnitState.RACING,
            attempt=unit.record.attempt + 1,
            price=price,
            round=Round(drawn_at=height),
            racers=racers,
            race_recorded_at=unit.record.recorded_at,
        )
        self.state.units[unit.id] = racing
        self.state.agenda.once_final(height, unit.id)
        self.state.emit(UnitMatched(unit.id, racing.attempt, price, tuple(racer.owner for racer in racers)))


def _age_of_ask(record: Unit, terms: ServiceTerms, ask: int | None) -> int | None:
    """The age at which the unit's price meets an ask, None if it never does."""
    work = money.work_allowed(record)
    if ask is None or price_of(ask, work) > record.terms.price_max:
        return None
    return money.age_of_price(price_of(terms.price_min, work), record.terms.price_max, price_of(ask, work), terms.ramp)


def _age_of_more_classes(record: Unit, terms: ServiceTerms) -> int | None:
    """The age at which the unit can be drawn from more classes than it was; None if it was from all."""
    age = next_widening(record, terms.ramp)
    return None if age is None else age + 1  # it is recorded anew by the block before
