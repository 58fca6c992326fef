"""InferenceMarket: the holds and counts of units, the racing devices, and the schedule entries of each unit."""

from typing import Any

from gpu_tasks.market.devices import run_queue
from gpu_tasks.market.devices.device_work import RECALL_WEIGHT
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import COLLATERAL, DEVICES_PER_PROVIDER_MAX, QUEUE_MAX, DeviceClass
from gpu_tasks.market.ids import aged, unit_of
from gpu_tasks.market.inference import race_clocks
from gpu_tasks.market.inference.catalogue import END_OFFER_WEIGHT
from gpu_tasks.market.inference.inference import DRAW_BUDGET, TENDING_BUDGET, WAKE_BUDGET, InferenceMarket
from gpu_tasks.market.inference.queue import STIR_WEIGHT, WELCOME_WEIGHT
from gpu_tasks.market.inference.schedules import (
    EXPIRY_BUDGET,
    EXPIRY_WEIGHT,
    FINAL_BUDGET,
    HEIGHT_BUDGET,
    RACE_END_WEIGHT,
    STEP_WEIGHT,
)
from gpu_tasks.market.inference.services import OFFERS_PER_SERVICE_MAX, ServiceTerms, offer_hold, service_hold
from gpu_tasks.market.inference.slots import draw_weight, reading_weight
from gpu_tasks.market.inference.units import (
    RACERS_MAX,
    UNIT_DEPOSIT,
    UNIT_MONEY,
    Unit,
    UnitState,
    UnitTerms,
    holds_collateral,
    is_open,
)
from runtime.frame.holds import Hold
from runtime.frame.measured import times
from runtime.frame.runtime import Bound
from runtime.frame.schedule import TAKE_WEIGHT
from simulation.actors import OGPU, Actor, World, always, one_of
from simulation.books import (
    BROUGHT,
    EVERYBODY,
    Books,
    Keys,
    PalletBooks,
    Rule,
    at_most,
    both_or_none,
    claims,
    counts,
    places,
)
from simulation.pallets.devices import BUSY, OFFERED, SECURED
from simulation.pallets.disputes import OF_UNITS

OPEN_UNITS = Rule("open units, and units that are open")
CALLED = Rule("an open unit without a claim or a dispute, and its next step", both_or_none)
DRAWN = Rule("a unit in the queue that does not sleep, or a declined place of a race, and its draw", both_or_none)
DROPPED = Rule("an ended unit, and the block that drops it", both_or_none)
SLEEPERS = Rule("sleepers of a service, and units in its list")
ASLEEP = Rule("units that sleep, and those listed")
RISING = Rule("units that sleep, and those with a watched price", at_most)
OFFERS = Rule("offers of a service, and offers for it")
BROUGHT_STATES = (UnitState.DISPUTED, UnitState.CLAIMED)
OFFERED_FOR = Rule("services that a device is listed for, and its offers")


def _unit(books: Books, keys: Keys, unit: Any, sign: int) -> None:
    unit_id = keys[0]
    books.case(unit.customer, Hold(UNIT_DEPOSIT, unit_id), sign * unit.deposit)
    for racer in holds_collateral(unit):
        books.case(racer.owner, Hold(COLLATERAL, unit_id), sign * racer.collateral)
        books[SECURED].count(racer.device, sign * racer.collateral)
    if unit.state in BROUGHT_STATES:
        books[BROUGHT].claim(unit_id, sign)
    if is_open(unit):
        books[OPEN_UNITS].count(EVERYBODY, sign)
        books[OPEN_UNITS].count(unit.service, sign)
        books.case(unit.customer, Hold(UNIT_MONEY, unit_id), sign * (unit.escrow + unit.bond))
        _calls(books, unit_id, unit, sign)
    else:
        books[DROPPED].claim(unit_id, sign)


