"""The book of holds: by account and case, with sums by account and reason, and by case.

Invariant: an account's holds for the cases of a reason add up to its entry for that reason. All accounts' holds for a
case add up to the case's total. No entry is zero. A change reads and writes four entries, however many cases an account
or accounts a case has: a provider may have thousands of open units.
"""

from dataclasses import dataclass
from typing import Annotated

from runtime.encoding.codec import Bounded, struct
from runtime.encoding.types import AccountId, Balance
from runtime.frame.holds import HOLD_REASONS_MAX, Hold, HoldReason
from runtime.frame.storage import StorageDoubleMap, StorageMap


@struct(path="frame_support::traits::tokens::misc::IdAmount", params={"Id": HoldReason, "Balance": Balance})
class HeldAmount:
    """Grains held for a reason, over all its cases."""

    id: HoldReason
    amount: Balance


AccountHolds = Annotated[tuple[HeldAmount, ...], Bounded(HOLD_REASONS_MAX)]


@dataclass(frozen=True, slots=True)
class HoldBook:
    """The record of holds. It moves no money: Balances does, and reports here."""

    by_reason: StorageMap[AccountId, AccountHolds]
    by_case: StorageDoubleMap[AccountId, Hold, Balance]
    totals: StorageMap[Hold, Balance]

    def change(self, account: bytes, hold: Hold, added_grains: int) -> int:
        """Change an account's hold for a case by `added_grains` grains. Return the sum of all its holds."""
        held_grains = self.by_case[account, hold] + added_grains
        # Not a DispatchError: the paying pallet knows what the case holds, so a shortage is a bug.
        assert held_grains >= 0, "a case pays only from its own hold"
        if held_grains:
            self.by_case[account, hold] = held_grains
        else:
            # A zero entry would stay in every node's state for ever.
            del self.by_case[account, hold]
        total_grains = self.totals[hold] + added_grains
        if total_grains:
            self.totals[hold] = total_grains
        else:
            del self.totals[hold]
        return self._change_reason(account, hold.reason, added_grains)

    def _change_reason(self, account: bytes, reason: HoldReason, added_grains: int) -> int:
        held_amounts, reason_grains = [], added_grains
        for held_amount in self.by_reason[account]:
            if held_amount.id is reason:
                reason_grains += held_amount.amount
            else:
                held_amounts.append(held_amount)
        assert reason_grains >= 0, "the cases of a reason add up to its hold"
        if reason_grains:
            held_amounts.append(HeldAmount(reason, reason_grains))
        if held_amounts:
            # Sorted, so that equal holds have one encoding after any order of changes.
            self.by_reason[account] = tuple(sorted(held_amounts, key=lambda held_amount: held_amount.id.tag))
        else:
            del self.by_reason[account]
        return sum(held_amount.amount for held_amount in held_amounts)
