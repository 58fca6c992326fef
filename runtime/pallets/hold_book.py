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

    def change(self, who: bytes, hold: Hold, delta: int) -> int:
        """Change an account's hold for a case by `delta` grains. Return the sum of all its holds."""
        amount = self.by_case[who, hold] + delta
        # Not a DispatchError: the paying pallet knows what the case holds, so a shortage is a bug.
        assert amount >= 0, "a case pays only from its own hold"
        if amount:
            self.by_case[who, hold] = amount
        else:
            # A zero entry would stay in every node's state for ever.
            del self.by_case[who, hold]
        total = self.totals[hold] + delta
        if total:
            self.totals[hold] = total
        else:
            del self.totals[hold]
        return self._change_reason(who, hold.reason, delta)

    def _change_reason(self, who: bytes, reason: HoldReason, delta: int) -> int:
        kept, changed = [], delta
        for entry in self.by_reason[who]:
            if entry.id is reason:
                changed += entry.amount
            else:
                kept.append(entry)
        assert changed >= 0, "the cases of a reason add up to its hold"
        if changed:
            kept.append(HeldAmount(reason, changed))
        if kept:
            # Sorted, so that equal holds have one encoding after any order of changes.
            self.by_reason[who] = tuple(sorted(kept, key=lambda entry: entry.id.tag))
        else:
            del self.by_reason[who]
        return sum(entry.amount for entry in kept)
