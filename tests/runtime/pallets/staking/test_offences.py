"""Offences by votes: each kind, each condition alone, by the set of the epoch that the statements name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consensus.signstate import EMPTY, SigningRefusedError, after
from offending import REPORTER, chain_of, until_taken
from runtime.blocks.evidence import EVIDENCE, DoubleBallot, DoubleHeader, DoubleProposal
from runtime.blocks.votes import Ballot, BallotKind, Proposal, ballot_payload, proposal_payload
from runtime.encoding.types import Root, Signed, Unsigned
from runtime.frame.call import Call
from runtime.frame.errors import BadOrigin, InvalidBlock
from runtime.frame.runtime import Bound
from runtime.pallets.staking import trust_lock as tl
from runtime.pallets.staking.offences import Offence, judging_epochs, proven
from runtime.pallets.staking.staking_events import SlashTaken
from runtime.pallets.staking.trust_lock import TrustLock
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.chains.evidence import double, sealed
from simulation.chains.market_chain import GENESIS_HASH, Keys, refused, signed, validates

ALICE, BOB = Keys("alice"), Keys("bob")
B1, B2 = b"1" * 32, b"2" * 32
NOTARISE, FINALISE, SKIP = BallotKind.NOTARISE, BallotKind.FINALISE, BallotKind.SKIP


def ballots(
    first: Ballot, second: Ballot, signer: Keys = ALICE, *, role: str = "session", accused: Keys | None = None
) -> DoubleBallot:
    signatures = [signer.sign(role, ballot_payload(GENESIS_HASH, ballot)) for ballot in (first, second)]
    return DoubleBallot((accused or signer).public(role), first, signatures[0], second, signatures[1])


def proposals(first: Proposal, second: Proposal, signer: Keys = ALICE) -> DoubleProposal:
    signatures = [signer.sign("session", proposal_payload(GENESIS_HASH, each)) for each in (first, second)]
    return DoubleProposal(signer.public("session"), first, signatures[0], second, signatures[1])


def ballot(kind: BallotKind, block: bytes = B1, *, round_: int = 4, epoch: int = 0) -> Ballot:
    return Ballot(kind, epoch, round_, 0 if kind is SKIP else 5, bytes(32) if kind is SKIP else block)


def proposal(block: bytes = B1, *, round_: int = 4, epoch: int = 0) -> Proposal:
    return Proposal(epoch, round_, 3, 5, block)


def reports(evidence: Any) -> Call:
    return TrustLock.report_offence(evidence=evidence)


TWO_NOTARISED = ballots(ballot(NOTARISE), ballot(NOTARISE, B2))
KINDS = {
    "E1": (DoubleHeader(sealed(ALICE), sealed(ALICE, parent=b"q" * 32)), Offence.TWO_HEADERS, 9),
    "E2": (proposals(proposal(), proposal(B2)), Offence.TWO_PROPOSALS, 4),
    "E3 notarised": (TWO_NOTARISED, Offence.TWO_BALLOTS, 4),
    "E3 finalised": (ballots(ballot(FINALISE), ballot(FINALISE, B2)), Offence.TWO_BALLOTS, 4),
    "E3 of one block at two heights": (
        ballots(ballot(NOTARISE), replace(ballot(NOTARISE), height=6)),
        Offence.TWO_BALLOTS,
        4,
    ),
    "E4": (ballots(ballot(FINALISE), ballot(SKIP)), Offence.FINALISED_AND_SKIPPED, 4),
    "E4 the other way round": (ballots(ballot(SKIP), ballot(FINALISE)), Offence.FINALISED_AND_SKIPPED, 4),
}


@pytest.mark.parametrize(("evidence", "kind", "at"), KINDS.values(), ids=KINDS)
def test_each_kind_is_proven_held_and_taken_once(evidence: Any, kind: Offence, at: int) -> None:
    chain = chain_of(4)
    chain.block(signed(REPORTER.stash, reports(evidence)))
    (found,) = chain.happened(tl.OffenceProven)
    assert (found.offender, found.kind, found.at, found.epoch) == (ALICE.stash, kind, at, 0)
    assert chain.now()[TrustStake].tombstones[ALICE.stash] is not None
    chain.block(refused(REPORTER.stash, reports(evidence), tl.AlreadyPunished))
    before = chain.owned(ALICE.stash)
    until_taken(chain)
    (taken,) = chain.happened(SlashTaken)
    assert (taken.offender, chain.owned(ALICE.stash)) == (ALICE.stash, before - taken.amount)
    assert EVIDENCE.decode(EVIDENCE.encode(evidence)) == evidence


NOTHING = {
    "one ballot twice": ballots(ballot(NOTARISE), ballot(NOTARISE)),
    "two rounds": ballots(ballot(NOTARISE), ballot(NOTARISE, B2, round_=5)),
    "two epochs": ballots(ballot(NOTARISE), ballot(NOTARISE, B2, epoch=1)),
    "notarised and finalised": ballots(ballot(NOTARISE), ballot(FINALISE)),
    "notarised and skipped": ballots(ballot(NOTARISE), ballot(SKIP)),
    "one proposal twice": proposals(proposal(), proposal()),
    "proposals of two rounds": proposals(proposal(), proposal(B2, round_=5)),
    "proposals of two epochs": proposals(proposal(), proposal(B2, epoch=1)),
    "signed by another": replace(TWO_NOTARISED, accused=BOB.public("session")),
    "the first not signed": replace(TWO_NOTARISED, first_signature=bytes(64)),
    "the second not signed": replace(TWO_NOTARISED, second_signature=bytes(64)),
    "signatures changed about": replace(
        TWO_NOTARISED, first_signature=TWO_NOTARISED.second_signature, second_signature=TWO_NOTARISED.first_signature
    ),
    "who never sat": ballots(ballot(NOTARISE), ballot(NOTARISE, B2), REPORTER),
    "another key of who sits": ballots(ballot(NOTARISE), ballot(NOTARISE, B2), role="provider"),
    "an epoch that is not elected": ballots(ballot(NOTARISE, epoch=9), ballot(NOTARISE, B2, epoch=9)),
    "proposals signed by another": replace(proposals(proposal(), proposal(B2)), accused=BOB.public("session")),
    "the first proposal not signed": replace(proposals(proposal(), proposal(B2)), first_signature=bytes(64)),
    "the second proposal not signed": replace(proposals(proposal(), proposal(B2)), second_signature=bytes(64)),
}


@pytest.mark.parametrize("evidence", NOTHING.values(), ids=NOTHING)
def test_each_condition_alone_proves_nothing(evidence: Any) -> None:
    chain = chain_of(4)
    chain.block(refused(REPORTER.stash, reports(evidence), tl.NotAnOffence))
    assert list(chain.now()[TrustStake].tombstones.items()) == []


def test_evidence_names_the_epochs_whose_sets_judge_it() -> None:
    assert judging_epochs(ballots(ballot(NOTARISE, epoch=2), ballot(NOTARISE, B2, epoch=2))) == (2,)
    assert judging_epochs(proposals(proposal(epoch=3), proposal(B2, epoch=3))) == (3,)
    assert judging_epochs(DoubleHeader(sealed(ALICE, epoch=4), sealed(ALICE, epoch=5))) == (4, 5)
    assert judging_epochs(DoubleHeader(b"", b"")) == judging_epochs(DoubleHeader(sealed(ALICE), b"")) == ()


@pytest.mark.parametrize("origin", [Root(), Unsigned()])
def test_nobody_but_an_account_reports(origin: Root | Unsigned) -> None:
    with pytest.raises(BadOrigin):
        chain_of(4).now().dispatch(reports(TWO_NOTARISED), origin)


def attach(*evidence: Any) -> Callable[[Bound], None]:
    def step(bound: Bound) -> None:
        bound.dispatch(TrustLock.attach_evidence(proofs=evidence), Unsigned())

    return step


def attach_refused(because: type[Exception], *evidence: Any) -> Callable[[Bound], None]:
    """Return a step whose inherent makes a block invalid and punishes no validator."""

    def step(bound: Bound) -> None:
        before = bound[TrustLock].offenders.get()
        with pytest.raises(because), bound.overlay.transaction():
            attach(*evidence)(bound)
        assert bound[TrustLock].offenders.get() == before

    return step


@pytest.mark.parametrize(("evidence", "kind", "at"), KINDS.values(), ids=KINDS)
def test_an_author_attaches_each_kind_and_has_the_reporters_part(evidence: Any, kind: Offence, at: int) -> None:
    chain = chain_of(4)
    charlie = chain.validators[2]
    before = chain.owned(charlie.stash)
    chain.block(attach(evidence), author=charlie)
    (event,) = chain.happened(tl.OffenceProven)
    assert (event.offender, event.kind, event.at, event.reporter) == (ALICE.stash, kind, at, charlie.stash)
    until_taken(chain)
    (taken,) = chain.happened(SlashTaken)
    assert abs(chain.owned(charlie.stash) - before - taken.amount // 10) <= 1
    assert chain.now()[TrustStake].tombstones[ALICE.stash] is not None


def test_an_author_attaches_several_and_a_call_brings_what_it_left_out() -> None:
    chain = chain_of(7)
    of_bob = ballots(ballot(SKIP), ballot(FINALISE), BOB)
    chain.block(attach(TWO_NOTARISED, of_bob), signed(REPORTER.stash, double(Keys("charlie"))))
    assert [proven.offender for proven in chain.happened(tl.OffenceProven)] == [
        ALICE.stash,
        BOB.stash,
        Keys("charlie").stash,
    ]


def test_a_block_with_evidence_that_proves_nothing_new_is_invalid() -> None:
    chain = chain_of(7)
    of_bob = ballots(ballot(SKIP), ballot(FINALISE), BOB)
    chain.block(
        attach_refused(InvalidBlock),
        attach_refused(tl.NotAnOffence, of_bob, NOTHING["who never sat"]),
        attach_refused(tl.AlreadyPunished, of_bob, of_bob),
        attach(of_bob),
        attach_refused(tl.AlreadyPunished, of_bob),
        attach_refused(tl.AlreadyPunished, TWO_NOTARISED, of_bob),
    )
    chain.blocks_to(4 * 6 + 1)
    chain.block(attach_refused(tl.EvidenceTooOld, TWO_NOTARISED))


@pytest.mark.parametrize("origin", [Root(), Signed(ALICE.stash)])
def test_nobody_but_an_author_attaches(origin: Root | Signed) -> None:
    with pytest.raises(BadOrigin):
        chain_of(4).now().dispatch(TrustLock.attach_evidence(proofs=(TWO_NOTARISED,)), origin)


def test_a_block_holds_a_few_proofs_where_it_has_room() -> None:
    chain = chain_of(4)
    with pytest.raises(ValueError, match="4"):
        chain.runtime.codecs.of(tl.Proofs).encode((TWO_NOTARISED,) * 5)
    full, attached_one = (TrustLock.attach_evidence(proofs=(TWO_NOTARISED,) * count) for count in (tl.PROOFS_MAX, 1))
    assert full.weight.ref_time < chain.now().mandatory_left / 4

    def crowded(bound: Bound) -> None:
        left, bound.mandatory_left = bound.mandatory_left, attached_one.weight.ref_time
        attach(TWO_NOTARISED)(bound)
        attach_refused(InvalidBlock, ballots(ballot(SKIP), ballot(FINALISE), BOB), double(Keys("charlie")))(bound)
        bound.mandatory_left = left

    chain.block(crowded)


def test_evidence_of_votes_is_good_for_as_long_as_that_of_headers() -> None:
    chain = chain_of(4)
    chain.blocks_to(3 * 6 + 1)
    chain.block(signed(REPORTER.stash, reports(TWO_NOTARISED)))
    chain = chain_of(4)
    chain.blocks_to(4 * 6 + 1)
    chain.block(refused(REPORTER.stash, reports(TWO_NOTARISED), tl.EvidenceTooOld))


def test_an_offender_is_punished_once_whatever_else_it_did() -> None:
    chain = chain_of(4)
    chain.block(signed(REPORTER.stash, reports(TWO_NOTARISED)))
    for evidence, *_ in KINDS.values():
        chain.block(refused(REPORTER.stash, reports(evidence), tl.AlreadyPunished))
    chain.block(refused(REPORTER.stash, double(ALICE), tl.AlreadyPunished))


def test_accomplices_in_votes_and_headers_raise_each_other() -> None:
    chain = chain_of(7)
    chain.block(signed(REPORTER.stash, reports(TWO_NOTARISED)))
    chain.block(signed(REPORTER.stash, double(BOB)))
    chain.blocks(3)
    assert [event.offender for event in chain.happened(tl.SlashRaised)] == [ALICE.stash]


SITTING = ((0, "session", True), (1, "session", True), (2, "session", False), (2, "second", True), (1, "second", False))


@pytest.mark.parametrize(("epoch", "role", "is_proven"), SITTING)
def test_after_a_rotation_each_epoch_is_judged_by_its_own_key(epoch: int, role: str, *, is_proven: bool) -> None:
    chain = chain_of(7)
    asked = chain.now()[TrustStake].commission_of(ALICE.stash) or 0
    chain.block(signed(ALICE.stash, validates(ALICE, "second", asked)))
    chain.blocks_to(3 * 6 + 1)
    call = reports(ballots(ballot(NOTARISE, epoch=epoch), ballot(NOTARISE, B2, epoch=epoch), role=role))
    step: Callable[[Bound], None] = (
        signed(REPORTER.stash, call) if is_proven else refused(REPORTER.stash, call, tl.NotAnOffence)
    )
    chain.block(step)


RECORDS = st.one_of(
    st.builds(ballot, st.sampled_from(BallotKind), st.sampled_from([B1, B2]), round_=st.integers(1, 3)),
    st.builds(proposal, st.sampled_from([B1, B2]), round_=st.integers(1, 3)),
)


@settings(max_examples=2 * settings().max_examples)
@given(st.lists(RECORDS, max_size=12))
def test_what_a_sign_state_lets_through_never_proves_anything(wanted: list[Ballot | Proposal]) -> None:
    state, made = EMPTY, list[Ballot | Proposal]()
    for record in wanted:
        try:
            state = after(state, record)
        except SigningRefusedError:
            continue
        made.append(record)
    seats = chain_seats()
    for first in made:
        for second in made:
            if isinstance(first, Ballot) and isinstance(second, Ballot):
                assert proven(ballots(first, second), GENESIS_HASH, lambda _: seats) is None
            elif isinstance(first, Proposal) and isinstance(second, Proposal):
                assert proven(proposals(first, second), GENESIS_HASH, lambda _: seats) is None


def chain_seats() -> Any:
    return CHAIN.now()[TrustStake].active_set.get()


CHAIN = chain_of(2)
