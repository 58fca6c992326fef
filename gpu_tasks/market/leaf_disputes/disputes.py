"""The records of disputes about batches: the sides, what each has shown, and the leaf that they differ in.

Always: the sides of a dispute have roots of their own, two at least while it goes on; a side that has shown nothing in
time is none any more.
"""

from enum import IntEnum
from typing import Annotated

from gpu_tasks.batches.sum_tree import SUBTREE_LEAVES, TreeNode
from runtime.encoding.codec import U8, U32, Bounded, named, struct
from runtime.encoding.types import AccountId, BlockNumber, Hash

SIDES_MAX = 8
"""A root for each racer, if no two agree."""

ShownNodes = Annotated[tuple[TreeNode, ...], Bounded(SUBTREE_LEAVES)]


@named("ogpu::DisputeStage")
class DisputeStage(IntEnum):
    """How far a dispute is."""

    SUBTREES = 0
    """Each side shows the nodes above 64 leaves each."""
    LEAVES = 1
    """Each side shows the leaves of the first subtree in which sides differ."""
    JUDGED = 2
    """The courts judge the first leaf in which sides differ."""


@struct
class Side:
    """A root, and who answered with it: any of them shows its tree."""

    root: Hash
    accounts: Annotated[tuple[AccountId, ...], Bounded(SIDES_MAX)]
    has_shown: bool = False
    """Whether it has shown what is asked for now."""


@struct
class LeafDispute:
    """A dispute as it stands."""

    handler: U8
    """The index of the pallet whose batch it is."""
    requests: U32
    sides: Annotated[tuple[Side, ...], Bounded(SIDES_MAX)]
    window: BlockNumber
    """How long sides have to show what is asked for: as it was when the dispute began."""
    stage: DisputeStage
    deadline: BlockNumber = 0
    """The last block of the window that is open, or later where what is asked for is final late; 0 while none is."""
    subtree: U32 = 0
    """Of which leaves are shown."""
    leaf: U32 = 0
    """Which one is judged."""
    found: Hash | None = None
    """What the courts found of it, up to the next look."""


def roots_of(dispute: LeafDispute) -> tuple[bytes, ...]:
    """The roots that somebody still stands for."""
    return tuple(side.root for side in dispute.sides)


def side_of(dispute: LeafDispute, account: bytes) -> Side | None:
    """The side on which an account is."""
    return next((side for side in dispute.sides if account in side.accounts), None)
