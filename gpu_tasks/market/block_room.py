"""What the market's hooks leave of a block for those that come after them.

Courts and tasks come before units: what a block has for hooks and inherents is first kept for these, whose deadlines
and attestations have budgets that do not shrink. Always: the budgets that are given out together fit into the room.
"""

from runtime.encoding.types import Weight
from runtime.frame.schedule import WeightMeter
from runtime.frame.weights import BLOCK_BASE, work

KEPT_FOR_UNITS = BLOCK_BASE + work(microseconds=384_000)
"""The base of the block, and all that the hook of units may take besides draws, with the attestations."""


class BlockRoom:
    """What hooks may take of a block, in picoseconds of reference time."""

    def __init__(self, left: int) -> None:
        """So much is left; nothing, if it is less."""
        self._left = max(0, left)

    def budget(self, wanted: Weight) -> WeightMeter:
        """A budget of what is wanted, or of what is left."""
        given = min(wanted.ref_time, self._left)
        self._left -= given
        return WeightMeter(Weight(given, 0))
