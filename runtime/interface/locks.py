"""What is locked of an account, as people ask: for what, until when, what could take it, how much of it at most.

Each reason to hold money has one row of a table, `LockTerms`; who brings a reason brings its row, and a test of the
chain's list names one that has none. Always: an end that is an event is said as one, and only a height or an epoch that
the state has is given as such; what may be taken is never more than what lies there.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated

from runtime.encoding.codec import U32, Bounded, struct
from runtime.encoding.types import AccountId, Balance, BlockNumber
from runtime.frame.holds import CaseId, Hold, HoldReason
from runtime.frame.runtime import Bound

LOCK_WORDS_MAX = 512
NOTHING_TAKES_IT = "nothing: all of it comes back"

LockWords = Annotated[str, Bounded(LOCK_WORDS_MAX)]


@struct
class Lock:
    """Money of an account that it cannot spend, for one case or one part of it."""

    reason: HoldReason
    case: CaseId
    amount: Balance
    what: LockWords
    until: LockWords
    """What has to happen before it is free."""
    until_epoch: U32 | None
    """The first epoch in which it can be free; None where no epoch is known."""
    until_block: BlockNumber | None
    """The block that frees it; None where no height is known."""
    taken_by: LockWords
    """What could take it."""
    at_most: Balance
    """How much of it."""


@dataclass(frozen=True, slots=True)
class HeldMoney:
    """What an account holds for one case."""

    owner: AccountId
    hold: Hold
    amount: int


@dataclass(frozen=True, slots=True)
class LockTerms:
    """What is said of all that is held for a reason."""

    what: str
    until: str
    taken_by: str = NOTHING_TAKES_IT

    def lock(
        self,
        held: HeldMoney,
        *,
        amount: int | None = None,
        until: str | None = None,
        until_epoch: int | None = None,
        until_block: int | None = None,
    ) -> Lock:
        """Said of this case, or of a part of it."""
        amount = held.amount if amount is None else amount
        return Lock(
            reason=held.hold.reason,
            case=held.hold.case,
            amount=amount,
            what=self.what,
            until=until or self.until,
            until_epoch=until_epoch,
            until_block=until_block,
            taken_by=self.taken_by,
            at_most=0 if self.taken_by == NOTHING_TAKES_IT else amount,
        )


LockReader = Callable[[Bound, HeldMoney], tuple[Lock, ...]]
"""A row of the table: what the state says of the money that is held for a case."""
LockTable = Mapping[HoldReason, LockReader]


def said_alike(terms: LockTerms) -> LockReader:
    """The row of a reason of which the same is said whatever the case."""
    return lambda _bound, held: (terms.lock(held),)
