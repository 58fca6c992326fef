"""TrustStake: bonds, keys, eras and rewards, step by step."""

import pytest

from runtime.encoding.types import Signed
from runtime.frame.errors import DispatchError, FundsUnavailable
from runtime.pallets.balances import Balances
from runtime.pallets.pots import RESERVE, STAKING_REWARDS
from runtime.pallets.session import Session
from runtime.pallets.session_keys import SessionKeys
from runtime.pallets.staking import staking_events as ev
from runtime.pallets.staking.holdings import earned_by
from runtime.pallets.staking.trust_stake import TrustStake, withdraw_weight
from simulation.chains.market_chain import (
    BOND,
    GENESIS_HASH,
    OGPU,
    STOCK,
    Keys,
    MarketChain,
    named_keys,
    refused,
    signed,
)

NEWCOMER, DELEGATOR = Keys("newcomer"), Keys("delegator")


def chain_of(count: int = 2) -> MarketChain:
    return MarketChain(named_keys(count), [NEWCOMER, DELEGATOR], epoch_blocks=6)


def validate(who: Keys, **changed: object) -> object:
    fields = {
        "keys": who.node_keys(),
        "proof": who.proof(GENESIS_HASH),
        "provider_key": who.provider,
        "commission_ppm": 50_000,
        **changed,
    }
    return TrustStake.validate(**fields)  # type: ignore[arg-type]


def keys_of(owner: Keys, name: str, vrf: str = "vrf") -> dict[str, object]:
    """Return the keys of another name, whose holder lets `owner` register them."""
    other = Keys(name)
    return {"keys": other.node_keys(vrf=vrf), "proof": other.proof(GENESIS_HASH, owner.stash, vrf=vrf)}


def free(chain: MarketChain, account: bytes) -> int:
    return chain.now()[Balances].free_balance(account)


def test_a_newcomer_may_be_elected_and_holds_no_office_yet() -> None:
    chain = chain_of()
    chain.block(signed(NEWCOMER.stash, TrustStake.bond(value=2 * BOND)), signed(NEWCOMER.stash, validate(NEWCOMER)))
    stake = chain.now()[TrustStake]
    assert stake.is_candidate(NEWCOMER.stash)
    assert stake.stash_of(NEWCOMER.provider) == NEWCOMER.stash
    assert NEWCOMER.stash not in [standing.stash for standing in stake.elected.get()]
    assert [seat.stash for seat in stake.validators(1)] == sorted(keys.stash for keys in chain.validators)


def test_sessions_are_epochs() -> None:
    chain = chain_of()
    chain.blocks(6)
    assert chain.now()[Session].current_index.get() == 0
    chain.block()
    session = chain.now()[Session]
    assert session.current_index.get() == 1
    assert session.validators.get() == tuple(sorted(keys.stash for keys in chain.validators))


def test_unbonding_takes_six_epochs() -> None:
    chain = chain_of()
    chain.block(signed(NEWCOMER.stash, TrustStake.bond(value=100 * OGPU)))
    before = free(chain, NEWCOMER.stash)
    chain.block(
        signed(NEWCOMER.stash, TrustStake.unbond(value=40 * OGPU)),
        signed(NEWCOMER.stash, TrustStake.unbond(value=60 * OGPU)),
    )
    (chunk,) = chain.now()[TrustStake].unlocking[NEWCOMER.stash]
    assert (chunk.value, chunk.until_epoch) == (100 * OGPU, 6), "one chunk for one epoch"
    withdraw = TrustStake.withdraw_unbonded()
    chain.blocks_to(6 * 6 - 1)
    chain.block(refused(NEWCOMER.stash, withdraw, ev.NothingToWithdraw))
    chain.block(signed(NEWCOMER.stash, withdraw))
    assert free(chain, NEWCOMER.stash) == before + 100 * OGPU


def test_a_withdrawal_weighs_what_it_freed() -> None:
    chain, who = chain_of(), DELEGATOR.stash
    behind = [keys.stash for keys in chain.validators]
    chain.block(*(signed(who, TrustStake.delegate(validator=to, value=50 * OGPU)) for to in behind))
    chain.block(*(signed(who, TrustStake.undelegate(validator=to, value=50 * OGPU)) for to in behind))
    chain.blocks(36)
    bound = chain.now()
    result = bound.dispatch(TrustStake.withdraw_unbonded(), Signed(who))
    assert result.actual_weight == withdraw_weight(2)
    assert withdraw_weight(2).ref_time < withdraw_weight().ref_time
    assert bound[Balances].holds[who] == ()