def _calls(books: Books, unit_id: bytes, unit: Unit, sign: int) -> None:
    """Count an open unit's schedule entry, its draw while it waits, and its devices while it races."""
    assert len({racer.owner for racer in unit.racers}) == len(unit.racers)
    if unit.state not in BROUGHT_STATES:  # ResultClaims or Disputes returns to those
        books[CALLED].claim(unit_id, sign)
    if unit.asleep_since:
        books[ASLEEP].claim((unit.service, aged(unit.asleep_since, unit_id)), sign)
        books[RISING].claim(unit_id, sign)
    if unit.is_refilling:
        assert _waits_for_a_place(unit)
    if unit.is_refilling or (unit.state is UnitState.QUEUED and not unit.asleep_since):
        books[DRAWN].claim(unit_id, sign)
    for racer in unit.racers if unit.state is UnitState.RACING else ():
        if race_clocks.is_open(racer) and racer.started_at:
            books[BUSY].count(racer.device, sign)


def _waits_for_a_place(unit: Unit) -> bool:
    """Return whether commits are open, no racer has committed, and a place is free."""
    declined = sum(racer.has_declined for racer in unit.racers) + len(unit.decliners)
    has_begun = unit.round is None or unit.round.closed_at or unit.round.first_commit
    is_short = len(unit.racers) < unit.terms.racers
    return unit.state is UnitState.RACING and not has_begun and (is_short or declined == 1) and declined <= 1


def _service(books: Books, keys: Keys, service: Any, sign: int) -> None:
    books[OPEN_UNITS].claim(keys[0], sign * service.open_units)
    if service.is_open:
        books.case(service.owner, service_hold(keys[0]), sign * service.deposit)


def _offer(books: Books, keys: Keys, offer: Any, sign: int) -> None:
    number, device = keys
    books[OFFERS].count(number, sign)
    books[OFFERED].count(device, sign)
    books[OFFERED_FOR].count((number, device), sign)
    books.case(books.owners[device], offer_hold(number, device), sign * offer.deposit)


def _offered(books: Books, keys: Keys, numbers: Any, sign: int) -> None:
    for number in numbers:
        books[OFFERED_FOR].claim((number, keys[0]), sign)


def _check(bound: Bound) -> None:
    """Check that a device has exactly the units that it races for and may still commit to, and is of an allowed class.

    Offers for a closed service must be listed as closed.
    """
    market, devices = bound[InferenceMarket], bound[Devices]
    has: dict[bytes, set[bytes]] = {}
    begun: set[tuple[bytes, bytes | None]] = set()
    for unit_id, unit in market.units.items():
        if unit is None or unit.state is not UnitState.RACING:
            continue
        classes = market.classes_of(unit)
        for racer in unit.racers:
            record = devices.devices[racer.device]
            assert record is None or record.kind in classes
            if race_clocks.is_open(racer):
                has.setdefault(racer.device, set()).add(unit_id)
                begun |= {(racer.device, unit_id)} if racer.started_at else set()
    for key, device in devices.devices.items():
        assert device is not None
        if device.is_dedicated:
            assert not device.behind
        else:
            queued = set(run_queue.units_of(device))
            assert queued <= has.get(key, set()) <= queued | set(devices.requeued_units[key])
            assert device.assignment is None or (key, device.assignment) in begun
    gone = {number for (number, _), _ in market.offers.items() if market.services[number] is None}
    assert gone == set(market.closed_services.keys())


WORLDS = (
    PalletBooks(
        InferenceMarket,
        (
            (InferenceMarket.units, _unit),
            (InferenceMarket.open_unit_count, claims(OPEN_UNITS)),
            (
                InferenceMarket.unit_of_dispute,
                lambda books, keys, unit_id, sign: books[OF_UNITS].count((keys[0], unit_id), sign),
            ),
            (InferenceMarket.services, _service),
            (InferenceMarket.offers, _offer),
            (InferenceMarket.device_offers, _offered),
            (InferenceMarket.offer_count, claims(OFFERS)),
            (InferenceMarket.waiting_units, counts(SLEEPERS, lambda keys: keys[0])),
            (InferenceMarket.waiting_units, counts(ASLEEP, lambda keys: keys)),
            (InferenceMarket.waiting_unit_count, claims(SLEEPERS)),
            (InferenceMarket.agenda.places, places(CALLED)),
            (InferenceMarket.final_agenda.places, places(CALLED)),
            (InferenceMarket.price_rises.places, places(CALLED, RISING)),
            (InferenceMarket.draws.places, places(CALLED, DRAWN, name=unit_of)),
            (InferenceMarket.expiring.places, places(DROPPED)),
        ),
        _check,
    ),
)


