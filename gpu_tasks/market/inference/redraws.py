"""New draws for the place of a racer that declined or was recalled, before the first commit.

Invariants:

* A unit waits for such a draw only while its commits are open, no racer has committed, and at most one owner is liable
  for a decline.
* The draw is like any other, with the beacon of two blocks after the place became free.
* The new racer has a whole commit window. Earlier racers may commit in every block meanwhile.
"""

from dataclasses import replace

from gpu_tasks.market import rounds
from gpu_tasks.market.draws import BEACON_DELAY, FreeSlot, Wanted
from gpu_tasks.market.inference import race_clocks, schedules
from gpu_tasks.market.inference.events import PlaceRefilled
from gpu_tasks.market.inference.slots import Slots
from gpu_tasks.market.inference.storage import InferenceStorage
from gpu_tasks.market.inference.units import OpenUnit, Racer, Unit, declines_of, round_of


def ask(market: InferenceStorage, open_unit: OpenUnit) -> OpenUnit:
    """Schedule a draw if a place may be filled. Otherwise call off a scheduled one."""
    if not _may_refill(open_unit.record):
        return call_off(market, open_unit)
    current_height = market.height
    schedules.draw_at(market, current_height + BEACON_DELAY, open_unit.record.posted_at, open_unit.id)
    # The new recording keeps slots that change after this block out of the draw.
    return OpenUnit(open_unit.id, replace(open_unit.record, recorded_at=current_height, is_refilling=True))


def call_off(market: InferenceStorage, open_unit: OpenUnit) -> OpenUnit:
    """Cancel a scheduled draw: a racer has committed, another one has declined, or commits are closed."""
    if not open_unit.record.is_refilling:
        return open_unit
    schedules.drop_draw(market, open_unit.record.posted_at, open_unit.id)
    return OpenUnit(open_unit.id, replace(open_unit.record, is_refilling=False))


def fill(market: InferenceStorage, open_unit: OpenUnit, block_slots: Slots) -> None:
    """Draw a slot for the place, now that the beacon is final. Without a slot, the race continues unchanged."""
    unit_record, current_height = replace(open_unit.record, is_refilling=False), market.height
    slot_conditions = block_slots.wanted(unit_record, unit_record.price)
    drawn_slots = _draw(market, unit_record, slot_conditions, block_slots, current_height)
    if drawn_slots:
        unit_record = _with_substitute(
            market,
            open_unit.id,
            unit_record,
            block_slots.engage(drawn_slots[0], open_unit.id, slot_conditions.collateral),
            current_height,
        )
        # The commit window restarts once this draw is final.
        market.final_agenda.put(current_height, open_unit.id)
        # Several racers may have been recalled.
        unit_record = ask(market, OpenUnit(open_unit.id, unit_record)).record
    market.units[open_unit.id] = unit_record


def _draw(
    market: InferenceStorage, unit_record: Unit, slot_conditions: Wanted, block_slots: Slots, height: int
) -> list[FreeSlot]:
    beacon_value = market.beacon.value_at(unit_record.recorded_at + BEACON_DELAY)
    race_windows = market.windows_of(unit_record)
    last_deadline = race_clocks.latest_deadline(unit_record.racers, round_of(unit_record), race_windows)
    # Two reasons to skip the draw. Finality halted for longer than the beacon remembers. Or all windows are over, and
    # the block that should have ended the race was full: a new racer would restart it.
    if beacon_value is None or (last_deadline is not None and height > last_deadline):
        return []
    return block_slots.draw(unit_record.service, slot_conditions, 1, beacon_value)


def _with_substitute(
    market: InferenceStorage, unit_id: bytes, unit_record: Unit, substitute: Racer, height: int
) -> Unit:
    """Return the race with a substitute in the place of the racer that declined, or in an empty place.

    The racer that declined stays liable for that.
    """
    declined_racer = next((racer for racer in unit_record.racers if racer.has_declined), None)
    if declined_racer is not None:
        del market.duties[declined_racer.owner, unit_id]
    market.emit(
        PlaceRefilled(
            unit_id, unit_record.attempt, substitute.owner, None if declined_racer is None else declined_racer.owner
        )
    )
    other_racers = tuple(substitute if racer == declined_racer else racer for racer in unit_record.racers)
    return replace(
        unit_record,
        racers=other_racers if declined_racer is not None else (*other_racers, substitute),
        decliners=(*unit_record.decliners, *([declined_racer] if declined_racer is not None else ())),
        round=rounds.refilled(round_of(unit_record), height),
    )


def is_short(unit_record: Unit) -> bool:
    """Return True if the race has fewer racers than the customer wanted."""
    return len(unit_record.racers) < unit_record.terms.racers


def _may_refill(unit_record: Unit) -> bool:
    """Return True if a place is free, no racer has committed, and at most one owner has declined."""
    current_round = round_of(unit_record)
    has_declined = sum(racer.has_declined for racer in unit_record.racers)
    is_place_free = is_short(unit_record) or has_declined == 1
    # After two declines a committee looks at the input anyway.
    return (
        not current_round.first_commit
        and not current_round.closed_at
        and is_place_free
        and declines_of(unit_record) <= 1
    )
