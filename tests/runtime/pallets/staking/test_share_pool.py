"""Pools by shares: single steps with their dust, and what no sequence of steps can do."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.pallets.staking.share_pool import (
    SHARES_PER_GRAIN,
    SPENT_BELOW,
    SharePool,
    is_spent,
    join,
    leave,
    shares_for,
    strike,
    worth,
)
from runtime.pallets.staking.slash_factors import SlashStep

GRAIN = SHARES_PER_GRAIN
SLASHED = SharePool(2, 3 * GRAIN)
"""Three grains of which one was taken."""


@pytest.mark.parametrize(
    ("pool", "amount", "after", "shares", "dust"),
    [
        (SharePool(), 5, SharePool(5, 5 * GRAIN), 5 * GRAIN, 0),
        (SharePool(5, 5 * GRAIN), 7, SharePool(12, 12 * GRAIN), 7 * GRAIN, 0),
        (SLASHED, 2, SharePool(4, 6 * GRAIN), 3 * GRAIN, 0),
        (SharePool(3, 4 * GRAIN), 1, SharePool(3, 4 * GRAIN + 4 * GRAIN // 3), 4 * GRAIN // 3, 1),
        (SLASHED, 0, SLASHED, 0, 0),
    ],
)
def test_joining(pool: SharePool, amount: int, after: SharePool, shares: int, dust: int) -> None:
    joined = join(pool, amount)
    assert (joined.pool, joined.shares, joined.dust) == (after, shares, dust)


@pytest.mark.parametrize(
    ("pool", "shares", "after", "amount", "dust"),
    [
        (SharePool(5, 5 * GRAIN), 2 * GRAIN, SharePool(3, 3 * GRAIN), 2, 0),
        (SLASHED, GRAIN, SharePool(1, 2 * GRAIN), 0, 1),
        (SLASHED, 2 * GRAIN, SharePool(0, GRAIN), 1, 1),
        (SLASHED, 3 * GRAIN, SharePool(), 2, 0),
        (SharePool(0, GRAIN), GRAIN, SharePool(), 0, 0),
    ],
)
def test_leaving(pool: SharePool, shares: int, after: SharePool, amount: int, dust: int) -> None:
    left = leave(pool, shares)
    assert (left.pool, left.amount, left.dust) == (after, amount, dust)


@pytest.mark.parametrize(
    ("value", "step", "taken"),
    [
        (100, (0, 50_000), 5),
        (101, (0, 50_000), 6),
        (50, (500_000, 750_000), 25),
        (7, (0, 10**6), 7),
        (0, (10**6, 10**6), 0),
    ],
)
def test_a_slash_is_rounded_up(value: int, step: tuple[int, int], taken: int) -> None:
    struck = strike(SharePool(value, 100 * GRAIN), SlashStep(*step))
    assert (struck.pool, struck.amount) == (SharePool(value - taken, 100 * GRAIN), taken)


def test_the_fewest_shares_that_bring_an_amount() -> None:
    assert shares_for(SLASHED, 1, 3 * GRAIN) == 3 * GRAIN // 2
    assert shares_for(SLASHED, 2, 3 * GRAIN) == 3 * GRAIN
    assert shares_for(SLASHED, 1, 2 * GRAIN) == 2 * GRAIN, "what would be left is worth nothing"
    assert shares_for(SharePool(0, GRAIN), 0, GRAIN) == GRAIN
    with pytest.raises(AssertionError, match="more than its shares are worth"):
        shares_for(SLASHED, 2, 2 * GRAIN)
    with pytest.raises(AssertionError, match="leaves once"):
        leave(SLASHED, 3 * GRAIN + 1)


def test_nobody_joins_what_is_spent() -> None:
    least = SharePool(1, GRAIN * SPENT_BELOW)
    assert not is_spent(least)
    assert not is_spent(SharePool())
    for spent in (SharePool(1, GRAIN * SPENT_BELOW + 1), SharePool(0, 1)):
        assert is_spent(spent)
        with pytest.raises(AssertionError, match="nobody joins"):
            join(spent, 10**9)


amounts = st.integers(0, 10**15)
pools = st.builds(
    lambda value, kept, over: SharePool(value * kept // 10**6, value * GRAIN + over),
    st.integers(1, 10**15), st.integers(1, 10**6), st.integers(0, 10**9),
).filter(lambda pool: not is_spent(pool) and pool.value > 0)  # fmt: skip


def price(pool: SharePool) -> Fraction:
    return Fraction(pool.value, pool.shares)


@given(pools, amounts)
def test_who_joins_and_asks_again_has_no_more_and_nobody_else_has(pool: SharePool, amount: int) -> None:
    joined = join(pool, amount)
    assert 0 <= joined.dust <= 1
    assert joined.pool.value + joined.dust == pool.value + amount
    assert amount - 1 <= worth(joined.pool, joined.shares) + joined.dust <= amount
    assert price(joined.pool) <= price(pool)
    assert joined.pool.value * GRAIN <= joined.pool.shares


@given(pools, st.integers(0, 10**24), st.integers(0, 10**15))
def test_who_leaves_gets_what_it_asked_for_and_nobody_pays(pool: SharePool, owned: int, amount: int) -> None:
    owned = min(owned, pool.shares)
    amount = min(amount, worth(pool, owned))
    left = leave(pool, shares_for(pool, amount, owned))
    assert left.amount == amount
    assert 0 <= left.dust <= 1
    assert left.pool.value + left.amount + left.dust == pool.value
    assert not left.pool.shares or price(left.pool) <= price(pool)


@given(pools, st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_slash_in_steps_takes_what_all_of_it_takes(pool: SharePool, first: int, second: int) -> None:
    low, high = sorted((first, second))
    stepped = strike(strike(pool, SlashStep(0, low)).pool, SlashStep(low, high)).pool
    at_once = strike(pool, SlashStep(0, high)).pool
    assert 0 <= at_once.value - stepped.value <= 1
    assert at_once.value <= Fraction(pool.value * (10**6 - high), 10**6)
