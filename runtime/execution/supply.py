"""The supply rule, checked independently of the code that moves money: accounts lose exactly the burned grains.

Every block checks only the accounts that it touched, because a count of all accounts would slow every block as they
grow. A node counts all accounts when it starts, before any block waits for it. A violation is a bug here, never a fault
of a block's author, so it is not an InvalidBlock.
"""

from typing import Any

from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.system import AccountInfo, System


class SupplyBroken(Exception):
    """Grains appeared or vanished."""


def check_supply(bound: Bound) -> None:
    """Raise SupplyBroken unless the execution so far conserved every grain."""
    account = bound.runtime.item(System.account)
    gained = 0
    for key, value in bound.overlay.changed_values(account.prefix):
        gained += _owned(value) - _owned(bound.overlay.before(key, account.decode))
    issued, burned = _delta(bound, Balances.total_issuance), _delta(bound, Balances.burned)
    # Three independent records of the same sum.
    if not gained == issued == -burned:
        raise SupplyBroken(f"accounts {gained:+}, issuance {issued:+}, burned {burned:+}")


def recount(bound: Bound) -> int:
    """Return the sum of all accounts. Raise SupplyBroken unless it equals the issuance."""
    total = sum(_owned(info) for _, info in bound[System].account.items())
    if total != bound[Balances].total_issuance.get():
        raise SupplyBroken(f"accounts hold {total}, total issuance is {bound[Balances].total_issuance.get()}")
    return total


def _owned(info: AccountInfo | None) -> int:
    return 0 if info is None else info.data.free + info.data.reserved


def _delta(bound: Bound, declaration: Any) -> int:
    item = bound.runtime.item(declaration)
    before = bound.overlay.before(item.key(), item.decode)
    now = bound.overlay.load(item.key(), item.decode)
    return int(now or item.default) - int(before or item.default)
