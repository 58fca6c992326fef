"""The queue of units: draws into races, and returns from them.

Invariants:

* A unit recorded at block b is drawn with the beacon of b + 2. The first block whose `final_ref` covers b + 2 and whose
  budget suffices draws it, units posted earlier first.
* An unmatched unit sleeps, and is recorded again in the block that wakes it. So no owner can wait for a beacon that
  favours it.
* The price rises with the unit's age, and the unit leaves the queue when its time is up.
"""

from dataclasses import replace

from gpu_tasks.batches.requests import price_of
from gpu_tasks.market.draws import BEACON_DELAY, Wanted
from gpu_tasks.market.ids import unit_of
from gpu_tasks.market.inference import money, redraws, schedules, settlement, sleepers
from gpu_tasks.market.inference.classes import next_widening
from gpu_tasks.market.inference.events import UnitMatched, UnitRequeued
from gpu_tasks.market.inference.services import ServiceTerms
from gpu_tasks.market.inference.slots import DRAW_WEIGHT, ServiceSlots, Slots, draw_weight, reading_weight
from gpu_tasks.market.inference.storage import InferenceStorage
from gpu_tasks.market.inference.units import DECLINES_MAX, RACE_DECLINES_MAX, OpenUnit, Racer, Refund, Unit, UnitState
from gpu_tasks.market.rounds import Round
from gpu_tasks.market.weights import WEIGHTS
from runtime.frame.schedule import WeightMeter
from runtime.frame.weights import work

TURN_WEIGHT = WEIGHTS["InferenceMarket.on_initialize turn"]
"""The weight of reading the sleepers of a service."""
WELCOME_WEIGHT = work(reads=5, writes=4)
"""The weight of one slot of an owner that is a candidate again."""
STIR_WEIGHT = WEIGHTS["InferenceMarket.on_initialize stir"]
"""The weight of one changed slot: its device, its owner, and a look for sleepers in each service that it offers."""


def enqueue(market: InferenceStorage, unit: OpenUnit) -> None:
    """Put a new unit into the queue."""
    _record(market, unit.id, unit.record)


def step(market: InferenceStorage, unit: OpenUnit) -> None:
    """Refund the unit if its time is up."""
    _refund_if_over(market, unit, market.height)


def draw(market: InferenceStorage, meter: WeightMeter) -> None:
    """Draw races and free places whose beacon is final, while the budget lasts."""
    slots, current_height = Slots(market, meter), market.height
    steered_services: dict[int, int] = {}
    for aged_unit in market.draws.take(market.beacon.final_height(), meter):
        unit = _drawable(market, unit_of(aged_unit))
        meter.spend(DRAW_WEIGHT)
        if unit.record.is_refilling:
            redraws.fill(market, unit, slots)
            continue
        if _refund_if_over(market, unit, current_height) or _match(market, unit, slots, current_height):
            continue
        # The draw could not use a slot that changed after the recording, and the report of that change came before the
        # unit slept. Without this stir, no event would wake the unit for that slot.
        if slots.of_service(unit.record.service).changed_at > unit.record.recorded_at:
            steered_services[unit.record.service] = 1
    sleepers.stir(market, steered_services, before=current_height + 1)


def wake(market: InferenceStorage, admission_meter: WeightMeter) -> int:
    """Wake sleepers after a price rise that meets an ask, or a change of a slot. Return their number.

    `admission_meter` is charged with the most that their draws may weigh.
    """
    read = dict[int, None]()
    ways = (_wake_for_price, _wake_for_slots)
    # The order alternates: with price rises always first, a large service with many of them leaves freed slots idle.
    first = market.height % len(ways)
    return sum(wake_sleepers(market, admission_meter, read) for wake_sleepers in (*ways[first:], *ways[:first]))


