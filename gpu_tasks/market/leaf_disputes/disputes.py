"""The records of disputes about batches: the sides, their shown nodes, and the disputed leaf.

Invariants: the sides of an open dispute have different roots, and are at least two. A side that shows nothing in time
is removed.
"""

from enum import IntEnum
from typing import Annotated

from gpu_tasks.batches.sum_tree import SUBTREE_LEAVES, TreeNode
from runtime.encoding.codec import U8, U32, Bounded, named, struct
from runtime.encoding.types import AccountId, BlockNumber, Hash

SIDES_MAX = 8
"""One root for each racer, if no two agree."""

ShownNodes = Annotated[tuple[TreeNode, ...], Bounded(SUBTREE_LEAVES)]


@named("ogpu::LeafDisputeStage")
class LeafDisputeStage(IntEnum):
    """The stage of a dispute."""

    SUBTREES = 0
    """Each side shows the nodes above 64 leaves each."""
    LEAVES = 1
    """Each side shows the leaves of the first subtree in which sides differ."""
    JUDGED = 2
    """Voters judge the first leaf in which sides differ."""


@struct
class Side:
    """A root with the accounts that answered with it. Any of them shows its tree."""

    root: Hash
    accounts: Annotated[tuple[AccountId, ...], Bounded(SIDES_MAX)]
    has_shown: bool = False
    """True if the side has shown the requested nodes."""


@struct
class LeafDispute:
    """The record of an open dispute."""

    handler: U8
    """The index of the pallet with the batch."""
    requests: U32
    sides: Annotated[tuple[Side, ...], Bounded(SIDES_MAX)]
    window: BlockNumber
    """The blocks in which sides must show requested nodes, as they were when the dispute began."""
    stage: LeafDisputeStage
    deadline: BlockNumber = 0
    """The last block of the open window, later if the request is final late, or 0 without a window."""
    subtree: U32 = 0
    """The subtree whose leaves are requested."""
    leaf: U32 = 0
    """The judged leaf."""
    found: Hash | None = None
    """The claim that voters found right, until the next step."""


def roots_of(dispute: LeafDispute) -> tuple[bytes, ...]:
    """Return the roots of the remaining sides."""
    return tuple(side.root for side in dispute.sides)


def side_of(dispute: LeafDispute, account: bytes) -> Side | None:
    """Return the side of an account, or None."""
    return next((side for side in dispute.sides if account in side.accounts), None)
