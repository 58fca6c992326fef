"""The observer finds every pair of statements that no honest key makes, and nothing else."""

import pytest

from consensus.wire import MESSAGE, Message, Propose, Vote
from devnet.stage.measuring.observer import SignatureObservation
from genesis import dev_accounts
from node.p2p.frames import FrameKind
from runtime.blocks.block import BLOCK, Block, Header, seal_payload
from runtime.blocks.digest import PreDigest, author_item, pre_digest_item, seal_item
from runtime.blocks.votes import (
    Ballot,
    BallotKind,
    Proposal,
    SignedBallot,
    SignedProposal,
    ballot_payload,
    proposal_payload,
    skip_ballot,
)
from runtime.cryptography.signatures import Scheme, keypair_from_seed, sign

GENESIS = b"\7" * 32
ALICE = keypair_from_seed(Scheme.ED25519, dev_accounts.key_seed("Alice", dev_accounts.SESSION))
STASH = dev_accounts.stash("Alice")


@pytest.fixture
def seen() -> SignatureObservation:
    return SignatureObservation(GENESIS, {STASH: ALICE[0]})


def hear(seen: SignatureObservation, message: Message) -> None:
    seen.take(FrameKind.VOTE, MESSAGE.encode(message))


def ballot(kind: BallotKind, block: bytes, round_: int = 3) -> SignedBallot:
    said = skip_ballot(0, round_) if kind is BallotKind.SKIP else Ballot(kind, 0, round_, 5, block)
    return SignedBallot(said, ALICE[0], sign(Scheme.ED25519, *ALICE, ballot_payload(GENESIS, said)))


def proposal(block: bytes) -> SignedProposal:
    said = Proposal(0, 3, 2, 5, block)
    return SignedProposal(said, sign(Scheme.ED25519, *ALICE, proposal_payload(GENESIS, said)))


def block(slot: int, root: bytes, *, is_sealed: bool = True) -> bytes:
    items = (author_item(STASH), pre_digest_item(PreDigest(slot, 0, bytes(32), bytes(80))))
    header = Header(bytes(32), 5, root, bytes(32), items)
    signature = sign(Scheme.ED25519, *ALICE, seal_payload(GENESIS, header)) if is_sealed else bytes(64)
    return BLOCK.encode(Block(Header(bytes(32), 5, root, bytes(32), (*items, seal_item(signature))), ()))


A, B = b"\1" * 32, b"\2" * 32


def test_what_an_honest_key_says_is_no_conflict(seen: SignatureObservation) -> None:
    for vote in (ballot(BallotKind.NOTARISE, A), ballot(BallotKind.FINALISE, A), ballot(BallotKind.NOTARISE, B, 4)):
        hear(seen, Vote(vote, None))
        hear(seen, Vote(vote, proposal(A)))
    hear(seen, Vote(ballot(BallotKind.NOTARISE, A, 7), None))
    hear(seen, Vote(ballot(BallotKind.SKIP, A, 7), None))
    seen.take(FrameKind.BLOCK, block(9, A))
    seen.take(FrameKind.BLOCK, block(10, B))
    report = seen.report()
    assert report["conflicts"] == []
    assert (report["ballots"], report["proposals"], report["headers"]) == (5, 1, 2)
    assert len(report["votes"]) == 5


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (ballot(BallotKind.NOTARISE, A), ballot(BallotKind.NOTARISE, B)),
        (ballot(BallotKind.FINALISE, A), ballot(BallotKind.FINALISE, B)),
        (ballot(BallotKind.FINALISE, A), ballot(BallotKind.SKIP, A)),
    ],
)
def test_exclusive_ballots_are_found(seen: SignatureObservation, first: SignedBallot, second: SignedBallot) -> None:
    hear(seen, Vote(first, None))
    hear(seen, Vote(second, None))
    assert len(list(seen.conflicts())) == 1


def test_two_proposals_of_a_round_are_found(seen: SignatureObservation) -> None:
    hear(seen, Propose(proposal(A)))
    hear(seen, Vote(ballot(BallotKind.NOTARISE, B), proposal(B)))
    assert len(list(seen.conflicts())) == 1


def test_two_headers_of_a_slot_are_found(seen: SignatureObservation) -> None:
    seen.take(FrameKind.BLOCK, block(9, A))
    seen.take(FrameKind.BLOCK, block(9, B))
    assert len(list(seen.conflicts())) == 1


def test_nobody_is_accused_by_what_it_did_not_sign(seen: SignatureObservation) -> None:
    forged = ballot(BallotKind.NOTARISE, B)
    hear(seen, Vote(ballot(BallotKind.NOTARISE, A), None))
    hear(seen, Vote(SignedBallot(forged.ballot, forged.voter, bytes(64)), None))
    seen.take(FrameKind.BLOCK, block(9, A))
    seen.take(FrameKind.BLOCK, block(9, B, is_sealed=False))
    seen.take(FrameKind.VOTE, b"nonsense")
    assert seen.report()["conflicts"] == []
    assert seen.messages["undecodable"] == 1
