"""Nobody gains by an offence, and who bore one has what it is shown."""

import pytest

from offending import DELEGATOR, REPORTER, chain_of, until_taken
from runtime.encoding.types import Root
from runtime.pallets.staking import trust_lock as tl
from runtime.pallets.staking.holdings import stake_of
from runtime.pallets.staking.staking_events import NotEnoughStake, SlashTaken
from runtime.pallets.staking.trust_lock import OffenceProven, TrustLock
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.chains.evidence import double
from simulation.chains.market_chain import BOND, MarketChain, named_keys, refused, signed


def test_nobody_is_paid_for_what_a_later_offence_raises() -> None:
    chain = chain_of(7)
    alice, bob = chain.validators[:2]
    alone, together = 9 * 10**6 // 49, 36 * 10**6 // 49
    before = chain.owned(REPORTER.stash), chain.owned(DELEGATOR.stash)
    chain.block(signed(DELEGATOR.stash, double(alice)))
    chain.block(signed(REPORTER.stash, double(bob)))
    chain.block()
    (event,) = chain.happened(tl.SlashRaised)
    assert (event.offender, event.slashed_ppm) == (alice.stash, together)
    chain.blocks(8)
    parts = [BOND * ppm // 10**6 // 10 for ppm in (together, alone)]
    earned = chain.owned(REPORTER.stash) - before[0], chain.owned(DELEGATOR.stash) - before[1]
    assert all(abs(got - part) < 9 for got, part in zip(earned, parts, strict=True))
    assert len(chain.happened(tl.SlashRaised)) == 1
    assert not chain.now()[TrustLock].raised.get()


def test_offending_after_somebody_else_and_reporting_it_never_pays() -> None:
    """With little of one's own at stake and much of others, where an honest validator made a mistake before."""
    keys = named_keys(7)
    bonds = (BOND, BOND // 10, *(BOND,) * 5)
    chain = MarketChain(keys, [REPORTER, DELEGATOR], epoch_blocks=6, bonds=bonds)
    alice, bob = keys[:2]
    for who in keys:
        if who is not bob:
            chain.block(signed(who.stash, TrustStake.bond_extra(value=2 * BOND)))
    chain.block(signed(DELEGATOR.stash, TrustStake.delegate(validator=bob.stash, value=2 * BOND)))
    chain.blocks(6)
    own, before = chain.now()[TrustStake].bonds[bob.stash], chain.owned(bob.stash)
    chain.block(signed(DELEGATOR.stash, double(alice, epoch=1)))
    chain.block(signed(bob.stash, double(bob, epoch=1)))
    until_taken(chain)
    chain.blocks(3)
    assert len(chain.happened(SlashTaken)) == 3
    lost = own - chain.now()[TrustStake].bonds[bob.stash]
    assert chain.owned(bob.stash) - before <= -lost // 2


def test_stake_that_left_after_the_election_makes_no_offence_smaller() -> None:
    """Behind the offenders stands little by then; with their share of the votes they offended."""
    bonds = (BOND // 10, BOND // 10, *(BOND,) * 5)
    keys = named_keys(7)
    chain = MarketChain(keys, [REPORTER, DELEGATOR], epoch_blocks=6, bonds=bonds)
    for who in keys[:2]:
        chain.block(signed(DELEGATOR.stash, TrustStake.delegate(validator=who.stash, value=2 * BOND)))
    chain.blocks(6 * 20)  # a seat gains an eighth in an era at most
    leaves = [TrustStake.undelegate(who.stash, 2 * BOND) for who in keys[:2]]
    chain.block(*(signed(DELEGATOR.stash, leave) for leave in leaves))
    chain.blocks(6)
    stake = chain.now()[TrustStake]
    epoch, weights = stake.beacon.epoch(), {seat.stash: seat.weight for seat in stake.seats.get()}
    weight, total = weights[keys[0].stash], sum(weights.values())
    exposed = stake.eras_exposure[epoch, keys[0].stash]
    assert exposed is not None
    assert exposed.total == BOND // 10
    chain.block(*(signed(REPORTER.stash, double(who, epoch=epoch)) for who in keys[:2]))
    said = [proven.slashed_ppm for proven in chain.happened(OffenceProven)]
    assert said[0] == 9 * weight**2 * 10**6 // total**2 > 150_000
    assert said[1] == 36 * weight**2 * 10**6 // total**2


@pytest.mark.parametrize("is_earlier_first", [True, False])
def test_each_offence_is_a_share_of_the_set_of_its_own_epoch_and_of_the_heaviest_together(
    is_earlier_first: bool,
) -> None:
    chain = chain_of(7)
    alice, bob, *_, last = chain.validators
    chain.block(signed(DELEGATOR.stash, TrustStake.delegate(validator=last.stash, value=3 * BOND)))
    chain.blocks(6 * 4)  # its seat gains an eighth in each era
    validators = chain.now()[TrustStake].validators
    light, heavy = (sum(seat.weight for seat in validators(epoch)) for epoch in (2, 4))
    assert light < heavy
    reports = [signed(REPORTER.stash, double(alice, epoch=2)), signed(REPORTER.stash, double(bob, epoch=4))]
    chain.block(*(reports if is_earlier_first else reversed(reports)))
    alone = light if is_earlier_first else heavy
    assert [proven.slashed_ppm for proven in chain.happened(tl.OffenceProven)] == [
        9 * BOND**2 * 10**6 // alone**2,
        36 * BOND**2 * 10**6 // heavy**2,
    ]


@pytest.mark.parametrize(("part_ppm", "others"), [(100_000, 4), (300_000, 2), (300_000, 4), (500_000, 4)])
def test_reporting_oneself_costs_half_of_it_however_much_of_others_stands_behind_one(
    part_ppm: int, others: int
) -> None:
    numbers = {"TrustStake.slash_reporter": part_ppm}
    chain = MarketChain(named_keys(7), [REPORTER, DELEGATOR], numbers, epoch_blocks=6)
    alice = chain.validators[0]
    chain.block(signed(DELEGATOR.stash, TrustStake.delegate(validator=alice.stash, value=others * BOND)))
    chain.blocks(8)
    own, before = chain.now()[TrustStake].bonds[alice.stash], chain.owned(REPORTER.stash)
    chain.block(signed(REPORTER.stash, double(alice, epoch=1)))
    until_taken(chain)
    (slash,) = chain.happened(SlashTaken)
    lost = own - chain.now()[TrustStake].bonds[alice.stash]
    earned = chain.owned(REPORTER.stash) - before
    assert abs(earned - min(lost // 2, slash.amount * part_ppm // 10**6)) <= 2
    assert earned <= lost // 2
    (proven,) = chain.happened(OffenceProven)
    assert proven.amount == slash.amount, "told of the bond and of the pool"


def test_all_of_what_moved_and_was_struck_is_named_and_taken_back_at_once() -> None:
    """Nobody has to touch it before: what is shown is what there is."""
    chain = chain_of(7)
    alice, bob = (who.stash for who in chain.validators[:2])
    who = DELEGATOR.stash
    chain.block(signed(who, TrustStake.delegate(validator=alice, value=BOND)))
    chain.block(
        signed(who, TrustStake.redelegate(source=alice, target=bob, value=BOND)),
        signed(REPORTER.stash, double(chain.validators[0])),
    )
    until_taken(chain)
    left, ppm = stake_of(chain.now()[TrustStake], who, bob), chain.happened(tl.OffenceProven)[0].slashed_ppm
    assert 0 <= BOND - BOND * ppm // 10**6 - left <= 2
    chain.block(
        refused(who, TrustStake.undelegate(bob, left + 1), NotEnoughStake),
        signed(who, TrustStake.undelegate(bob, left)),
    )
    assert (who, bob) not in chain.now()[TrustStake].positions
    (chunk,) = chain.now()[TrustStake].unlocking[who]
    assert chunk.value == left


def test_where_the_first_offender_was_excused_the_others_are_raised_still() -> None:
    chain = chain_of(7)
    alice, bob, charlie = chain.validators[:3]
    chain.block(*(signed(REPORTER.stash, double(who)) for who in (alice, bob)))
    chain.block()
    chain.block(signed(Root(), TrustLock.cancel_slashes(offender=alice.stash)))
    chain.block(signed(REPORTER.stash, double(charlie)))
    until_taken(chain)
    chain.blocks(2)
    bonds = chain.now()[TrustStake].bonds
    assert [bonds[who.stash] for who in (alice, bob, charlie)] == [BOND, 0, 0]
