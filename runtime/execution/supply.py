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
    account_item = bound.runtime.item(System.account)
    gained_grains = 0
    for account_key, new_account in bound.overlay.changed_values(account_item.prefix):
        gained_grains += _owned(new_account) - _owned(bound.overlay.before(account_key, account_item.decode))
    issued_grains, burned_grains = _delta(bound, Balances.total_issuance), _delta(bound, Balances.burned)
    # Three independent records of the same sum.
    if not gained_grains == issued_grains == -burned_grains:
        raise SupplyBroken(f"accounts {gained_grains:+}, issuance {issued_grains:+}, burned {burned_grains:+}")


def recount(bound: Bound) -> int:
    """Return the sum of all accounts. Raise SupplyBroken unless it equals the issuance."""
    total_grains = sum(_owned(info) for _, info in bound[System].account.items())
    if total_grains != bound[Balances].total_issuance.get():
        raise SupplyBroken(f"accounts hold {total_grains}, total issuance is {bound[Balances].total_issuance.get()}")
    return total_grains


def _owned(info: AccountInfo | None) -> int:
    return 0 if info is None else info.data.free + info.data.reserved


def _delta(bound: Bound, declaration: Any) -> int:
    item = bound.runtime.item(declaration)
    value_before = bound.overlay.before(item.key(), item.decode)
    value_now = bound.overlay.load(item.key(), item.decode)
    return int(value_now or item.default) - int(value_before or item.default)
