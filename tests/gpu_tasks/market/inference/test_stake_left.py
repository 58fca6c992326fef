"""How much of the stake in office stays outside a race, whoever is drawn."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.market.draws import RACING_PART, Spare, spare_of_stake
from gpu_tasks.market.inference.judges_left import JudgesLeft


@pytest.mark.parametrize(
    ("stakes", "barred", "places", "spare"),
    [
        ([10] * 6, 0, 8, Spare(2, 10)),
        ([10] * 7, 0, 8, Spare(2, 10)),
        ([10] * 9, 0, 8, Spare(3, 10)),
        ([10] * 9, 0, 1, Spare(1, 10)),
        ([10] * 9, 2, 8, Spare(1, 10)),
        ([10] * 9, 3, 8, Spare(0, 0)),
        ([30, 10, 10, 10, 10, 10, 10], 0, 1, Spare(1, 30)),
        ([30, 10, 10, 10, 10, 10, 10], 0, 2, Spare(2, 10)),
        ([30, 10, 10, 10, 10, 10, 10], 0, 4, Spare(3, 10)),
        ([40, 10, 10, 10, 10, 10], 0, 1, Spare(1, 10)),
        ([20, 20, 10, 10, 10, 10], 0, 2, Spare(2, 10)),
        ([20, 20, 20, 10, 10, 10], 0, 2, Spare(2, 10)),
        ([23, 22, 21, 12, 11, 11], 0, 2, Spare(2, 21)),
    ],
)
def test_of_a_set_that_is_not_small_a_third_by_stake_may_race(
    stakes: list[int], barred: int, places: int, spare: Spare
) -> None:
    """The heaviest are left out until any who may race hold no more, with whom the unit bars."""
    held = {bytes([number]): stake for number, stake in enumerate(stakes)}
    out = list(reversed(held))[:barred]
    assert JudgesLeft(3, dict.fromkeys(held, 1), held).spare(1, out, places) == spare


@given(
    stakes=st.lists(st.integers(1, 10**6), min_size=6, max_size=20),
    places=st.integers(1, 8),
    barred=st.sets(st.integers(0, 19)),
    chance=st.randoms(use_true_random=False),
)
def test_whoever_may_race_holds_a_third_with_who_is_barred(
    stakes: list[int], places: int, barred: set[int], chance: random.Random
) -> None:
    held = {bytes([number]): stake for number, stake in enumerate(stakes)}
    out = {bytes([number]): None for number in sorted(barred)}
    spare = spare_of_stake(held, out, places)
    may = [stake for stash, stake in held.items() if stash not in out and stake <= spare.heaviest]
    assert spare.count <= min(places, len(may))
    racing = sum(chance.sample(may, spare.count)) + sum(held.get(stash, 0) for stash in out)
    assert spare.count == 0 or RACING_PART * racing <= sum(stakes)
