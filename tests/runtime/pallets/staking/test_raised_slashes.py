"""A slash rises while accomplices may be found. Stake that left earlier pays the rise too, at any time."""

import pytest

from runtime.frame.runtime import Bound
from runtime.pallets.staking import staking_events as ev
from runtime.pallets.staking import trust_lock as tl
from runtime.pallets.staking.holdings import stake_of
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.chains.evidence import double
from simulation.chains.market_chain import OGPU, Keys, MarketChain, named_keys, refused, signed, tolerant

WHO, REPORTER = (Keys(name).stash for name in ("delegator", "reporter"))
FIRST, SECOND, THIRD = named_keys(3)
STAKE, EPOCH_BLOCKS, UNBONDING = 100 * OGPU, 3, 6


def chain_of(**constants: int) -> MarketChain:
    """Return seven validators in the third epoch. The first one has one delegator."""
    others = [Keys("delegator"), Keys("reporter")]
    chain = MarketChain(named_keys(7), others, constants, epoch_blocks=EPOCH_BLOCKS)
    chain.block(signed(WHO, TrustStake.delegate(FIRST.stash, STAKE)))
    chain.blocks_to(2 * EPOCH_BLOCKS)
    return chain


def raised_ppm(chain: MarketChain) -> int:
    (raised,) = chain.happened(tl.SlashRaised)
    assert (raised.offender, len(chain.happened(ev.SlashTaken))) == (FIRST.stash, 3)
    return int(raised.slashed_ppm)


def lost(ppm: int) -> int:
    return -(-STAKE * ppm // 10**6)


def test_a_raise_reaches_what_moved_when_evidence_is_too_old() -> None:
    chain = chain_of()
    chain.block(
        signed(WHO, TrustStake.redelegate(FIRST.stash, THIRD.stash, STAKE)), signed(REPORTER, double(FIRST, epoch=2))
    )
    chain.blocks_to((2 + UNBONDING) * EPOCH_BLOCKS)
    collect = TrustStake.collect(WHO, THIRD.stash)
    left = stake_of(collected(chain, collect), WHO, THIRD.stash)
    chain.block(
        signed(WHO, collect),
        refused(WHO, TrustStake.redelegate(THIRD.stash, FIRST.stash, left), ev.IsTombstoned),
        refused(WHO, TrustStake.redelegate(THIRD.stash, SECOND.stash, left), ev.StillAnswering),
        signed(REPORTER, double(SECOND, epoch=2 + UNBONDING)),
    )
    chain.block(signed(WHO, collect))
    chain.blocks_to((4 + UNBONDING) * EPOCH_BLOCKS)
    after = stake_of(collected(chain, collect), WHO, THIRD.stash)
    assert STAKE - after in (lost(raised_ppm(chain)), lost(raised_ppm(chain)) + 1)
    # From here on no accomplice can be found, and it may leave.
    chain.block(signed(WHO, collect), signed(WHO, TrustStake.redelegate(THIRD.stash, named_keys(4)[3].stash, after)))


def collected(chain: MarketChain, collect: object) -> TrustStake:
    bound: Bound = chain.now()
    signed(WHO, collect)(bound)
    return bound[TrustStake]


@pytest.mark.parametrize("era_epochs", [1, 2])
def test_a_raise_reaches_what_waits_for_as_long_as_it_may_come(era_epochs: int) -> None:
    unbonding = 4 + 2 * era_epochs
    chain = chain_of(**{"TrustStake.era_epochs": era_epochs, "TrustStake.unbonding_epochs": unbonding})
    chain.block(signed(WHO, TrustStake.undelegate(FIRST.stash, STAKE)))
    offence = 1 + era_epochs  # the last epoch of the era in which it left
    chain.blocks_to(offence * EPOCH_BLOCKS)
    chain.block(signed(REPORTER, double(FIRST, epoch=offence)))
    chain.blocks_to((offence + unbonding) * EPOCH_BLOCKS)
    withdraw = TrustStake.withdraw_unbonded()
    chain.block(
        refused(WHO, withdraw, ev.NothingToWithdraw), signed(REPORTER, double(SECOND, epoch=offence + unbonding))
    )
    for _ in range(5 * EPOCH_BLOCKS):
        chain.block(tolerant(signed(WHO, withdraw)))
    (withdrawn,) = chain.happened(ev.Withdrawn)
    assert STAKE - withdrawn.amount in (lost(raised_ppm(chain)), lost(raised_ppm(chain)) + 1)


def test_where_nobody_is_raised_what_waits_is_free_when_its_window_is_over() -> None:
    chain = chain_of()
    withdraw = TrustStake.withdraw_unbonded()
    chain.block(signed(WHO, TrustStake.undelegate(FIRST.stash, STAKE)), signed(REPORTER, double(FIRST, epoch=2)))
    chain.blocks_to((3 + UNBONDING) * EPOCH_BLOCKS)
    chain.block(refused(WHO, withdraw, ev.NothingToWithdraw))
    chain.blocks_to((4 + UNBONDING) * EPOCH_BLOCKS)
    chain.block(signed(WHO, withdraw))


@pytest.mark.parametrize("is_lifted", [True, False])
def test_who_left_before_or_was_forgiven_waits_no_longer(is_lifted: bool) -> None:
    chain = chain_of()
    chain.block(signed(WHO, TrustStake.undelegate(FIRST.stash, STAKE)))
    offence = 2 if is_lifted else 4  # of an era whose set was elected after it left
    chain.blocks_to(offence * EPOCH_BLOCKS)
    chain.block(signed(REPORTER, double(FIRST, epoch=offence)))
    chain.blocks_to((2 + UNBONDING) * EPOCH_BLOCKS)
    steps = [lifted] if is_lifted else []
    chain.block(*steps, signed(WHO, TrustStake.withdraw_unbonded()))


def lifted(bound: Bound) -> None:
    del bound[TrustStake].tombstones[FIRST.stash]