def stir(market: InferenceStorage, meter: WeightMeter) -> None:
    """Queue services with slots that were freed or changed in the block before."""
    changed_slots: dict[int, int] = {}
    for device_id in market.devices.woken_devices.take(market.height, meter, STIR_WEIGHT):
        record = market.devices.devices[device_id]
        # The slot may have left or been filled since it was reported.
        if record is not None and market.capacity.can_work(device_id, record):
            for service_number in market.device_offers[device_id]:
                changed_slots[service_number] = changed_slots.get(service_number, 0) + 1
    sleepers.stir(market, changed_slots, before=market.height)


def requeue(market: InferenceStorage, unit: OpenUnit) -> None:
    """End a race without a result. The unit keeps its age, and its decliners stay liable."""
    if not _refund_if_over(market, unit, market.height):
        _again(market, unit.id, settlement.release_racers(market, unit))


def requeue_after_dispute(market: InferenceStorage, unit: OpenUnit) -> None:
    """End a race in which no answer was right. The unit keeps its age, and all liability ends."""
    if not _refund_if_over(market, unit, market.height):
        _again(market, unit.id, settlement.release_all(market, unit))


def _again(market: InferenceStorage, unit_id: bytes, record: Unit) -> None:
    current_height = market.height
    _record(market, unit_id, replace(record, state=UnitState.QUEUED, recorded_at=current_height, round=None, price=0))
    market.emit(UnitRequeued(unit_id, current_height))


def _record(market: InferenceStorage, unit_id: bytes, record: Unit) -> None:
    market.units[unit_id] = record
    # Counted from the post, so a requeued unit expires at its first deadline.
    market.agenda.put(record.posted_at + record.rules.queue_blocks, unit_id)
    schedules.draw_at(market, record.recorded_at + BEACON_DELAY, record.posted_at, unit_id)


def _drawable(market: InferenceStorage, unit_id: bytes) -> OpenUnit:
    record = market.units[unit_id]
    assert record is not None, "every unit on an agenda has a record"
    waits_for = UnitState.RACING if record.is_refilling else UnitState.QUEUED
    assert record.state is waits_for, "a drawn unit is queued, or refills its race"
    return OpenUnit(unit_id, record)


def _refund_if_over(market: InferenceStorage, unit: OpenUnit, height: int) -> bool:
    """Refund a unit that may not wait for a draw. Return True if it was refunded."""
    # One more race may add RACE_DECLINES_MAX decliners: without room for all of them, the unit is refunded.
    record = unit.record
    may_wait = height < record.posted_at + record.rules.queue_blocks
    if may_wait and len(record.declined_by) <= DECLINES_MAX - RACE_DECLINES_MAX:
        return False
    settlement.refund(market, unit, Refund.EXPIRED)
    return True


def _match(market: InferenceStorage, unit: OpenUnit, slots: Slots, height: int) -> bool:
    """Start the race of a unit whose beacon is final, or put the unit to sleep. Return False if it sleeps."""
    record = unit.record
    beacon = market.beacon.value_at(record.recorded_at + BEACON_DELAY)
    # Finality halted for longer than the beacon remembers.
    if beacon is None:
        _record(market, unit.id, replace(record, recorded_at=height))
        return True
    price = _price(market, record, height)
    wanted = slots.wanted(record, price)
    drawn = slots.draw(record.service, wanted, record.terms.racers, beacon)
    if drawn:
        racers = tuple(slots.engage(slot, unit.id, wanted.collateral) for slot in drawn)
        _start_race(market, unit, price, racers, height)
    else:
        _sleep(market, unit, slots.of_service(record.service), wanted, height)
    return bool(drawn)


def _sleep(market: InferenceStorage, unit: OpenUnit, service_slots: ServiceSlots, wanted: Wanted, height: int) -> None:
    """Put the unit to sleep until a slot changes, its price meets an ask, or more classes may race."""
    record = unit.record
    market.units[unit.id] = replace(record, asleep_since=height)
    sleepers.lay_down(market, record.service, height, unit.id)
    terms = market.service(record.service).terms
    ages = (
        _age_of_ask(record, terms, service_slots.next_ask(wanted, record.terms.racers)),
        _age_of_more_classes(record, terms),
    )
    soonest_age = min((age for age in ages if age is not None), default=None)
    if soonest_age is not None:
        # Not in this block, which has just failed to match the unit.
        market.price_rises.put(max(record.posted_at + soonest_age, height + 1), unit.id)


