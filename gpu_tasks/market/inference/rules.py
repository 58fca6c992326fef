"""The rules of a unit: a copy of the parameters of markets and claims at the time of its post.

Invariant: a unit keeps its own rules until its record is dropped. A change of the parameters affects only units posted
later.
"""

from gpu_tasks.market.claims.collateral import MARKUP_PPM
from gpu_tasks.market.rounds import Windows
from runtime.encoding.codec import U32, struct
from runtime.encoding.types import GRAINS_PER_OGPU, Balance, BlockNumber


@struct
class UnitRules:
    """Shares in millionths, windows in blocks. The defaults are those of the parameters."""

    witness_share: U32 = 300_000
    """The share of the price for an agreeing runner-up beside the winner."""
    settlement_fee: U32 = 20_000
    """The share of every payment."""
    fee_rebate: U32 = 900_000
    """The share of the fee on the price that the winner gets back while the emission lasts."""
    cancel_burn: U32 = 100_000
    """The share of the bond that burns when a unit is cancelled."""
    idle_penalty: U32 = 10_000
    """The share of the collateral of a racer that passed, or did not commit in a whole commit window."""
    withheld_penalty: U32 = 250_000
    """The share of the price for a racer that did not open its commitment."""
    check_rate_ppm: U32 = 100_000
    """The chance that a request of mean weight is checked: one of `collateral.RATES_PPM`, or 0 for no checks."""
    check_ppm: U32 = MARKUP_PPM
    """The share of the price for a check of the whole result."""
    check_fee_min: Balance = GRAINS_PER_OGPU // 1_000
    """The least fee of a check."""
    race_close: BlockNumber = 10
    race_reveal: BlockNumber = 12
    queue_blocks: BlockNumber = 600
    """Blocks without a race after which the unit is refunded."""
    keep_blocks: BlockNumber = 7_200
    """Blocks for which the record of an ended unit is kept."""

    def race_windows(self, commit_window: int) -> Windows:
        """Return the windows of a race, with the commit window of its service."""
        return Windows(commit_window, self.race_close, self.race_reveal)


DEFAULT_RULES = UnitRules()
