"""The submission of a task: checks of the order, and a lock of its greatest cost.

Invariants: every grain that an outcome can pay out of the customer's purses is held from here on. Every step that a
block may have to make for the task is prepaid here. The number of open tasks is bounded so that their steps fit.
"""

from gpu_tasks.market.devices.checkers import DEVELOPMENT_SET, in_office
from gpu_tasks.market.training import money
from gpu_tasks.market.training.events import StaleOrder, TaskSubmitted, TooManyTasks, UnsoundOrder
from gpu_tasks.market.training.items import auction_items
from gpu_tasks.market.training.orders import (
    AUCTIONS_MAX,
    INTERVALS_MAX,
    MILESTONES_MAX,
    REPLICAS,
    TaskOrder,
    interval_of,
    is_by_time,
    is_replicated,
)
from gpu_tasks.market.training.rules import TaskRules
from gpu_tasks.market.training.storage import TrainingStorage
from gpu_tasks.market.training.tasks import (
    TASK_BOND,
    TASK_DEPOSIT,
    TASK_ESCROW,
    TASKS_OPEN_MAX,
    Task,
    TaskState,
    slot_case,
    task_id_of,
)
from gpu_tasks.market.training.terms import SLOTS_MAX, TaskTerms, default_loss, default_time_value
from gpu_tasks.traces.trace import SEGMENTS_MAX
from runtime.encoding.types import CAP_GRAINS
from runtime.frame.holds import Hold
from runtime.frame.pallet import ensure
from runtime.pallets.balances import Withdraw
from runtime.pallets.staking.slashing import PPM

PRICE_LEAST = 1_000
"""Grains. Below this, the shares of the money table round to nothing."""
BLOCKS_MAX = 1_000_000
RUN_BLOCKS_MAX = 7_200
"""The most blocks of a checker's computation. For longer runs it is half of the time that a bid may promise."""
CLASSES_ALL = 0b111
LOOKS_PER_AUCTION = 12
"""The steps of one auction and its run that need the hook.

They are: end of commits, end of reveals, award, start of winners, start of a standby, ends of their two reports, death,
asking, end of a dispute of sides, opening of claims, end of the task.
"""
LOOKS_PER_SLOT = 2
LOOKS_AT_THE_END = 20
"""For released bids and dropped records, in addition to each bid's own payment."""


def submit(market: TrainingStorage, customer: bytes, order: TaskOrder, sealed_age_max: int) -> None:
    """Put a task to auction: lock its greatest cost, and prepay its steps."""
    ensure(market.open_task_count.get() < TASKS_OPEN_MAX, TooManyTasks)
    ensure(_is_sound(order, market.interval_blocks_max), UnsoundOrder)
    final_height = market.beacon.final_height()
    ensure(final_height - sealed_age_max <= order.sealed_at <= final_height, StaleOrder)
    submission_number, genesis_hash = market.submission_counts[customer], market.system.block_hash[0]
    task_id, rules, windows = (
        task_id_of(genesis_hash, customer, submission_number),
        _rules(market, order),
        market.windows(),
    )
    locked_grains = _lock_greatest_cost(market, customer, task_id, order, rules)
    intervals = order.milestones if is_by_time(order) else 0
    _prepay(market, customer, market.step_fee * looks(order.auctions, order.slots, intervals))
    market.submission_counts[customer] = submission_number + 1
    market.open_task_count.set(market.open_task_count.get() + 1)
    market.open_auctions[task_id] = True
    task = Task(
        customer=customer,
        order=order,
        rules=rules,
        windows=windows,
        state=TaskState.COMMITTING,
        submitted_at=market.height,
        deadline=market.height + windows.commit,
        terms=_terms(rules, order),
        milestones=order.milestones,
        deposit=market.task_deposit,
    )
    market.put(task_id, task)
    market.emit(TaskSubmitted(task_id, customer, order.workload, order.price_max, order.slots, locked_grains))


def looks(auctions: int, slot_count: int, intervals: int = 0) -> int:
    """Return the most steps that blocks make for a task without a call. The customer prepays `step_fee` for each.

    They include each interval of bought time, which a block settles without pay for its author.
    """
    return auctions * (LOOKS_PER_AUCTION + LOOKS_PER_SLOT * slot_count) + LOOKS_AT_THE_END + intervals


