"""The signed message of a vote: of one chain, one kind and one content alone."""

from dataclasses import replace

from runtime.blocks.votes import Ballot, BallotKind, Proposal, ballot_payload, proposal_payload

PROPOSAL = Proposal(1, 2, 1, 3, b"b" * 32)
BALLOT = Ballot(BallotKind.NOTARISE, 1, 2, 3, b"b" * 32)


def test_no_two_statements_have_the_same_signed_bytes() -> None:
    signed = [
        proposal_payload(genesis, replace(PROPOSAL, **{field: getattr(PROPOSAL, field) + 1}) if field else PROPOSAL)
        for genesis in (b"g" * 32, b"h" * 32)
        for field in ("", "epoch", "round", "parent_round", "height")
    ]
    signed += [
        ballot_payload(genesis, replace(BALLOT, kind=kind, round=round_))
        for genesis in (b"g" * 32, b"h" * 32)
        for kind in BallotKind
        for round_ in (1, 2)
    ]
    assert len(set(signed)) == len(signed)
