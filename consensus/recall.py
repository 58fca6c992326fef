"""What an earlier life of this validator signed, sent again once this life knows what it was about.

Always: a recorded vote is asked for again at most once, only in its own epoch, only while its round is not final, and
only when the block that it names is here: what was voted for and lost is nobody's to vouch for.
"""

from consensus.blocktree import BlockTree
from consensus.signstate import SignState
from runtime.blocks.votes import NO_BLOCK, Ballot, Proposal


class Recall:
    """The votes of a sign-state that wait for their block."""

    def __init__(self, recorded: SignState) -> None:
        """Everything that was signed waits."""
        self._waiting: tuple[Proposal | Ballot, ...] = (*recorded.proposals, *recorded.ballots)

    def take(self, epoch: int, tree: BlockTree, signed: SignState) -> list[Proposal | Ballot]:
        """Votes to send again now; `signed` is what still counts, the rest is forgotten."""
        if not self._waiting:
            return []
        waiting = [record for record in self._waiting if record in signed.proposals or record in signed.ballots]
        # A node that asked for a vote on a block which it did not have could never start again.
        ready = [record for record in waiting if record.epoch == epoch and _is_known(record, tree)]
        self._waiting = tuple(record for record in waiting if record not in ready)
        return ready


def _is_known(record: Proposal | Ballot, tree: BlockTree) -> bool:
    return record.block == NO_BLOCK or record.block in tree
