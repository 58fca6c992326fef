"""What a provider bids for time, or why it does not: a pure function of chain and policy.

Always: the price is what the policy asks for all of the time that is bought, since a lease may take all of it.
"""

from __future__ import annotations

from gpu_tasks.market.training.bids import BidOffer
from gpu_tasks.market.training.orders import interval_of
from gpu_tasks.market.training.selection import BIDS_MAX
from gpu_tasks.market.training.tasks import Task
from gpu_tasks.provider.tasks.bid_terms import (
    COMMIT_BLOCKS_LEAST,
    WINDOW_BLOCKS_LEAST,
    Means,
    UnfitError,
    asked_price,
)
from gpu_tasks.provider.tasks.policy import BidPolicy
from wallet.amounts import SYMBOL, format_amount

INTERVAL_BLOCKS_LEAST = 4
"""Of shorter ones each is over before the one before is seen paid."""


def check_time(task: Task, means: Means, height: int) -> None:
    """UnfitError for a task that buys time which this provider does not bid for, whatever its program is."""
    windows, terms = task.windows, task.terms
    reasons = (
        (task.customer == means.stash, "it is this provider's own"),
        (task.bids >= BIDS_MAX, f"it has {BIDS_MAX} bids already"),
        (
            interval_of(task.order) < INTERVAL_BLOCKS_LEAST,
            f"its intervals are shorter than {INTERVAL_BLOCKS_LEAST} blocks",
        ),
        (
            min(windows.reveal, windows.start, windows.grace) < WINDOW_BLOCKS_LEAST,
            f"one of its windows is shorter than {WINDOW_BLOCKS_LEAST} blocks",
        ),
        (means.spendable < terms.collateral_min, "the stash cannot lock the collateral"),
        (task.deadline < height + COMMIT_BLOCKS_LEAST, "its time to commit is as good as over"),
    )
    for is_so, reason in reasons:
        if is_so:
            raise UnfitError(reason)


def time_offer(task: Task, policy: BidPolicy, slot_ms: int) -> BidOffer:
    """The bid; UnfitError where the task pays less than the policy asks for."""
    blocks = task.terms.blocks_max
    price = asked_price(policy, blocks, slot_ms, task.rules.settlement_fee)
    if price > task.terms.price_max:
        most, asked = format_amount(task.terms.price_max), format_amount(price)
        raise UnfitError(f"it pays {most} {SYMBOL} at most, and the policy asks for {asked}")
    return BidOffer(price, blocks, task.terms.collateral_min)
