"""The part of a deposit that may pay for tokens: the rest after claims, vouchers and the fees of their checks.

The chain takes a claim only if the rest of the deposit covers its amount with its greatest fees. Fees that no check
needs return to the rest when the claim ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from gpu_tasks.market.sessions.money import fees_of
from gpu_tasks.market.sessions.records import SessionRecord, left_of
from gpu_tasks.market.sessions.vouchers import Voucher, amount_of

Fees = Callable[[int], int]
"""Returns the greatest fees of a claim with this amount. They grow with it."""


def for_tokens(left: int, fees: Fees) -> int:
    """Return the greatest amount of a claim that `left` grains cover."""
    least, most = 0, max(0, left)
    while least < most:
        amount = (least + most + 1) // 2
        if amount + fees(amount) <= left:
            least = amount
        else:
            most = amount - 1
    return least


def left_for_tokens(session: SessionRecord, vouchers: Iterable[Voucher]) -> int:
    """Return the grains for further tokens. `vouchers` are the newest ones of all periods, in ascending order."""
    fees = partial(fees_of, session.rules)
    promised = [
        amount_of(session.rate, session.input_share, each.totals) for each in vouchers if each.period >= session.period
    ]
    left = left_of(session) - sum(amount + fees(amount) for amount in promised[:-1])
    return max(0, for_tokens(left, fees) - sum(promised[-1:]))