def test_who_sits_may_take_of_its_bond_change_its_keys_and_stop_to_offer() -> None:
    chain = chain_of()
    alice = chain.validators[0]
    chain.block(
        refused(alice.stash, validate(alice, commission_ppm=50_000), ev.CommissionFixed),
        signed(alice.stash, validate(alice, **keys_of(alice, "x"), commission_ppm=100_000)),
        signed(alice.stash, TrustStake.bond_extra(value=OGPU)),
        signed(alice.stash, TrustStake.unbond(value=2 * OGPU)),
        signed(alice.stash, TrustStake.chill()),
    )
    seat = chain.now()[TrustStake].seat_of(alice.stash)
    assert seat is not None
    assert (seat.weight, seat.session_key) == (BOND, alice.public("session"))


SMALL_ORDER = bytes(32)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (TrustStake.bond(value=OGPU), ev.BondTooSmall),
        (TrustStake.bond(value=10**20), FundsUnavailable),
        (TrustStake.bond_extra(value=OGPU), ev.NotBonded),
        (TrustStake.unbond(value=1), ev.NotEnoughStake),
        (TrustStake.chill(), ev.NotCandidate),
        (TrustStake.withdraw_unbonded(), ev.NothingToWithdraw),
        (validate(NEWCOMER), ev.BondTooSmall),
        (TrustStake.delegate(validator=DELEGATOR.stash, value=OGPU), ev.NotCandidate),
        (TrustStake.undelegate(validator=DELEGATOR.stash, value=OGPU), ev.NotEnoughStake),
        (TrustStake.redelegate(source=DELEGATOR.stash, target=DELEGATOR.stash, value=1), ev.SameValidator),
        (TrustStake.redelegate(source=DELEGATOR.stash, target=NEWCOMER.stash, value=1), ev.NotEnoughStake),
        (TrustStake.claim(validator=NEWCOMER.stash), ev.NothingToClaim),
        (TrustStake.claim(validator=DELEGATOR.stash), ev.NothingToClaim),
        (TrustStake.compound(validator=NEWCOMER.stash), ev.NothingToClaim),
        (TrustStake.collect(staker=NEWCOMER.stash, validator=DELEGATOR.stash), ev.NotEnoughStake),
        (TrustStake.announce_commission(commission_ppm=50_000), ev.NotCandidate),
        (TrustStake.set_profile(name=b"me", web=b""), ev.NotCandidate),
        (TrustStake.set_profile(name=b"", web=b""), ev.NoProfile),
    ],
)
def test_what_an_outsider_may_not_do(call: object, error: type[DispatchError]) -> None:
    chain_of().block(refused(NEWCOMER.stash, call, error))


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"keys": SessionKeys(SMALL_ORDER, NEWCOMER.public("vrf"))}, ev.UnsafeKey),
        ({"keys": SessionKeys(NEWCOMER.public("session"), b"\xff" * 32)}, ev.UnsafeKey),
        ({"proof": Keys("alice").proof(GENESIS_HASH)}, ev.InvalidKeysProof),
        ({"proof": NEWCOMER.proof(bytes(32))}, ev.InvalidKeysProof),
        ({"proof": NEWCOMER.proof(GENESIS_HASH, Keys("alice").stash)}, ev.InvalidKeysProof),
        ({"keys": Keys("alice").node_keys()}, ev.InvalidKeysProof),
        ({"keys": NEWCOMER.node_keys("session", "session")}, ev.InvalidKeysProof),
        (keys_of(NEWCOMER, "newcomer", "session"), ev.KeyTaken),
        ({"provider_key": (1).to_bytes(32, "little")}, ev.UnsafeKey),
        (keys_of(NEWCOMER, "alice"), ev.KeyTaken),
        ({"provider_key": Keys("newcomer").public("session")}, ev.KeyTaken),
        ({"provider_key": Keys("alice").provider}, ev.KeyTaken),
        ({"commission_ppm": 1_000_001}, ev.CommissionTooHigh),
        ({"commission_ppm": 49_999}, ev.CommissionTooLow),
    ],
)
def test_keys_that_may_not_be_registered(changed: dict[str, object], error: type[DispatchError]) -> None:
    chain_of().block(
        signed(NEWCOMER.stash, TrustStake.bond(value=BOND)),
        refused(NEWCOMER.stash, validate(NEWCOMER, **changed), error),
        refused(NEWCOMER.stash, TrustStake.bond(value=BOND), ev.AlreadyBonded),
    )


