"""A provider's bids and refusals: every limit by a case of its own, and promises that hold."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from error_codes import raises_code
from gpu_tasks.data.run_states import STATE_BYTES_MAX, state_index
from gpu_tasks.market.devices.records import Device, DeviceClass
from gpu_tasks.market.training.life.submitting import RUN_BLOCKS_MAX
from gpu_tasks.market.training.selection import BIDS_MAX
from gpu_tasks.market.training.tasks import Slot, Task, silent_until
from gpu_tasks.market.training.terms import TaskTerms
from gpu_tasks.provider.tasks import bid_terms
from gpu_tasks.provider.tasks.bid_terms import (
    CHECKERS_SLOWER,
    MILESTONE_BLOCKS,
    SLACK_PERCENT,
    Means,
    MeasuredRun,
    UnfitError,
    asked_price,
    check_device,
    check_price,
    check_task,
    offer_for,
    promised_blocks,
)
from gpu_tasks.provider.tasks.policy import BidPolicy, price_of
from priced_tasks import WINDOWS, a_task
from simulation.chains.market_chain import OGPU
from task_chain import PRICE

POLICY = BidPolicy(("train-int8",), price_of("0.001 oGPU/block"))
MEANS = Means(b"m" * 32, 1_000 * OGPU, 10**12)
SLOT_MS = 1_000
RUN = MeasuredRun(tuple(range(0, 81, 10)), 50_000, 1_000)
"""Eighty steps in eight segments, a twentieth of a second each."""


def test_a_task_that_suits_is_bid_for() -> None:
    check_task(a_task(), MEANS, POLICY, 5)
    offer = offer_for(a_task(), RUN, POLICY, SLOT_MS, MEANS)
    # four seconds and half of that as slack, and the time until a final block shows each of four milestones
    assert offer.blocks == 6 + 4 * MILESTONE_BLOCKS
    assert offer.price == -(-offer.blocks * OGPU // 1_000 * 1_000_000 // 980_000)
    assert offer.collateral == 19 * PRICE


def test_what_is_left_of_a_task_is_promised_alone() -> None:
    rest = replace(a_task(), behind=2, milestones=2)
    assert promised_blocks(rest, RUN, SLOT_MS) == 3 + 2 * MILESTONE_BLOCKS


def test_who_is_silent_for_a_long_milestone_promises_no_more_for_it_than_it_must() -> None:
    last = MeasuredRun((*range(0, 71, 10), 2_070), 50_000, 1_000)
    longest = -(-2_010 * 75 // 1_000) + MILESTONE_BLOCKS  # of one milestone, which ends two segments
    share = -(-(longest - WINDOWS.grace) // 2)
    assert promised_blocks(a_task(), last, SLOT_MS) == 4 * share


@pytest.mark.parametrize(
    ("task", "reason"),
    [
        (a_task(customer=MEANS.stash), "own_task"),
        (a_task(deadline=6), "too_late"),
        (a_task(bids=BIDS_MAX), "bids_full"),
        (a_task(segments=0), "no_trace"),
        (a_task(segments=3), "too_many_milestones"),
        (a_task(windows=replace(WINDOWS, reveal=3)), "window_too_short"),
        (a_task(windows=replace(WINDOWS, start=3)), "window_too_short"),
        (a_task(time_value_of_terms=PRICE // 19), "late_penalty_too_high"),
        (a_task(terms=TaskTerms(PRICE, 1, 0, 100, 19 * PRICE, slots=2)), "gang_refused"),
        (a_task(terms=TaskTerms(PRICE, 0, 0, 100, MEANS.spendable + 1)), "too_little_money"),
    ],
)
def test_what_is_not_bid_for_however_fast_the_machine_is(task: Task, reason: str) -> None:
    with raises_code(UnfitError, reason):
        check_task(task, MEANS, POLICY, 5)


@pytest.mark.parametrize(
    "task",
    [
        a_task(deadline=7),
        a_task(bids=BIDS_MAX - 1),
        a_task(segments=4),
        a_task(time_value_of_terms=PRICE // 20),
        a_task(terms=TaskTerms(PRICE, 0, 0, 100, 19 * PRICE, slots=2)),
        a_task(terms=TaskTerms(PRICE, 0, 0, 100, MEANS.spendable)),
    ],
)
def test_what_is_just_within_the_limits(task: Task) -> None:
    check_task(task, MEANS, POLICY, 5)


def test_an_operator_may_allow_gangs() -> None:
    check_task(a_task(terms=TaskTerms(PRICE, 1, 0, 100, 1, slots=2)), MEANS, replace(POLICY, gangs=True), 5)


@pytest.mark.parametrize(
    ("run", "more", "reason"),
    [
        (replace(RUN, boundaries=tuple(range(0, 71, 10))), {}, "segments_differ"),
        (replace(RUN, step_us=bid_terms.STEP_US_MAX + 1), {}, "step_too_long"),
        (replace(RUN, state_bytes=STATE_BYTES_MAX + 1), {}, "state_too_large"),
        (RUN, {"means": replace(MEANS, disk_bytes=18_000)}, "disk_too_small"),
        (replace(RUN, step_us=1_000_000), {}, "too_slow"),
        (RUN, {"task": a_task(run_blocks=2)}, "run_blocks_too_few"),
        (RUN, {"task": a_task(run_blocks=RUN_BLOCKS_MAX + 1)}, "run_blocks_too_many"),
        (RUN, {"policy": replace(POLICY, least_price=price_of("1 oGPU/block"))}, "price_too_low"),
    ],
)
def test_what_this_machine_cannot_promise(run: MeasuredRun, more: dict[str, Any], reason: str) -> None:
    given = {"task": a_task(), "policy": POLICY, "means": MEANS, **more}
    with raises_code(UnfitError, reason):
        offer_for(given["task"], run, given["policy"], SLOT_MS, given["means"])


def fits(task: Task, run: MeasuredRun = RUN) -> bool:
    """Return True if it bids, by this machine's speed."""
    try:
        offer_for(task, run, POLICY, SLOT_MS, MEANS)
    except UnfitError:
        return False
    return True


