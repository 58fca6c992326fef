"""`OgpuApi`'s answers about stake, field by field, against the state."""

from dataclasses import replace
from typing import Any

import pytest

from runtime.frame.api import Apis
from runtime.frame.runtime import Bound
from runtime.interface.staking_api import OgpuApi, PendingReward, Stake, StakeSummary, ValidatorSummary
from runtime.pallets.staking.slash_factors import WHOLE, Liability, OffenceFactor
from runtime.pallets.staking.stakers import Points, Standing, Unlocking
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.state.overlay import Memory
from simulation.chains.market_chain import BOND, OGPU, Keys, MarketChain, named_keys, signed, validates

SAVER, NEW = Keys("saver"), Keys("new")
ALICE, BOB = sorted(keys.stash for keys in named_keys(2))
EPOCH_BLOCKS = 3


@pytest.fixture
def bound() -> Bound:
    """Return epoch 2: the saver delegates to both validators, and an inactive account to none."""
    chain = MarketChain(named_keys(2), [SAVER, NEW], epoch_blocks=EPOCH_BLOCKS)
    chain.block(
        signed(SAVER.stash, TrustStake.delegate(ALICE, BOND)),
        signed(SAVER.stash, TrustStake.delegate(BOB, 2 * BOND)),
        signed(NEW.stash, TrustStake.bond(20 * OGPU)),
        signed(NEW.stash, validates(NEW)),
    )
    return chain.blocks(2 * EPOCH_BLOCKS)


def api(bound: Bound) -> Any:
    state = bound.overlay.reader
    assert isinstance(state, Memory)
    return OgpuApi(Apis(bound.runtime, (OgpuApi,)), state.updated(bound.overlay.changes()), bytes(32), lambda *_: False)


def summary_of(bound: Bound, stash: bytes) -> ValidatorSummary:
    table = api(bound).candidates()
    assert [each.stash for each in table] == sorted(each.stash for each in table)
    (found,) = [each for each in table if each.stash == stash]
    assert isinstance(found, ValidatorSummary)
    return found


def test_what_an_account_has_behind_validators(bound: Bound) -> None:
    found: StakeSummary = api(bound).stakes(SAVER.stash)
    assert found.stakes == (Stake(ALICE, BOND), Stake(BOB, 2 * BOND)), "no bond, so it does not stand behind itself"
    assert api(bound).stakes(NEW.stash).stakes == (Stake(NEW.stash, 20 * OGPU),)


def test_what_waits_is_free_when_its_time_is_over_and_nothing_keeps_it(bound: Bound) -> None:
    stake, before = bound[TrustStake], b"b" * 32
    stake.system.number.set(5 * EPOCH_BLOCKS + 1)
    stake.slash_factors[before] = (OffenceFactor(0, WHOLE // 2),)
    stake.tombstones[before] = 0
    both = (Liability(ALICE, 0, ()), Liability(before, 0, ()))
    stake.unlocking[SAVER.stash] = (
        Unlocking(ALICE, 10, 5, (Liability(ALICE, 0, ()),)),
        Unlocking(ALICE, 100, 6, (Liability(ALICE, 0, ()),)),
        Unlocking(ALICE, 1_000, 5, both),
    )
    found = api(bound).stakes(SAVER.stash)
    assert [(each.value, each.until_epoch, each.is_held) for each in found.unlocking] == [
        (10, 5, False), (100, 6, False), (500, stake.unbonding_epochs + 2, True),
    ]  # fmt: skip
    assert found.withdrawable == 10
    stake.pending_slash_counts[ALICE] = 1
    found = api(bound).stakes(SAVER.stash)
    assert ([each.is_held for each in found.unlocking], found.withdrawable) == ([True] * 3, 0)


def test_what_may_be_claimed(bound: Bound) -> None:
    stake = bound[TrustStake]
    for validator, position in list(stake.delegations.under(SAVER.stash)):
        assert position is not None
        stake.delegations[SAVER.stash, validator] = replace(position, owed=position.owed + 1)
    stake.pending_rewards[ALICE] = 7
    assert api(bound).pending_rewards(ALICE) == (PendingReward(ALICE, 7),)
    assert [each.validator for each in api(bound).pending_rewards(SAVER.stash)] == [ALICE, BOB]
    assert api(bound).pending_rewards(NEW.stash) == ()


def test_a_candidate_without_office(bound: Bound) -> None:
    stake = bound[TrustStake]
    found = summary_of(bound, NEW.stash)
    assert (found.own, found.total, found.delegators) == (20 * OGPU, 20 * OGPU, 0)
    assert (found.in_office, found.elected, found.tombstoned, found.slashes_held) == (False, False, False, 0)
    stake.elected.set((Standing(NEW.stash, 1),))
    assert summary_of(bound, NEW.stash).elected


def test_a_validator_and_what_is_proven_of_it(bound: Bound) -> None:
    stake = bound[TrustStake]
    stake.eras_reward_points[1], stake.eras_reward_points[2] = (
        (Points(ALICE, 40),),
        (Points(BOB, 60), Points(ALICE, 20)),
    )
    stake.elected.set((Standing(BOB, 1),))
    found = summary_of(bound, ALICE)
    assert (found.own, found.total, found.delegators, found.points) == (BOND, 2 * BOND, 1, 20)
    assert (found.in_office, found.elected, found.tombstoned, found.slashes_held) == (True, False, False, 0)
    stake.pending_slash_counts[ALICE], stake.tombstones[ALICE] = 3, 2
    found = summary_of(bound, ALICE)
    assert (found.tombstoned, found.slashes_held) == (True, 3)
