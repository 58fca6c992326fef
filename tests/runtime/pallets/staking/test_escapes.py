"""Escapes from a slash, or access to others' money: each is closed by one line that an edit could drop."""

from collections.abc import Callable
from typing import Any

import pytest

from runtime.encoding.types import Root, Signed
from runtime.frame.call import Call
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.pots import PROVIDER_REWARDS, RESERVE, STAKING_REWARDS, TREASURY
from runtime.pallets.staking import eras, held_slashes
from runtime.pallets.staking import staking_events as ev
from runtime.pallets.staking import trust_lock as tl
from runtime.pallets.staking.holdings import earned_by, stake_of
from runtime.pallets.staking.slash_factors import SlashStep
from runtime.pallets.staking.trust_lock import TrustLock
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.chains.evidence import double, report, sealed
from simulation.chains.market_chain import (
    BOND,
    GENESIS_HASH,
    OGPU,
    Keys,
    MarketChain,
    named_keys,
    refused,
    signed,
    tolerant,
    validates,
)

DELEGATOR, OTHER, REPORTER, NEWCOMER = (Keys(name) for name in ("delegator", "other", "reporter", "newcomer"))
WHO = DELEGATOR.stash
FIRST, SECOND, THIRD = named_keys(3)
EPOCH_BLOCKS, UNBONDING, EVIDENCE = 3, 6, 3
WITHDRAW = TrustStake.withdraw_unbonded()
Step = Callable[[Bound], None]


def chain_of(count: int = 7, **constants: int) -> MarketChain:
    return MarketChain(named_keys(count), [DELEGATOR, OTHER, REPORTER, NEWCOMER], constants, epoch_blocks=EPOCH_BLOCKS)


def slashed(who: bytes, *steps: SlashStep) -> Step:
    def step(bound: Bound) -> None:
        for each in steps:
            held_slashes.hold_back(bound[TrustStake], who, 0, each, REPORTER.stash)

    return step


def refuses(bound: Bound, who: bytes, call: Call, error: type[Exception]) -> None:
    with pytest.raises(error), bound.overlay.transaction():
        bound.dispatch(call, Signed(who))


# ------------------------------------------------------------------------------------------- what moved and what left


def test_what_moved_and_left_waits_for_raises_of_where_it_came_from() -> None:
    chain = chain_of()
    chain.block(signed(WHO, TrustStake.delegate(FIRST.stash, BOND)))
    chain.blocks_to(2 * EPOCH_BLOCKS)
    chain.block(
        signed(WHO, TrustStake.redelegate(FIRST.stash, THIRD.stash, BOND)),
        signed(WHO, TrustStake.undelegate(THIRD.stash, BOND)),
        signed(REPORTER.stash, double(FIRST, epoch=2)),
    )
    chain.blocks_to((2 + UNBONDING) * EPOCH_BLOCKS)
    chain.block(
        refused(WHO, WITHDRAW, ev.NothingToWithdraw), signed(REPORTER.stash, double(SECOND, epoch=2 + UNBONDING))
    )
    while not chain.happened(ev.Withdrawn):
        chain.block(tolerant(signed(WHO, WITHDRAW)))
    ((raised,), (withdrawn,)) = chain.happened(tl.SlashRaised), chain.happened(ev.Withdrawn)
    assert 0 <= BOND * (10**6 - raised.slashed_ppm) // 10**6 - withdrawn.amount <= 2


@pytest.mark.parametrize("era_epochs", [1, 2])
def test_what_moved_answers_through_the_last_epoch_of_evidence(era_epochs: int) -> None:
    numbers = {"TrustStake.era_epochs": era_epochs, "TrustStake.unbonding_epochs": 4 + 2 * era_epochs}
    chain = chain_of(**numbers)
    chain.block(signed(WHO, TrustStake.delegate(FIRST.stash, BOND)))
    chain.blocks_to(2 * EPOCH_BLOCKS)
    chain.block(signed(WHO, TrustStake.redelegate(FIRST.stash, SECOND.stash, BOND)))
    last = 1 + 2 * era_epochs + EVIDENCE  # of the last epoch of the next era, whose set may have been elected
    chain.blocks_to((last + 1) * EPOCH_BLOCKS)
    onward = TrustStake.redelegate(SECOND.stash, THIRD.stash, BOND)
    refuses(chain.now(), WHO, onward, ev.StillAnswering)
    chain.block(signed(WHO, onward))


