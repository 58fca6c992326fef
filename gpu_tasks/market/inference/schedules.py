"""The schedules of units: by height, by finality, for draws, and for dropping records.

Invariants: the work of one block is bounded, and deadlines come first. Draws and wake-ups have budgets of their own, so
posts delay no race. A step does only what is due, so extra or late steps do no harm, and no state depends on a
transaction. An ended unit is on no schedule. Schedules hold only the ids of units.
"""

from collections.abc import Iterator

from gpu_tasks.market.ids import aged
from gpu_tasks.market.inference.storage import InferenceStorage
from gpu_tasks.market.weights import WEIGHTS
from runtime.frame.schedule import WeightMeter
from runtime.frame.weights import work

STEP_WEIGHT = WEIGHTS["InferenceMarket.on_initialize step"]
"""The weight of one unit's step that does not end its race."""
RACE_END_WEIGHT = WEIGHTS["InferenceMarket.on_initialize race_end"]
"""The further weight for each racer if a step ends the race: most for a racer that committed and did not reveal."""
HEIGHT_BUDGET = work(microseconds=64_000)
"""The weight for units due by height."""
FINAL_BUDGET = work(microseconds=32_000)
"""The weight for units due by finality, without draws."""
EXPIRY_WEIGHT = WEIGHTS["InferenceMarket.on_initialize expiry"]
EXPIRY_BUDGET = work(microseconds=16_000)
"""The weight for dropping records. A record that waits longer keeps its deposit until it is dropped."""


def follow(market: InferenceStorage, unit_id: bytes, change: tuple[int | None, int]) -> None:
    """Schedule the unit for the next change of its race that needs no call (`race_clocks.next_change`)."""
    deadline, awaited_final = change
    # The deadline's own block may still hold a commit or a reveal, so the step comes after it.
    if deadline is not None:
        market.agenda.put(max(deadline, market.height) + 1, unit_id)
    if awaited_final > market.beacon.final_height():
        market.final_agenda.put(awaited_final, unit_id)


def draw_at(market: InferenceStorage, height: int, posted_at: int, unit_id: bytes) -> None:
    """Schedule a draw for the unit once `height` is final, after units posted earlier.

    With an order by hash alone, a unit would lose to the same other units in each draw.
    """
    market.draws.put(height, aged(posted_at, unit_id))


def drop_draw(market: InferenceStorage, posted_at: int, unit_id: bytes) -> None:
    """Cancel the unit's scheduled draw."""
    market.draws.drop(aged(posted_at, unit_id))


def drop(market: InferenceStorage, posted_at: int, unit_id: bytes) -> None:
    """Remove an ended unit from all schedules."""
    drop_draw(market, posted_at, unit_id)
    for schedule in (market.agenda, market.final_agenda, market.price_rises):
        schedule.drop(unit_id)


def due(
    market: InferenceStorage, height_budget: WeightMeter, final_budget: WeightMeter
) -> Iterator[tuple[bytes, WeightMeter]]:
    """Yield the units that are due in this block, each once, with the budget that its step charges."""
    due_by_finality = market.final_agenda.take(market.beacon.final_height(), final_budget, STEP_WEIGHT)
    due_by_height = market.agenda.take(market.height, height_budget, STEP_WEIGHT)
    # A unit may be due both ways, and its step must run once.
    yielded: dict[bytes, None] = {}
    for budget, units in ((final_budget, due_by_finality), (height_budget, due_by_height)):
        for unit_id in units:
            if unit_id not in yielded:
                yielded[unit_id] = None
                yield unit_id, budget
