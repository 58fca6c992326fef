"""Elections: active sets by stake, signs of life, jail and the cut; waiting candidates; kept records and answers."""

from dataclasses import replace

import pytest

from election_chain import EPOCH_BLOCKS, NEW, OTHER, SAVER, Step, chain_of, heard, names, offers, stashes, until_epoch
from runtime.frame.runtime import Bound
from runtime.pallets.session import Session
from runtime.pallets.staking import elections
from runtime.pallets.staking import staking_events as ev
from runtime.pallets.staking.seats import Overhang
from runtime.pallets.staking.stakers import Seat, Waiter, Why
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.chains.evidence import double
from simulation.chains.market_chain import (
    BOND,
    OGPU,
    Keys,
    MarketChain,
    named_keys,
    refused,
    signed,
    tolerant,
    validates,
)


def test_a_set_is_elected_in_the_first_block_of_the_epoch_before_it() -> None:
    chain = chain_of()
    chain.block(*offers(NEW), heard(NEW))
    chain.blocks(EPOCH_BLOCKS - 1)
    assert chain.now()[TrustStake].validators(2) == (), "not elected yet"
    stake = until_epoch(chain, 1)
    assert stashes(stake.validators(2)) == {*names(chain), NEW.stash}
    assert stashes(stake.validators(1)) == stashes(stake.active_set.get()) == set(names(chain))
    assert chain.now()[Session].queued_changed.get()
    (event,) = chain.happened(ev.SetElected)
    assert (event.first, event.seats, event.weight) == (2, 9, 9 * BOND)
    stake = until_epoch(chain, 2)
    assert NEW.stash in stashes(stake.active_set.get())
    assert NEW.stash in chain.now()[Session].validators.get()


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (lambda _: None, Why.OFF_LINE),
        (heard(NEW), Why.ELECTED),
        (lambda bound: (heard(NEW)(bound), bound[TrustStake].tombstones.__setitem__(NEW.stash, 0)), Why.TOMBSTONED),
        (lambda bound: (heard(NEW)(bound), bound[TrustStake].jailed.__setitem__(NEW.stash, 0)), Why.JAILED),
        (lambda bound: (heard(NEW)(bound), bound[TrustStake].bonds.__setitem__(NEW.stash, 1)), Why.TOO_SMALL),
    ],
)
def test_who_is_elected_and_why_not(step: Step, why: Why) -> None:
    chain = chain_of()
    chain.check = lambda *_: None
    chain.block(*offers(NEW), step)
    chance = next(each for each in elections.outlook(chain.now()[TrustStake], 0) if each.stash == NEW.stash)
    stake = until_epoch(chain, 1)
    assert (NEW.stash in stashes(stake.validators(2))) is (why is Why.ELECTED)
    assert (chance.why, chance.weight) == (why, BOND if why is Why.ELECTED else 0)


def test_who_was_on_line_only_in_an_epoch_before_is_not_elected_again() -> None:
    chain = chain_of()
    chain.block(*offers(NEW), heard(NEW))
    stake = until_epoch(chain, 2)
    assert NEW.stash in stashes(stake.validators(2))
    assert NEW.stash not in stashes(stake.validators(3)), "nothing was heard of it in epoch 1"


def test_the_sets_of_the_first_two_eras_are_the_genesis() -> None:
    chain = chain_of(**{"TrustStake.era_epochs": 2, "TrustStake.unbonding_epochs": 8})
    chain.block(*offers(NEW), heard(NEW))
    for epoch in range(4):
        stake = until_epoch(chain, epoch)
        chain.block(heard(NEW))
        assert names(chain) == sorted(stashes(stake.validators(epoch)))
        assert bool(stake.validators(4)) is (epoch == 3)
    assert NEW.stash in stashes(until_epoch(chain, 5).validators(5))


def test_sets_are_kept_while_evidence_counts() -> None:
    chain = chain_of()
    chain.block(*offers(NEW), heard(NEW))
    first = until_epoch(chain, 1).validators(0)
    stake = until_epoch(chain, 6)
    assert stake.validators(1) == ()
    assert stake.validator_set_starts.get()[0] > 0
    assert stake.validators(2) != first
    assert stashes(stake.validators(2)) == {*names(chain), NEW.stash}