def test_the_oldest_moves_leave_first() -> None:
    chain = chain_of()
    chain.block(signed(WHO, TrustStake.delegate(FIRST.stash, 3 * BOND)))
    for epoch in range(1, 4):
        chain.block(signed(WHO, TrustStake.redelegate(FIRST.stash, THIRD.stash, BOND)))
        chain.blocks_to(epoch * EPOCH_BLOCKS)
    chain.block(signed(WHO, TrustStake.undelegate(THIRD.stash, BOND + BOND // 2)))
    stake = chain.now()[TrustStake]
    left = [(chunk.answers[1].era, chunk.value) for chunk in stake.unlocking[WHO]]
    assert left == [(0, BOND), (1, BOND // 2)]
    position = stake.delegations[WHO, THIRD.stash]
    assert position is not None
    assert [move.answer.era for move in position.moved] == [1, 2]


def test_what_moved_stake_bears_is_paid_on_as_any_slash() -> None:
    chain = chain_of()
    chain.block(signed(WHO, TrustStake.delegate(FIRST.stash, BOND)))
    chain.block(
        signed(WHO, TrustStake.redelegate(FIRST.stash, SECOND.stash, BOND)), signed(REPORTER.stash, double(FIRST))
    )
    chain.blocks(2)
    before = chain.now()[Balances].free_balance(TREASURY)
    chain.block(signed(OTHER.stash, TrustStake.collect(WHO, SECOND.stash)))
    (borne,) = [event for event in chain.events if isinstance(event, ev.StakeSlashed)]
    assert (borne.validator, borne.staker) == (SECOND.stash, WHO)
    part = borne.amount * 400_000 // 10**6 + borne.amount * 100_000 // 10**6
    assert chain.now()[Balances].free_balance(TREASURY) - before == part > 0


def test_a_part_of_which_nothing_is_left_ends() -> None:
    chain = chain_of()
    chain.block(signed(WHO, TrustStake.delegate(FIRST.stash, BOND)))
    chain.block(signed(WHO, TrustStake.undelegate(FIRST.stash, BOND)), slashed(FIRST.stash, SlashStep(0, 10**6)))
    chain.blocks(3)
    chain.block(signed(OTHER.stash, TrustStake.collect(WHO, FIRST.stash)))
    assert WHO not in chain.now()[TrustStake].unlocking


# ------------------------------------------------------------------------------------------------- slashes that wait


def test_root_cancels_all_that_waits_and_the_queue_leaves_nothing() -> None:
    chain = chain_of()
    chain.block(slashed(FIRST.stash, SlashStep(0, 100_000), SlashStep(100_000, 300_000)))
    chain.block(signed(Root(), TrustLock.cancel_slashes(offender=FIRST.stash)))
    stake = chain.now()[TrustStake]
    assert (stake.pending_slash_counts[FIRST.stash], list(stake.unapplied_slashes.items())) == (0, [])
    chain.blocks(6)
    assert chain.now()[TrustStake].bonds[FIRST.stash] == BOND
    chain.block(slashed(FIRST.stash, SlashStep(0, 100_000)))
    chain.blocks(6)
    stake = chain.now()[TrustStake]
    assert stake.bonds[FIRST.stash] == BOND - BOND // 10
    assert (list(stake.slash_queue.items()), list(stake.pending_slash_counts.items())) == ([], [])


def test_an_epoch_that_lies_ahead_counts_as_now() -> None:
    chain = chain_of()
    chain.block(refused(REPORTER.stash, double(FIRST, epoch=1_000), tl.NotAnOffence))  # no election: no block
    chain.block(signed(REPORTER.stash, double(FIRST, epoch=1)))
    (proven,) = chain.happened(tl.OffenceProven)
    assert (proven.epoch, [past.epoch for past in chain.now()[TrustLock].offenders.get()]) == (0, [0])


def test_who_was_forgiven_is_not_raised() -> None:
    chain = chain_of()
    chain.block(signed(REPORTER.stash, double(FIRST)))
    chain.block(signed(REPORTER.stash, double(SECOND)), signed(Root(), TrustStake.lift_tombstone(stash=FIRST.stash)))
    chain.blocks(3)
    assert chain.happened(tl.SlashRaised) == []


def test_a_later_report_lowers_nothing_that_is_being_raised() -> None:
    chain = chain_of()
    fourth = named_keys(7)[3]
    chain.block(
        *(signed(REPORTER.stash, double(keys)) for keys in (FIRST, SECOND, THIRD)),
        *(signed(Root(), TrustStake.lift_tombstone(stash=keys.stash)) for keys in (SECOND, THIRD)),
        signed(REPORTER.stash, double(fourth)),  # two of seven remain, with a smaller slash than the three
    )
    chain.blocks(2)
    alone, together = 9 * 10**6 // 49, 36 * 10**6 // 49
    said = [proven.slashed_ppm for proven in chain.happened(tl.OffenceProven)]
    assert said == [alone, together, 10**6, 10**6]
    assert [(raised.offender, raised.slashed_ppm) for raised in chain.happened(tl.SlashRaised)] == [
        (FIRST.stash, 10**6)
    ]


def test_an_offender_offers_nothing() -> None:
    chain = chain_of()
    chain.block(signed(REPORTER.stash, double(FIRST)), refused(FIRST.stash, validates(FIRST), ev.IsTombstoned))


# ------------------------------------------------------------------------------------------------------ bonds, rewards


def test_a_candidate_keeps_the_least_bond() -> None:
    chain, least = chain_of(1), 10 * OGPU
    chain.block(
        signed(NEWCOMER.stash, TrustStake.bond(BOND)),
        signed(NEWCOMER.stash, validates(NEWCOMER)),
        refused(NEWCOMER.stash, TrustStake.unbond(BOND - least + 1), ev.StillCandidate),
        signed(NEWCOMER.stash, TrustStake.unbond(BOND - least)),
    )
    assert chain.now()[TrustStake].is_candidate(NEWCOMER.stash)


def test_nobody_bonds_by_compounding() -> None:
    bound = chain_of(1).blocks(EPOCH_BLOCKS + 1)
    assert bound[Balances].free_balance(STAKING_REWARDS) > OGPU
    bound[TrustStake].pending_rewards[NEWCOMER.stash] = OGPU
    refuses(bound, NEWCOMER.stash, TrustStake.compound(NEWCOMER.stash), ev.NotBonded)


def test_what_is_shown_as_earned_is_what_a_claim_pays() -> None:
    chain = chain_of(1)
    alice = FIRST.stash
    chain.block(signed(OTHER.stash, TrustStake.delegate(alice, BOND)))
    chain.blocks_to(EPOCH_BLOCKS)
    chain.block(signed(WHO, TrustStake.delegate(alice, BOND)))
    chain.blocks_to(2 * EPOCH_BLOCKS)
    chain.block()
    assert earned_by(chain.now()[TrustStake], WHO, alice) == 0, "it came in the era that was paid"
    refuses(chain.now(), WHO, TrustStake.claim(alice), ev.NothingToClaim)
    chain.blocks_to(3 * EPOCH_BLOCKS)
    chain.block()
    shown = earned_by(chain.now()[TrustStake], WHO, alice)
    chain.block(signed(WHO, TrustStake.delegate(alice, OGPU)))
    assert earned_by(chain.now()[TrustStake], WHO, alice) == shown > 0, "what was touched is owed"
    before = chain.now()[Balances].free_balance(WHO)
    chain.block(signed(WHO, TrustStake.claim(alice)))
    assert chain.now()[Balances].free_balance(WHO) - before == shown


def test_a_pool_that_ends_leaves_nothing_in_the_pot_of_rewards() -> None:
    chain = chain_of(1)
    alice, crowd = FIRST.stash, (WHO, OTHER.stash, REPORTER.stash)
    chain.block(*(signed(who, TrustStake.delegate(alice, OGPU + place)) for place, who in enumerate(crowd)))
    for epoch in range(2, 6):
        chain.blocks_to(epoch * EPOCH_BLOCKS)
        chain.block(*(signed(who, TrustStake.compound(alice)) for who in crowd if earned(chain, who)))
    stake = chain.now()[TrustStake]
    chain.block(*(signed(who, TrustStake.undelegate(alice, stake_of(stake, who, alice))) for who in crowd))
    now = chain.now()
    assert alice not in now[TrustStake].pools
    assert now[Balances].free_balance(STAKING_REWARDS) == now[TrustStake].pending_rewards[alice]


def earned(chain: MarketChain, who: bytes) -> Any:
    return earned_by(chain.now()[TrustStake], who, FIRST.stash)


def test_a_pot_that_burned_its_dust_pays_its_last_payee_what_it_has() -> None:
    bound = chain_of(1).blocks(EPOCH_BLOCKS + 1)
    stake, balances, alice = bound[TrustStake], bound[Balances], FIRST.stash
    there, before = balances.free_balance(STAKING_REWARDS), balances.free_balance(alice)
    assert stake.pending_rewards[alice] == there
    stake.pending_rewards[alice] = there + 1
    bound.dispatch(TrustStake.claim(alice), Signed(alice))
    assert (balances.free_balance(alice) - before, stake.pending_rewards[alice]) == (there, 0)


def test_what_no_provider_earned_is_emitted_again() -> None:
    chain = chain_of(1)
    chain.blocks_to(3 * EPOCH_BLOCKS)
    balances = chain.now()[Balances]
    reserve, left = balances.free_balance(RESERVE), balances.free_balance(PROVIDER_REWARDS)
    assert left > 0
    chain.block()
    amounts = eras.emission(reserve + left, 3160, 500_000, 400_000)
    assert chain.now()[Balances].free_balance(PROVIDER_REWARDS) == amounts.providers


# ------------------------------------------------------------------------------------------- who comes, and comes back


def test_a_pardon_forgives_all_epochs_until_it() -> None:
    chain = chain_of(**{"TrustStake.era_epochs": 2, "TrustStake.unbonding_epochs": 8})
    chain.blocks_to(2 * EPOCH_BLOCKS)
    chain.block(signed(REPORTER.stash, double(FIRST, epoch=2)))
    chain.blocks_to(3 * EPOCH_BLOCKS)
    chain.block(signed(Root(), TrustStake.lift_tombstone(stash=FIRST.stash)))
    chain.block(refused(REPORTER.stash, double(FIRST, epoch=3), tl.AlreadyPunished))
    chain.blocks_to(6 * EPOCH_BLOCKS)  # of the first era whose election could include it again
    chain.block(signed(REPORTER.stash, double(FIRST, epoch=6)))


def test_who_comes_back_is_a_newcomer() -> None:
    chain = chain_of()
    chain.block(signed(REPORTER.stash, double(FIRST)))
    chain.block()
    chain.block(signed(Root(), TrustStake.lift_tombstone(stash=FIRST.stash)))
    stake = chain.now()[TrustStake]
    assert (stake.candidate_since[FIRST.stash], stake.new_candidates[FIRST.stash]) == (3, True)


def test_who_bonds_up_to_the_least_is_a_newcomer() -> None:
    chain, who = chain_of(1), NEWCOMER.stash
    chain.block(
        signed(who, TrustStake.bond(10 * OGPU)), signed(who, validates(NEWCOMER)), slashed(who, SlashStep(0, 100_000))
    )
    chain.blocks(5)
    stake = chain.now()[TrustStake]
    assert (stake.is_candidate(who), stake.candidate_since[who]) == (False, 1)
    chain.block(signed(who, TrustStake.bond_extra(OGPU)))
    stake = chain.now()[TrustStake]
    assert (stake.is_candidate(who), stake.candidate_since[who], stake.new_candidates[who]) == (True, 7, True)


def test_keys_that_were_changed_are_free() -> None:
    chain, who, before = chain_of(1), NEWCOMER.stash, NEWCOMER.public("session")
    after = Keys("later")
    offer = TrustStake.validate(after.node_keys(), after.proof(GENESIS_HASH, who), after.provider, 50_000)
    chain.block(signed(who, TrustStake.bond(BOND)), signed(who, validates(NEWCOMER)), signed(who, offer))
    stake = chain.now()[TrustStake]
    assert (stake.key_owner[before], stake.key_owner[after.public("session")]) == (None, who)
    assert [stake.stash_of(key) for key in (NEWCOMER.provider, after.provider)] == [None, who]
    proof = NEWCOMER.proof(GENESIS_HASH, OTHER.stash)
    taken = TrustStake.validate(NEWCOMER.node_keys(), proof, NEWCOMER.provider, 50_000)
    chain.block(signed(OTHER.stash, TrustStake.bond(BOND)), signed(OTHER.stash, taken))


def test_an_announcement_ends_with_the_offer() -> None:
    chain, who = chain_of(1), NEWCOMER.stash
    chain.block(
        signed(who, TrustStake.bond(BOND)),
        signed(who, validates(NEWCOMER)),
        signed(WHO, TrustStake.delegate(who, BOND)),
        signed(who, TrustStake.announce_commission(60_000)),
        signed(who, TrustStake.chill()),
    )
    chain.blocks_to(3 * EPOCH_BLOCKS)
    chain.block(signed(who, validates(NEWCOMER)))
    stake = chain.now()[TrustStake]
    assert (stake.commission_of(who), stake.commission_changes[who]) == (50_000, None)


def test_two_headers_count_from_the_later_epoch_that_they_name() -> None:
    chain = chain_of()
    chain.blocks_to(5 * EPOCH_BLOCKS)
    chain.block(signed(REPORTER.stash, report(sealed(FIRST, epoch=0), sealed(FIRST, epoch=5))))
    (proven,) = chain.happened(tl.OffenceProven)
    assert proven.epoch == 5
