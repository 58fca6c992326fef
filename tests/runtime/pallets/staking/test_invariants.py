"""What staking asserts where a life ends: each assertion fires when the state, or our own code, is broken."""

from collections.abc import Callable
from typing import Any

import pytest

from runtime.encoding.types import Signed
from runtime.frame.holds import Hold
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.beacon import Beacon, FinalBlock
from runtime.pallets.session import Session
from runtime.pallets.staking import eras
from runtime.pallets.staking.exposures import Exposure
from runtime.pallets.staking.slashing import Share
from runtime.pallets.staking.stakers import STAKE, EraReward, Unlocking
from runtime.pallets.staking.trust_lock import TrustLock
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import System
from scripts.chains.market_chain import BOND, OGPU, Keys, MarketChain, named_keys

ALICE, SAVER = Keys("alice"), Keys("saver")


@pytest.fixture
def bound() -> Bound:
    """A chain in its second era, with a saver who has nothing at stake."""
    chain = MarketChain(named_keys(2), [SAVER], epoch_blocks=6)
    chain.blocks(7)
    return chain.now()


def drain(bound: Bound, who: bytes, left: int) -> None:
    """Free what is held as stake, down to so much: what no pallet may do to another."""
    balances, hold = bound[Balances], Hold(STAKE, who)
    balances.release(who, hold, balances.held(who, hold) - left)


def test_stake_that_is_not_held_cannot_be_withdrawn(bound: Bound) -> None:
    stake = bound[TrustStake]
    stake.balances.hold(SAVER.stash, Hold(STAKE, SAVER.stash), OGPU)
    stake.unlocking[SAVER.stash] = (Unlocking(SAVER.stash, OGPU, 0), Unlocking(SAVER.stash, 1, 9))
    with pytest.raises(AssertionError, match="stake that nobody holds"):
        stake.withdraw_unbonded(Signed(SAVER.stash))


@pytest.mark.parametrize("off", [-1, 1])
def test_stake_that_is_not_what_is_held_cannot_be_slashed(bound: Bound, off: int) -> None:
    if off > 0:
        bound[Balances].hold(ALICE.stash, Hold(STAKE, ALICE.stash), off)
    else:
        drain(bound, ALICE.stash, BOND + off)
    with pytest.raises(AssertionError, match="stake that nobody holds"):
        bound[TrustStake].slash_exposure(ALICE.stash, Exposure(BOND, BOND), 100_000)


def test_a_lock_shrinks_by_what_is_paid_of_it(bound: Bound, monkeypatch: pytest.MonkeyPatch) -> None:
    lock, hold = bound[TrustLock], Hold(STAKE, bytes(32))
    lock.lock(SAVER.stash, hold, 5 * OGPU)
    monkeypatch.setattr(Balances, "pay_held", lambda *_: None)
    with pytest.raises(AssertionError, match="a lock ends by what was paid of it"):
        lock.pay_out(SAVER.stash, hold, (Share(ALICE.stash, OGPU),))


def test_heights_only_rise(bound: Bound) -> None:
    beacon, number = bound[Beacon], bound[System].number
    with pytest.raises(AssertionError, match="heights only rise"):
        beacon._extend(bytes(32))
    number.set(number.get() + 1)
    beacon.final.set(FinalBlock(number.get(), bytes(32)))
    with pytest.raises(AssertionError, match="not final before it is made"):
        beacon._extend(bytes(32))


@pytest.mark.parametrize(("item", "told"), [("current_index", "epochs only rise"), ("current_era", "eras only rise")])
def test_epochs_and_eras_only_rise(bound: Bound, item: str, told: str) -> None:
    owner: Any = bound[Session] if item == "current_index" else bound[TrustStake]
    assert getattr(owner, item).get() == 1
    getattr(owner, item).set(2)
    with pytest.raises(AssertionError, match=told):
        eras.enter(bound[TrustStake])


def claim_too_much(bound: Bound, _patch: pytest.MonkeyPatch) -> None:
    bound[TrustStake].eras_reward[0] = EraReward(OGPU, 0)


def share_too_much(_bound: Bound, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(eras, "reward_shares", lambda amount, validator, _: (Share(validator, amount + 1),))


def lose_on_the_way(_bound: Bound, patch: pytest.MonkeyPatch) -> None:
    move = eras._move
    patch.setattr(eras, "_move", lambda *where: move(*where) - OGPU)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (claim_too_much, "no more than it emitted"),
        (share_too_much, "the shares are the reward"),
        (lose_on_the_way, "only dust leaves the pot"),
    ],
)
def test_a_payout_is_what_left_the_pot(
    bound: Bound, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Bound, pytest.MonkeyPatch], None], told: str
) -> None:
    damage(bound, monkeypatch)
    with pytest.raises(AssertionError, match=told):
        eras.pay_out(bound[TrustStake], ALICE.stash, 0)


def test_only_candidates_are_elected(bound: Bound, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eras, "elect", lambda *_: ((SAVER.stash, OGPU),))
    with pytest.raises(AssertionError, match="only candidates"):
        eras._elect(bound[TrustStake], 2)


def test_an_honest_payout_and_withdrawal_pass(bound: Bound) -> None:
    assert sum(share.amount for share in eras.pay_out(bound[TrustStake], ALICE.stash, 0)) > 0
    bound.dispatch(TrustStake.bond(value=BOND), Signed(SAVER.stash))
    bound.dispatch(TrustStake.unbond(value=BOND), Signed(SAVER.stash))
    (chunk,) = bound[TrustStake].unlocking[SAVER.stash]
    bound[TrustStake].unlocking[SAVER.stash] = (Unlocking(chunk.validator, chunk.value, 0),)
    bound.dispatch(TrustStake.withdraw_unbonded(), Signed(SAVER.stash))
    assert bound[Balances].reserved_balance(SAVER.stash) == 0
