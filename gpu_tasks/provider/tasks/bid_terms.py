"""The terms of a provider's bid for a task, or the reason for none: price, promise and collateral.

Invariant: the terms are a pure function of the chain's data, this machine's measurements and the policy. Every limit
here has a name. The limits prevent bids that customers could turn into misses by the choice of sizes, steps, windows or
the price of a late block.

The price of a customer's program is the policy's price for its longest possible time. A provider that offers a device
as a replica receives the award's price, and offers only if that is enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from gpu_tasks.data.run_states import STATE_BYTES_MAX, state_index
from gpu_tasks.market.devices.records import Device
from gpu_tasks.market.training.bids import BidOffer
from gpu_tasks.market.training.life.submitting import RUN_BLOCKS_MAX
from gpu_tasks.market.training.orders import interval_of, is_by_time
from gpu_tasks.market.training.selection import BIDS_MAX
from gpu_tasks.market.training.tasks import SILENT_TIMES, Task, TaskState
from gpu_tasks.provider.tasks.policy import BidPolicy
from wallet.amounts import SYMBOL, format_amount
from wallet.errors import CodedError

SLACK_PERCENT = 150
"""The promised time in per cent of the measured time. The machine may be hot, or check a claim meanwhile."""
MILESTONE_BLOCKS = 8
"""Blocks from a computed milestone to the final block that shows it and to the signatures of its holders."""
COMMIT_BLOCKS_LEAST = 2
"""Blocks that must remain of the commit window. Otherwise the bid would come too late."""
WINDOW_BLOCKS_LEAST = 4
"""The least length of a window in which this provider must act: to see it begin, to send, and to be included."""
STEP_US_MAX = 20_000_000
"""The longest step, in microseconds. A longer one could end by a limit of the worker process."""
LATE_BLOCKS_BORNE = 4
"""This many late blocks may cost at most the highest price: a short halt of the network must ruin no provider."""
KEPT_BYTES_MAX = 1024 * 1024 * 1024
"""The most bytes of a task's states that this machine keeps for checkers and voters."""
CHECKERS_SLOWER = 20
"""The factor by which a checker may be slower than this machine. More time for checks binds collateral needlessly."""
DIGEST_BYTES = 32
INTERVAL_BLOCKS_LEAST = 4
"""The least interval of a customer's program. A shorter one would end before the payment of the previous one is
visible."""


class UnfitError(CodedError):
    """This provider does not bid. The text states the reason."""


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """A request as measured on this machine."""

    boundaries: tuple[int, ...]
    """The completed steps at each state of its trace, from none to all."""
    step_us: int
    """Microseconds for one step."""
    state_bytes: int


@dataclass(frozen=True, slots=True)
class Means:
    """The provider's available resources. Amounts are in grains."""

    stash: bytes
    spendable: int
    """The stash's balance minus its existing promises."""
    disk_bytes: int
    """Free bytes for states."""


def check_task(task: Task, means: Means, policy: BidPolicy, height: int) -> None:
    """Raise UnfitError for a task that this provider does not bid for at any speed."""
    order, task_windows, terms = task.order, task.windows, task.terms
    _refuse_if_any(
        (task.customer == means.stash, "it is this provider's own task", "own_task"),
        (task.bids >= BIDS_MAX, f"it has {BIDS_MAX} bids already", "bids_full"),
        (not order.segments, "it has no trace, and no workload here computes a result without one", "no_trace"),
        (order.milestones > order.segments, "it has more milestones than segments", "too_many_milestones"),
        (
            min(task_windows.reveal, task_windows.start) < WINDOW_BLOCKS_LEAST,
            f"one of its windows is shorter than {WINDOW_BLOCKS_LEAST} blocks",
            "window_too_short",
        ),
        (
            task.rules.late_penalty_factor * terms.time_value * LATE_BLOCKS_BORNE > terms.price_max,
            f"{LATE_BLOCKS_BORNE} late blocks cost more than its greatest price",
            "late_penalty_too_high",
        ),
        (
            terms.slots > 1 and terms.time_value > 0 and not policy.gangs,
            "a slow partner in a gang could hold it longer than promised (the policy's `gangs` allows it)",
            "gang_refused",
        ),
        (means.spendable < terms.collateral_min, "the stash cannot lock the collateral", "too_little_money"),
        (task.deadline < height + COMMIT_BLOCKS_LEAST, "its time to commit is nearly over", "too_late"),
    )


