"""The ballots of one gadget epoch: counted into certificates, watched for offences.

Always: each voter counts once for a (round, kind), with its first ballot; a second, different one
is evidence; rounds below the newest final one are dropped and stay so. Bounded by members x kinds x
the rounds that the gadget lets in.
"""

from consensus.certificates import Certificate, make_certificate
from consensus.validators import ValidatorSet
from runtime.blocks.evidence import DoubleBallot, are_exclusive, double_ballot
from runtime.blocks.votes import Ballot, BallotKind, SignedBallot


class BallotBox:
    """Ballots with verified signatures, by round and kind."""

    def __init__(self, members: ValidatorSet) -> None:
        """Empty."""
        self._members = members
        self._first: dict[tuple[int, BallotKind], dict[bytes, SignedBallot]] = {}
        self._accused: set[bytes] = set()
        self._lowest = 0

    def has_no_use_for(self, ballot: Ballot, voter: bytes) -> bool:
        """Whether a ballot is counted already, or would only prove again what is proved."""
        # Asked before the signature is checked, which is what a repeated vote would cost.
        first = self._first.get((ballot.round, ballot.kind), {}).get(voter)
        return first is not None and (first.ballot == ballot or voter in self._accused)

    def add(self, vote: SignedBallot) -> DoubleBallot | None:
        """Count a verified ballot. Returns evidence if it contradicts an earlier one of its voter."""
        ballot = vote.ballot
        voter = vote.voter
        assert ballot.round >= self._lowest, "a vote for a round whose votes were dropped"
        self._first.setdefault((ballot.round, ballot.kind), {}).setdefault(voter, vote)
        if voter in self._accused:
            return None
        for kind in BallotKind:
            earlier = self._first.get((ballot.round, kind), {}).get(voter)
            if earlier is not None and are_exclusive(earlier.ballot, ballot):
                self._accused.add(voter)
                return double_ballot(earlier, vote)
        return None

    def weight(self, ballot: Ballot) -> int:
        """Stake that cast exactly this ballot."""
        votes = self._first.get((ballot.round, ballot.kind), {})
        return sum(self._members.weight_of(key) for key, vote in votes.items() if vote.ballot == ballot)

    def certificate(self, ballot: Ballot) -> Certificate | None:
        """The certificate of this ballot if more than two thirds cast it."""
        if not self._members.is_quorum(self.weight(ballot)):
            return None
        votes = self._first[(ballot.round, ballot.kind)]
        signatures = {key: vote.signature for key, vote in votes.items() if vote.ballot == ballot}
        return make_certificate(ballot, self._members, signatures)

    def votes(self, round_: int) -> list[SignedBallot]:
        """What everybody cast in a round."""
        return [vote for kind in BallotKind for vote in self._first.get((round_, kind), {}).values()]

    def prune(self, below: int) -> None:
        """Drop the votes of earlier rounds, for good."""
        assert below >= self._lowest, "rounds that were dropped are open again"
        self._lowest = below
        self._first = {key: votes for key, votes in self._first.items() if key[0] >= below}
