"""TrustLock: locks by reason, two headers in one slot, and the lack of any gain from an offence."""

import pytest

from gpu_tasks.market.inference.services import SERVICE_DEPOSIT
from offending import DELEGATOR, REPORTER, chain_of, until_taken
from runtime.encoding.types import Root
from runtime.frame.errors import BadOrigin, FundsUnavailable
from runtime.frame.holds import Hold
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.hold_book import HeldAmount
from runtime.pallets.pots import TREASURY
from runtime.pallets.staking import trust_lock as tl
from runtime.pallets.staking.holdings import stake_of, value_now
from runtime.pallets.staking.slashing import Share
from runtime.pallets.staking.staking_events import (
    EraStarted,
    IsTombstoned,
    NotEnoughStake,
    NotTombstoned,
    SlashHeld,
    SlashPending,
    SlashTaken,
    StillAnswering,
)
from runtime.pallets.staking.trust_lock import OffenceProven, TrustLock
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.chains.evidence import double, report, sealed
from simulation.chains.market_chain import BOND, OGPU, STOCK, Keys, MarketChain, named_keys, refused, signed, validates

SITS_ON = {"TrustStake.elections_enabled": 0}
"""An offender keeps its seat."""


def test_a_double_proposal_costs_what_its_share_of_the_stake_says() -> None:
    chain = chain_of(7)
    alice = chain.validators[0]
    before = [chain.owned(account) for account in (alice.stash, REPORTER.stash)]
    chain.block(signed(REPORTER.stash, double(alice)))
    (proven,) = chain.happened(tl.OffenceProven)
    ppm = 9 * 10**6 // 49
    taken = -(-BOND * ppm // 10**6)
    assert (proven.offender, proven.at, proven.slashed_ppm, proven.amount) == (alice.stash, 9, ppm, taken)
    assert not chain.now()[TrustStake].is_candidate(alice.stash)
    assert [chain.owned(account) for account in (alice.stash, REPORTER.stash)] == before, "it is held, and not taken"
    chain.blocks(5)
    assert chain.now()[TrustStake].bonds[alice.stash] == BOND
    treasury = chain.owned(TREASURY)
    chain.block()
    (slash,) = chain.happened(SlashTaken)
    assert (slash.offender, slash.amount, chain.height) == (alice.stash, taken, 7)
    after = [chain.owned(account) for account in (alice.stash, REPORTER.stash)]
    assert [now - then for now, then in zip(after, before, strict=True)] == [-taken, taken // 10]
    (era,) = [event for event in chain.events if isinstance(event, EraStarted)]
    emitted = STOCK // 3160
    assert era.emitted <= emitted
    assert chain.owned(TREASURY) - treasury == taken * 4 // 10 + emitted - emitted // 2 - emitted * 4 // 10
    assert chain.now()[Balances].burned.get() == taken - taken // 10 - taken * 4 // 10
    assert chain.now()[TrustStake].seat_of(alice.stash) is not None, "it keeps its seat until its set ends"
    assert alice.stash not in [standing.stash for standing in chain.now()[TrustStake].elected.get()], (
        "and earns nothing"
    )


def test_evidence_is_punished_once_whatever_its_order() -> None:
    chain = chain_of(7)
    alice = chain.validators[0]
    left, right = sealed(alice), sealed(alice, parent=b"q" * 32)
    chain.block(
        signed(REPORTER.stash, report(left, right)),
        refused(REPORTER.stash, report(left, right), tl.AlreadyPunished),
        refused(REPORTER.stash, report(right, left), tl.AlreadyPunished),
        refused(REPORTER.stash, double(alice, slot=10), tl.AlreadyPunished),
    )


def test_accomplices_are_slashed_together() -> None:
    chain = chain_of(7)
    alice, bob, charlie = chain.validators[:3]
    alone, together = 9 * 10**6 // 49, 36 * 10**6 // 49
    chain.block(*(signed(REPORTER.stash, double(who)) for who in (alice, bob)))
    until_taken(chain)
    bonds = chain.now()[TrustStake].bonds
    assert bonds[bob.stash] == BOND - -(-BOND * together // 10**6)
    assert 0 <= bonds[bob.stash] - bonds[alice.stash] <= 1, "in two steps, each rounded up"
    chain.block(signed(REPORTER.stash, double(charlie)))
    assert [proven.slashed_ppm for proven in chain.happened(tl.OffenceProven)] == [alone, together, 10**6]
    chain.blocks(2)
    until_taken(chain)
    bonds = chain.now()[TrustStake].bonds
    assert [bonds[who.stash] for who in (alice, bob, charlie)] == [0, 0, 0]


def test_a_block_raises_one_offender_and_takes_one_slash() -> None:
    chain = chain_of(7)
    held = []
    for who in chain.validators[:4]:
        chain.block(signed(REPORTER.stash, double(who)))
        held.append([event.offender for event in chain.events if isinstance(event, SlashHeld)])
    first, second, third, _ = (who.stash for who in chain.validators[:4])
    assert held[:3] == [[first], [second], [first, third]], "the hook raises the first, the call holds the third"
    assert len(held[3]) <= 2
    taken = []
    for _ in range(20):
        chain.block()
        taken.append(len([event for event in chain.events if isinstance(event, SlashTaken)]))
    assert max(taken) == 1
    assert sum(taken) == len(chain.happened(SlashHeld))
    assert chain.now()[TrustStake].first_slash_number.get() == sum(taken)


def stake_in_all(chain: MarketChain, who: bytes) -> int:
    """Return an account's delegated and unlocking stake."""
    stake = chain.now()[TrustStake]
    behind = sum(stake_of(stake, who, validator) for validator, _ in stake.delegations.under(who))
    return behind + sum(value_now(stake, chunk) for chunk in stake.unlocking[who])


def test_delegators_share_the_slash_and_leaving_is_no_escape() -> None:
    chain = chain_of(7)
    alice = chain.validators[0]
    chain.block(signed(DELEGATOR.stash, TrustStake.delegate(validator=alice.stash, value=BOND)))
    chain.blocks(8)
    leave = TrustStake.undelegate(validator=alice.stash, value=BOND // 2)
    chain.block(signed(DELEGATOR.stash, leave))
    chain.block(
        signed(REPORTER.stash, double(alice, epoch=1)),
        refused(DELEGATOR.stash, leave, SlashPending),
        refused(alice.stash, TrustStake.unbond(value=1), SlashPending),
        refused(REPORTER.stash, TrustStake.delegate(validator=alice.stash, value=BOND), IsTombstoned),
        refused(
            DELEGATOR.stash, TrustStake.redelegate(alice.stash, chain.validators[1].stash, BOND // 2), SlashPending
        ),
    )
    assert stake_in_all(chain, DELEGATOR.stash) == BOND
    until_taken(chain)
    ppm = 9 * 10**6 // 49  # of the seat with which it offended, which was elected before somebody stood behind it
    assert 0 <= BOND - BOND * ppm // 10**6 - stake_in_all(chain, DELEGATOR.stash) <= 2
    collect = TrustStake.collect(staker=DELEGATOR.stash, validator=alice.stash)
    chain.block(signed(REPORTER.stash, collect))
    (chunk,) = chain.now()[TrustStake].unlocking[DELEGATOR.stash]
    assert chunk.value == BOND // 2 - -(-BOND // 2 * ppm // 10**6)
    total = chain.now()[Balances].total_issuance.get()
    chain.block(
        signed(
            DELEGATOR.stash,
            leave := TrustStake.undelegate(
                alice.stash, stake_of(chain.now()[TrustStake], DELEGATOR.stash, alice.stash)
            ),
        )
    )
    assert total - chain.now()[Balances].total_issuance.get() <= 1, "dust"
    chain.blocks(6 * 7)
    free = chain.now()[Balances].free_balance(DELEGATOR.stash)
    chain.block(signed(DELEGATOR.stash, TrustStake.withdraw_unbonded()))
    assert 0 <= BOND - BOND * ppm // 10**6 - (chain.now()[Balances].free_balance(DELEGATOR.stash) - free) <= 3


@pytest.mark.parametrize("wait", range(0, 18, 3))
@pytest.mark.parametrize("is_moving", [False, True])
def test_what_is_slashed_does_not_depend_on_when_the_staker_leaves(wait: int, is_moving: bool) -> None:
    chain = chain_of(7)
    alice, bob = chain.validators[:2]
    chain.block(signed(DELEGATOR.stash, TrustStake.delegate(validator=alice.stash, value=BOND)))
    chain.blocks(8 + wait)
    leave = TrustStake.undelegate(validator=alice.stash, value=BOND)
    move = TrustStake.redelegate(source=alice.stash, target=bob.stash, value=BOND)
    chain.block(signed(DELEGATOR.stash, move if is_moving else leave))
    left_in = chain.now()[TrustStake].current_era.get()
    while chain.height < 1 + 6 * 4 + 5:
        chain.block()
    chain.block(signed(REPORTER.stash, double(alice, epoch=2)))
    until_taken(chain)
    (slash,) = chain.happened(SlashTaken)
    chain.block(signed(REPORTER.stash, TrustStake.collect(DELEGATOR.stash, bob.stash if is_moving else alice.stash)))
    (proven,) = chain.happened(tl.OffenceProven)
    expected = BOND - -(-BOND * proven.slashed_ppm // 10**6) if left_in >= 1 else BOND
    assert abs(stake_in_all(chain, DELEGATOR.stash) - expected) <= 1
    assert slash.amount <= 2 * BOND


def test_root_cancels_a_slash_and_lifts_the_tombstone() -> None:
    chain = chain_of(7, **SITS_ON)
    alice, bob = chain.validators[:2]
    cancel, lift = TrustLock.cancel_slashes(offender=alice.stash), TrustStake.lift_tombstone(stash=alice.stash)

    chain.block(signed(DELEGATOR.stash, TrustStake.delegate(validator=alice.stash, value=BOND)))
    chain.block(signed(REPORTER.stash, double(alice)), refused(REPORTER.stash, cancel, BadOrigin))
    chain.block(signed(Root(), cancel), refused(REPORTER.stash, lift, BadOrigin))
    with pytest.raises(tl.NoSlashHeld):
        chain.now().dispatch(cancel, Root())
    assert chain.now()[TrustStake].tombstones[alice.stash] is not None
    chain.block(signed(REPORTER.stash, double(bob)))
    chain.blocks(9)
    assert [slash.offender for slash in chain.happened(SlashTaken)] == [bob.stash], "accomplices raise nothing of it"
    assert chain.now()[TrustStake].bonds[alice.stash] == BOND
    chain.block(refused(REPORTER.stash, double(alice), tl.AlreadyPunished))
    chain.block(signed(Root(), lift))
    assert chain.now()[TrustStake].is_candidate(alice.stash)
    with pytest.raises(NotTombstoned):
        chain.now().dispatch(lift, Root())
    chain.block(refused(REPORTER.stash, double(alice, epoch=2), tl.AlreadyPunished))
    chain.blocks(6)
    chain.block(signed(REPORTER.stash, double(alice, epoch=3)))
    assert chain.now()[TrustStake].tombstones[alice.stash] is not None


def test_what_moved_answers_where_it_is_and_may_not_move_on() -> None:
    chain = chain_of(7)
    alice, bob, charlie = (who.stash for who in chain.validators[:3])
    who = DELEGATOR.stash
    chain.block(signed(who, TrustStake.delegate(validator=alice, value=BOND)))
    chain.block(signed(who, TrustStake.redelegate(source=alice, target=bob, value=BOND)))
    onward = TrustStake.redelegate(source=bob, target=charlie, value=BOND)
    chain.block(refused(who, onward, StillAnswering))
    chain.block(signed(who, TrustStake.undelegate(validator=bob, value=BOND // 2)))
    chain.block(signed(REPORTER.stash, double(chain.validators[0])))
    until_taken(chain)
    ppm = chain.happened(tl.OffenceProven)[0].slashed_ppm
    chain.block(*(signed(REPORTER.stash, TrustStake.collect(who, bob)) for _ in range(2)))
    assert 0 <= BOND - BOND * ppm // 10**6 - stake_in_all(chain, who) <= 2
    chain.blocks(6 * 4)
    left = stake_of(chain.now()[TrustStake], who, bob)
    onward = TrustStake.redelegate(source=bob, target=charlie, value=left)
    chain.block(refused(who, onward, StillAnswering))  # an accomplice would raise its liability
    chain.blocks(6 * 3)
    chain.block(signed(who, onward))
    assert stake_of(chain.now()[TrustStake], who, charlie) == left


def test_evidence_grows_old() -> None:
    chain = chain_of(4)
    alice = chain.validators[0]
    chain.blocks(6 * 4)
    chain.block(refused(REPORTER.stash, double(alice, epoch=0), tl.EvidenceTooOld))
    chain.block(signed(REPORTER.stash, double(alice, epoch=1)))


def test_who_offended_counts_for_as_long_as_stake_is_unbonding() -> None:
    """For longer than evidence is possible. The sum is a share of the heaviest of their sets."""
    chain = chain_of(7, **SITS_ON)
    alice, bob = chain.validators[:2]
    chain.block(signed(REPORTER.stash, double(alice)))
    chain.blocks(6 * 5)
    chain.block(refused(REPORTER.stash, double(alice, epoch=3), tl.AlreadyPunished))
    chain.block(signed(REPORTER.stash, double(bob, epoch=3)))
    *_, proven = chain.happened(tl.OffenceProven)
    assert (proven.offender, proven.slashed_ppm) == (bob.stash, 36 * 10**6 // 49)


def other_slots(author: Keys) -> object:
    return report(sealed(author, 9), sealed(author, 10))


@pytest.mark.parametrize(
    "call",
    [
        report(b"", b""),
        report(sealed(Keys("alice")), b"\0" * 100),
        report(sealed(Keys("alice")), sealed(Keys("alice"))),
        report(sealed(Keys("alice")), sealed(Keys("bob"))),
        other_slots(Keys("alice")),
        report(sealed(Keys("alice")), sealed(Keys("alice"), parent=b"q" * 32, signer=Keys("bob"))),
        double(REPORTER),
    ],
)
def test_what_proves_nothing(call: object) -> None:
    chain = chain_of(4)
    chain.block(refused(REPORTER.stash, call, tl.NotAnOffence))
    assert chain.now()[TrustStake].tombstones[Keys("alice").stash] is None


def test_locks_by_case() -> None:
    chain = chain_of(1)
    who, friend = REPORTER.stash, DELEGATOR.stash
    first, second = Hold(SERVICE_DEPOSIT, bytes(32)), Hold(SERVICE_DEPOSIT, b"s" * 32)

    def step(bound: Bound) -> None:
        lock = bound[TrustLock]
        lock.lock(who, first, 100 * OGPU)
        lock.lock(who, first, 20 * OGPU)
        lock.lock(who, second, 7 * OGPU)
        lock.unlock(who, first, 50 * OGPU)
        assert (lock.locked(who, first), lock.locked(who, second)) == (70 * OGPU, 7 * OGPU)
        assert bound[Balances].holds[who] == (HeldAmount(SERVICE_DEPOSIT, 77 * OGPU),)
        lock.pay_out(who, first, (Share(friend, 10 * OGPU), Share(None, OGPU), Share(who, OGPU)))
        lock.pay_out(who, first, (Share(friend, 8 * OGPU), Share(None, 50 * OGPU)))
        lock.end(first)
        with pytest.raises(AssertionError, match="ended case"):
            lock.end(second)
        lock.unlock(who, second, 7 * OGPU)
        assert bound[Balances].holds[who] == ()
        with pytest.raises(FundsUnavailable):
            lock.lock(who, second, 10**20)
        with pytest.raises(AssertionError, match="its own hold"):
            lock.unlock(who, second, 1)

    before = [chain.owned(account) for account in (who, friend)]
    chain.block(step)
    assert chain.owned(who) - before[0] == -(10 + 1 + 58) * OGPU
    assert chain.owned(friend) - before[1] == 10 * OGPU + 8 * OGPU


# ----------------------------------------------------------------------------------------------------- by its epoch


def test_who_has_left_is_judged_by_the_epoch_in_which_it_sat() -> None:
    chain = chain_of(7)
    alice = chain.validators[1]
    chain.block(signed(alice.stash, TrustStake.chill()))
    chain.blocks_to(3 * 6 + 1)
    assert chain.now()[TrustStake].seat_of(alice.stash) is None
    chain.block(refused(REPORTER.stash, double(alice, epoch=3), tl.NotAnOffence))
    chain.block(signed(REPORTER.stash, double(alice, epoch=1)))
    (proven,) = chain.happened(tl.OffenceProven)
    assert (proven.offender, proven.epoch) == (alice.stash, 1)
    chain.blocks(8)
    assert [slash.offender for slash in chain.happened(SlashTaken)] == [alice.stash]


def test_who_comes_is_judged_from_its_first_epoch_on() -> None:
    chain = chain_of(4)
    newcomer = REPORTER
    chain.block(
        signed(newcomer.stash, TrustStake.bond(value=BOND)), signed(newcomer.stash, validates(newcomer)),
        lambda bound: bound[TrustStake].note_heard(newcomer.stash, 0),
    )  # fmt: skip
    chain.blocks_to(2 * 6 + 1)
    assert chain.now()[TrustStake].seat_in(newcomer.stash, 2) is not None
    chain.block(refused(DELEGATOR.stash, double(newcomer, epoch=1), tl.NotAnOffence))
    chain.block(signed(DELEGATOR.stash, double(newcomer, epoch=2)))


def rotated() -> tuple[MarketChain, Keys]:
    """Return epoch 3, in which Alice uses her second key. In epochs 0 to 1 she used her first."""
    chain = chain_of(7)
    alice = chain.validators[1]
    asked = chain.now()[TrustStake].commission_of(alice.stash) or 0
    chain.block(signed(alice.stash, validates(alice, "second", asked)))
    chain.blocks_to(3 * 6 + 1)
    keys = {epoch: chain.now()[TrustStake].seat_in(alice.stash, epoch) for epoch in (1, 2)}
    assert [seat.session_key for seat in keys.values() if seat] == [alice.public("session"), alice.public("second")]
    return chain, alice


PAIRS = {
    "the old key in its epoch": ((1, "session"), (1, "session"), True),
    "the new key in its epoch": ((2, "second"), (2, "second"), True),
    "both at the edge": ((1, "session"), (2, "second"), True),
    "both, the other way round": ((2, "second"), (1, "session"), True),
    "the old key later": ((2, "session"), (2, "session"), False),
    "the new key before": ((1, "second"), (1, "second"), False),
    "the keys changed about": ((1, "second"), (2, "session"), False),
    "one of the two": ((1, "session"), (2, "session"), False),
    "the other of the two": ((1, "second"), (2, "second"), False),
}


@pytest.mark.parametrize(("first", "second", "is_proven"), PAIRS.values(), ids=PAIRS)
def test_each_header_is_judged_by_the_key_of_its_own_epoch(
    first: tuple[int, str], second: tuple[int, str], is_proven: bool
) -> None:
    chain, alice = rotated()
    headers = (
        sealed(alice, epoch=epoch, parent=parent, role=role)
        for parent, (epoch, role) in zip((b"p" * 32, b"q" * 32), (first, second), strict=True)
    )
    call = report(*headers)
    step = signed(REPORTER.stash, call) if is_proven else refused(REPORTER.stash, call, tl.NotAnOffence)
    chain.block(step)
    assert (chain.now()[TrustStake].tombstones[alice.stash] is not None) is is_proven


# ---------------------------------------------------------------------------------------------------------------- gains


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
    """With little own stake and much delegated stake, after an honest validator's mistake."""
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
    """Little stake is left behind the offenders by then, but they offended with their share of the votes."""
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
    epoch, weights = stake.beacon.epoch(), {seat.stash: seat.weight for seat in stake.active_set.get()}
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
    """No call has to update it before: the shown amount is the real one."""
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
    assert (who, bob) not in chain.now()[TrustStake].delegations
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