def test_an_answer_never_changes() -> None:
    chain = chain_of()
    answers: dict[int, tuple[Seat, ...]] = {}
    for epoch in range(1, 9):
        stake = until_epoch(chain, epoch)
        chain.block(signed(SAVER.stash, TrustStake.delegate(named_keys(8)[epoch % 8].stash, OGPU * epoch)))
        for known in range(max(0, epoch - 3), epoch + 2):
            seats = stake.validators(known)
            assert answers.setdefault(known, seats) == seats != ()


def test_who_is_absent_for_an_epoch_leaves_within_the_cut_and_goes_to_no_jail() -> None:
    chain = chain_of()
    silent = chain.validators[3]
    chain.absent = frozenset([silent.stash])
    stake = until_epoch(chain, 1)
    assert silent.stash not in stashes(stake.validators(2))
    until_epoch(chain, 3)
    assert not chain.happened(ev.Jailed), "it sits no more"


@pytest.mark.parametrize(("heard_in", "sits_since", "is_jailed"), [(0, 0, True), (0, 2, False), (1, 0, False)])
def test_nobody_is_jailed_for_the_time_before_it_sat(heard_in: int, sits_since: int, is_jailed: bool) -> None:
    stake = chain_of().now()[TrustStake]
    old = stake.active_set.get()
    for seat in old:
        stake.note_heard(seat.stash, 2)
    stake.last_online[old[0].stash], stake.active_since[old[0].stash] = heard_in + 1, sits_since
    elections._jail_the_absent(stake, old, 2)
    assert (old[0].stash in stake.jailed) is is_jailed
    assert len(list(stake.jailed.items())) == is_jailed


def test_who_was_away_longest_goes_to_jail_first() -> None:
    """There is room for one of four. The first by account is only just too late."""
    stake = chain_of(4).now()[TrustStake]
    old = stake.active_set.get()
    for seat in old:
        stake.last_online[seat.stash] = 10
    stake.last_online[old[0].stash], stake.last_online[old[2].stash] = 5, 4
    elections._jail_the_absent(stake, old, 9)
    assert [stash for stash, _ in stake.jailed.items()] == [old[2].stash]


def test_who_is_in_jail_is_said_to_be_also_while_it_must_stay() -> None:
    chain = chain_of(4)
    silent = chain.validators[1]
    chain.absent = frozenset([silent.stash])
    stake = until_epoch(chain, 2)
    assert stake.seat_of(silent.stash) is not None
    (chance,) = (each for each in elections.outlook(stake, 1) if each.stash == silent.stash)
    assert (chance.why, chance.weight > 0) == (Why.JAILED, True)


def test_jail_is_for_who_must_stay_and_stays_below_a_third() -> None:
    chain = chain_of(4)
    silent = chain.validators[1:3]
    chain.absent = frozenset(one.stash for one in silent)
    stake = until_epoch(chain, 2)
    jailed = [event.stash for event in chain.happened(ev.Jailed)]
    assert jailed == [min(one.stash for one in silent)], "a second one would be half of the weight"
    assert stashes(stake.validators(3)) == set(names(chain)), "below four nobody goes"
    chain.block(
        refused(SAVER.stash, TrustStake.unjail(), ev.NotJailed),
        signed(jailed[0], TrustStake.unjail()),
        refused(jailed[0], TrustStake.unjail(), ev.NotJailed),
    )
    assert jailed[0] not in chain.now()[TrustStake].jailed


def test_who_should_go_or_come_and_may_not_yet_is_told_why() -> None:
    chain = chain_of(4)
    first, second = chain.validators[1:3]
    chain.block(
        *offers(NEW, 3 * BOND), *offers(OTHER, 2 * BOND), heard(NEW, OTHER, *chain.validators),
        signed(first.stash, TrustStake.chill()), signed(second.stash, TrustStake.chill()),
    )  # fmt: skip
    found = {each.stash: each for each in elections.outlook(chain.now()[TrustStake], 0)}
    assert [(found[who.stash].why, found[who.stash].weight) for who in (NEW, OTHER)] == [
        (Why.ELECTED, BOND), (Why.WAITS, 0),
    ], "one that comes alone weighs a quarter of the new set at most"  # fmt: skip
    gone, kept = sorted((first.stash, second.stash))
    assert (found[gone].why, found[gone].weight) == (Why.NOT_OFFERED, 0)
    assert (found[kept].why, found[kept].weight) == (Why.MUST_STAY, BOND)
    stake = until_epoch(chain, 1)
    assert {seat.stash: seat.weight for seat in stake.validators(2)} == {
        stash: each.weight for stash, each in found.items() if each.weight
    }


