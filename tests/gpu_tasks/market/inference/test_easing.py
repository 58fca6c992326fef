"""A parameter that is lowered wakes who sleeps in every service, a few services in each block."""

from typing import Any

import pytest

from gpu_tasks.market.inference.sleeping.easing import EASE_WEIGHT, NEVER_SEEN, Eased, Easing
from runtime.encoding.types import Weight
from runtime.frame.schedule import WeightMeter

PLENTY = Weight(EASE_WEIGHT.ref_time * 1_000, 0)


class Value:
    """A storage value in memory, which counts what is written."""

    def __init__(self, value: Any) -> None:
        self.value, self.writes = value, 0

    def get(self) -> Any:
        return self.value

    def set(self, value: Any) -> None:
        self.value, self.writes = value, self.writes + 1


class Stirs:
    """Sleepers that note what is stirred."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []

    def stir(self, slots: dict[int, int], before: int) -> None:
        self.seen += [(service, before) for service in slots]


def eased(services: int, seen: Eased) -> tuple[Easing, Stirs, Value]:
    stirs, value = Stirs(), Value(seen)
    parts: tuple[Any, Any, Any] = (stirs, Value(services), value)
    return Easing(*parts), stirs, value


@pytest.mark.parametrize("bond_min", [10, 11])
def test_a_bond_that_does_not_fall_wakes_nobody(bond_min: int) -> None:
    easing_, stirs, value = eased(3, Eased(10, 0, 0))
    easing_.step(7, bond_min, WeightMeter(PLENTY))
    assert (stirs.seen, value.get()) == ([], Eased(bond_min, 0, 0))
    assert value.writes == (bond_min != 10), "an idle market writes nothing"


def test_a_chain_that_begins_wakes_nobody() -> None:
    easing_, stirs, value = eased(3, NEVER_SEEN)
    easing_.step(1, 10, WeightMeter(PLENTY))
    assert (stirs.seen, value.get()) == ([], Eased(10, 0, 0))


def test_a_bond_that_falls_stirs_each_service_once_within_the_budget_of_each_block() -> None:
    easing_, stirs, value = eased(7, Eased(10, 0, 0))
    taken = []
    for height in range(20, 26):
        budget = WeightMeter(Weight(EASE_WEIGHT.ref_time * 3, 0))
        easing_.step(height, 9, budget)
        taken.append(budget.spent.ref_time // EASE_WEIGHT.ref_time)
    assert stirs.seen == [(service, 20) for service in range(7)]
    assert taken == [3, 3, 1, 0, 0, 0]
    assert value.get() == Eased(9, 0, 0)


def test_one_that_falls_again_begins_anew() -> None:
    easing_, stirs, _ = eased(2, Eased(10, 0, 0))
    for height, bond_min in ((20, 9), (21, 8), (22, 8)):
        easing_.step(height, bond_min, WeightMeter(Weight(EASE_WEIGHT.ref_time, 0)))
    assert stirs.seen == [(0, 20), (0, 21), (1, 21)]
