"""The share of a block's weight that each hook of the market may take.

The hooks of disputes, claims and tasks run before the hook of units. The room for units, sessions and attestations is
set aside first, because their deadlines and budgets do not shrink. Invariant: the sum of all budgets given out fits
into the room.
"""

from runtime.encoding.types import Weight
from runtime.frame.schedule import WeightMeter
from runtime.frame.weights import BLOCK_BASE, work

KEPT_FOR_SESSIONS = work(microseconds=24_000)
"""The budgets of the hook of sessions, beyond which its last draw may end. It runs after the hook of units, whose
draws leave it this room."""
KEPT_FOR_UNITS = BLOCK_BASE + work(microseconds=384_000) + KEPT_FOR_SESSIONS
"""The base weight of a block, and the most that the hook of units (without draws), the hook of sessions, and the
attestations may take."""


class BlockRoom:
    """The weight that hooks may still take of a block, in picoseconds of reference time."""

    def __init__(self, left_picoseconds: int) -> None:
        """Start with `left_picoseconds` picoseconds, or with 0 if `left_picoseconds` is negative."""
        self._left = max(0, left_picoseconds)

    def budget(self, wanted: Weight) -> WeightMeter:
        """Return a budget of `wanted_weight`, or of the rest of the room if that is less."""
        given_picoseconds = min(wanted.ref_time, self._left)
        self._left -= given_picoseconds
        return WeightMeter(Weight(given_picoseconds, 0))
