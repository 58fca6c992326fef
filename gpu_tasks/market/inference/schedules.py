"""When a unit needs the chain's attention: at a height, or once a height is final; and when its record goes.

Always: the work of one block is bounded, deadlines first; draws and wake-ups have a share of their own, so that what is
posted delays no race; being called too often or late does no harm, since a step does only what is due. So no state
waits for anybody's transaction. A unit that ends is on no agenda any more. An agenda knows units by their ids alone.
"""

from collections.abc import Iterator

from gpu_tasks.market.ids import aged, unit_of
from gpu_tasks.market.inference.storage import InferenceStorage
from gpu_tasks.market.weights import WEIGHTS
from runtime.frame.schedule import WeightMeter
from runtime.frame.weights import work

STEP_WEIGHT = WEIGHTS["InferenceMarket.on_initialize step"]
"""One unit called: at most a race of eight that is settled, of whom seven did not reveal."""
HEIGHT_BUDGET = work(microseconds=64_000)
"""For units called because of their height."""
FINAL_BUDGET = work(microseconds=32_000)
"""For units called because of finality, draws apart."""
EXPIRY_WEIGHT = WEIGHTS["InferenceMarket.on_initialize expiry"]
EXPIRY_BUDGET = work(microseconds=16_000)
"""For records that are dropped; one that has to wait longer keeps its deposit for as long."""


def follow(market: InferenceStorage, unit: bytes, change: tuple[int | None, int]) -> None:
    """Have the unit called when its race can next change by itself (`race_clocks.next_change`)."""
    deadline, awaited = change
    if deadline is not None:
        market.agenda.put(max(deadline, market.height) + 1, unit)
    if awaited > market.beacon.final_height():
        market.final_agenda.put(awaited, unit)


def draw_at(market: InferenceStorage, height: int, posted_at: int, unit: bytes) -> None:
    """Draw for the unit once `height` is final, after those that were posted before it.

    By their hashes alone, a unit that lost against some others would lose against them each time, and for ever.
    """
    market.draws.put(height, aged(posted_at, unit))


def drop_draw(market: InferenceStorage, posted_at: int, unit: bytes) -> None:
    """Draw for the unit no more."""
    market.draws.drop(aged(posted_at, unit))


def drop(market: InferenceStorage, posted_at: int, unit: bytes) -> None:
    """Call a unit that has ended no more."""
    drop_draw(market, posted_at, unit)
    for schedule in (market.agenda, market.final_agenda, market.price_rises):
        schedule.drop(unit)


def due(market: InferenceStorage, height_budget: WeightMeter, final_budget: WeightMeter) -> tuple[bytes, ...]:
    """The units to call in this block, each once."""
    final = market.final_agenda.take(market.beacon.final_height(), final_budget, STEP_WEIGHT)
    reached = market.agenda.take(market.height, height_budget, STEP_WEIGHT)
    return tuple(dict.fromkeys((*final, *reached)))


def drawable(market: InferenceStorage, budget: WeightMeter) -> Iterator[bytes]:
    """The units whose beacon is final, while the budget lasts."""
    return (unit_of(key) for key in market.draws.take(market.beacon.final_height(), budget))


def expired(market: InferenceStorage, budget: WeightMeter) -> Iterator[bytes]:
    """The ended units whose records are dropped in this block."""
    return market.expiring.take(market.height, budget, EXPIRY_WEIGHT)
