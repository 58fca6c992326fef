"""Pools by shares, positions in them, slashes of them: single steps with their dust, and limits of every sequence."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.encoding.codec import codec
from runtime.pallets.staking import delegations as dl
from runtime.pallets.staking.delegations import EraPosting, Pool, Position
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

GRAIN = SHARES_PER_GRAIN
SLASHED = SharePool(2, 3 * GRAIN)
"""Three grains, one of them taken."""


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
    with pytest.raises(AssertionError, match="most the worth"):
        shares_for(SLASHED, 2, 2 * GRAIN)
    with pytest.raises(AssertionError, match="leaving shares"):
        leave(SLASHED, 3 * GRAIN + 1)


def test_nobody_joins_what_is_spent() -> None:
    least = SharePool(1, GRAIN * SPENT_BELOW)
    assert not is_spent(least)
    assert not is_spent(SharePool())
    for spent in (SharePool(1, GRAIN * SPENT_BELOW + 1), SharePool(0, 1)):
        assert is_spent(spent)
        with pytest.raises(AssertionError, match="spent pool"):
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


# ------------------------------------------------------------------------------------------------------------ positions


def test_nobody_claims_what_a_pool_did_not_earn() -> None:
    with pytest.raises(AssertionError, match="their pool's rewards"):
        dl.pay(Pool(owed=1), Position(owed=2))


def test_nobody_gives_up_what_it_has_not() -> None:
    pool = Pool(SharePool(2, 2 * 10**6), delegators=2)
    with pytest.raises(AssertionError, match="shares that leave"):
        dl.depart(pool, Position(shares=10**6), 2 * 10**6, 0)


def test_a_move_without_a_place_is_the_callers_mistake() -> None:
    moves = tuple(dl.MovedShares(1, Liability(bytes(32), era, ())) for era in range(dl.MOVED_MAX))
    position = Position(shares=dl.MOVED_MAX, moved=moves)
    pool = Pool(SharePool(1, 10**6))
    with pytest.raises(AssertionError, match="moved shares"):
        dl.enter(pool, position, 1, 9, Liability(bytes(32), 99, ()))
    standing, _ = dl.enter(pool, position, 1, 9, moves[3].answer)
    assert sum(move.shares for move in standing.position.moved) == dl.MOVED_MAX + 10**6


def test_what_is_new_is_empty_and_a_position_is_small() -> None:
    assert not any(any(codec(type(new)).encode(new)) for new in (Pool(), Position(), EraPosting()))
    assert len(codec(Position).encode(Position(2**127, 2**127, 2**31, 2**127, 2**127))) == 69
    assert len(codec(EraPosting).encode(EraPosting(2**127, 2**127))) == 32


def test_no_index_of_a_pool_that_holds_everything_claims_more_than_was_paid() -> None:
    pool, everybody = Pool(stake=SharePool(7 * 10**17, 7 * 10**23)), Position(shares=7 * 10**23)
    for era in range(10):
        pool, _, left = dl.post(pool, 1, era + 1)
        assert left == 0
    assert (pool.owed, dl.earned(pool, everybody, EraPosting())) == (10, 7)


# ------------------------------------------------------------------------------------------------------------ what left


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
