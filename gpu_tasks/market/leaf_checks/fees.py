"""What a check costs, what who takes part in it stands for, and what moves when it ends, as rules over numbers.

Always: what is paid comes out of what was held for it, grain by grain; a customer gets the price back once at most.
"""

from collections.abc import Iterator, Sequence

from gpu_tasks.batches.leaf_draws import leaves_to_check
from gpu_tasks.market.courts.money import FIRST_JUDGES, seat_hold
from runtime.pallets.staking.slashing import Share


def check_fee(price: int, requests: int, least: int) -> int:
    """What the auditor of a batch is paid: of the price the part of the requests that are drawn, at least `least`."""
    return max(price * leaves_to_check(requests) // requests, least)


def auditor_seat(collateral: int, fee: int) -> int:
    """What an auditor holds from its draw until the check ends: no less than who computed, and what a judge would."""
    return seat_hold(collateral, fee)


def dispute_bond(judge_fee: int) -> int:
    """What a customer stands for that calls a leaf wrong: the judges whom it brings, if the leaf is right."""
    return FIRST_JUDGES * judge_fee


def withheld_shares(
    price: int, customer: bytes, held: Sequence[tuple[bytes, int]]
) -> Iterator[tuple[bytes, tuple[Share, ...]]]:
    """Who answered and showed nothing loses all that it holds: the price to the customer, the rest burned."""
    due = price
    for who, amount in held:
        back = min(due, amount)
        due -= back
        shares = tuple(share for share in (Share(customer, back), Share(None, amount - back)) if share.amount)
        if shares:
            yield who, shares
