"""The events and errors of the pallet LeafDisputes."""

from gpu_tasks.market.ids import UnitId
from runtime.encoding.codec import U32
from runtime.encoding.types import AccountId, BlockNumber, Hash
from runtime.frame.pallet import DispatchError, event


@event
class NodesAsked:
    """Each side was asked for nodes of its tree: the leaves of a subtree, or first the subtrees.

    The window ends at block `show_until`, or later if this block is final late.
    """

    unit: UnitId
    subtree: U32 | None
    show_until: BlockNumber


@event
class NodesShown:
    """A side showed the requested nodes."""

    unit: UnitId
    provider: AccountId
    root: Hash


@event
class TreeWithheld:
    """The tree of a root was not shown in time. Its answerers lose their holds for the batch."""

    unit: UnitId
    root: Hash


@event
class LeafDisputed:
    """The first leaf in which the sides differ went before voters."""

    unit: UnitId
    leaf: U32


class UnknownLeafDispute(DispatchError):
    """There is no open dispute about this batch."""


class NotASide(DispatchError):
    """The stash has not answered for this batch, or its answer no longer counts."""


class NothingAsked(DispatchError):
    """The side has shown the requested nodes, its window is over, or voters judge a leaf."""


class WrongNodes(DispatchError):
    """These are not the nodes of the side's root: their number, sums or hashes differ."""
