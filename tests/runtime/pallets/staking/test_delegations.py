"""Positions in a pool against the naive rule: any sequence of steps, and a long seeded one."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.encoding.codec import codec
from runtime.pallets.staking import delegations as dl
from runtime.pallets.staking.delegations import EraPosting, Pool, Position
from runtime.pallets.staking.share_pool import SharePool, is_spent
from runtime.pallets.staking.slash_factors import Liability
from stake_books import Books

OGPU = 10**8
VALIDATORS = 3
DELEGATORS = 4
delegators = st.integers(0, DELEGATORS - 1)
validators = st.integers(0, VALIDATORS - 1)
pairs = st.tuples(delegators, validators)
amounts = st.one_of(st.integers(1, 50), st.integers(OGPU, 10**14))
rewards = st.lists(st.integers(0, 10**12), min_size=VALIDATORS, max_size=VALIDATORS)
Step = Callable[[Books], None]


def tried_delegation(books: Books, pair: tuple[int, int], amount: int) -> None:
    if not is_spent(books.pools[pair[1]].stake):
        books.delegate(pair, amount)


def tried_withdrawal(books: Books, place: int) -> None:
    if books.chunks:
        books.withdraw(place % len(books.chunks))


steps: st.SearchStrategy[Step] = st.one_of(
    st.builds(lambda pair, amount: lambda books: tried_delegation(books, pair, amount), pairs, amounts),
    st.builds(lambda pair, amount: lambda books: tried_delegation(books, pair, amount), pairs, amounts),
    st.builds(lambda pair, amount: lambda books: books.undelegate(pair, amount), pairs, amounts),
    st.builds(
        lambda who, here, there, amount: lambda books: here != there and books.redelegate(who, here, there, amount),
        delegators, validators, validators, amounts,
    ),
    st.builds(
        lambda who, era, ppm: lambda books: books.slash(who, era, ppm),
        validators, st.integers(0, 9), st.integers(1, 10**6),
    ),
    st.builds(lambda who: lambda books: books.forgive(who), validators),
    st.builds(lambda each: lambda books: books.turn(each), rewards),
    st.builds(lambda pair: lambda books: books.claim(pair), pairs),
    st.builds(lambda pair: lambda books: books.compound(pair), pairs),
    st.builds(lambda place: lambda books: tried_withdrawal(books, place), st.integers(0, 9)),
)  # fmt: skip


@given(st.lists(steps, max_size=40))
def test_every_account_has_what_the_naive_rule_says(sequence: list[Step]) -> None:
    books = Books(VALIDATORS)
    for step in sequence:
        step(books)
        books.check()


def random_step(books: Books, chance: random.Random) -> None:
    """One of the steps, as an economy takes them: slashes are rare."""
    who, here, there = chance.randrange(20), chance.randrange(VALIDATORS), chance.randrange(VALIDATORS)
    amount = chance.randrange(OGPU, 1_000 * OGPU)
    kind = chance.choices(range(9), (8, 5, 4, 0.3, 0.2, 2, 3, 2, 3))[0]
    if kind == 0:
        tried_delegation(books, (who, here), amount)
    elif kind == 1:
        books.undelegate((who, here), amount)
    elif kind == 2 and here != there:
        books.redelegate(who, here, there, amount)
    elif kind == 3:
        books.slash(here, chance.randrange(max(0, books.era - 3), books.era + 1), chance.randrange(1, 400_000))
    elif kind == 4:
        books.forgive(here)
    elif kind == 5:
        books.turn([chance.randrange(100 * OGPU) for _ in range(VALIDATORS)])
    elif kind == 6:
        books.claim((who, here))
    elif kind == 7:
        books.compound((who, here))
    else:
        tried_withdrawal(books, chance.randrange(99))


@pytest.mark.parametrize("seed", range(4))
def test_a_long_season_ends_where_the_naive_rule_does(seed: int) -> None:
    books, chance = Books(VALIDATORS), random.Random(seed)
    for number in range(1_500):
        random_step(books, chance)
        if number % 100 == 0:
            books.check()
    books.check()
    for pair in list(books.positions):
        books.undelegate(pair, 10**18)
        books.claim(pair)
    while books.chunks:
        books.withdraw(0)
    books.check_sums()
    assert all(pool.stake == SharePool() and pool.delegators == 0 for pool in books.pools)
    assert not books.postings, "nothing is kept of eras that everybody settled"
    assert sum(pool.owed for pool in books.pools) < 20_000, "dust: less than a grain a touch"


# ------------------------------------------------------------------------------------------------------ single steps


def test_what_joins_in_an_era_earns_from_the_next() -> None:
    books = Books(1)
    books.delegate((0, 0), 100)
    books.turn([10])
    assert books.returned == 10, "nobody stood for the whole era"
    books.delegate((1, 0), 300)
    books.turn([12])
    assert (books.claim((0, 0)), books.claim((1, 0))) == (12, 0)
    books.turn([12])
    assert (books.claim((0, 0)), books.claim((1, 0))) == (3, 9)


def test_an_addition_earns_later_than_what_it_is_added_to() -> None:
    books = Books(1)
    books.delegate((0, 0), 100)
    books.delegate((1, 0), 100)
    books.turn([0])
    books.delegate((0, 0), 100)
    books.turn([20])
    assert books.postings[0, 1].shares == 100 * 10**6
    assert (books.claim((0, 0)), books.claim((1, 0))) == (10, 10)
    assert not books.postings
    books.turn([30])
    assert (books.claim((0, 0)), books.claim((1, 0))) == (20, 10)


def test_what_leaves_goes_unpaid_for_its_era_and_the_newest_first() -> None:
    books = Books(1)
    books.delegate((0, 0), 100)
    books.delegate((1, 0), 100)
    books.turn([0])
    books.delegate((0, 0), 50)
    books.undelegate((0, 0), 50)
    books.turn([20])
    assert (books.claim((0, 0)), books.claim((1, 0))) == (10, 10), "what was added and taken out again changes nothing"
    books.undelegate((0, 0), 100)
    books.turn([20])
    assert (books.claim((0, 0)), books.claim((1, 0))) == (0, 20)


def test_a_slash_reaches_who_stands_who_left_and_who_moved() -> None:
    books = Books(2)
    for who in range(4):
        books.delegate((who, 0), 100)
    books.undelegate((1, 0), 100)
    books.redelegate(2, 0, 1, 100)
    books.turn([0, 0])
    books.undelegate((3, 0), 100)
    books.slash(0, 0, 250_000)
    assert (books.stake((0, 0)), books.stake((2, 1))) == (75, 75)
    assert [books.value_of(chunk) for chunk in books.chunks] == [75, 75]
    books.slash(0, 0, 500_000)
    assert (books.stake((0, 0)), books.stake((2, 1))) == (50, 50)
    assert [books.value_of(chunk) for chunk in books.chunks] == [50, 50]


def test_an_offence_after_it_left_costs_nothing() -> None:
    books = Books(2)
    books.delegate((0, 0), 100)
    books.delegate((1, 0), 100)
    books.undelegate((0, 0), 100)
    books.redelegate(1, 0, 1, 100)
    books.turn([0, 0])
    books.slash(0, 1, 10**6)
    assert [books.value_of(chunk) for chunk in books.chunks] == [100]
    assert books.stake((1, 1)) == 100


def test_what_moved_and_left_answers_for_both() -> None:
    books = Books(2)
    books.delegate((0, 0), 100)
    books.redelegate(0, 0, 1, 100)
    books.undelegate((0, 1), 100)
    books.slash(0, 0, 500_000)
    books.slash(1, 0, 500_000)
    assert [books.value_of(chunk) for chunk in books.chunks] == [25]


def test_who_moved_after_a_slash_bears_the_rest_of_it_only() -> None:
    books = Books(2)
    books.delegate((0, 0), 100)
    books.slash(0, 0, 500_000)
    books.redelegate(0, 0, 1, 50)
    assert books.stake((0, 1)) == 50
    books.slash(0, 0, 750_000)
    assert books.stake((0, 1)) == 25


def test_what_moved_stays_until_evidence_is_too_old() -> None:
    books = Books(3)
    books.delegate((0, 0), 100)
    books.redelegate(0, 0, 1, 60)
    books.redelegate(0, 1, 2, 60)
    assert (books.stake((0, 1)), books.stake((0, 2))) == (60, 0)
    for _ in range(4):
        books.turn([0, 0, 0])
    books.redelegate(0, 1, 2, 60)
    assert (books.stake((0, 1)), books.stake((0, 2))) == (0, 60)


def test_nobody_claims_what_a_pool_did_not_earn() -> None:
    with pytest.raises(AssertionError, match="no more than their pool earned"):
        dl.pay(Pool(owed=1), Position(owed=2))


def test_nobody_gives_up_what_it_has_not() -> None:
    pool = Pool(SharePool(2, 2 * 10**6), delegators=2)
    with pytest.raises(AssertionError, match="that it gives up"):
        dl.depart(pool, Position(shares=10**6), 2 * 10**6, 0)


def test_a_move_without_a_place_is_the_callers_mistake() -> None:
    moves = tuple(dl.MovedShares(1, Liability(bytes(32), era, ())) for era in range(dl.MOVED_MAX))
    position = Position(shares=dl.MOVED_MAX, moved=moves)
    pool = Pool(SharePool(1, 10**6))
    with pytest.raises(AssertionError, match="whether there is a place"):
        dl.enter(pool, position, 1, 9, Liability(bytes(32), 99, ()))
    standing, _ = dl.enter(pool, position, 1, 9, moves[3].answer)
    assert sum(move.shares for move in standing.position.moved) == dl.MOVED_MAX + 10**6


def test_a_position_is_small() -> None:
    assert len(codec(Position).encode(Position(2**127, 2**127, 2**31, 2**127, 2**127))) == 69
    assert len(codec(EraPosting).encode(EraPosting(2**127, 2**127))) == 32


def test_no_index_of_a_pool_that_holds_everything_claims_more_than_was_paid() -> None:
    pool, everybody = Pool(stake=SharePool(7 * 10**17, 7 * 10**23)), Position(shares=7 * 10**23)
    for era in range(10):
        pool, _, left = dl.post(pool, 1, era + 1)
        assert left == 0
    assert (pool.owed, dl.earned(pool, everybody, EraPosting())) == (10, 7)
