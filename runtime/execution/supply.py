"""The supply rule, checked apart from the code that moves money: what accounts lost is what was burned.

Every block checks the accounts that it touched, and no block counts more: what grows with the accounts has no place in
an execution. A node counts all of them where it starts, before anybody waits for it. A breach is a mistake of ours,
never of a block's author, so it is no InvalidBlock.
"""

from typing import Any

from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.system import AccountInfo, System


class SupplyBroken(Exception):
    """Grains appeared or vanished."""


def check_supply(bound: Bound) -> None:
    """SupplyBroken unless the execution so far conserved every grain."""
    account = bound.runtime.item(System.account)
    gained = 0
    for key, value in bound.overlay.changed_values(account.prefix):
        gained += _owned(value) - _owned(bound.overlay.before(key, account.decode))
    issued, burned = _delta(bound, Balances.total_issuance), _delta(bound, Balances.burned)
    if not gained == issued == -burned:
        raise SupplyBroken(f"accounts {gained:+}, issuance {issued:+}, burned {burned:+}")


def recount(bound: Bound) -> int:
    """The sum of all accounts; SupplyBroken unless it is the issuance."""
    total = sum(_owned(info) for _, info in bound[System].account.items())
    if total != bound[Balances].total_issuance.get():
        raise SupplyBroken(f"accounts hold {total}, issued are {bound[Balances].total_issuance.get()}")
    return total


def _owned(info: AccountInfo | None) -> int:
    return 0 if info is None else info.data.free + info.data.reserved


def _delta(bound: Bound, declaration: Any) -> int:
    item = bound.runtime.item(declaration)
    before = bound.overlay.before(item.key(), item.decode)
    now = bound.overlay.load(item.key(), item.decode)
    return int(now or item.default) - int(before or item.default)