def test_checkers_have_the_time_that_the_longest_segments_take() -> None:
    # eight segments, of half a second each and half of that as slack
    assert [fits(a_task(run_blocks=blocks)) for blocks in (5, 6)] == [False, True]
    uneven = MeasuredRun((*range(8), 80), 50_000, 1_000)  # its last segment is 73 steps
    assert [fits(a_task(run_blocks=blocks), uneven) for blocks in (43, 44)] == [False, True]


def test_what_is_asked_may_be_all_that_there_is() -> None:
    assert [fits(a_task(run_blocks=RUN_BLOCKS_MAX + more)) for more in (0, 1)] == [True, False]
    blocks = promised_blocks(a_task(), RUN, SLOT_MS)
    price = asked_price(POLICY, blocks, SLOT_MS, a_task().rules.settlement_fee)
    for less, is_fit in ((0, True), (1, False)):
        assert fits(a_task(terms=TaskTerms(PRICE, 0, 0, blocks - less, 1))) is is_fit
        assert fits(a_task(terms=TaskTerms(price - less, 0, 0, blocks, 1))) is is_fit
    large = replace(RUN, state_bytes=STATE_BYTES_MAX)
    assert fits(a_task(), large)
    assert not fits(a_task(), replace(large, state_bytes=STATE_BYTES_MAX + 1))
    steps = replace(RUN, boundaries=tuple(range(9)), step_us=bid_terms.STEP_US_MAX)
    roomy = a_task(run_blocks=RUN_BLOCKS_MAX, terms=TaskTerms(10 * OGPU, 0, 0, 10**6, 1))
    assert fits(roomy, steps)
    assert not fits(roomy, replace(steps, step_us=bid_terms.STEP_US_MAX + 1))


def test_checkers_of_a_long_run_have_long() -> None:
    slow = replace(RUN, step_us=bid_terms.STEP_US_MAX)
    computed = CHECKERS_SLOWER * RUN.boundaries[-1] * slow.step_us // (SLOT_MS * 1_000)
    terms = TaskTerms(10 * MEANS.spendable, 0, 0, 10**6, 1)
    assert computed > RUN_BLOCKS_MAX
    for run_blocks, fits in ((computed, True), (3 * computed, False)):
        task = a_task(run_blocks=run_blocks, terms=terms)
        if fits:
            offer_for(task, slow, POLICY, SLOT_MS, MEANS)
        else:
            with raises_code(UnfitError, "run_blocks_too_many"):
                offer_for(task, slow, POLICY, SLOT_MS, MEANS)


def test_what_pays_too_little_whatever_it_takes_is_not_even_tried() -> None:
    least = asked_price(POLICY, 4 * MILESTONE_BLOCKS, SLOT_MS, 20_000)
    for price_max, fits in ((least, True), (least - 1, False)):
        task = a_task(terms=TaskTerms(price_max, 0, 0, 100, 1))
        if fits:
            check_price(task, POLICY, SLOT_MS)
        else:
            with raises_code(UnfitError, "price_too_low"):
                check_price(task, POLICY, SLOT_MS)


