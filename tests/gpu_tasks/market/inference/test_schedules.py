"""The agenda of a block: a bounded part of the due units, each once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

from gpu_tasks.market.ids import aged
from gpu_tasks.market.inference.schedules import EXPIRY_WEIGHT, STEP_WEIGHT, drawable, due, expired
from runtime.encoding.types import Weight
from runtime.frame.schedule import WeightMeter


class Kept:
    """A schedule with always more entries than the budget, which records its requests."""

    def __init__(self, *units: bytes) -> None:
        self.units: Sequence[bytes] = units
        self.asked: list[tuple[int, WeightMeter, Weight | None]] = []

    def take(self, limit: int, budget: WeightMeter, each: Weight | None = None) -> Iterator[bytes]:
        self.asked.append((limit, budget, each))
        return iter(self.units)


def test_each_schedule_has_its_budget_and_nobody_is_called_twice() -> None:
    heights, final, old, draws = Kept(b"a", b"b"), Kept(b"b", b"c"), Kept(b"d"), Kept(aged(5, b"e"))
    market: Any = SimpleNamespace(
        height=9,
        beacon=SimpleNamespace(final_height=lambda: 7),
        agenda=heights,
        final_agenda=final,
        draws=draws,
        expiring=old,
    )
    by_height, by_finality, for_draws, for_old = (WeightMeter(Weight(number, 0)) for number in range(4))
    assert list(due(market, by_height, by_finality)) == [(b"b", by_finality), (b"c", by_finality), (b"a", by_height)]
    assert final.asked == [(7, by_finality, STEP_WEIGHT)]
    assert heights.asked == [(9, by_height, STEP_WEIGHT)]
    assert (list(drawable(market, for_draws)), draws.asked) == ([b"e"], [(7, for_draws, None)])
    assert (list(expired(market, for_old)), old.asked) == ([b"d"], [(9, for_old, EXPIRY_WEIGHT)])
