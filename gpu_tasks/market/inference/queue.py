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
from gpu_tasks.market.inference import money, redraws, schedules, settlement
from gpu_tasks.market.inference.classes import next_widening
from gpu_tasks.market.inference.events import UnitMatched, UnitRequeued
from gpu_tasks.market.inference.services import ServiceTerms
from gpu_tasks.market.inference.sleeping import sleepers
from gpu_tasks.market.inference.slots import DRAW_WEIGHT, ServiceSlots, Slots, draw_weight, reading_weight
from gpu_tasks.market.inference.storage import InferenceStorage
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
"""The weight of reading the sleepers of a service."""
WELCOME_WEIGHT = work(reads=5, writes=4)
"""The weight of one slot of an owner that is a candidate again."""
STIR_WEIGHT = WEIGHTS["InferenceMarket.on_initialize stir"]
"""The weight of one changed slot: its device, its owner, and a look for sleepers in each service that it offers."""


def enqueue(market: InferenceStorage, open_unit: OpenUnit) -> None:
    """Put a new unit into the queue."""
    _record(market, open_unit.id, open_unit.record)


def step(market: InferenceStorage, open_unit: OpenUnit) -> None:
    """Refund the unit if its time is up."""
    _refund_if_over(market, open_unit, market.height)


def draw(market: InferenceStorage, weight_meter: WeightMeter) -> None:
    """Draw races and free places whose beacon is final, while the budget lasts."""
    block_slots, current_height = Slots(market, weight_meter), market.height
    steered_services: dict[int, int] = {}
    for unit_id in schedules.drawable(market, weight_meter):
        open_unit = _drawable(market, unit_id)
        weight_meter.spend(DRAW_WEIGHT)
        if open_unit.record.is_refilling:
            redraws.fill(market, open_unit, block_slots)
            continue
        if _refund_if_over(market, open_unit, current_height) or _match(market, open_unit, block_slots, current_height):
            continue
        # The draw could not use a slot that changed after the recording, and the report of that change came before the
        # unit slept. Without this stir, no event would wake the unit for that slot.
        if block_slots.of_service(open_unit.record.service).changed_at > open_unit.record.recorded_at:
            steered_services[open_unit.record.service] = 1
    sleepers.stir(market, steered_services, before_block=current_height + 1)


def wake(market: InferenceStorage, admission_meter: WeightMeter) -> int:
    """Wake sleepers after a price rise that meets an ask, or a change of a slot. Return their number.

    `admission_meter` is charged with the most that their draws may weigh.
    """
    read_services = dict[int, None]()
    wake_ways = (_wake_for_price, _wake_for_slots)
    # The order alternates: with price rises always first, a large service with many of them leaves freed slots idle.
    first_way = market.height % len(wake_ways)
    return sum(
        wake_sleepers(market, admission_meter, read_services)
        for wake_sleepers in (*wake_ways[first_way:], *wake_ways[:first_way])
    )


def stir(market: InferenceStorage, weight_meter: WeightMeter) -> None:
    """Queue services with slots that were freed or changed in the block before."""
    changed_slots: dict[int, int] = {}
    for device_id in market.devices.woken_devices.take(market.height, weight_meter, STIR_WEIGHT):
        device_record = market.devices.devices[device_id]
        # The slot may have left or been filled since it was reported.
        if device_record is not None and market.capacity.can_work(device_id, device_record):
            for service_number in market.device_offers[device_id]:
                changed_slots[service_number] = changed_slots.get(service_number, 0) + 1
    sleepers.stir(market, changed_slots, before_block=market.height)


def welcome(market: InferenceStorage, weight_meter: WeightMeter) -> None:
    """Report the slots of owners that are candidates again."""
    market.devices.welcome(weight_meter, WELCOME_WEIGHT)


def requeue(market: InferenceStorage, open_unit: OpenUnit) -> None:
    """End a race without a result. The unit keeps its age, and its decliners stay liable."""
    if not _refund_if_over(market, open_unit, market.height):
        _again(market, open_unit.id, settlement.release_racers(market, open_unit))


