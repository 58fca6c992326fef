"""The rules of a task: the numbers of market and courts as they were when it was submitted.

Always: a task goes by its own rules from its submission to the end of its record.
"""

from runtime.encoding.codec import U32, struct
from runtime.encoding.types import GRAINS_PER_OGPU, Balance


@struct
class TaskRules:
    """Shares in millionths."""

    settlement_fee: U32 = 20_000
    """Of every payment for work: half burned, half the treasury's."""
    customer_bond: U32 = 50_000
    """The customer's side of the trust lock: held of the greatest price, and lost of the price."""
    bid_bond: U32 = 100_000
    """Of the greatest price, locked by whoever commits to a bid."""
    dispute_bond: U32 = 100_000
    """Of the price, locked by a customer who disputes a result, beside what its judges are paid."""
    standby_share: U32 = 20_000
    """Of the price, to the runner-up for being ready until the first milestone."""
    cancel_burn: U32 = 100_000
    """Of the customer's bond, if it takes its task back before the award."""
    no_start_penalty: U32 = 100_000
    """Of the greatest price, if who was awarded a slot does not start."""
    failure_penalty: U32 = 250_000
    """Of the price that is not earned, if who started does not end."""
    late_penalty_factor: U32 = 5
    """A late block costs so many times what a block is worth to the customer: a promise is then kept 4 times in 5."""
    judge_fee_ppm: U32 = 500_000
    """Of the price in an audit, else of the greatest price, to a judge."""
    judge_fee_min: Balance = GRAINS_PER_OGPU // 1_000
    audit_rate_ppm: U32 = 50_000
    """The chance of an audit."""
    found_ppm: U32 = 50_000
    """The chance that a lie about all of a task is found: an audit's, or more where each result is checked in part."""
    collateral_ppm: U32 = 1_000_000
    """Of the greatest price: no collateral is less, however surely a lie is found."""


DEFAULT_RULES = TaskRules()