def check_program(task: Task, means: Means, height: int) -> None:
    """Raise UnfitError for a program that this provider does not bid for, independent of its content."""
    task_windows, terms = task.windows, task.terms
    _refuse_if_any(
        (task.customer == means.stash, "it is this provider's own task", "own_task"),
        (  # a full list of offers drops the smallest bond
            task.state is not TaskState.VOLUNTEERING and task.bids >= BIDS_MAX,
            f"it has {BIDS_MAX} bids already",
            "bids_full",
        ),
        (
            is_by_time(task.order) and interval_of(task.order) < INTERVAL_BLOCKS_LEAST,
            f"its intervals are shorter than {INTERVAL_BLOCKS_LEAST} blocks",
            "interval_too_short",
        ),
        (
            min(task_windows.reveal, task_windows.start, task_windows.grace) < WINDOW_BLOCKS_LEAST,
            f"one of its windows is shorter than {WINDOW_BLOCKS_LEAST} blocks",
            "window_too_short",
        ),
        (means.spendable < terms.collateral_min, "the stash cannot lock the collateral", "too_little_money"),
        (task.deadline < height + COMMIT_BLOCKS_LEAST, "its time to commit is nearly over", "too_late"),
    )


def check_price(task: Task, policy: BidPolicy, slot_length_ms: int) -> None:
    """Raise UnfitError for a task that pays too little at any speed, before anything is fetched or tried."""
    _check_price(task, policy, MILESTONE_BLOCKS * task.milestones, slot_length_ms)


def check_device(task: Task, device: Device, reason_against: str = "") -> None:
    """Raise UnfitError for a device that cannot bid for the task. `reason_against` is its obstacle from roll calls."""
    if not task.order.classes >> device.kind & 1:
        raise UnfitError(f"it takes no device of class {device.kind.name.lower()}", code="class_not_taken")
    if device.is_paused:
        raise UnfitError("the device is paused", code="device_paused")
    if device.assignment is not None:
        raise UnfitError("the device is at work", code="device_busy")
    if reason_against:
        raise UnfitError(reason_against, code="proved_too_little")


def offer_for(task: Task, run: MeasuredRun, policy: BidPolicy, slot_length_ms: int, means: Means) -> BidOffer:
    """Return the bid. Raise UnfitError if the task requires more than this machine can promise."""
    _check_sizes(task, run, means)
    promised = promised_blocks(task, run, slot_length_ms)
    if promised > task.terms.blocks_max:
        raise UnfitError(
            f"this machine needs {promised} blocks, and the task allows {task.terms.blocks_max}", code="too_slow"
        )
    longest_steps = max(_part_lengths(run.boundaries))
    run_blocks = _blocks_of_steps(task.order.segments * longest_steps, run.step_us, slot_length_ms)
    # Checkers and voters without time decide nothing, and the customer has result and price.
    if run_blocks > task.order.run_blocks:
        raise UnfitError(
            f"a computation of the whole may take {run_blocks} blocks, and the order states {task.order.run_blocks}",
            code="run_blocks_too_few",
        )
    if task.order.run_blocks > max(RUN_BLOCKS_MAX, CHECKERS_SLOWER * run_blocks):
        raise UnfitError(
            f"the order states {task.order.run_blocks} blocks for a computation of {run_blocks}, so checks may last"
            " too long",
            code="run_blocks_too_many",
        )
    price = _check_price(task, policy, promised, slot_length_ms)
    return BidOffer(price, promised, task.terms.collateral_min)


def program_offer(task: Task, policy: BidPolicy, slot_length_ms: int) -> BidOffer:
    """Return the bid, or the offer as a replica. Raise UnfitError if the task pays less than the policy's price."""
    promised, is_award = task.terms.blocks_max, task.state is TaskState.VOLUNTEERING
    price = asked_price(policy, promised, slot_length_ms, task.rules.settlement_fee)
    price_max = task.slots[0].price if is_award else task.terms.price_max
    if price > price_max:
        price_text = f"{format_amount(price_max)} {SYMBOL}{'' if is_award else ' at most'}"
        raise UnfitError(f"it pays {price_text}; the policy requires {format_amount(price)}", code="price_too_low")
    return BidOffer(price_max if is_award else price, promised, task.terms.collateral_min)


