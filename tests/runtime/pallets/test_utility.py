"""Batches: kept and reverted calls, and their reports."""

import pytest

from runtime.encoding.types import Signed
from runtime.frame.call import Call
from runtime.frame.errors import FundsUnavailable
from runtime.pallets.balances import Balances
from runtime.pallets.utility import (
    BatchCompleted,
    BatchCompletedWithErrors,
    BatchInterrupted,
    ItemCompleted,
    ItemFailed,
    Utility,
    batch_weight,
)
from small_chain import ALICE, BOB, CHARLIE, ENDOWMENT, SmallChain

FINE = Balances.transfer_keep_alive(dest=BOB.account, value=10**8)
FAILS = Balances.transfer_keep_alive(dest=BOB.account, value=2 * ENDOWMENT)
ERROR = FundsUnavailable.value


@pytest.mark.parametrize(
    ("call", "moved", "told"),
    [
        (Utility.batch(calls=(FINE, FINE)), 2, [ItemCompleted(), ItemCompleted(), BatchCompleted()]),
        (Utility.batch(calls=(FINE, FAILS, FINE)), 1, [ItemCompleted(), BatchInterrupted(1, ERROR)]),
        (Utility.batch(calls=()), 0, [BatchCompleted()]),
        (Utility.batch_all(calls=(FINE, FINE)), 2, [ItemCompleted(), ItemCompleted(), BatchCompleted()]),
        (
            Utility.force_batch(calls=(FINE, FAILS, FINE)),
            2,
            [ItemCompleted(), ItemFailed(ERROR), ItemCompleted(), BatchCompletedWithErrors()],
        ),
        (Utility.force_batch(calls=(FINE,)), 1, [ItemCompleted(), BatchCompleted()]),
        (
            Utility.force_batch(calls=(Utility.batch_all(calls=(FINE, FAILS)), FINE)),
            1,
            [ItemFailed(ERROR), ItemCompleted(), BatchCompletedWithErrors()],
        ),
    ],
)
def test_what_a_batch_does_and_tells(call: Call, moved: int, told: list[object]) -> None:
    bound = SmallChain().bound
    bound.dispatch(call, Signed(ALICE.account))
    assert bound[Balances].free_balance(BOB.account) == ENDOWMENT + moved * 10**8
    kinds = (ItemCompleted, ItemFailed, BatchCompleted, BatchCompletedWithErrors, BatchInterrupted)
    assert [event for _, event in bound.overlay.events if isinstance(event, kinds)] == told


def test_the_error_of_an_item_is_the_error_of_batch_all() -> None:
    bound = SmallChain().bound
    with pytest.raises(FundsUnavailable), bound.overlay.transaction():
        bound.dispatch(Utility.batch_all(calls=(FINE, FAILS)), Signed(CHARLIE.account))
    assert bound[Balances].free_balance(BOB.account) == ENDOWMENT


def test_a_batch_weighs_what_its_calls_weigh() -> None:
    outer = Utility.batch(calls=(Utility.batch_all(calls=(FINE, FINE)), FINE))
    assert outer.weight.ref_time > 3 * FINE.weight.ref_time
    assert outer.weight == batch_weight("Utility.batch", outer.arguments[0])


def test_a_batch_that_is_interrupted_weighs_what_was_tried_the_failure_too() -> None:
    result = SmallChain().bound.dispatch(Utility.batch(calls=(FINE, FAILS, FINE)), Signed(ALICE.account))
    assert result.actual_weight == batch_weight("Utility.batch", (FINE, FAILS))