def test_a_leaver_who_must_stay_keeps_its_weight_and_its_stake_answers() -> None:
    chain = chain_of(4)
    leaver = chain.validators[1]
    chain.block(signed(leaver.stash, TrustStake.chill()), signed(leaver.stash, TrustStake.unbond(value=BOND)))
    stake = chain.now()[TrustStake]
    for epoch in range(1, 12):
        stake = until_epoch(chain, epoch)
        seat = stake.seat_of(leaver.stash)
        assert seat is not None
        assert seat.weight == BOND
        assert stake.answering_era(leaver.stash, epoch) == 0, "what left in era 0 stands behind it still"
        chain.block(refused(leaver.stash, TrustStake.withdraw_unbonded(), ev.NothingToWithdraw))
    chain.block(*offers(NEW), heard(NEW))
    while stake.seat_of(leaver.stash) is not None:
        stake = chain.block(heard(NEW))[TrustStake]
    last = stake.beacon.epoch() - 1
    until_epoch(chain, last + stake.evidence_epochs)
    chain.block(refused(leaver.stash, TrustStake.withdraw_unbonded(), ev.NothingToWithdraw))
    until_epoch(chain, last + stake.evidence_epochs + 1)
    chain.block(signed(leaver.stash, TrustStake.withdraw_unbonded()))


def test_keys_that_sat_belong_to_their_stash_for_ever() -> None:
    chain = chain_of()
    alice = chain.validators[1]
    chain.block(signed(alice.stash, validates(alice, "second session", 100_000)))
    stake = until_epoch(chain, 1)
    (seat,) = [seat for seat in stake.validators(2) if seat.stash == alice.stash]
    assert seat.session_key == alice.public("second session")
    now = stake.seat_of(alice.stash)
    assert now is not None
    assert now.session_key == alice.public("session"), "until its set ends"
    chain.block(signed(alice.stash, validates(alice, "third session", 100_000)))
    chain.block(signed(alice.stash, TrustStake.chill()))
    owners = [chain.now()[TrustStake].key_owner[alice.public(f"{which}session")] for which in ("", "second ", "third ")]
    assert owners == [alice.stash, alice.stash, None]


def test_without_elections_the_set_of_the_genesis_goes_on() -> None:
    chain = chain_of(**{"TrustStake.elections_enabled": 0})
    chain.absent = frozenset([chain.validators[2].stash])
    chain.block(*offers(NEW), heard(NEW), signed(chain.validators[1].stash, TrustStake.chill()))
    genesis = chain.now()[TrustStake].validators(0)
    for epoch in range(1, 6):
        chain.block(heard(NEW))
        assert until_epoch(chain, epoch).validators(epoch + 1) == genesis
    assert not chain.happened(ev.Jailed)


def test_an_election_that_would_make_no_set_keeps_the_old_one() -> None:
    chain = chain_of()
    alice, bob = chain.validators[1:3]
    twice = alice.public("session")

    def share(bound: Bound) -> None:
        candidate = bound[TrustStake].candidates[bob.stash]
        assert candidate is not None
        bound[TrustStake].candidates[bob.stash] = type(candidate)(
            twice, candidate.vrf_key, candidate.provider_key, candidate.commission_ppm
        )

    chain.block(share)
    stake = until_epoch(chain, 1)
    assert stake.validators(2) == stake.validators(1)


def test_who_comes_sits_since_the_first_epoch_of_its_set_and_is_known_since_its_election() -> None:
    chain = chain_of()
    chain.block(*offers(NEW), heard(NEW))
    stake = until_epoch(chain, 1)
    assert stake.active_since[NEW.stash] == 2
    assert stake.known_since(NEW.stash) == chain.height


def test_the_last_era_of_an_overhang_is_answered_for_as_its_others_are() -> None:
    stake = chain_of().now()[TrustStake]
    stash = stake.active_set.get()[0].stash
    stake.excess_weights[stash] = (Overhang(since=1, first=4, last=6),)
    assert [stake.answering_era(stash, era) for era in range(3, 8)] == [2, 1, 1, 1, 6]