def _units(world: World, _: Actor) -> tuple[UnitTerms, ...]:
    chance = world.chance
    return tuple(
        UnitTerms(
            chance.choice((OGPU // 100, OGPU // 10, OGPU // 2, OGPU)) if chance.random() < 0.95 else 2 * OGPU,
            chance.choice((1, 1, 2, 2, 2, 3)) if chance.random() < 0.95 else chance.choice((0, 9)),
            chance.randbytes(32),
            chance.randbytes(32),
            max(0, world.final_height() - (0 if chance.random() < 0.9 else chance.choice((1, -1)))),
            chance.choice((1, 64, 256, 257)) if chance.random() < 0.1 else 64,
            chance.choice((0, 2, 16, 64, 64, 64, 4_097)) if chance.random() < 0.3 else 1,
            chance.choice((1, 80)) if chance.random() < 0.3 else 0,
            chance.choice((None, *DeviceClass)),
        )
        for _ in range(chance.choice((1, 1, 1, 2, 3)))
    )


def _service_terms(world: World, _: Actor) -> ServiceTerms:
    low, high = world.chance.choice(((1, 2), (2, 1), (OGPU // 100, OGPU)))
    lease = world.chance.choice((0, 20, 601))
    chosen = world.chance.choice(((0, 0), (250_000, 64), (0, 64, 90, 0), (1_000_001, 0), (0, 10**9 + 1), (0, 9, 8)))
    return ServiceTerms(b"other", world.chance.randbytes(32), bytes(32), low, high, 10, lease, 64, *chosen)


def _other_service(world: World, _: Actor) -> int:
    """Return any service but the first, which all providers serve."""
    return 1 + world.service()


_DRAWN = reading_weight(OFFERS_PER_SERVICE_MAX) + draw_weight(OFFERS_PER_SERVICE_MAX, RACERS_MAX)
HOOKS = (
    (HEIGHT_BUDGET, STEP_WEIGHT + times(RACERS_MAX, RACE_END_WEIGHT) + TAKE_WEIGHT),
    (FINAL_BUDGET, STEP_WEIGHT + times(RACERS_MAX, RACE_END_WEIGHT) + TAKE_WEIGHT),
    (DRAW_BUDGET, _DRAWN),
    (WAKE_BUDGET, _DRAWN),
    (TENDING_BUDGET, times(QUEUE_MAX, RECALL_WEIGHT)),
    (TENDING_BUDGET, STIR_WEIGHT + TAKE_WEIGHT),
    (TENDING_BUDGET, times(DEVICES_PER_PROVIDER_MAX + 1, WELCOME_WEIGHT)),
    (TENDING_BUDGET, END_OFFER_WEIGHT),
    (EXPIRY_BUDGET, EXPIRY_WEIGHT + TAKE_WEIGHT),
)

ARGUMENTS = {
    "unit": lambda world, _: world.unit(),
    "attempt": always(1),
    "service": lambda world, _: world.service(),
    "ask": one_of(1, OGPU),
    "terms": _service_terms,
    "units": _units,
    "InferenceMarket.post.service": lambda world, _: 0 if world.chance.random() < 0.8 else world.service(),
    "InferenceMarket.close_service.service": _other_service,
    "InferenceMarket.withdraw_offer.service": _other_service,
    "InferenceMarket.cancel.unit": lambda world, who: world.unit(who.stash.account),
}