def run_blocks_max(blocks_max: int) -> int:
    """Return the most blocks of a checker's computation."""
    return max(RUN_BLOCKS_MAX, blocks_max // 2)


def _is_sound(order: TaskOrder, interval_max: int) -> bool:
    """Return True if every number is within its range."""
    if is_by_time(order) and not _is_of_time(order, interval_max):
        return False
    if is_replicated(order) and not _is_of_replicas(order):
        return False
    number_ranges = (
        (order.price_max, PRICE_LEAST, CAP_GRAINS),
        (order.time_value or 0, 0, order.price_max),
        (order.loss or 0, 0, CAP_GRAINS),
        (order.collateral_min, 0, CAP_GRAINS),
        (order.blocks_max, 1, BLOCKS_MAX),
        (order.run_blocks, 0, run_blocks_max(order.blocks_max)),
        (order.check_ppm, 1, PPM),
        (order.slots, 1, SLOTS_MAX),
        (order.milestones, 1, INTERVALS_MAX if is_by_time(order) else MILESTONES_MAX),
        (order.segments, 0, SEGMENTS_MAX),
        (order.auctions, 1, AUCTIONS_MAX),
        (order.classes, 1, CLASSES_ALL),
    )
    return all(least_number <= number <= greatest_number for number, least_number, greatest_number in number_ranges)


def _is_of_replicas(order: TaskOrder) -> bool:
    """Return True if the order suits replicas: one result, of which validators compute nothing."""
    return order.slots in REPLICAS and (order.milestones, order.segments, order.run_blocks) == (
        1,
        0,
        0,
    )


def _is_of_time(order: TaskOrder, interval_max: int) -> bool:
    """Return True if the order can be paid by time: one slot, whole intervals, nothing to check, no value of time."""
    return (
        (order.slots, order.segments, order.run_blocks, order.time_value) == (1, 0, 0, 0)
        and order.milestones > 0
        and order.blocks_max % order.milestones == 0
        and interval_of(order) <= interval_max
    )


def _rules(market: TrainingStorage, order: TaskOrder) -> TaskRules:
    # A development chain has too few validators for a checker and voters.
    return market.rules(order, is_checked=len(in_office(market.devices)) >= DEVELOPMENT_SET)


def _terms(rules: TaskRules, order: TaskOrder) -> TaskTerms:
    price_max = order.price_max
    time_value = default_time_value(price_max, order.blocks_max) if order.time_value is None else order.time_value
    return TaskTerms(
        price_max=price_max,
        time_value=time_value,
        loss=default_loss(price_max) if order.loss is None else order.loss,
        blocks_max=order.blocks_max,
        collateral_min=money.collateral_min(
            rules, price_max, items=auction_items(order, 0), customer_minimum=order.collateral_min
        ),
        slots=order.slots,
    )


def _lock_greatest_cost(
    market: TrainingStorage, customer: bytes, task_id: bytes, order: TaskOrder, rules: TaskRules
) -> int:
    """Lock the greatest cost of each slot, and the deposit. Return the sum."""
    locked_grains = market.task_deposit
    escrow_grains, bond_grains = (
        money.escrow(rules, order.price_max, auction_items(order, 0)),
        money.customer_bond(rules, order.price_max),
    )
    for place in range(order.slots):
        case_id = slot_case(task_id, place)
        market.lock.lock(customer, Hold(TASK_ESCROW, case_id), escrow_grains)
        market.lock.lock(customer, Hold(TASK_BOND, case_id), bond_grains)
        locked_grains += escrow_grains + bond_grains
    market.lock.lock(customer, Hold(TASK_DEPOSIT, task_id), market.task_deposit)
    return locked_grains


def _prepay(market: TrainingStorage, customer: bytes, steps_cost: int) -> None:
    """Burn the cost of the task's steps in advance, because authors that make them are not paid."""
    market.balances.debit(customer, steps_cost)
    market.balances.retire(steps_cost)
    market.emit(Withdraw(customer, steps_cost))