def test_an_era_pays_for_the_one_before() -> None:
    chain = chain_of(2)
    alice, bob = chain.validators
    chain.block(signed(DELEGATOR.stash, TrustStake.delegate(validator=alice.stash, value=BOND)))
    chain.blocks(5)
    for _ in range(2):
        chain.block(author=alice)
        chain.block(author=bob)
        chain.block(author=alice)
    assert chain.height == 12
    before = chain.now()[TrustStake].pending_rewards[alice.stash]
    chain.block()
    now = chain.now()[TrustStake]
    paid = now.eras_validator_reward[1]
    assert paid is not None
    reward = paid * 4 // 6
    commission = reward * 100_000 // 10**6
    half = (reward - commission) // 2
    assert now.pending_rewards[alice.stash] - before == commission + half
    assert earned_by(now, DELEGATOR.stash, alice.stash) == reward - commission - half
    assert now.pending_rewards[bob.stash] == paid * 2 // 6
    assert (
        free(chain, STAKING_REWARDS)
        == now.pending_rewards[alice.stash] + now.pending_rewards[bob.stash] + reward - commission - half
    )


def test_what_was_earned_waits_for_ever_and_what_was_not_stays_in_the_reserve() -> None:
    chain = MarketChain(named_keys(1), [], {"TrustStake.history_eras": 5}, epoch_blocks=3)
    alice = chain.validators[0].stash
    chain.blocks(4)
    assert chain.now()[Balances].free_balance(RESERVE) == STOCK - STOCK // 3160
    earned = chain.now()[TrustStake].pending_rewards[alice]
    assert earned == STOCK // 3160 // 2
    chain.blocks(3 * 7)
    stake = chain.now()[TrustStake]
    assert stake.current_era.get() == 8
    assert [stake.eras_validator_reward[era] is None for era in (1, 2, 3)] == [True, True, False]
    assert stake.eras_exposure[1, alice] is None
    assert (stake.eras_reward_points[1], stake.eras_total_stake[1], len(stake.eras_reward_points[3])) == ((), 0, 1)
    assert stake.pending_rewards[alice] == free(chain, STAKING_REWARDS) > 7 * earned


def test_a_chilled_candidate_may_unbond_everything() -> None:
    chain = chain_of()
    chain.block(
        signed(NEWCOMER.stash, TrustStake.bond(value=BOND)),
        signed(NEWCOMER.stash, validate(NEWCOMER)),
        signed(DELEGATOR.stash, TrustStake.delegate(validator=NEWCOMER.stash, value=5 * OGPU)),
        refused(NEWCOMER.stash, TrustStake.unbond(value=BOND), ev.StillCandidate),
        refused(DELEGATOR.stash, TrustStake.undelegate(validator=NEWCOMER.stash, value=5 * OGPU - 1), ev.BondTooSmall),
        signed(NEWCOMER.stash, TrustStake.chill()),
        signed(NEWCOMER.stash, TrustStake.unbond(value=BOND)),
        signed(DELEGATOR.stash, TrustStake.undelegate(validator=NEWCOMER.stash, value=5 * OGPU)),
    )
    assert not chain.now()[TrustStake].is_candidate(NEWCOMER.stash)


@pytest.mark.parametrize(("era", "evidence", "least"), [(1, 3, 6), (4, 3, 12), (24, 432, 481)])
def test_a_chain_whose_stake_can_escape_is_refused(era: int, evidence: int, least: int) -> None:
    """A leaver in an era's first epoch is liable for the next era's last, so its stake must outlast that evidence."""
    lengths = {"TrustStake.era_epochs": era, "TrustStake.evidence_epochs": evidence}
    with pytest.raises(ValueError, match="unbonding_epochs must"):
        MarketChain(named_keys(1), [], {**lengths, "TrustStake.unbonding_epochs": least - 1})
    MarketChain(named_keys(1), [], {**lengths, "TrustStake.unbonding_epochs": least})
