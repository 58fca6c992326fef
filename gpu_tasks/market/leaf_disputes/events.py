"""What LeafDisputes tells the world, and why a call of it can fail."""

from gpu_tasks.market.ids import UnitId
from runtime.encoding.codec import U32
from runtime.encoding.types import AccountId, BlockNumber, Hash
from runtime.frame.pallet import DispatchError, event


@event
class NodesAsked:
    """Each side shows nodes of its tree: the leaves of a subtree, or first the subtrees.

    Up to a block, or later where this one is final late.
    """

    unit: UnitId
    subtree: U32 | None
    show_until: BlockNumber


@event
class NodesShown:
    """One side has shown what was asked for."""

    unit: UnitId
    provider: AccountId
    root: Hash


@event
class TreeWithheld:
    """Nobody showed the tree of a root in time: who answered with it loses what it holds for the batch."""

    unit: UnitId
    root: Hash


@event
class LeafDisputed:
    """The first leaf in which the sides differ goes before the courts."""

    unit: UnitId
    leaf: U32


class UnknownDispute(DispatchError):
    """Nobody disputes this batch, or not any more."""


class NotASide(DispatchError):
    """The stash has not answered for this batch, or its answer counts no more."""


class NothingAsked(DispatchError):
    """The side has shown what was asked for, its time is over, or the courts judge a leaf."""


class WrongNodes(DispatchError):
    """These are not the nodes of the side's root: their number, their sums or their hashes are others."""