def promised_blocks(task: Task, run: MeasuredRun, slot_length_ms: int) -> int:
    """Return a number of blocks within which this machine certainly finishes and reports each milestone in time."""
    milestone_ends = [
        run.boundaries[state_index(task.order, milestone_number)]
        for milestone_number in range(task.behind, task.order.milestones + 1)
    ]
    whole_blocks = (
        _blocks_of_steps(milestone_ends[-1] - milestone_ends[0], run.step_us, slot_length_ms)
        + MILESTONE_BLOCKS * task.milestones
    )
    longest_blocks = (
        _blocks_of_steps(max(_part_lengths(milestone_ends)), run.step_us, slot_length_ms) + MILESTONE_BLOCKS
    )
    # the chain waits SILENT_TIMES a milestone's share of the promise, plus the grace
    longest_share = -(-max(0, longest_blocks - task.windows.grace) // SILENT_TIMES)
    # The larger of both: the whole time, and a time in which no milestone is late by the chain's rule.
    return max(1, whole_blocks, longest_share * task.milestones)


def asked_price(policy: BidPolicy, promised: int, slot_length_ms: int, fee_ppm: int) -> int:
    """Return the price of some blocks of a device, with the fee added. It is rounded up to at least one grain."""
    return policy.least_price.price_with_fee(promised, slot_length_ms, fee_ppm)


def _refuse_if_any(*possible_reasons: tuple[bool, str, str]) -> None:
    """Raise UnfitError with the first reason that holds. A reason is a condition, a text and a code."""
    for applies, reason, code in possible_reasons:
        if applies:
            raise UnfitError(reason, code=code)


def _check_price(task: Task, policy: BidPolicy, promised: int, slot_length_ms: int) -> int:
    """Return the price of some blocks. Raise UnfitError if the task pays less."""
    price = asked_price(policy, promised, slot_length_ms, task.rules.settlement_fee)
    if price > task.terms.price_max:
        price_max_text, asked_text = format_amount(task.terms.price_max), format_amount(price)
        raise UnfitError(
            f"it pays at most {price_max_text} {SYMBOL}; the policy requires {asked_text}", code="price_too_low"
        )
    return price


def _check_sizes(task: Task, run: MeasuredRun, means: Means) -> None:
    """Raise UnfitError for a run that does not match the order or is too large."""
    state_count = len(run.boundaries)
    if state_count != task.order.segments + 1:
        raise UnfitError(
            f"its request has {state_count - 1} segments, and its order {task.order.segments}", code="segments_differ"
        )
    if run.step_us > STEP_US_MAX:
        raise UnfitError(
            f"a step takes {run.step_us // 1000} ms here, of at most {STEP_US_MAX // 1000}", code="step_too_long"
        )
    if run.state_bytes > STATE_BYTES_MAX:
        raise UnfitError(f"a state of {run.state_bytes} bytes is too large for a checkpoint", code="state_too_large")
    kept_bytes = state_count * (run.state_bytes + DIGEST_BYTES)
    if kept_bytes > KEPT_BYTES_MAX:
        raise UnfitError(f"its states have {kept_bytes} bytes, of at most {KEPT_BYTES_MAX}", code="states_too_large")
    if 2 * kept_bytes > means.disk_bytes:
        raise UnfitError(
            f"its states have {kept_bytes} bytes, and the disk has {means.disk_bytes}", code="disk_too_small"
        )


def _blocks_of_steps(step_count: int, step_us: int, slot_length_ms: int) -> int:
    """Return a number of blocks within which some steps certainly finish."""
    return -(-step_count * step_us * SLACK_PERCENT // (100 * 1_000 * slot_length_ms))


def _part_lengths(part_ends: Sequence[int]) -> list[int]:
    return [part_end - part_begin for part_begin, part_end in pairwise(part_ends)]
