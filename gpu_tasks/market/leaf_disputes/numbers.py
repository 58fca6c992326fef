"""The number of LeafDisputes that a chain may change, with its bounds and its reason."""

from runtime.encoding.types import BlockNumber
from runtime.frame.pallet import Pallet, Parameter

DISPUTE_WINDOW_MAX = 7_200
"""No window of a dispute is longer."""


class DisputeNumbers(Pallet):
    """How long the sides of a dispute have."""

    show_blocks: Parameter[BlockNumber] = Parameter(
        100, unit="blocks", least=4, greatest=DISPUTE_WINDOW_MAX,
        doc="For each side to show nodes of its tree: who does not loses its collateral, and customer and rivals wait.",
    )  # fmt: skip
