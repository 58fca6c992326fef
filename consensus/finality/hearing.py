"""The proposals and votes of one epoch: verified with its set, counted, and checked for offences.

Invariant: only statements with a verified signature of a member of this epoch count. Two conflicting statements are
reported as evidence, once for each round's proposals and once for each voter.
"""

from collections.abc import Callable, Iterator

from consensus.certificates import Certificate, make_certificate, signers_of, verify_certificate
from consensus.events import Effect, ReportEvidence
from consensus.parameters import Parameters
from consensus.validators import Epoch, Leaders, ValidatorSet
from runtime.blocks.evidence import DoubleBallot, DoubleProposal, are_exclusive, double_ballot
from runtime.blocks.votes import (
    NO_BLOCK,
    Ballot,
    BallotKind,
    SignedBallot,
    SignedProposal,
    VerifyEd25519,
    ballot_payload,
    proposal_payload,
)

Emit = Callable[[Effect], None]


# The ballots of one gadget epoch: counted into certificates, checked for offences.
#
# Invariant: each voter counts once for a (round, kind), with its first ballot. A second, different one is evidence.
# Votes of rounds below the newest final one are dropped for good. Bounded by members x kinds x accepted rounds.
class BallotBox:
    """Ballots with verified signatures, by round and kind."""

    def __init__(self, validators: ValidatorSet) -> None:
        """Start without ballots."""
        self._members = validators
        self._first: dict[tuple[int, BallotKind], dict[bytes, SignedBallot]] = {}
        self._accused: set[bytes] = set()
        self._lowest = 0

    def has_no_use_for(self, ballot: Ballot, voter: bytes) -> bool:
        """Return True if a ballot is counted already, or would only prove a proven offence again."""
        # Called before the signature check, to save that check on a repeated vote.
        first_vote = self._first.get((ballot.round, ballot.kind), {}).get(voter)
        return first_vote is not None and (first_vote.ballot == ballot or voter in self._accused)

    def add(self, signed_ballot: SignedBallot) -> DoubleBallot | None:
        """Count a verified ballot. Return evidence if it contradicts an earlier ballot of its voter."""
        ballot = signed_ballot.ballot
        voter = signed_ballot.voter
        assert ballot.round >= self._lowest, "votes count only for rounds that are kept"
        self._first.setdefault((ballot.round, ballot.kind), {}).setdefault(voter, signed_ballot)
        if voter in self._accused:
            return None
        for kind in BallotKind:
            earlier_vote = self._first.get((ballot.round, kind), {}).get(voter)
            if earlier_vote is not None and are_exclusive(earlier_vote.ballot, ballot):
                self._accused.add(voter)
                return double_ballot(earlier_vote, signed_ballot)
        return None

    def weight(self, ballot: Ballot) -> int:
        """Return the stake that cast exactly this ballot."""
        votes = self._first.get((ballot.round, ballot.kind), {})
        return sum(
            self._members.weight_of(session_key)
            for session_key, signed_ballot in votes.items()
            if signed_ballot.ballot == ballot
        )

    def certificate(self, ballot: Ballot) -> Certificate | None:
        """Return the certificate of this ballot, None unless more than two thirds cast it."""
        if not self._members.is_quorum(self.weight(ballot)):
            return None
        votes = self._first[(ballot.round, ballot.kind)]
        signatures = {
            session_key: signed_ballot.signature
            for session_key, signed_ballot in votes.items()
            if signed_ballot.ballot == ballot
        }
        return make_certificate(ballot, self._members, signatures)

    def votes(self, round_number: int) -> list[SignedBallot]:
        """Return every vote of a round."""
        return [vote for kind in BallotKind for vote in self._first.get((round_number, kind), {}).values()]

    def prune(self, below: int) -> None:
        """Drop the votes of earlier rounds, for good."""
        assert below >= self._lowest, "dropped rounds stay dropped"
        self._lowest = below
        self._first = {
            round_and_kind: votes for round_and_kind, votes in self._first.items() if round_and_kind[0] >= below
        }


class InvalidVoteError(Exception):
    """A message that no honest peer sends: wrong form, wrong signer or wrong signature."""


