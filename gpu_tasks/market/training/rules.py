"""The rules of a task: a copy of the parameters of market and courts at its submission.

Invariant: a task keeps its own rules until its record is dropped.
"""

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
    dispute_bond: U32 = 100_000
    """The share of the price that a disputing customer holds, beside the fees of the judges."""
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
    judge_fee_ppm: U32 = 500_000
    """The share of the price (in an audit) or of the greatest price (in other cases) for a judge."""
    judge_fee_min: Balance = GRAINS_PER_OGPU // 1_000
    audit_rate_ppm: U32 = 50_000
    """The chance of an audit."""
    found_ppm: U32 = 50_000
    """The chance that a lie about all of a task is found: that of an audit, or more if each result is checked in part.
    """
    collateral_ppm: U32 = 1_000_000
    """The share of the greatest price below which no collateral falls, however surely a lie is found."""


DEFAULT_RULES = TaskRules()
