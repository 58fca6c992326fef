"""Calls of delegators: several delegations at once, moved, rewarded, compounded; commissions and profiles."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from runtime.encoding.types import Signed
from runtime.frame.errors import FundsUnavailable
from runtime.frame.holds import Hold
from runtime.frame.parameter import Parameter
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.pots import STAKES
from runtime.pallets.staking import held_slashes
from runtime.pallets.staking import staking_events as ev
from runtime.pallets.staking.delegations import MOVED_MAX
from runtime.pallets.staking.holdings import earned_by, stake_of
from runtime.pallets.staking.slash_factors import Liability, SlashStep
from runtime.pallets.staking.stakers import PROFILE, STAKE
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import System
from simulation.chains.market_chain import (
    BOND,
    ENDOWMENT,
    OGPU,
    Keys,
    MarketChain,
    named_keys,
    refused,
    signed,
    validates,
)

SAVER, OTHER = Keys("saver"), Keys("other")
WHO = SAVER.stash


def chain_of(count: int = 3, **constants: int) -> MarketChain:
    return MarketChain(named_keys(count), [SAVER, OTHER], constants, epoch_blocks=3)


def stashes(chain: MarketChain) -> list[bytes]:
    return [keys.stash for keys in chain.validators]


def stake(chain: MarketChain, validator: bytes, who: bytes = WHO) -> int:
    return stake_of(chain.now()[TrustStake], who, validator)


def test_one_account_stands_behind_several_validators() -> None:
    chain = chain_of()
    first, second, third = stashes(chain)
    chain.block(*(signed(WHO, TrustStake.delegate(to, value)) for to, value in ((first, BOND), (second, 2 * BOND))))
    chain.block(signed(WHO, TrustStake.delegate(first, OGPU)), signed(WHO, TrustStake.delegate(third, OGPU)))
    assert [stake(chain, to) for to in (first, second, third)] == [BOND + OGPU, 2 * BOND, OGPU]
    balances = chain.now()[Balances]
    assert balances.free_balance(WHO) == ENDOWMENT - 3 * BOND - 2 * OGPU
    assert balances.held(STAKES, Hold(STAKE, first)) == BOND + OGPU
    assert chain.now()[System].account[WHO].sufficients == 3
    assert chain.now()[TrustStake].behind(first) == 2 * BOND + OGPU


def test_who_delegates_all_it_has_lives_on() -> None:
    chain = chain_of()
    first = stashes(chain)[0]
    chain.block(signed(WHO, TrustStake.delegate(first, ENDOWMENT - 5)))
    assert chain.now()[Balances].free_balance(WHO) == 5, "dust only without a stake"
    chain.block(signed(WHO, TrustStake.undelegate(first, ENDOWMENT - 5)))
    assert chain.now()[Balances].free_balance(WHO) == 5
    chain.blocks(3 * 6)
    chain.block(signed(WHO, TrustStake.withdraw_unbonded()))
    assert chain.now()[Balances].free_balance(WHO) == ENDOWMENT
    assert chain.now()[System].account[WHO].sufficients == 0
    chain.block(refused(WHO, TrustStake.delegate(first, ENDOWMENT + 1), FundsUnavailable))


def test_minimum_and_all() -> None:
    chain = chain_of()
    first, second, _ = stashes(chain)
    chain.block(
        refused(WHO, TrustStake.delegate(first, OGPU - 1), ev.BondTooSmall),
        signed(WHO, TrustStake.delegate(first, 3 * OGPU)),
        signed(WHO, TrustStake.delegate(first, 1)),
        refused(WHO, TrustStake.undelegate(first, 2 * OGPU + 2), ev.BondTooSmall),
        refused(WHO, TrustStake.undelegate(first, 4 * OGPU), ev.NotEnoughStake),
        refused(WHO, TrustStake.undelegate(first, 0), ev.NotEnoughStake),
        refused(WHO, TrustStake.redelegate(first, second, OGPU - 1), ev.BondTooSmall),
        refused(first, TrustStake.delegate(first, OGPU), ev.NotCandidate),
        signed(WHO, TrustStake.redelegate(first, second, OGPU)),
        signed(WHO, TrustStake.undelegate(first, 2 * OGPU + 1)),
    )
    assert (stake(chain, first), stake(chain, second)) == (0, OGPU)
    assert (WHO, first) not in chain.now()[TrustStake].delegations


def test_rewards_are_pulled_or_compounded() -> None:
    chain = chain_of(1)
    (alice,) = stashes(chain)
    chain.block(signed(WHO, TrustStake.delegate(alice, BOND)), signed(OTHER.stash, TrustStake.delegate(alice, BOND)))
    chain.blocks(2)
    chain.block(refused(WHO, TrustStake.claim(alice), ev.NothingToClaim))
    chain.blocks(4)
    now = chain.now()[TrustStake]
    reward = now.eras_validator_reward[1]
    assert reward is not None
    mine, hers = earned_by(now, WHO, alice), earned_by(now, OTHER.stash, alice)
    rest = reward - reward // 10
    assert mine == hers == (rest - rest // 3) // 2
    free = chain.now()[Balances].free_balance(WHO)
    own = now.pending_rewards[alice]
    chain.block(
        signed(WHO, TrustStake.claim(alice)),
        signed(OTHER.stash, TrustStake.compound(alice)),
        signed(alice, TrustStake.compound(alice)),
    )
    assert chain.now()[Balances].free_balance(WHO) - free == mine
    assert stake(chain, alice, OTHER.stash) == BOND + hers
    assert chain.now()[TrustStake].bonds[alice] == BOND + own
    assert chain.now()[TrustStake].pending_rewards[alice] == 0


def test_who_leaves_is_paid_what_it_earned() -> None:
    chain = chain_of(1)
    (alice,) = stashes(chain)
    chain.block(signed(WHO, TrustStake.delegate(alice, BOND)))
    chain.blocks(6)
    earned, free = earned_by(chain.now()[TrustStake], WHO, alice), chain.now()[Balances].free_balance(WHO)
    assert earned > 0
    chain.block(signed(WHO, TrustStake.undelegate(alice, BOND)))
    assert chain.now()[Balances].free_balance(WHO) == free + earned
    assert alice not in chain.now()[TrustStake].pools
    chain.blocks(6)
    chain.block(refused(WHO, TrustStake.claim(alice), ev.NothingToClaim))


def test_a_reward_without_delegators_who_stood_for_the_era_stays_in_the_reserve() -> None:
    chain = chain_of(1)
    (alice,) = stashes(chain)
    chain.block(signed(WHO, TrustStake.delegate(alice, BOND)))
    chain.blocks(3)
    chain.block(signed(WHO, TrustStake.undelegate(alice, BOND)))
    chain.blocks(3)
    now = chain.now()[TrustStake]
    assert now.current_era.get() == 2
    full, left = now.eras_validator_reward[0], now.eras_validator_reward[1]
    assert full is not None
    assert left is not None
    assert abs(left - (full * 10_000 * 55 // 100 // 10_000)) < full // 100, "commission and the own half are paid"


def test_moves_have_places() -> None:
    chain = chain_of(3)
    first, second, _ = stashes(chain)
    chain.block(signed(WHO, TrustStake.delegate(first, 100 * OGPU)))
    move = TrustStake.redelegate(first, second, OGPU)
    chain.block(signed(WHO, move), signed(WHO, move))
    position = chain.now()[TrustStake].delegations[WHO, second]
    assert position is not None
    assert len(position.moved) == 1, "moves of an era are one"

    def full(bound: Bound) -> None:
        found = bound[TrustStake].delegations[WHO, second]
        assert found is not None
        answers = [replace_era(found.moved[0].answer, era) for era in range(1, MOVED_MAX + 1)]
        moved = tuple(type(found.moved[0])(1, answer) for answer in answers)
        bound[TrustStake].delegations[WHO, second] = type(found)(
            found.shares, found.joined, found.era, found.index, 0, moved
        )

    chain.block(full, refused(WHO, move, ev.TooManyMoves))


def replace_era(answer: Liability, era: int) -> Liability:
    return replace(answer, era=era)


def test_a_commission_is_announced() -> None:
    chain = chain_of(1)
    (alice,) = stashes(chain)
    chain.block(
        refused(alice, TrustStake.announce_commission(111_000), ev.CommissionStep),
        refused(alice, TrustStake.announce_commission(49_999), ev.CommissionTooLow),
        refused(alice, TrustStake.announce_commission(1_000_001), ev.CommissionTooHigh),
        signed(alice, TrustStake.announce_commission(110_000)),
    )
    asked = []
    for _ in range(3):
        exposed = chain.now()[TrustStake].eras_exposure[chain.now()[TrustStake].current_era.get(), alice]
        assert exposed is not None
        asked.append(exposed.commission_ppm)
        chain.blocks(3)
    assert asked == [100_000, 100_000, 110_000]
    chain.block(signed(alice, TrustStake.announce_commission(120_000)))
    assert chain.now()[TrustStake].commission_of(alice) == 110_000
    chain.block(changed(TrustStake.commission_min, 115_000))
    assert chain.now()[TrustStake].commission_of(alice) == 115_000, "the floor holds for all"


def test_a_pause_changes_no_commission_while_others_are_behind() -> None:
    chain = chain_of(1)
    new = OTHER.stash
    chain.block(
        signed(new, TrustStake.bond(BOND)),
        signed(new, validates(OTHER)),
        signed(WHO, TrustStake.delegate(new, BOND)),
        signed(new, TrustStake.chill()),
        refused(new, other_commission(OTHER), ev.CommissionFixed),
        signed(new, validates(OTHER)),
        signed(WHO, TrustStake.undelegate(new, BOND)),
        signed(new, TrustStake.chill()),
        signed(new, other_commission(OTHER)),
    )
    assert chain.now()[TrustStake].commission_of(new) == 90_000
    assert chain.now()[TrustStake].last_commission[new] is None


def changed(parameter: Parameter[int], value: int) -> Callable[[Bound], None]:
    def step(bound: Bound) -> None:
        bound.parameters.change(parameter, value)

    return step


def other_commission(keys: Keys) -> object:
    return validates(keys, commission_ppm=90_000)


def test_a_profile_is_for_a_deposit() -> None:
    chain = chain_of(1)
    (alice,) = stashes(chain)
    free = chain.now()[Balances].free_balance(alice)
    chain.block(signed(alice, TrustStake.set_profile(b"Alice", b"https://alice.example")))
    chain.block(changed(TrustStake.profile_deposit, OGPU))
    chain.block(signed(alice, TrustStake.set_profile(b"Alice & sons", b"")))
    profile = chain.now()[TrustStake].profiles[alice]
    assert profile is not None
    assert (profile.name, profile.deposit) == (b"Alice & sons", OGPU // 10)
    assert chain.now()[Balances].held(alice, Hold(PROFILE, alice)) == OGPU // 10
    chain.block(signed(alice, TrustStake.set_profile(b"", b"")))
    assert chain.now()[Balances].free_balance(alice) == free


@pytest.mark.parametrize("ppm", [10**6, 10**6 - 1])
def test_a_pool_that_slashes_emptied_takes_in_nobody_and_lets_go(ppm: int) -> None:
    chain = chain_of(1)
    (alice,) = stashes(chain)
    chain.block(signed(WHO, TrustStake.delegate(alice, 9 * OGPU)))

    def spend(bound: Bound) -> None:
        held_slashes.hold_back(bound[TrustStake], alice, 0, SlashStep(0, ppm), OTHER.stash)
        for _ in range(2 if ppm < 10**6 else 1):
            held_slashes.hold_back(bound[TrustStake], alice, 0, SlashStep(0, ppm), OTHER.stash)

    chain.block(spend, refused(OTHER.stash, TrustStake.delegate(alice, BOND), ev.SlashPending))
    chain.blocks(7)
    chain.block(refused(OTHER.stash, TrustStake.delegate(alice, BOND), ev.PoolSpent))
    left = stake(chain, alice)
    chain.block(signed(WHO, TrustStake.undelegate(alice, left)))
    assert (WHO, alice) not in chain.now()[TrustStake].delegations
    assert alice not in chain.now()[TrustStake].pools
    chain.now().dispatch(TrustStake.delegate(alice, BOND), Signed(OTHER.stash))
