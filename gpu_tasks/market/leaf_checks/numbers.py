"""The numbers of LeafChecks that a chain may change, each with its bounds and its reason.

Always: a check goes by what `windows_for` gave it when it opened; whether a batch is checked was settled by its post.
"""

from gpu_tasks.batches.requests import REQUESTS_MAX
from gpu_tasks.market.leaf_checks.checks import CheckWindows
from runtime.encoding.codec import U32
from runtime.encoding.types import BlockNumber
from runtime.frame.pallet import Pallet, Parameter

CHECK_WINDOW_MAX = 7_200
"""No window of a check is longer."""
BATCH_MIN = 2
"""Fewer requests are no batch."""


class LeafNumbers(Pallet):
    """From which size on batches are checked by their leaves, and the windows of a check."""

    check_from: Parameter[U32] = Parameter(
        16, unit="requests", least=0, greatest=REQUESTS_MAX,
        doc="Batches of so many requests are checked by leaves; smaller ones, or where it is 0 all, audited as a unit.",
    )  # fmt: skip
    show_blocks: Parameter[BlockNumber] = Parameter(
        300, unit="blocks", least=4, greatest=CHECK_WINDOW_MAX,
        doc="To show drawn leaves in: who does not loses its collateral, so a machine must have time to come back.",
    )  # fmt: skip
    check_blocks: Parameter[BlockNumber] = Parameter(
        40, unit="blocks", least=4, greatest=CHECK_WINDOW_MAX,
        doc="For an auditor to fetch the input and compute; 1.5 times the run of the whole batch, if that is longer.",
    )  # fmt: skip
    dispute_blocks: Parameter[BlockNumber] = Parameter(
        20, unit="blocks", least=4, greatest=CHECK_WINDOW_MAX,
        doc="For a customer to dispute a leaf, once an auditor is through.",
    )  # fmt: skip

    def is_checked(self, requests: int) -> bool:
        """Whether batches of so many requests are checked by leaves, if there are judges enough."""
        return bool(self.check_from) and requests >= max(BATCH_MIN, self.check_from)

    def windows_for(self, run_blocks: int) -> CheckWindows:
        """The windows of a check that opens now."""
        return CheckWindows(
            show=self.show_blocks,
            check=max(self.check_blocks, run_blocks * 3 // 2),
            dispute=self.dispute_blocks,
        )
