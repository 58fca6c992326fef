"""The cost of a check, the holds of its parties, and its payments, as pure functions.

Invariants: every payment comes out of a hold for it, grain by grain. A customer gets the price back at most once.
"""

from collections.abc import Iterator, Sequence

from gpu_tasks.batches.leaf_draws import leaves_to_check
from gpu_tasks.market.courts.money import FIRST_JUDGES, seat_hold
from runtime.pallets.staking.slashing import Share


def check_fee(price: int, requests: int, least: int) -> int:
    """Return the fee of a batch's auditor: the drawn part of the price, at least `least`."""
    return max(price * leaves_to_check(requests) // requests, least)


def auditor_seat(collateral: int, fee: int) -> int:
    """Return an auditor's hold from its draw to the end of the check: at least the answerers' collateral."""
    return seat_hold(collateral, fee)


def dispute_bond(judge_fee: int) -> int:
    """Return the bond of a customer's dispute: the fees of the judges that it calls."""
    return FIRST_JUDGES * judge_fee


def withheld_shares(
    price: int, customer: bytes, held: Sequence[tuple[bytes, int]]
) -> Iterator[tuple[bytes, tuple[Share, ...]]]:
    """Yield the shares of answerers that showed nothing: the price for the customer, the rest burned."""
    due = price
    for who, amount in held:
        back = min(due, amount)
        due -= back
        shares = tuple(share for share in (Share(customer, back), Share(None, amount - back)) if share.amount)
        if shares:
            yield who, shares
