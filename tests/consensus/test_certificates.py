"""Certificates and evidence: valid ones verify, and everything similar does not."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consensus.certificates import CERTIFICATE, Certificate, signers_of, verify_certificate, verify_votes
from consensus.finality.hearing import BallotBox
from consensus_parts import GENESIS, GENESIS_BLOCK, ballot, block, cast, certificate, members, signers
from devnet.simulation.keys import verify_fake
from runtime.blocks.evidence import EVIDENCE, DoubleBallot, DoubleProposal, double_ballot
from runtime.blocks.votes import Ballot, BallotKind, Proposal, proposal_payload, skip_ballot
from runtime.encoding.codec import DecodeError

LEFT, RIGHT = block(GENESIS_BLOCK, 1), block(GENESIS_BLOCK, 2)
FINAL = ballot(BallotKind.FINALISE, 1, LEFT)


def verifies(made: Certificate, count: int = 4, epoch: int = 0) -> bool:
    return verify_certificate(made, members(count, epoch), GENESIS, verify_fake)


def test_three_of_four_certify() -> None:
    made = certificate(FINAL, 4, range(1, 4))
    assert verifies(made)
    assert CERTIFICATE.decode(CERTIFICATE.encode(made)) == made
    assert len(CERTIFICATE.encode(made)) < 250
    assert signers_of(made, members(4)) == tuple(signer.public for signer in signers(4)[1:])


def test_weight_counts_and_not_heads() -> None:
    of = members(4, weights=(70, 10, 10, 10))
    assert verify_certificate(certificate(FINAL, 4, range(1)), of, GENESIS, verify_fake)
    assert not verify_certificate(certificate(FINAL, 4, range(1, 4)), of, GENESIS, verify_fake)


GOOD = certificate(FINAL, 4, range(3))
BAD = {
    "too few": certificate(FINAL, 4, range(2)),
    "version": replace(GOOD, version=2),
    "other ballot": replace(GOOD, ballot=ballot(BallotKind.FINALISE, 1, RIGHT)),
    "other kind": replace(GOOD, ballot=ballot(BallotKind.NOTARISE, 1, LEFT)),
    "other round": replace(GOOD, ballot=ballot(BallotKind.FINALISE, 2, LEFT)),
    "other epoch": replace(GOOD, ballot=ballot(BallotKind.FINALISE, 1, LEFT, epoch=1)),
    "bitmap too long": replace(GOOD, signers=GOOD.signers + b"\0"),
    "no bitmap": replace(GOOD, signers=b""),
    "bit of nobody": replace(GOOD, signers=bytes([GOOD.signers[0] | 16])),
    "signature missing": replace(GOOD, signatures=GOOD.signatures[:2]),
    "signature too many": replace(GOOD, signatures=(*GOOD.signatures, GOOD.signatures[0])),
    "signatures swapped": replace(GOOD, signatures=GOOD.signatures[::-1]),
    "one voter thrice": replace(GOOD, signatures=GOOD.signatures[:1] * 3),
}


@pytest.mark.parametrize("made", BAD.values(), ids=BAD)
def test_what_is_not_quite_a_certificate(made: Certificate) -> None:
    assert verifies(GOOD)
    assert not verifies(made)


def test_certificate_of_another_epoch_of_the_same_members() -> None:
    made = certificate(ballot(BallotKind.FINALISE, 1, LEFT, epoch=1), 4, range(3))
    assert verifies(made, epoch=1)
    assert not verifies(made, epoch=0)


def test_certificate_of_another_chain() -> None:
    assert not verify_certificate(GOOD, members(4), bytes(32), verify_fake)


@given(st.binary(max_size=400))
def test_decoding_rubbish_is_a_decode_error(data: bytes) -> None:
    for codec in (CERTIFICATE, EVIDENCE):
        try:
            value = codec.decode(data)
        except DecodeError:
            continue
        assert codec.encode(value) == data  # type: ignore[arg-type]


EXCLUSIVE = [
    (ballot(BallotKind.NOTARISE, 1, LEFT), ballot(BallotKind.NOTARISE, 1, RIGHT)),
    (ballot(BallotKind.FINALISE, 1, LEFT), ballot(BallotKind.FINALISE, 1, RIGHT)),
    (ballot(BallotKind.FINALISE, 1, LEFT), skip_ballot(0, 1)),
]
COMPATIBLE = [
    (ballot(BallotKind.NOTARISE, 1, LEFT), ballot(BallotKind.NOTARISE, 1, LEFT)),
    (ballot(BallotKind.NOTARISE, 1, LEFT), ballot(BallotKind.NOTARISE, 2, RIGHT)),
    (ballot(BallotKind.NOTARISE, 1, LEFT), ballot(BallotKind.NOTARISE, 1, RIGHT, epoch=1)),
    (ballot(BallotKind.NOTARISE, 1, LEFT), ballot(BallotKind.FINALISE, 1, RIGHT)),
    (ballot(BallotKind.NOTARISE, 1, LEFT), skip_ballot(0, 1)),
    (ballot(BallotKind.FINALISE, 1, LEFT), skip_ballot(0, 2)),
]


@pytest.mark.parametrize(("first", "second"), EXCLUSIVE)
def test_double_ballots_are_evidence(first: Ballot, second: Ballot) -> None:
    signer = signers(1)[0]
    made = double_ballot(cast(signer, first), cast(signer, second))
    assert made == double_ballot(cast(signer, second), cast(signer, first))
    assert verify_votes(made, members(4, made.first.epoch), GENESIS, verify_fake)
    assert EVIDENCE.decode(EVIDENCE.encode(made)) == made
    forged = replace(made, accused=signers(2)[1].public)
    assert not verify_votes(forged, members(4, made.first.epoch), GENESIS, verify_fake)
    assert not verify_votes(made, members(4, made.first.epoch), bytes(32), verify_fake)


@pytest.mark.parametrize(("first", "second"), EXCLUSIVE)
def test_evidence_is_judged_by_the_set_of_its_own_epoch(first: Ballot, second: Ballot) -> None:
    stranger = signers(5)[4]
    made = double_ballot(cast(stranger, first), cast(stranger, second))
    assert verify_votes(made, members(5, first.epoch), GENESIS, verify_fake)
    assert not verify_votes(made, members(4, first.epoch), GENESIS, verify_fake)  # it did not sit then
    assert not verify_votes(made, members(5, first.epoch + 1), GENESIS, verify_fake)  # that it sits now is no matter


@pytest.mark.parametrize(("first", "second"), COMPATIBLE)
def test_compatible_ballots_are_no_evidence(first: Ballot, second: Ballot) -> None:
    signer = signers(1)[0]
    earlier, later = cast(signer, first), cast(signer, second)
    made = DoubleBallot(signer.public, first, earlier.signature, second, later.signature)
    assert not verify_votes(made, members(4, made.first.epoch), GENESIS, verify_fake)


def test_double_proposals() -> None:
    signer = signers(1)[0]
    first, second = Proposal(0, 1, 0, 1, LEFT.id), Proposal(0, 1, 0, 1, RIGHT.id)
    signed = [signer.sign(proposal_payload(GENESIS, proposal)) for proposal in (first, second)]
    made = DoubleProposal(signer.public, first, signed[0], second, signed[1])
    assert verify_votes(made, members(4), GENESIS, verify_fake)
    assert not verify_votes(replace(made, accused=signers(2)[1].public), members(4), GENESIS, verify_fake)
    same = replace(made, second=first, second_signature=signed[0])
    assert not verify_votes(same, members(4), GENESIS, verify_fake)


def test_box_counts_each_voter_once_and_accuses_once() -> None:
    box, keys = BallotBox(members(4)), signers(4)
    assert box.add(cast(keys[0], EXCLUSIVE[0][0])) is None
    assert box.add(cast(keys[0], EXCLUSIVE[0][1])) is not None
    assert box.add(cast(keys[0], EXCLUSIVE[0][1])) is None
    assert box.weight(EXCLUSIVE[0][0]) == 1
    assert box.weight(EXCLUSIVE[0][1]) == 0
    assert box.has_no_use_for(EXCLUSIVE[0][1], keys[0].public)
    for key in keys[1:3]:
        assert box.certificate(EXCLUSIVE[0][0]) is None
        box.add(cast(key, EXCLUSIVE[0][0]))
    made = box.certificate(EXCLUSIVE[0][0])
    assert made is not None
    assert verifies(made)
    box.prune(2)
    assert box.weight(EXCLUSIVE[0][0]) == 0
