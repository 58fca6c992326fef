"""TrustLock: locks by reason, and the offence of proposing twice in one slot."""

import pytest

from gpu_tasks.market.inference.services import SERVICE_DEPOSIT
from runtime.blocks.block import HEADER, Header, seal_payload
from runtime.blocks.digest import PreDigest, author_item, pre_digest_item, seal_item
from runtime.frame.errors import FundsUnavailable
from runtime.frame.holds import Hold
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.hold_book import HeldAmount
from runtime.pallets.pots import TREASURY
from runtime.pallets.staking import trust_lock as tl
from runtime.pallets.staking.slashing import Share
from runtime.pallets.staking.staking_events import StakeSlashed
from runtime.pallets.staking.trust_lock import TrustLock
from runtime.pallets.staking.trust_stake import TrustStake
from scripts.chains.market_chain import BOND, GENESIS_HASH, OGPU, Keys, MarketChain, named_keys, refused, signed

REPORTER, DELEGATOR = Keys("reporter"), Keys("delegator")


def sealed(author: Keys, slot: int = 9, epoch: int = 0, parent: bytes = b"p" * 32, signer: Keys | None = None) -> bytes:
    """An encoded header by `author`, sealed with the session key of `signer`."""
    digest = (author_item(author.stash), pre_digest_item(PreDigest(slot, epoch, bytes(32), bytes(80))))
    header = Header(parent, 5, b"s" * 32, b"x" * 32, digest)
    signature = (signer or author).sign("session", seal_payload(GENESIS_HASH, header))
    return HEADER.encode(Header(parent, 5, b"s" * 32, b"x" * 32, (*digest, seal_item(signature))))


def report(first: bytes, second: bytes) -> object:
    return TrustLock.report_offence(first=first, second=second)


def double(author: Keys, slot: int = 9, epoch: int = 0) -> object:
    return report(sealed(author, slot, epoch), sealed(author, slot, epoch, b"q" * 32))


def chain_of(count: int) -> MarketChain:
    return MarketChain(named_keys(count), [REPORTER, DELEGATOR], epoch_blocks=6)


def owned(chain: MarketChain, account: bytes) -> int:
    balances = chain.now()[Balances]
    return balances.free_balance(account) + balances.reserved_balance(account)


