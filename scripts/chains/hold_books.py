"""The books of money held by case, counted independently of the pallet."""

from collections import Counter

from runtime.frame.holds import Hold, HoldReason
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.system import System


def check_holds(bound: Bound) -> None:
    """What is held by case adds up to what is shown by reason, to what is reserved, and to the total of each case."""
    balances = bound[Balances]
    shown: Counter[tuple[bytes, HoldReason]] = Counter()
    reserved: Counter[bytes] = Counter()
    totals: Counter[Hold] = Counter()
    for (who, hold), amount in balances.held_cases.items():
        assert amount > 0
        shown[who, hold.reason] += amount
        reserved[who] += amount
        totals[hold] += amount
    accounts = bound[System].account.items()
    assert {(who, entry.id): entry.amount for who, entries in balances.holds.items() for entry in entries} == shown
    assert {who: info.data.reserved for who, info in accounts if info.data.reserved} == reserved
    assert dict(balances.case_totals.items()) == totals
