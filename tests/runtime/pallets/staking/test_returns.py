"""The expected return of stake: never more than the chain pays, and hardly less."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.encoding.types import CAP_GRAINS
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.beacon import Beacon
from runtime.pallets.pots import RESERVE
from runtime.pallets.session import Session
from runtime.pallets.staking.holdings import earned_by
from runtime.pallets.staking.returns import LOST_AN_ERA, ExpectedReturn, emitted_at_least, expected_returns
from runtime.pallets.staking.trust_lock import TrustLock
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import System
from simulation.chains.market_chain import BOND, OGPU, Keys, MarketChain, named_keys, signed

SAVER = Keys("saver")
STAKING = (System, Balances, Beacon, TrustStake, Session, TrustLock)
BLOCKS = 3  # of an epoch, which is an era here


def expected(bound: Bound, eras: int) -> tuple[ExpectedReturn, ...]:
    return expected_returns(bound[TrustStake], bound[Balances].free_balance(RESERVE), eras)


def emitted(reserve: int, divisor: int, eras: int) -> int:
    """Return the emission, era by era, as the chain computes it."""
    left = reserve
    for _ in range(eras):
        left -= left // divisor
    return reserve - left


@given(st.integers(0, CAP_GRAINS), st.integers(100, 10_000), st.integers(0, 300))
def test_eras_emit_what_is_expected_or_a_little_more(reserve: int, divisor: int, eras: int) -> None:
    least, exact = emitted_at_least(reserve, divisor, eras), emitted(reserve, divisor, eras)
    assert least <= exact
    assert exact - least <= divisor + 1 + CAP_GRAINS // 10**15


def test_a_year_of_minutes_is_reckoned_at_once_and_never_more_than_there_is() -> None:
    assert emitted_at_least(10**15, 3_160, 525_960) == 10**15 - 3_160 - 1
    assert emitted_at_least(10**15, 3_160, 2**32 - 1) < 10**15
    assert emitted_at_least(10**15, 3_160, 0) == 0


@dataclass(frozen=True)
class Turns:
    """The authors of the three blocks of each era, the number of delegators, and the number of payouts."""

    authors: tuple[int, int, int]
    delegated: int
    eras: int


TURNS = st.builds(
    Turns, st.tuples(*[st.integers(0, 1)] * 3), st.sampled_from([0, OGPU, 50 * BOND // 13]), st.integers(1, 6)
)


@settings(max_examples=25)
@given(TURNS, st.sampled_from([50_000, 100_000, 1_000_000]))
def test_the_chain_pays_what_was_expected_and_hardly_more(turns: Turns, commission: int) -> None:
    chain = MarketChain(
        named_keys(2),
        [SAVER],
        {"TrustStake.emission_divisor": 100, "TrustStake.commission_step": 10**6},
        epoch_blocks=BLOCKS,
        pallets=STAKING,
        check=lambda *_: None,
    )
    first, second = (keys.stash for keys in chain.validators)
    steps = [signed(SAVER.stash, TrustStake.delegate(first, turns.delegated))] if turns.delegated else []
    chain.block(*steps, signed(first, TrustStake.announce_commission(commission)))

    def eras(count: int) -> None:
        for _ in range(count):
            for author in turns.authors:
                chain.block(author=chain.validators[author])

    chain.blocks(2)
    eras(3)  # the commission holds, and an era like those to come was made
    assert chain.height % BLOCKS == 0
    chain.block(author=chain.validators[turns.authors[0]])
    before, told = paid(chain.now()), expected(chain.now(), turns.eras)
    for place in turns.authors[1:]:
        chain.block(author=chain.validators[place])
    eras(turns.eras - 1)
    chain.block()
    got = {stash: after - before[stash] for stash, after in paid(chain.now()).items()}
    found = {each.stash: each for each in told}
    assert set(found) == {first, second}
    for stash, asked in ((first, commission), (second, 100_000)):
        share = got[stash] * (10**6 - asked) // 10**6
        assert found[stash].paid <= share + 1
        if turns.authors.count(0 if stash == first else 1) == 0:
            assert found[stash].paid == 0
        else:
            # A part of the money that providers do not earn returns to the reserve. The expectation leaves it out.
            assert found[stash].paid >= share * 90 // 100 - (LOST_AN_ERA + 1) * turns.eras - 200


def paid(bound: Bound) -> dict[bytes, int]:
    """Return all credits for each validator until now, commissions included."""
    stake = bound[TrustStake]
    return {stash: stake.pending_rewards[stash] + stake.pools[stash].owed for stash, _ in stake.candidates.items()}


def test_what_a_delegator_has_is_what_was_expected_for_its_part() -> None:
    chain = MarketChain(named_keys(1), [SAVER], {"TrustStake.emission_divisor": 100}, epoch_blocks=3)
    (alice,) = (keys.stash for keys in chain.validators)
    chain.block(signed(SAVER.stash, TrustStake.delegate(alice, BOND)))
    chain.blocks(3)
    (told,) = expected(chain.now(), 1)
    assert told.stake == 2 * BOND
    chain.blocks(3)
    stake = chain.now()[TrustStake]
    mine = earned_by(stake, SAVER.stash, alice)
    assert told.paid // 2 <= mine <= told.paid // 2 * 101 // 100
    assert mine > 10**6


def test_an_announced_commission_counts_before_it_holds_and_a_lower_one_not_yet() -> None:
    chain = MarketChain(named_keys(1), [], {"TrustStake.commission_step": 500_000}, epoch_blocks=3)
    (alice,) = (keys.stash for keys in chain.validators)
    chain.blocks(4)
    (told,) = expected(chain.now(), 10)
    chain.block(signed(alice, TrustStake.announce_commission(550_000)))
    (dearer,) = expected(chain.now(), 10)
    assert dearer.paid == pytest.approx(told.paid / 2, rel=1e-6)
    chain.block(signed(alice, TrustStake.announce_commission(50_000)))
    (cheaper,) = expected(chain.now(), 10)
    assert cheaper.paid == told.paid


def test_nothing_is_told_before_an_era_ended() -> None:
    chain = MarketChain(named_keys(1), epoch_blocks=3)
    chain.blocks(3)
    assert expected(chain.now(), 10) == ()
    chain.block()
    assert len(expected(chain.now(), 10)) == 1