class EpochHearing:
    """The statements of one epoch. The caller has checked that they belong to this epoch and to an open round."""

    def __init__(
        self,
        parameters: Parameters,
        epoch: Epoch,
        genesis_hash: bytes,
        verify_signature: VerifyEd25519,
        emit_effect: Emit,
    ) -> None:
        """Start without statements."""
        self.members = epoch.validators
        self.leaders = Leaders(epoch)
        self.box = BallotBox(self.members)
        self.proposals: dict[int, SignedProposal] = {}
        self.equivocated: set[int] = set()
        self._lowest = parameters.boundary(self.members.epoch - 1) + 1
        self._highest = parameters.boundary(self.members.epoch)
        self._genesis = genesis_hash
        self._verify = verify_signature
        self._emit = emit_effect

    def proposal(self, signed: SignedProposal) -> bool:
        """Check and keep a leader's proposal. Return True if it is new. Raise InvalidVoteError if it is invalid."""
        proposal = signed.proposal
        round_number = proposal.round
        known_proposal = self.proposals.get(round_number)
        # Each notarise vote includes its proposal: most arrive again, and need no second check.
        if known_proposal is not None and known_proposal.proposal == proposal:
            return False
        leader_key = self.leaders.leader(round_number)
        if not self._is_votable(proposal.height) or proposal.parent_round >= round_number:
            raise InvalidVoteError("malformed proposal")
        if not self._verify(leader_key, proposal_payload(self._genesis, proposal), signed.signature):
            raise InvalidVoteError("proposal with an invalid signature")
        if known_proposal is None:
            self.proposals[round_number] = signed
        elif round_number not in self.equivocated:
            self.equivocated.add(round_number)
            # Sorted, so that all nodes report the same evidence, whichever proposal reached them first.
            first, second = sorted((known_proposal, signed), key=lambda statement: statement.signature)
            self._emit(ReportEvidence(DoubleProposal(
                leader_key, first.proposal, first.signature, second.proposal, second.signature
            )))  # fmt: skip
        return True

    def is_news(self, signed_ballot: SignedBallot) -> bool:
        """Return True if a ballot is new. Raise InvalidVoteError if it is malformed or not signed by its voter."""
        ballot = signed_ballot.ballot
        if self.box.has_no_use_for(ballot, signed_ballot.voter):
            return False
        if signed_ballot.voter not in self.members.index or not self.is_well_formed(ballot):
            raise InvalidVoteError("malformed ballot")
        if not self._verify(signed_ballot.voter, ballot_payload(self._genesis, ballot), signed_ballot.signature):
            raise InvalidVoteError("ballot with an invalid signature")
        return True

    def count(self, signed_ballot: SignedBallot) -> None:
        """Count a verified ballot. Report evidence if it contradicts an earlier ballot of its voter."""
        evidence = self.box.add(signed_ballot)
        if evidence is not None:
            self._emit(ReportEvidence(evidence))

    def check(self, certificate: Certificate) -> None:
        """Raise InvalidVoteError unless the certificate is well-formed and more than two thirds of this set signed."""
        if not self.is_well_formed(certificate.ballot):
            raise InvalidVoteError("malformed certificate")
        if not verify_certificate(certificate, self.members, self._genesis, self._verify):
            raise InvalidVoteError("invalid certificate")

    def votes_of(self, certificate: Certificate) -> Iterator[SignedBallot]:
        """Yield the ballots in a checked certificate.

        Counting them one by one finds signers that also signed a conflicting ballot. If two certificates ever conflict,
        this identifies more than a third of the stake.
        """
        session_keys = signers_of(certificate, self.members) or ()
        for session_key, signature in zip(session_keys, certificate.signatures, strict=True):
            yield SignedBallot(certificate.ballot, session_key, signature)

    def prune(self, below: int) -> None:
        """Drop statements about rounds below a final one."""
        self.box.prune(below)
        # In later rounds a leader's second proposal is still an offence, and the evidence needs the first.
        self.proposals = {
            round_number: proposal for round_number, proposal in self.proposals.items() if round_number >= below
        }
        self.equivocated = {round_number for round_number in self.equivocated if round_number >= below}

    def is_well_formed(self, ballot: Ballot) -> bool:
        """Return True if a ballot is for a height of this epoch, or a skip without a block."""
        if ballot.kind == BallotKind.SKIP:
            return (ballot.height, ballot.block) == (0, NO_BLOCK)
        return self._is_votable(ballot.height)

    def _is_votable(self, height: int) -> bool:
        return self._lowest <= height <= self._highest
