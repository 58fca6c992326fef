"""A place of a race that was declined, or whose racer was recalled, is drawn again while nobody has committed.

Always: a unit waits for such a draw only while its commits are open and nobody has committed, and no more than one
owner stands for a decline of it; it is drawn like any other, with the beacon of two blocks after the place came free;
who is drawn has a whole commit window, and whoever was drawn before may commit in every block meanwhile.
"""

from dataclasses import replace

from gpu_tasks.market import rounds
from gpu_tasks.market.draws import BEACON_DELAY, FreeSlot, Wanted
from gpu_tasks.market.inference import race_clocks, schedules
from gpu_tasks.market.inference.events import PlaceRefilled
from gpu_tasks.market.inference.slots import Slots
from gpu_tasks.market.inference.storage import InferenceStorage
from gpu_tasks.market.inference.units import OpenUnit, Racer, Unit, declines_of, round_of


def ask(market: InferenceStorage, unit: OpenUnit) -> OpenUnit:
    """Ask for a draw where a place may be filled; else wait for none any more."""
    if not _may_refill(unit.record):
        return call_off(market, unit)
    height = market.height
    schedules.draw_at(market, height + BEACON_DELAY, unit.record.posted_at, unit.id)
    return OpenUnit(unit.id, replace(unit.record, recorded_at=height, is_refilling=True))


def call_off(market: InferenceStorage, unit: OpenUnit) -> OpenUnit:
    """Wait for no draw any more: somebody has committed, another has declined, or commits are closed."""
    if not unit.record.is_refilling:
        return unit
    schedules.drop_draw(market, unit.record.posted_at, unit.id)
    return OpenUnit(unit.id, replace(unit.record, is_refilling=False))


def fill(market: InferenceStorage, unit: OpenUnit, slots: Slots) -> None:
    """Draw a slot for the place, now that its beacon is final; where none is found, the race goes on as it is."""
    record, height = replace(unit.record, is_refilling=False), market.height
    wanted = slots.wanted(record, record.price)
    drawn = _draw(market, record, wanted, slots, height)
    if drawn:
        record = _with_substitute(market, unit.id, record, slots.engage(drawn[0], unit.id, wanted.collateral), height)
        market.final_agenda.put(height, unit.id)
        record = ask(market, OpenUnit(unit.id, record)).record  # several may have been recalled
    market.units[unit.id] = record


def _draw(market: InferenceStorage, record: Unit, wanted: Wanted, slots: Slots, height: int) -> list[FreeSlot]:
    seed = market.beacon.value_at(record.recorded_at + BEACON_DELAY)
    windows = market.windows_of(record)
    last = race_clocks.latest_deadline(record.racers, round_of(record), windows)
    # Finality stood still for longer than the beacon remembers; or all windows are over, and the block that ends the
    # race had too much to do: who was drawn now would begin it anew.
    if seed is None or (last is not None and height > last):
        return []
    return slots.draw(record.service, wanted, 1, seed)


def _with_substitute(market: InferenceStorage, unit_id: bytes, record: Unit, substitute: Racer, height: int) -> Unit:
    """The race with somebody else in the place of who declined, who still stands for that; or in an empty place."""
    declined = next((racer for racer in record.racers if racer.has_declined), None)
    if declined is not None:
        del market.duties[declined.owner, unit_id]
    market.emit(PlaceRefilled(unit_id, record.attempt, substitute.owner, None if declined is None else declined.owner))
    others = tuple(substitute if racer == declined else racer for racer in record.racers)
    return replace(
        record,
        racers=others if declined is not None else (*others, substitute),
        decliners=(*record.decliners, *([declined] if declined is not None else ())),
        round=rounds.refilled(round_of(record), height),
    )


def is_short(record: Unit) -> bool:
    """Whether fewer race than were asked for."""
    return len(record.racers) < record.terms.racers


def _may_refill(record: Unit) -> bool:
    """Whether others race on, none of whom has committed, and a place is free: at most one owner has declined."""
    current = round_of(record)
    has_declined = sum(racer.has_declined for racer in record.racers)
    is_free = is_short(record) or has_declined == 1
    return not current.first_commit and not current.closed_at and is_free and declines_of(record) <= 1