def test_of_many_overhangs_the_newest_are_remembered() -> None:
    stake = chain_of().now()[TrustStake]
    heavy = replace(stake.active_set.get()[0], weight=2 * BOND)
    for era in range(1, 13, 2):
        elections._note_overhangs(stake, era * stake.era_epochs, (heavy,))
    assert [overhang.last for overhang in stake.excess_weights[heavy.stash]] == [5, 7, 9, 11]


def test_the_stake_of_an_offender_waits_for_no_seat() -> None:
    stake = chain_of().now()[TrustStake]
    heavy = replace(stake.active_set.get()[0], weight=2 * BOND)
    stake.tombstones[heavy.stash] = 0
    elections._note_overhangs(stake, 3 * stake.era_epochs, (heavy,))
    assert stake.excess_weights[heavy.stash] == ()


def test_who_sits_and_changes_both_keys_sits_with_both_in_the_next_set() -> None:
    chain = chain_of()
    alice = chain.validators[1]

    def change(bound: Bound) -> None:
        candidate = bound[TrustStake].candidates[alice.stash]
        assert candidate is not None
        session, vrf = alice.public("second session"), alice.public("second vrf")
        bound[TrustStake].set_candidate(alice.stash, replace(candidate, session_key=session, vrf_key=vrf))

    chain.block(change)
    seat = until_epoch(chain, 1).seat_in(alice.stash, 2)
    assert seat is not None
    assert (seat.session_key, seat.vrf_key) == (alice.public("second session"), alice.public("second vrf"))


def test_who_is_in_jail_since_an_election_before_counts_for_the_third() -> None:
    chain = chain_of(4)
    chain.absent = frozenset(one.stash for one in chain.validators[1:3])
    until_epoch(chain, 5)
    assert len(chain.happened(ev.Jailed)) == 1
    assert len(list(chain.now()[TrustStake].jailed.items())) == 1, "a second one would be half of the weight"


def test_what_left_long_before_bears_what_a_seat_does_whose_owner_must_stay() -> None:
    chain = chain_of(4)
    leaver = chain.validators[1]
    chain.block(signed(leaver.stash, TrustStake.chill()), signed(leaver.stash, TrustStake.unbond(value=BOND)))
    until_epoch(chain, 5)
    chain.block(signed(SAVER.stash, double(leaver, epoch=5)))
    until_epoch(chain, 7)
    while not chain.happened(ev.Withdrawn):
        chain.block(tolerant(signed(leaver.stash, TrustStake.withdraw_unbonded())))
    (withdrawn,) = chain.happened(ev.Withdrawn)
    assert withdrawn.amount == BOND - BOND * 9 // 16, "of the quarter that its seat has of the votes"


def test_jail_says_since_which_era() -> None:
    chain = chain_of(4)
    chain.absent = frozenset([chain.validators[1].stash])
    until_epoch(chain, 4)
    (jailed,) = chain.happened(ev.Jailed)
    assert (jailed.stash, jailed.era) == (chain.validators[1].stash, 2), "its second epoch without a sign was epoch 1"
    assert chain.now()[TrustStake].jailed[jailed.stash] == jailed.era


def test_who_offers_no_more_may_leave_jail_too() -> None:
    chain = chain_of(4)
    silent = chain.validators[1]
    chain.absent = frozenset([silent.stash])
    assert silent.stash in until_epoch(chain, 2).jailed
    chain.block(signed(silent.stash, TrustStake.chill()), signed(silent.stash, TrustStake.unjail()))
    assert silent.stash not in chain.now()[TrustStake].jailed


# ---------------------------------------------------------------------------------------------------------------- turns


def test_a_small_validator_leaves_though_larger_ones_leave_and_come_again_in_every_era() -> None:
    """Two with an eighth and more each chill in turns. The heaviest leaver went first, and V never."""
    names_ = named_keys(12)
    chain = MarketChain(names_, epoch_blocks=EPOCH_BLOCKS, bonds=(4 * BOND, 4 * BOND, *[BOND] * 10))
    first, second, leaver = chain.validators[:3]
    chain.block(signed(leaver.stash, TrustStake.chill()))
    for era in range(8):
        away, back = (first, second) if era % 2 == 0 else (second, first)
        steps: list[Step] = [signed(away.stash, TrustStake.chill())]
        if chain.now()[TrustStake].candidates[back.stash] is None:
            steps = [signed(back.stash, validates(back)), heard(back), *steps]
        chain.block(*steps)
        stake = until_epoch(chain, era + 1)
        seats = stashes(stake.validators(era + 2))
        if leaver.stash not in seats:
            break
        assert stake.retiring_since[leaver.stash] == 2
    else:
        raise AssertionError("it still sits")
    assert stake.retiring_since[leaver.stash] == 0