def requeue_after_case(market: InferenceStorage, open_unit: OpenUnit) -> None:
    """End a race in which no answer was right. The unit keeps its age, and all liability ends."""
    if not _refund_if_over(market, open_unit, market.height):
        _again(market, open_unit.id, settlement.release_all(market, open_unit))


def _again(market: InferenceStorage, unit_id: bytes, unit_record: Unit) -> None:
    current_height = market.height
    _record(
        market, unit_id, replace(unit_record, state=UnitState.QUEUED, recorded_at=current_height, round=None, price=0)
    )
    market.emit(UnitRequeued(unit_id, current_height))


def _record(market: InferenceStorage, unit_id: bytes, unit_record: Unit) -> None:
    market.units[unit_id] = unit_record
    # Counted from the post, so a requeued unit expires at its first deadline.
    market.agenda.put(unit_record.posted_at + unit_record.rules.queue_blocks, unit_id)
    schedules.draw_at(market, unit_record.recorded_at + BEACON_DELAY, unit_record.posted_at, unit_id)


def _drawable(market: InferenceStorage, unit_id: bytes) -> OpenUnit:
    unit_record = market.units[unit_id]
    assert unit_record is not None, "every unit on an agenda has a record"
    waits_for = UnitState.RACING if unit_record.is_refilling else UnitState.QUEUED
    assert unit_record.state is waits_for, "a drawn unit is queued, or refills its race"
    return OpenUnit(unit_id, unit_record)


def _refund_if_over(market: InferenceStorage, open_unit: OpenUnit, height: int) -> bool:
    """Refund a unit that may not wait for a draw. Return True if it was refunded."""
    # One more race may add RACE_DECLINES_MAX decliners: without room for all of them, the unit is refunded.
    unit_record = open_unit.record
    may_wait = height < unit_record.posted_at + unit_record.rules.queue_blocks
    if may_wait and len(unit_record.declined_by) <= DECLINES_MAX - RACE_DECLINES_MAX:
        return False
    settlement.refund(market, open_unit, Refund.EXPIRED)
    return True


def _match(market: InferenceStorage, open_unit: OpenUnit, block_slots: Slots, height: int) -> bool:
    """Start the race of a unit whose beacon is final, or put the unit to sleep. Return False if it sleeps."""
    unit_record = open_unit.record
    beacon_value = market.beacon.value_at(unit_record.recorded_at + BEACON_DELAY)
    # Finality halted for longer than the beacon remembers.
    if beacon_value is None:
        _record(market, open_unit.id, replace(unit_record, recorded_at=height))
        return True
    race_price = _price(market, unit_record, height)
    slot_conditions = block_slots.wanted(unit_record, race_price)
    drawn_slots = block_slots.draw(unit_record.service, slot_conditions, unit_record.terms.racers, beacon_value)
    if drawn_slots:
        new_racers = tuple(
            block_slots.engage(free_slot, open_unit.id, slot_conditions.collateral) for free_slot in drawn_slots
        )
        _start_race(market, open_unit, race_price, new_racers, height)
    else:
        _sleep(market, open_unit, block_slots.of_service(unit_record.service), slot_conditions, height)
    return bool(drawn_slots)


def _sleep(
    market: InferenceStorage, open_unit: OpenUnit, service_slots: ServiceSlots, slot_conditions: Wanted, height: int
) -> None:
    """Put the unit to sleep until a slot changes, its price meets an ask, or more classes may race."""
    unit_record = open_unit.record
    market.units[open_unit.id] = replace(unit_record, asleep_since=height)
    sleepers.lay_down(market, unit_record.service, height, open_unit.id)
    service_terms = market.service(unit_record.service).terms
    wake_ages = (
        _age_of_ask(unit_record, service_terms, service_slots.next_ask(slot_conditions, unit_record.terms.racers)),
        _age_of_more_classes(unit_record, service_terms),
    )
    soonest_age = min((wake_age for wake_age in wake_ages if wake_age is not None), default=None)
    if soonest_age is not None:
        # Not in this block, which has just failed to match the unit.
        market.price_rises.put(max(unit_record.posted_at + soonest_age, height + 1), open_unit.id)