def test_a_double_proposal_costs_what_its_share_of_the_stake_says() -> None:
    chain = chain_of(7)
    alice = chain.validators[0]
    before = [owned(chain, account) for account in (alice.stash, REPORTER.stash, TREASURY)]
    chain.block(signed(REPORTER.stash, double(alice)))
    (proven,) = chain.happened(tl.OffenceProven)
    ppm = 9 * 10**6 // 49
    taken = BOND * ppm // 10**6
    assert (proven.offender, proven.slot, proven.slashed_ppm, proven.amount) == (alice.stash, 9, ppm, taken)
    after = [owned(chain, account) for account in (alice.stash, REPORTER.stash, TREASURY)]
    assert [now - then for now, then in zip(after, before, strict=True)] == [-taken, taken // 10, taken * 4 // 10]
    assert chain.now()[Balances].burned.get() == taken - taken // 10 - taken * 4 // 10
    assert not chain.now()[TrustStake].is_candidate(alice.stash)
    assert alice.stash in [seat.stash for seat in chain.now()[TrustStake].validators(0)], "the genesis set holds office"
    chain.blocks(8)
    assert alice.stash not in [standing.stash for standing in chain.now()[TrustStake].elected.get()]


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
    chain.block()
    stakes = chain.now()[TrustStake].stakes
    assert stakes[bob.stash, bob.stash] == BOND - BOND * together // 10**6
    assert stakes[alice.stash, alice.stash] == BOND - BOND * alone // 10**6 - BOND * (together - alone) // 10**6
    chain.block(signed(REPORTER.stash, double(charlie)))
    assert [proven.slashed_ppm for proven in chain.happened(tl.OffenceProven)] == [alone, together, 10**6]
    chain.blocks(2)
    stakes = chain.now()[TrustStake].stakes
    assert [stakes[who.stash, who.stash] for who in (alice, bob, charlie)] == [0, 0, 0]


def test_a_report_and_a_block_strike_one_offender_each() -> None:
    """A fourth report in a window struck the delegators of four: 32 ms where 2.9 were charged."""
    chain = chain_of(7)
    offenders = chain.validators[:4]
    struck = []
    for who in offenders:
        chain.block(signed(REPORTER.stash, double(who)))
        struck.append([one.validator for one in chain.events if isinstance(one, StakeSlashed)])
    assert struck[0] == [offenders[0].stash]
    assert struck[1] == [offenders[1].stash]
    assert struck[2] == [offenders[0].stash, offenders[2].stash], (
        "the hook raises the first, the call strikes the third"
    )
    assert len(struck[3]) <= 2


def test_the_reporter_of_a_later_offence_has_its_part_of_what_it_raises() -> None:
    chain = chain_of(7)
    alice, bob = chain.validators[:2]
    alone, together = 9 * 10**6 // 49, 36 * 10**6 // 49
    chain.block(signed(DELEGATOR.stash, double(alice)))
    chain.block(signed(REPORTER.stash, double(bob)))
    before = owned(chain, REPORTER.stash), owned(chain, DELEGATOR.stash)
    chain.block()
    raised = BOND * (together - alone) // 10**6
    (event,) = chain.happened(tl.SlashRaised)
    assert (event.offender, event.slashed_ppm, event.amount) == (alice.stash, together, raised)
    assert owned(chain, REPORTER.stash) - before[0] == raised // 10
    assert owned(chain, DELEGATOR.stash) == before[1]
    chain.blocks(3)
    assert len(chain.happened(tl.SlashRaised)) == 1
    assert chain.now()[TrustLock].raised.get() is None


def test_delegators_share_the_slash_and_leaving_is_no_escape() -> None:
    chain = chain_of(7)
    alice = chain.validators[0]
    chain.block(signed(DELEGATOR.stash, TrustStake.delegate(validator=alice.stash, value=BOND)))
    chain.blocks(8)  # the next era's exposure has the delegation
    chain.block(signed(DELEGATOR.stash, TrustStake.undelegate(validator=alice.stash, value=BOND)))
    before = owned(chain, DELEGATOR.stash)
    chain.block(signed(REPORTER.stash, double(alice, epoch=1)))
    ppm = 9 * 4 * 10**6 // 64
    assert before - owned(chain, DELEGATOR.stash) == BOND * ppm // 10**6
    (chunk,) = chain.now()[TrustStake].unlocking[DELEGATOR.stash]
    assert chunk.value == BOND - BOND * ppm // 10**6


@pytest.mark.parametrize("wait", range(0, 18, 3))
def test_what_is_slashed_does_not_depend_on_when_the_staker_leaves(wait: int) -> None:
    chain = chain_of(7)
    alice = chain.validators[0]
    chain.block(signed(DELEGATOR.stash, TrustStake.delegate(validator=alice.stash, value=BOND)))
    chain.blocks(7)
    before = owned(chain, DELEGATOR.stash)
    chain.blocks(1 + wait)
    chain.block(signed(DELEGATOR.stash, TrustStake.undelegate(validator=alice.stash, value=BOND)))
    while chain.height < 1 + 6 * 4 + 5:
        chain.block()
    chain.block(signed(REPORTER.stash, double(alice, epoch=2)))
    assert before - owned(chain, DELEGATOR.stash) in (0, BOND * (9 * 4 * 10**6 // 64) // 10**6)
    exposed = chain.now()[TrustStake].eras_exposure[2, alice.stash]
    assert exposed is not None
    was_exposed = any(backing.who == DELEGATOR.stash for backing in exposed.others)
    assert was_exposed == (before != owned(chain, DELEGATOR.stash))


def test_evidence_grows_old() -> None:
    chain = chain_of(4)
    alice = chain.validators[0]
    chain.blocks(6 * 4)
    chain.block(refused(REPORTER.stash, double(alice, epoch=0), tl.EvidenceTooOld))
    chain.block(signed(REPORTER.stash, double(alice, epoch=1)))


def test_who_offended_counts_for_as_long_as_stake_is_unbonding() -> None:
    """Not only for as long as there may be evidence; and all of it is a share of the largest stake of their eras."""
    chain = chain_of(7)
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
        with pytest.raises(AssertionError, match="case that has ended"):
            lock.end(second)
        lock.unlock(who, second, 7 * OGPU)
        assert bound[Balances].holds[who] == ()
        with pytest.raises(FundsUnavailable):
            lock.lock(who, second, 10**20)
        with pytest.raises(AssertionError, match="what it holds itself"):
            lock.unlock(who, second, 1)

    before = [owned(chain, account) for account in (who, friend)]
    chain.block(step)
    assert owned(chain, who) - before[0] == -(10 + 1 + 58) * OGPU
    assert owned(chain, friend) - before[1] == 10 * OGPU + 8 * OGPU
