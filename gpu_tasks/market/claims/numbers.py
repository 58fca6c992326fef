"""The parameters of ResultClaims and Disputes, each with its bounds and its reason.

Invariant: a claim or a dispute follows the parameters of its opening.
"""

from gpu_tasks.market.claims.collateral import PPM
from gpu_tasks.market.claims.disputes import DisputeWindows
from runtime.encoding.codec import U32
from runtime.encoding.types import GRAINS_PER_OGPU, Balance, BlockNumber
from runtime.frame.pallet import Pallet, Parameter

WINDOW_BLOCKS_MAX = 7_200
"""The longest window, in blocks."""
RUNS = 3
"""Windows for a computation have at least this many times the blocks of the slowest device."""


class ClaimNumbers(Pallet):
    """The chance of a check, the least fee, and the windows of checks."""

    check_rate: Parameter[U32] = Parameter(
        100_000, unit="ppm", least=100_000, greatest=PPM,
        doc="Chance that an item of a result is checked: 100000, 200000, 333333, 500000 or 1000000. The collateral "
            "follows from it.",
    )  # fmt: skip
    check_fee_min: Parameter[Balance] = Parameter(
        GRAINS_PER_OGPU // 1_000, unit="grains", least=1, greatest=GRAINS_PER_OGPU,
        doc="Least fee of a check. Checking a cheap result must pay for its electricity.",
    )  # fmt: skip
    duty_blocks: Parameter[BlockNumber] = Parameter(
        30, unit="blocks", least=4, greatest=WINDOW_BLOCKS_MAX,
        doc="Window for each call of a check, or three times the run if that is longer. It starts when the previous "
            "step is final.",
    )  # fmt: skip

    def window_of(self, run_blocks: int) -> int:
        """Return the window of a claim that opens now."""
        return max(self.duty_blocks, RUNS * run_blocks)


class DisputeNumbers(Pallet):
    """The windows of disputes."""

    vote_blocks: Parameter[BlockNumber] = Parameter(
        30, unit="blocks", least=4, greatest=WINDOW_BLOCKS_MAX,
        doc="Window to fetch, compute and commit to a vote, or three times the run if that is longer.",
    )  # fmt: skip
    open_blocks: Parameter[BlockNumber] = Parameter(
        12, unit="blocks", least=4, greatest=WINDOW_BLOCKS_MAX,
        doc="Window to open a vote, from the block that makes the close final.",
    )  # fmt: skip
    appeal_blocks: Parameter[BlockNumber] = Parameter(
        20, unit="blocks", least=4, greatest=WINDOW_BLOCKS_MAX,
        doc="Window to read the decision of nine voters and appeal.",
    )  # fmt: skip

    def windows_for(self, run_blocks: int) -> DisputeWindows:
        """Return the windows of a dispute that opens now."""
        commit = max(self.vote_blocks, RUNS * run_blocks)
        return DisputeWindows(commit=commit, reveal=self.open_blocks, appeal=self.appeal_blocks)