def test_states_that_would_fill_the_disk_are_not_kept() -> None:
    order = {"segments": 1_023, "milestones": 4}
    large = MeasuredRun(tuple(range(1_024)), 1, STATE_BYTES_MAX)
    offer_for(a_task(**order), replace(large, state_bytes=1_000), POLICY, SLOT_MS, MEANS)
    assert 1_024 * (STATE_BYTES_MAX + 32) < bid_terms.KEPT_BYTES_MAX, "the largest run of all is within the limit"
    with raises_code(UnfitError, "disk_too_small"):
        offer_for(a_task(**order), large, POLICY, SLOT_MS, replace(MEANS, disk_bytes=2_048_000_000))


@pytest.mark.parametrize(
    ("device", "reason"),
    [
        ({}, ""),
        ({"is_paused": True}, "device_paused"),
        ({"assignment": b"u" * 32}, "device_busy"),
        ({"kind": DeviceClass.CONSUMER}, "class_not_taken"),
    ],
)
def test_which_device_bids(device: dict[str, Any], reason: str) -> None:
    task = a_task(classes=1 << DeviceClass.CPU)
    found = replace(Device(b"o" * 32, DeviceClass.CPU, b"u" * 32, 1, 1, 1), **device)
    if not reason:
        check_device(task, found)
        return
    with raises_code(UnfitError, reason):
        check_device(task, found)


@st.composite
def runs(draw: st.DrawFn) -> tuple[Task, MeasuredRun]:
    """Draw a task with some earlier legs, and a machine's speed for it."""
    segments, length = draw(st.integers(1, 60)), draw(st.integers(1, 50))
    milestones = draw(st.integers(1, min(segments, 12)))
    behind = draw(st.integers(0, milestones - 1))
    steps = draw(st.integers((segments - 1) * length + 1, segments * length))
    task = a_task(segments=segments, milestones=milestones, windows=replace(WINDOWS, grace=draw(st.integers(2, 20))))
    task = replace(task, behind=behind, milestones=milestones - behind)
    boundaries = tuple(min(index * length, steps) for index in range(segments + 1))
    return task, MeasuredRun(boundaries, draw(st.integers(1, 2_000_000)), 1_000)


@given(runs(), st.sampled_from([250, 1_000, 2_000]))
def test_who_is_half_as_slow_again_as_measured_is_in_time(given_run: tuple[Task, MeasuredRun], slot_ms: int) -> None:
    """Neither late nor silent for too long at any milestone, though each is seen only some blocks later."""
    task, run = given_run
    promised = promised_blocks(task, run, slot_ms)
    slot = Slot(b"p" * 32, b"d" * 32, 1, promised, 1, started_at=100)
    height, task = 100, replace(task, slots=(slot,), started_at=100, reported_at=100)
    for number in range(task.behind + 1, task.order.milestones + 1):
        begin, end = (run.boundaries[state_index(task.order, each)] for each in (number - 1, number))
        us = (end - begin) * run.step_us * SLACK_PERCENT // 100
        height += -(-us // (1_000 * slot_ms)) + MILESTONE_BLOCKS - 1
        assert height <= silent_until(task)
        task = replace(task, reported_at=height)
    assert height - 100 <= promised


@given(st.integers(0, 10**12), st.integers(1, 10**6), st.integers(0, 50_000))
def test_what_is_left_of_a_price_after_the_fee_is_what_was_asked(grains: int, blocks: int, fee: int) -> None:
    policy = replace(POLICY, least_price=price_of(f"{grains} grains/block"))
    price = asked_price(policy, blocks, SLOT_MS, fee)
    assert price - price * fee // 1_000_000 >= grains * blocks
    assert price >= 1


def test_a_task_that_pays_too_little_is_let_pass_in_people_s_units() -> None:
    task, dear = a_task(), replace(POLICY, least_price=price_of("5 oGPU/block"))
    with pytest.raises(UnfitError, match=r"[0-9.]+ oGPU; .*requires [0-9.]+$"):
        offer_for(task, RUN, dear, SLOT_MS, MEANS)


def test_a_price_for_time_is_for_as_long_as_blocks_take() -> None:
    policy = replace(POLICY, least_price=price_of("3600 grains/h"))
    assert [asked_price(policy, blocks, 2_000, 0) for blocks in (1, 10)] == [2, 20]
