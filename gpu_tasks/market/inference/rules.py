"""The rules of a unit: the numbers of market and courts as they were when it was posted.

Always: a unit goes by its own rules from its post to the end of its record; a change of the parameters meets only units
that are posted later.
"""

from gpu_tasks.market.rounds import Windows
from runtime.encoding.codec import U32, struct
from runtime.encoding.types import GRAINS_PER_OGPU, Balance, BlockNumber


@struct
class UnitRules:
    """Shares in millionths, windows in blocks. The defaults are the parameters' own."""

    witness_share: U32 = 300_000
    """Of the price, for an agreeing runner-up beside the winner."""
    settlement_fee: U32 = 20_000
    """Of every payment."""
    fee_rebate: U32 = 900_000
    """Of the fee on the price, back to the winner while the emission lasts."""
    cancel_burn: U32 = 100_000
    """Of the bond of a unit that is cancelled."""
    idle_penalty: U32 = 10_000
    """Of the collateral of a racer that did not commit in a whole commit window."""
    withheld_penalty: U32 = 250_000
    """Of the price, for a racer that did not open its commitment, where no case comes of it."""
    judge_fee_ppm: U32 = 500_000
    """Of the price, to a judge."""
    judge_fee_min: Balance = GRAINS_PER_OGPU // 1_000
    audit_rate_ppm: U32 = 50_000
    """The chance of an audit."""
    race_close: BlockNumber = 10
    race_reveal: BlockNumber = 12
    queue_blocks: BlockNumber = 600
    """After so many blocks without a race it is refunded."""
    keep_blocks: BlockNumber = 7_200
    """For so many blocks its record is kept when it has ended."""

    def race_windows(self, commit_window: int) -> Windows:
        """The windows of a race; its service says how long racers may commit."""
        return Windows(commit_window, self.race_close, self.race_reveal)


DEFAULT_RULES = UnitRules()
