"""Positions in a pool: what may never be asked of them, and their size. `test_stakes` knows the naive rule."""

import pytest

from runtime.encoding.codec import codec
from runtime.pallets.staking import delegations as dl
from runtime.pallets.staking.delegations import EraPosting, Pool, Position
from runtime.pallets.staking.share_pool import SharePool
from runtime.pallets.staking.slash_factors import Liability


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