def test_a_newcomer_sits_and_a_leaver_leaves_though_two_heavier_ones_take_turns() -> None:
    """Each of the two is online only in its active epochs, and not in jail: one leaves, the other enters."""
    chain = MarketChain(
        named_keys(8), [NEW, OTHER, SAVER], {"TrustStake.validator_count": 12}, epoch_blocks=EPOCH_BLOCKS
    )
    steady, leaver, swingers = chain.validators, chain.validators[2], (OTHER, SAVER)
    chain.block(*offers(OTHER, 2 * BOND), *offers(SAVER, 2 * BOND))
    for epoch in range(12):
        away = swingers[epoch % 2]
        chain.absent = frozenset([away.stash])
        there = [*steady, swingers[1 - epoch % 2], NEW]
        if epoch == 4:
            chain.block(*offers(NEW), signed(leaver.stash, TrustStake.chill()), author=steady[0])
        chain.block(heard(*there), author=steady[0])
        while chain.height <= (epoch + 1) * EPOCH_BLOCKS:
            chain.block(author=steady[0])
        stake = chain.now()[TrustStake]
        seats = stashes(stake.validators(epoch + 2))
        if NEW.stash in seats and leaver.stash not in seats:
            break
    assert 4 < epoch < 9, "it would go on for ever"


def test_who_is_elected_and_has_no_room_waits_since_the_first_time() -> None:
    chain = chain_of(8)
    chain.block(*offers(NEW, 2 * BOND), *offers(OTHER, BOND), heard(NEW, OTHER))
    stake = until_epoch(chain, 1)
    assert NEW.stash in stashes(stake.validators(2))
    assert stake.waiting_validators.get() == (Waiter(OTHER.stash, 2),)
    chain.block(*offers(SAVER, 3 * BOND), heard(OTHER, SAVER))
    stake = until_epoch(chain, 2)
    assert OTHER.stash in stashes(stake.validators(3)), "before the heavier one, which came later"
    assert stake.waiting_validators.get() == (Waiter(SAVER.stash, 3),)
    stake = until_epoch(chain, 3)
    assert stake.waiting_validators.get() == (), "who is not elected, for it gave no sign of life, waits for nothing"


def test_of_two_that_wait_the_one_that_began_earlier_comes_first_though_both_have_waited() -> None:
    late = Keys("late")
    chain = MarketChain(named_keys(8), [NEW, OTHER, SAVER, late], epoch_blocks=EPOCH_BLOCKS)
    people = (NEW, OTHER, SAVER, late)
    chain.block(*offers(NEW, 3 * BOND), *offers(OTHER, BOND), *offers(SAVER, 2 * BOND), heard(*people))
    stake = until_epoch(chain, 1)
    assert {waiter.stash for waiter in stake.waiting_validators.get()} == {OTHER.stash, SAVER.stash}
    chain.block(*offers(late, 4 * BOND), heard(*people))
    stake = until_epoch(chain, 2)
    assert set(stake.waiting_validators.get()) == {Waiter(OTHER.stash, 2), Waiter(late.stash, 3)}, (
        "of two alike the heavier came"
    )
    chain.block(heard(*people))
    assert OTHER.stash in stashes(until_epoch(chain, 3).validators(4))


def test_who_offers_itself_again_waits_no_more() -> None:
    chain = chain_of()
    one, two, three = chain.validators[:3]
    chain.block(*(signed(each.stash, TrustStake.chill()) for each in (one, two, three)))
    stake = until_epoch(chain, 1)
    waiting = [each for each in (one, two, three) if stake.retiring_since[each.stash]]
    assert len(waiting) == 2
    assert {stake.retiring_since[each.stash] for each in waiting} == {2}
    chain.block(signed(waiting[1].stash, validates(waiting[1])), heard(waiting[1]))
    stake = until_epoch(chain, 2)
    assert [stake.retiring_since[each.stash] for each in waiting] == [0, 0], "one has left, one stays"
    assert waiting[1].stash in stashes(stake.validators(3))
