"""The rules of a task: a copy of the parameters of market and claims at its submission.

Invariant: a task keeps its own rules until its record is dropped.
"""

from gpu_tasks.market.claims.collateral import MARKUP_PPM
from runtime.encoding.codec import U32, struct
from runtime.encoding.types import GRAINS_PER_OGPU, Balance


@struct
class TaskRules:
    """The rules. Shares are in millionths."""

    settlement_fee: U32 = 20_000
    """The share of every payment for work: half burned, half for the treasury."""
    customer_bond: U32 = 50_000
    """The customer's bond: this share of the greatest price is held, and this share of the price can be lost."""
    bid_bond: U32 = 100_000
    """The share of the greatest price that a committed bid holds."""
    standby_share: U32 = 20_000
    """The share of the price for the runner-up, which is ready until the first milestone."""
    cancel_burn: U32 = 100_000
    """The share of the customer's bond that burns if it cancels before the award."""
    no_start_penalty: U32 = 100_000
    """The share of the greatest price that the winner of a slot pays if it does not start."""
    failure_penalty: U32 = 250_000
    """The share of the unearned price that a provider pays if it starts and does not finish."""
    late_penalty_factor: U32 = 5
    """A late block costs this many times its value to the customer. With 5, the best promise is one that is kept in
    four of five cases."""
    check_rate_ppm: U32 = 333_333
    """The chance that an item of mean weight is checked: one of `collateral.RATES_PPM`, or 0 for no checks."""
    check_ppm: U32 = MARKUP_PPM
    """The share of the price for a check of the whole result."""
    check_fee_min: Balance = GRAINS_PER_OGPU // 1_000
    """The least fee of a check or a voter."""
    collateral_ppm: U32 = 0
    """The least collateral as a share of the greatest price, for programs that nobody checks; 0 for claims."""


DEFAULT_RULES = TaskRules()