def _wake_for_price(market: InferenceStorage, admission_meter: WeightMeter, read_services: dict[int, None]) -> int:
    woken_count = 0
    for unit_id in market.price_rises.take(market.height, admission_meter):
        _wake(market, unit_id, admission_meter, read_services)
        woken_count += 1
    return woken_count


def _wake_for_slots(market: InferenceStorage, admission_meter: WeightMeter, read_services: dict[int, None]) -> int:
    stirred_services, unfinished = market.services_to_retry.get(), []
    turn_index = woken_count = 0
    # Each service gets at most one turn in a block.
    while turn_index < len(stirred_services) and not admission_meter.is_spent:
        admission_meter.spend(TURN_WEIGHT)
        turn_units, is_unfinished = sleepers.of_turn(market, stirred_services[turn_index])
        for unit_id in turn_units:
            if admission_meter.is_spent:
                is_unfinished = True
                break
            _wake(market, unit_id, admission_meter, read_services)
            woken_count += 1
        if is_unfinished:
            unfinished.append(sleepers.grown(stirred_services[turn_index]))
        turn_index += 1
    sleepers.keep_stirred(market, (*stirred_services[turn_index:], *unfinished))
    return woken_count


def _wake(
    market: InferenceStorage, unit_id: bytes, admission_meter: WeightMeter, read_services: dict[int, None]
) -> None:
    open_unit, current_height = _drawable(market, unit_id), market.height
    service_number, unit_record = open_unit.record.service, open_unit.record
    offer_count = market.offer_count[service_number]
    if service_number not in read_services:
        read_services[service_number] = None
        admission_meter.spend(reading_weight(offer_count))
    admission_meter.spend(draw_weight(offer_count, unit_record.terms.racers))
    sleepers.rouse(market, service_number, unit_record.asleep_since, unit_id)
    market.price_rises.drop(unit_id)
    # A new recording stops owners from waiting with their slots for a beacon that favours them. It names the block
    # before, whose end woke the unit: with the current block, slots freed in the one before always went to units posted
    # in it.
    _record(market, unit_id, replace(unit_record, recorded_at=current_height - 1, asleep_since=0))


def _price(market: InferenceStorage, unit_record: Unit, height: int) -> int:
    """Return the unit's price in this block."""
    service_terms = market.service(unit_record.service).terms
    price_floor = price_of(service_terms.price_min, money.work_allowed(unit_record))
    return money.ramped_price(
        price_floor, unit_record.terms.price_max, height - unit_record.posted_at, service_terms.ramp
    )


def _start_race(
    market: InferenceStorage, open_unit: OpenUnit, race_price: int, new_racers: tuple[Racer, ...], height: int
) -> None:
    racing_unit = replace(
        open_unit.record,
        state=UnitState.RACING,
        attempt=open_unit.record.attempt + 1,
        price=race_price,
        round=Round(drawn_at=height),
        racers=new_racers,
        race_recorded_at=open_unit.record.recorded_at,
    )
    market.units[open_unit.id] = racing_unit
    # The commit window opens once this draw is final.
    market.final_agenda.put(height, open_unit.id)
    market.emit(UnitMatched(open_unit.id, racing_unit.attempt, race_price, tuple(racer.owner for racer in new_racers)))


def _age_of_ask(unit_record: Unit, service_terms: ServiceTerms, asked_price: int | None) -> int | None:
    """Return the age at which the unit's price meets an ask, or None if it never does."""
    unit_work = money.work_allowed(unit_record)
    if asked_price is None or price_of(asked_price, unit_work) > unit_record.terms.price_max:
        return None
    return money.age_of_price(
        price_of(service_terms.price_min, unit_work),
        unit_record.terms.price_max,
        price_of(asked_price, unit_work),
        service_terms.ramp,
    )


def _age_of_more_classes(unit_record: Unit, service_terms: ServiceTerms) -> int | None:
    """Return the age at which more classes may race than at the last recording, or None if all classes could."""
    widening_age = next_widening(unit_record, service_terms.ramp)
    # One block more: a woken unit is recorded with the block before.
    return None if widening_age is None else widening_age + 1
