"""Bids for time, and refusals: every limit by a case of its own."""

from dataclasses import replace
from typing import Any

import pytest

from error_codes import raises_code
from gpu_tasks.market.training.orders import CheckedBy
from gpu_tasks.market.training.selection import BIDS_MAX
from gpu_tasks.market.training.tasks import Slot, Task, TaskState
from gpu_tasks.provider.tasks.bid_terms import (
    INTERVAL_BLOCKS_LEAST,
    Means,
    UnfitError,
    asked_price,
    check_program,
    program_offer,
)
from gpu_tasks.provider.tasks.policy import BidPolicy, price_of
from priced_tasks import WINDOWS, a_task
from simulation.chains.market_chain import OGPU
from task_chain import PRICE

ME = b"m" * 32
MEANS = Means(ME, 1_000 * OGPU, 0)
POLICY = BidPolicy(("container",), price_of("0.001 oGPU/block"))
SLOT_MS = 1_000


def sold(**changed: Any) -> Task:
    return a_task(checked_by=CheckedBy.METERED, blocks_max=40, segments=0, **changed)


def test_time_is_offered_whole_for_what_the_policy_asks() -> None:
    task = sold()
    check_program(task, MEANS, 5)
    offer = program_offer(task, POLICY, SLOT_MS)
    assert offer.blocks == task.terms.blocks_max
    assert offer.price == asked_price(POLICY, offer.blocks, SLOT_MS, task.rules.settlement_fee)
    assert offer.collateral == task.terms.collateral_min


@pytest.mark.parametrize(
    ("changed", "height", "says"),
    [
        ({"customer": ME}, 5, "this provider's own"),
        ({"bids": BIDS_MAX}, 5, f"{BIDS_MAX} bids already"),
        ({"milestones": 40 // (INTERVAL_BLOCKS_LEAST - 1)}, 5, "its intervals are shorter"),
        ({"windows": replace(WINDOWS, reveal=3)}, 5, "one of its windows"),
        ({"windows": replace(WINDOWS, start=3)}, 5, "one of its windows"),
        ({"windows": replace(WINDOWS, grace=3)}, 5, "one of its windows"),
        ({}, 12, "nearly over"),
    ],
)
def test_what_is_not_bid_for_is_said(changed: dict[str, Any], height: int, says: str) -> None:
    with pytest.raises(UnfitError, match=says):
        check_program(sold(**changed), MEANS, height)


def test_without_the_collateral_nothing_is_bid() -> None:
    least = sold().terms.collateral_min
    check_program(sold(), replace(MEANS, spendable=least), 5)
    with raises_code(UnfitError, "too_little_money"):
        check_program(sold(), replace(MEANS, spendable=least - 1), 5)


def test_a_task_that_pays_less_than_the_policy_asks_is_let_pass() -> None:
    dear = BidPolicy(("container",), price_of("1 oGPU/block"))
    with pytest.raises(UnfitError, match=f"it pays {PRICE // OGPU} oGPU at most"):
        program_offer(sold(), dear, SLOT_MS)


def test_the_last_block_and_the_shortest_interval_are_bid_for() -> None:
    check_program(sold(milestones=40 // INTERVAL_BLOCKS_LEAST), MEANS, 5)
    check_program(sold(), MEANS, 11)


def sought(price: int) -> Task:
    """Return replicas that are drawn among devices offered at a price."""
    winner = Slot(b"w" * 32, b"d" * 32, price, 40, 7)
    task = sold(state=TaskState.VOLUNTEERING, slots=(winner,), bids=BIDS_MAX)
    return replace(task, order=replace(task.order, checked_by=CheckedBy.REPLICATED))


def test_a_device_is_offered_at_the_price_of_the_award_however_many_have_bid() -> None:
    asked = asked_price(POLICY, 100, SLOT_MS, sold().rules.settlement_fee)
    task = sought(asked + 1)
    check_program(task, MEANS, 5)
    assert program_offer(task, POLICY, SLOT_MS).price == asked + 1
    assert program_offer(sought(asked), POLICY, SLOT_MS).price == asked
    with raises_code(UnfitError, "price_too_low"):
        program_offer(sought(asked - 1), POLICY, SLOT_MS)
