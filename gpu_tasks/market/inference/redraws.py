"""New draws for the place of a racer that declined, passed or was recalled, before the first commit.

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
from gpu_tasks.market.inference.units import (
    DECLINES_MAX,
    DECLINES_TO_VOTE,
    OpenUnit,
    Racer,
    Unit,
    declines_of,
    round_of,
)


def ask(market: InferenceStorage, unit: OpenUnit) -> OpenUnit:
    """Schedule a draw if a place may be filled. Otherwise call off a scheduled one."""
    if not _may_refill(unit.record):
        return call_off(market, unit)
    current_height = market.height
    schedules.draw_at(market, current_height + BEACON_DELAY, unit.record.posted_at, unit.id)
    # The new recording keeps slots that change after this block out of the draw.
    return OpenUnit(unit.id, replace(unit.record, recorded_at=current_height, is_refilling=True))


def call_off(market: InferenceStorage, unit: OpenUnit) -> OpenUnit:
    """Cancel a scheduled draw: a racer has committed, another one has declined, or commits are closed."""
    if not unit.record.is_refilling:
        return unit
    schedules.drop_draw(market, unit.record.posted_at, unit.id)
    return OpenUnit(unit.id, replace(unit.record, is_refilling=False))


def fill(market: InferenceStorage, unit: OpenUnit, slots: Slots) -> None:
    """Draw a slot for the place, now that the beacon is final. Without a slot, the race continues unchanged."""
    record, current_height = replace(unit.record, is_refilling=False), market.height
    wanted = slots.wanted(record, record.price)
    drawn = _draw(market, record, wanted, slots, current_height)
    if drawn:
        record = _with_substitute(
            market, unit.id, record, slots.engage(drawn[0], unit.id, wanted.collateral), current_height
        )
        # The commit window restarts once this draw is final.
        market.final_agenda.put(current_height, unit.id)
        # Several racers may have passed or been recalled.
        record = ask(market, OpenUnit(unit.id, record)).record
    market.units[unit.id] = record


def _draw(market: InferenceStorage, record: Unit, wanted: Wanted, slots: Slots, height: int) -> list[FreeSlot]:
    beacon = market.beacon.value_at(record.recorded_at + BEACON_DELAY)
    windows = market.windows_of(record)
    last_deadline = race_clocks.latest_deadline(record.racers, round_of(record), windows)
    # Two reasons to skip the draw. Finality halted for longer than the beacon remembers. Or all windows are over, and
    # the block that should have ended the race was full: a new racer would restart it.
    if beacon is None or (last_deadline is not None and height > last_deadline):
        return []
    return slots.draw(record.service, wanted, 1, beacon)


def _with_substitute(market: InferenceStorage, unit_id: bytes, record: Unit, substitute: Racer, height: int) -> Unit:
    """Return the race with a substitute in the place of the racer that declined, or in an empty place.

    The racer that declined stays liable for that.
    """
    declined_racer = next((racer for racer in record.racers if racer.has_declined), None)
    if declined_racer is not None:
        del market.duties[declined_racer.owner, unit_id]
    market.emit(
        PlaceRefilled(
            unit_id, record.attempt, substitute.owner, None if declined_racer is None else declined_racer.owner
        )
    )
    others = tuple(substitute if racer == declined_racer else racer for racer in record.racers)
    return replace(
        record,
        racers=others if declined_racer is not None else (*others, substitute),
        decliners=(*record.decliners, *([declined_racer] if declined_racer is not None else ())),
        round=rounds.refilled(round_of(record), height),
    )


def is_short(record: Unit) -> bool:
    """Return True if the race has fewer racers than the customer wanted."""
    return len(record.racers) < record.terms.racers


def _may_refill(record: Unit) -> bool:
    """Return True if a place is free, no racer has committed, at most one owner has declined, and few have passed."""
    current = round_of(record)
    has_declined = sum(racer.has_declined for racer in record.racers)
    is_place_free = is_short(record) or has_declined == 1
    # All racers may still decline or pass.
    has_room = len(record.declined_by) + record.terms.racers <= DECLINES_MAX
    is_early = not current.first_commit and not current.closed_at
    # After two declines voters look at the input anyway.
    return is_early and is_place_free and has_room and declines_of(record) < DECLINES_TO_VOTE
