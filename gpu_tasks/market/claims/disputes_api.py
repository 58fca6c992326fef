"""`DisputesApi`: queries of voters, parties and explorers about disputes and ballots."""

from typing import Annotated

from gpu_tasks.market import rounds
from gpu_tasks.market.claims.disputes import Dispute, VotingSeat
from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.claims.disputes_storage import windows_of
from runtime.encoding.codec import Bounded, struct
from runtime.encoding.types import AccountId, BlockNumber, Hash
from runtime.frame.api import RuntimeApi, query
from runtime.pallets.beacon import Beacon
from runtime.pallets.system import System

BALLOTS_SHOWN_MAX = 512
"""The most ballots in one answer. Each holds free grains of its voter, so few voters have many."""


@struct
class DisputeStatus:
    """An open dispute with the clocks of its round. Heights are 0 where a clock does not run."""

    dispute: Dispute
    commits_until: BlockNumber
    opens_from: BlockNumber
    opens_until: BlockNumber


@struct
class BallotStatus:
    """A voter's ballot, with its dispute."""

    id: Hash
    ballot: VotingSeat
    status: DisputeStatus


class DisputesApi(RuntimeApi, version=1):
    """Disputes and ballots."""

    @query
    def dispute(self, dispute_id: Hash) -> DisputeStatus | None:
        """Return a dispute while it is open, or None."""
        found = self.bound[Disputes].disputes[dispute_id]
        return None if found is None else self._status(found)

    @query
    def ballots(self, stash: AccountId) -> Annotated[tuple[BallotStatus, ...], Bounded(BALLOTS_SHOWN_MAX)]:
        """Return a voter's ballots in open disputes: those without an opened vote first, then by ascending dispute."""
        room = self.bound[Disputes]
        listed = [(ballot.vote is not None, key, ballot) for key, ballot in room.ballots.under(stash) if ballot]
        listed.sort(key=lambda each: each[:2])
        found = [(key, ballot, room.disputes[key]) for _, key, ballot in listed[:BALLOTS_SHOWN_MAX]]
        return tuple(BallotStatus(key, ballot, self._status(each)) for key, ballot, each in found if each is not None)

    def _status(self, dispute: Dispute) -> DisputeStatus:
        """Return the dispute as the next block finds it, if that block refers to no newer final block."""
        if dispute.round is None:
            return DisputeStatus(dispute, 0, 0, 0)
        windows, height = windows_of(dispute), self.bound[System].number.get() + 1
        current = rounds.advanced(dispute.round, windows, height, self.bound[Beacon].final_height())
        return DisputeStatus(
            dispute,
            commits_until=rounds.commit_deadline(current, windows) or 0,
            opens_from=current.reveals_from,
            opens_until=rounds.reveal_deadline(current, windows) or 0,
        )
