"""Several calls in one transaction: up to the first failure, all or none, or each on its own."""

from typing import Annotated

from runtime.encoding.codec import U32, Bounded
from runtime.frame.errors import DispatchErrorField
from runtime.frame.measured import times
from runtime.frame.pallet import (
    Call,
    Constant,
    DispatchError,
    Pallet,
    PalletOrigin,
    PostDispatch,
    Root,
    Signed,
    Weight,
    call,
    event,
)
from runtime.pallets.weights import WEIGHTS

BATCHED_CALLS_MAX = 1_000

Calls = Annotated[tuple[Call, ...], Bounded(BATCHED_CALLS_MAX)]


def batch_weight(call_name: str, calls: tuple[Call, ...]) -> Weight:
    """Return the weight of all calls, plus a little for each."""
    total_weight = WEIGHTS[call_name] + times(len(calls), WEIGHTS[f"{call_name} call"])
    for inner in calls:
        total_weight += inner.weight
    return total_weight


@event(0)
class BatchInterrupted:
    """A call of a batch failed. Earlier calls keep their effect, later ones were not made."""

    index: U32
    error: DispatchErrorField


@event(1)
class BatchCompleted:
    """Every call of a batch succeeded."""


@event(2)
class BatchCompletedWithErrors:
    """Every call of a batch was made, and some failed."""


@event(3)
class ItemCompleted:
    """One call of a batch succeeded."""


@event(4)
class ItemFailed:
    """One call of a batch failed and changed nothing."""

    error: DispatchErrorField


class _OutsideBatchAll:
    """The filter of all calls but `Utility.batch_all`."""

    def allows(self, call: Call) -> bool:
        """Return True for any other call."""
        return call.name != "Utility.batch_all"


_OUTSIDE_BATCH_ALL = _OutsideBatchAll()


class Utility(Pallet, index=4):
    """Batches. The calls inside pay the fees of their weights. A duty inside a batch is not free."""

    batched_calls_limit: Constant[U32] = Constant(
        BATCHED_CALLS_MAX, name="batched_calls_limit", doc="The most calls in a batch."
    )

    events = (BatchInterrupted, BatchCompleted, BatchCompletedWithErrors, ItemCompleted, ItemFailed)

    @call(index=0, weight=lambda calls: batch_weight("Utility.batch", calls))
    def batch(self, origin: Signed | Root | PalletOrigin, calls: Calls) -> PostDispatch:
        """Make the calls until one fails. Earlier calls keep their effect."""
        for position, inner in enumerate(calls):
            try:
                self.dispatch(inner, origin)
            except DispatchError as failure:
                self.emit(BatchInterrupted(position, failure.value))
                # Later calls were not made, so the sender does not pay for them.
                return PostDispatch(actual_weight=batch_weight("Utility.batch", calls[: position + 1]))
            self.emit(ItemCompleted())
        self.emit(BatchCompleted())
        return PostDispatch()

    @call(index=2, weight=lambda calls: batch_weight("Utility.batch_all", calls))
    def batch_all(self, origin: Signed | Root | PalletOrigin, calls: Calls) -> None:
        """Make all calls, or none: the first failure fails the batch. It may contain no `batch_all`, at any depth."""
        # As in the SDK, where Root may nest them.
        inner_origin = origin.within(_OUTSIDE_BATCH_ALL) if isinstance(origin, Signed) else origin
        for inner in calls:
            self.dispatch(inner, inner_origin)
            self.emit(ItemCompleted())
        self.emit(BatchCompleted())

    @call(index=4, weight=lambda calls: batch_weight("Utility.force_batch", calls))
    def force_batch(self, origin: Signed | Root | PalletOrigin, calls: Calls) -> None:
        """Make all calls, even if some fail."""
        has_failed = False
        for inner in calls:
            try:
                self.dispatch(inner, origin)
            except DispatchError as failure:
                has_failed = True
                self.emit(ItemFailed(failure.value))
            else:
                self.emit(ItemCompleted())
        self.emit(BatchCompletedWithErrors() if has_failed else BatchCompleted())
