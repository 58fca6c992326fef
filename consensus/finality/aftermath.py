"""What is still said of the epoch before: heard for evidence alone.

A vote that excludes an earlier one often comes late, and whoever offends does it best where sets change: before this,
all that an ended epoch's members said after its end was dropped unread.

Always: nothing is signed, sent or made final from here; rounds below the boundary's final one are settled and not
heard; an epoch longer ago is not heard at all.
"""

from consensus.certificates import Certificate
from consensus.finality.hearing import EpochHearing
from runtime.blocks.votes import Ballot, SignedBallot, SignedProposal


class EndedEpoch:
    """The hearing of an ended epoch, from its final round up to the rounds that were in reach at its end."""

    def __init__(self, hearing: EpochHearing, boundary: Certificate, round_max: int) -> None:
        """`boundary` made the epoch's last block final."""
        self._hearing = hearing
        self._rounds = range(boundary.ballot.round, round_max + 1)
        self._seen: set[Ballot] = {boundary.ballot}

    @property
    def epoch(self) -> int:
        """The epoch that ended."""
        return self._hearing.members.epoch

    def proposal(self, signed: SignedProposal) -> bool:
        """A proposal, whether it is news; InvalidVoteError as ever."""
        return signed.proposal.round in self._rounds and self._hearing.proposal(signed)

    def vote(self, vote: SignedBallot) -> bool:
        """A ballot, whether it is news; InvalidVoteError as ever."""
        if vote.ballot.round not in self._rounds or not self._hearing.is_news(vote):
            return False
        self._hearing.count(vote)
        return True

    def certificate(self, certificate: Certificate) -> bool:
        """A certificate, whether it is news; InvalidVoteError as ever. One that conflicts names who made it so."""
        if certificate.ballot.round not in self._rounds or certificate.ballot in self._seen:
            return False
        self._hearing.check(certificate)
        self._seen.add(certificate.ballot)
        for vote in self._hearing.votes_of(certificate):
            self._hearing.count(vote)
        return True