def _wake_for_price(market: InferenceStorage, admission_meter: WeightMeter, read: dict[int, None]) -> int:
    woken_count = 0
    for unit_id in market.price_rises.take(market.height, admission_meter):
        _wake(market, unit_id, admission_meter, read)
        woken_count += 1
    return woken_count


def _wake_for_slots(market: InferenceStorage, admission_meter: WeightMeter, read: dict[int, None]) -> int:
    stirred_services, unfinished = market.services_to_retry.get(), []
    turn_index = woken_count = 0
    # Each service gets at most one turn in a block.
    while turn_index < len(stirred_services) and not admission_meter.is_spent:
        admission_meter.spend(TURN_WEIGHT)
        units, is_unfinished = sleepers.of_turn(market, stirred_services[turn_index])
        for unit_id in units:
            if admission_meter.is_spent:
                is_unfinished = True
                break
            _wake(market, unit_id, admission_meter, read)
            woken_count += 1
        if is_unfinished:
            unfinished.append(sleepers.grown(stirred_services[turn_index]))
        turn_index += 1
    sleepers.keep_stirred(market, (*stirred_services[turn_index:], *unfinished))
    return woken_count


def _wake(market: InferenceStorage, unit_id: bytes, admission_meter: WeightMeter, read: dict[int, None]) -> None:
    unit, current_height = _drawable(market, unit_id), market.height
    service_number, record = unit.record.service, unit.record
    offer_count = market.offer_count[service_number]
    if service_number not in read:
        read[service_number] = None
        admission_meter.spend(reading_weight(offer_count))
    admission_meter.spend(draw_weight(offer_count, record.terms.racers))
    sleepers.rouse(market, service_number, record.asleep_since, unit_id)
    market.price_rises.drop(unit_id)
    # A new recording stops owners from waiting with their slots for a beacon that favours them. It names the block
    # before, whose end woke the unit: with the current block, slots freed in the one before always went to units posted
    # in it.
    _record(market, unit_id, replace(record, recorded_at=current_height - 1, asleep_since=0))


def _price(market: InferenceStorage, record: Unit, height: int) -> int:
    """Return the unit's price in this block."""
    terms = market.service(record.service).terms
    price_floor = price_of(terms.price_min, money.work_allowed(record))
    return money.ramped_price(price_floor, record.terms.price_max, height - record.posted_at, terms.ramp)


def _start_race(market: InferenceStorage, unit: OpenUnit, price: int, racers: tuple[Racer, ...], height: int) -> None:
    racing_unit = replace(
        unit.record,
        state=UnitState.RACING,
        attempt=unit.record.attempt + 1,
        price=price,
        round=Round(drawn_at=height),
        racers=racers,
        race_recorded_at=unit.record.recorded_at,
    )
    market.units[unit.id] = racing_unit
    # The commit window opens once this draw is final.
    market.final_agenda.put(height, unit.id)
    market.emit(UnitMatched(unit.id, racing_unit.attempt, price, tuple(racer.owner for racer in racers)))


def _age_of_ask(record: Unit, terms: ServiceTerms, ask: int | None) -> int | None:
    """Return the age at which the unit's price meets an ask, or None if it never does."""
    work = money.work_allowed(record)
    if ask is None or price_of(ask, work) > record.terms.price_max:
        return None
    return money.age_of_price(price_of(terms.price_min, work), record.terms.price_max, price_of(ask, work), terms.ramp)


def _age_of_more_classes(record: Unit, terms: ServiceTerms) -> int | None:
    """Return the age at which more classes may race than at the last recording, or None if all classes could."""
    widening_age = next_widening(record, terms.ramp)
    # One block more: a woken unit is recorded with the block before.
    return None if widening_age is None else widening_age + 1
