"""What a provider bids for a customer's program, or why it does not: a pure function of chain and policy.

Always: the price is what the policy asks for all of the time that may be taken, since a program may take all of it; who
offers a device as a replica takes the price of the award, and does so only where it is no less.
"""

from __future__ import annotations

from gpu_tasks.market.training.bids import BidOffer
from gpu_tasks.market.training.orders import interval_of, is_by_time
from gpu_tasks.market.training.selection import BIDS_MAX
from gpu_tasks.market.training.tasks import Task, TaskState
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


def check_program(task: Task, means: Means, height: int) -> None:
    """UnfitError for a program that this provider does not bid for, whatever it is."""
    windows, terms = task.windows, task.terms
    reasons = (
        (task.customer == means.stash, "it is this provider's own"),
        (  # of offers to a draw the least bond yields
            task.state is not TaskState.VOLUNTEERING and task.bids >= BIDS_MAX,
            f"it has {BIDS_MAX} bids already",
        ),
        (
            is_by_time(task.order) and interval_of(task.order) < INTERVAL_BLOCKS_LEAST,
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


def program_offer(task: Task, policy: BidPolicy, slot_ms: int) -> BidOffer:
    """The bid, or the offer as a replica; UnfitError where the task pays less than the policy asks for."""
    blocks, is_award = task.terms.blocks_max, task.state is TaskState.VOLUNTEERING
    price = asked_price(policy, blocks, slot_ms, task.rules.settlement_fee)
    most = task.slots[0].price if is_award else task.terms.price_max
    if price > most:
        said = f"{format_amount(most)} {SYMBOL}{'' if is_award else ' at most'}"
        raise UnfitError(f"it pays {said}, and the policy asks for {format_amount(price)}")
    return BidOffer(most if is_award else price, blocks, task.terms.collateral_min)
