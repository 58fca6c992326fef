"""What stake that left still bears: by offence, by when it left, in any number of steps."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.pallets.staking.slash_factors import (
    FACTORS_MAX,
    WHOLE,
    Factors,
    Liability,
    OffenceFactor,
    SlashStep,
    left_of,
    lost,
    remembered,
)

WHO = b"v" * 32
HALF: Factors = (OffenceFactor(5, WHOLE // 2),)


@pytest.mark.parametrize(
    ("amount", "step", "taken"),
    [(100, (0, 0), 0), (100, (0, 1), 1), (100, (0, 500_000), 50), (3, (500_000, 750_000), 2), (9, (10**6, 10**6), 0)],
)
def test_a_step_is_a_part_of_what_the_steps_before_left(amount: int, step: tuple[int, int], taken: int) -> None:
    assert lost(amount, SlashStep(*step)) == taken


def test_the_steps_of_an_offence_are_one_factor() -> None:
    once = remembered((), 5, SlashStep(0, 250_000))
    assert once == (OffenceFactor(5, 3 * WHOLE // 4),)
    twice = remembered(once, 5, SlashStep(250_000, 500_000))
    assert twice == HALF
    assert remembered(twice, 2, SlashStep(0, 10**6)) == (OffenceFactor(2, 0), *HALF)


@pytest.mark.parametrize(
    ("left_in", "known", "now", "left"),
    [
        (5, (), HALF, 50),
        (9, (), HALF, 50),
        (4, (), HALF, 100),
        (5, HALF, HALF, 100),
        (5, HALF, (OffenceFactor(5, WHOLE // 4),), 50),
        (5, HALF, (*HALF, OffenceFactor(6, 0)), 100),
        (6, HALF, (*HALF, OffenceFactor(6, 0)), 0),
        (6, (), (OffenceFactor(2, WHOLE // 2), OffenceFactor(6, WHOLE // 2)), 25),
        (5, (OffenceFactor(5, 0),), (OffenceFactor(5, 0),), 100),
        (5, (OffenceFactor(4, 0),), (OffenceFactor(4, 0), *HALF), 50),
    ],
)
def test_what_is_left(left_in: int, known: Factors, now: Factors, left: int) -> None:
    assert left_of(100, Liability(WHO, left_in, known), now) == left


def test_only_so_many_offences_are_remembered() -> None:
    factors: Factors = ()
    for era in range(FACTORS_MAX + 3):
        factors = remembered(factors, era, SlashStep(0, 500_000))
    assert [factor.era for factor in factors] == list(range(3, FACTORS_MAX + 3))
    assert left_of(100, Liability(WHO, 2, (OffenceFactor(2, 9),)), factors) == 100, (
        "what is forgotten makes nothing of nothing"
    )


steps = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 10**6)), max_size=8)


def slashed(factors: Factors, taken: dict[int, int], slashes: list[tuple[int, int]]) -> Factors:
    for era, wanted in slashes:
        step = SlashStep(taken.get(era, 0), max(wanted, taken.get(era, 0)))
        taken[era] = step.wanted
        factors = remembered(factors, era, step)
    return factors


@given(steps, steps, st.integers(0, 4), st.integers(0, 10**15))
def test_never_above_the_exact_part_and_a_grain_for_each_offence_below(
    before: list[tuple[int, int]], after: list[tuple[int, int]], era: int, amount: int
) -> None:
    taken: dict[int, int] = {}
    known = slashed((), taken, [(when, ppm // 2) for when, ppm in before])
    then = dict(taken)
    now = slashed(known, taken, after)
    exact = Fraction(amount)
    for when, wanted in taken.items():
        if when <= era:
            exact *= Fraction(10**6 - wanted, 10**6 - then.get(when, 0))
    left = left_of(amount, Liability(WHO, era, known), now)
    assert left <= exact < left + 4
    assert now != known or left == amount
