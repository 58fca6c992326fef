"""Staking's assertions: each fires if the state, or our own code, is broken."""

from dataclasses import replace

import pytest

from runtime.encoding.types import Signed
from runtime.frame.holds import Hold
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.beacon import Beacon, FinalBlock
from runtime.pallets.staking import delegations, eras, held_slashes
from runtime.pallets.staking.slash_factors import SlashStep
from runtime.pallets.staking.slashing import Share
from runtime.pallets.staking.stakers import STAKE, Unlocking
from runtime.pallets.staking.trust_lock import TrustLock
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import System
from simulation.chains.market_chain import BOND, OGPU, Keys, MarketChain, named_keys

ALICE, SAVER = Keys("alice"), Keys("saver")


@pytest.fixture
def bound() -> Bound:
    """Return a chain in its second era, with a saver without stake."""
    chain = MarketChain(named_keys(2), [SAVER], epoch_blocks=6)
    chain.blocks(7)
    return chain.now()


def drain(bound: Bound, who: bytes, left: int) -> None:
    """Free stake down to `left`, which no pallet may do to another."""
    balances, hold = bound[Balances], Hold(STAKE, who)
    balances.release(who, hold, balances.held(who, hold) - left)


def test_stake_that_is_not_held_cannot_be_withdrawn(bound: Bound) -> None:
    stake = bound[TrustStake]
    stake.balances.hold(SAVER.stash, Hold(STAKE, SAVER.stash), OGPU)
    stake.unlocking[SAVER.stash] = (Unlocking(SAVER.stash, OGPU, 0), Unlocking(SAVER.stash, 1, 9))
    stake.balances.sustain(SAVER.stash, 1)
    with pytest.raises(AssertionError, match="stake equals"):
        stake.withdraw_unbonded(Signed(SAVER.stash))


@pytest.mark.parametrize("off", [-1, 1])
def test_stake_that_is_not_what_is_held_cannot_be_slashed(bound: Bound, off: int) -> None:
    if off > 0:
        bound[Balances].hold(ALICE.stash, Hold(STAKE, ALICE.stash), off)
    else:
        drain(bound, ALICE.stash, BOND + off)
    stake = bound[TrustStake]
    held_slashes.hold_back(stake, ALICE.stash, 0, SlashStep(0, 100_000), SAVER.stash)
    stake.current_era.set(2)
    with pytest.raises(AssertionError, match="stake equals"):
        held_slashes.take_due(stake)


def test_a_lock_shrinks_by_what_is_paid_of_it(bound: Bound, monkeypatch: pytest.MonkeyPatch) -> None:
    lock, hold = bound[TrustLock], Hold(STAKE, bytes(32))
    lock.lock(SAVER.stash, hold, 5 * OGPU)
    monkeypatch.setattr(Balances, "pay_held", lambda *_: None)
    with pytest.raises(AssertionError, match="lock falls"):
        lock.pay_out(SAVER.stash, hold, (Share(ALICE.stash, OGPU),))


def test_heights_only_rise(bound: Bound) -> None:
    beacon, number = bound[Beacon], bound[System].number
    with pytest.raises(AssertionError, match="value per height"):
        beacon._extend(bytes(32))
    number.set(number.get() + 1)
    beacon.final.set(FinalBlock(number.get(), bytes(32)))
    with pytest.raises(AssertionError, match="below the block"):
        beacon._extend(bytes(32))


def test_eras_only_rise(bound: Bound) -> None:
    stake = bound[TrustStake]
    assert stake.current_era.get() == 1
    stake.current_era.set(2)
    with pytest.raises(AssertionError, match="eras only rise"):
        eras._turn_epoch(stake, 1)


def test_an_epoch_begins_with_a_set_that_was_elected(bound: Bound) -> None:
    bound[TrustStake].last_elected_epoch.set(0)
    with pytest.raises(AssertionError, match="previous epoch elected"):
        eras._turn_epoch(bound[TrustStake], 1)


def test_an_era_pays_what_it_emits_to_those_it_elected(bound: Bound, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegations, "post", lambda pool, reward, _: (pool, None, -reward - OGPU))
    with pytest.raises(AssertionError, match="its emission"):
        eras._share(bound[TrustStake], 0, OGPU)
    del bound[TrustStake].eras_exposure[0, ALICE.stash]
    with pytest.raises(AssertionError, match="author has exposure"):
        eras._share(bound[TrustStake], 0, OGPU)


def test_a_reason_to_live_ends_once(bound: Bound) -> None:
    with pytest.raises(AssertionError, match="sufficients"):
        bound[Balances].sustain(SAVER.stash, -1)


def test_an_honest_payout_and_withdrawal_pass(bound: Bound) -> None:
    bound.dispatch(TrustStake.claim(validator=ALICE.stash), Signed(ALICE.stash))
    bound.dispatch(TrustStake.bond(value=BOND), Signed(SAVER.stash))
    bound.dispatch(TrustStake.unbond(value=BOND), Signed(SAVER.stash))
    (chunk,) = bound[TrustStake].unlocking[SAVER.stash]
    bound[TrustStake].unlocking[SAVER.stash] = (replace(chunk, until_epoch=0, answers=()),)
    bound.dispatch(TrustStake.withdraw_unbonded(), Signed(SAVER.stash))
    assert bound[Balances].reserved_balance(SAVER.stash) == 0
