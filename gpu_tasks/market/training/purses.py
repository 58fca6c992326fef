"""The holds of a slot, and payments by the rows of the money table.

Invariants: payments are those that `money.settle` lists, each out of the hold of its purse. A purse belongs to one slot
or one bid, so no slot is paid from another's money. Payments to a provider count in its track record, and its failures
count against it.
"""

from collections.abc import Mapping
from dataclasses import replace

from gpu_tasks.market.training import money
from gpu_tasks.market.training.bids import DRAWS_FROM, auction_id, bid_case
from gpu_tasks.market.training.events import SlotSettled
from gpu_tasks.market.training.money import TaskFlow, TaskMoney, TaskOutcome, TaskPayee, TaskPurse
from gpu_tasks.market.training.orders import is_by_time
from gpu_tasks.market.training.reputation import record_after_failing, record_after_settling
from gpu_tasks.market.training.storage import TrainingStorage
from gpu_tasks.market.training.tasks import (
    TASK_BOND,
    TASK_COLLATERAL,
    TASK_ESCROW,
    Slot,
    Task,
    kept_step,
    slot_case,
    taken_by,
)
from runtime.frame.holds import Hold
from runtime.pallets.pots import TREASURY
from runtime.pallets.staking.slashing import Share

_CUSTOMERS = {
    TaskPurse.ESCROW: TASK_ESCROW,
    TaskPurse.CUSTOMER_BOND: TASK_BOND,
}
FAILURES = (
    TaskOutcome.LIED, TaskOutcome.OUTVOTED, TaskOutcome.DIED, TaskOutcome.NOT_STARTED,
    TaskOutcome.STANDBY_NOT_STARTED, TaskOutcome.LEFT,
)  # fmt: skip


def collateral_hold(task_id: bytes, task: Task, device_id: bytes, draw_number: int = 0) -> Hold:
    """Return the hold of a bid's collateral in the newest auction, or of a replica's in draw number `draw_number`."""
    auction_number = DRAWS_FROM + draw_number if draw_number else task.auction
    return Hold(TASK_COLLATERAL, bid_case(auction_id(task_id, auction_number), device_id))


def slot_hold(task_id: bytes, task: Task, slot: Slot) -> Hold:
    """Return the hold of a slot's collateral."""
    return collateral_hold(task_id, task, slot.device, slot.draw)


def customer_holds(task_id: bytes, place: int) -> dict[TaskPurse, Hold]:
    """Return the customer's holds for a slot."""
    return {purse: Hold(reason, slot_case(task_id, place)) for purse, reason in _CUSTOMERS.items()}


def settle(
    market: TrainingStorage,
    task_id: bytes,
    task: Task,
    place: int,
    outcome: TaskOutcome,
    *,
    due: int = 0,
) -> None:
    """Make the payments of a row between the customer and the slot's provider. The rest stays held.

    `due` is the number of blocks to be paid by now, for bought time.
    """
    slot = task.slots[place]
    provider_purse = (
        TaskPurse.STANDBY_COLLATERAL if outcome is TaskOutcome.STANDBY_NOT_STARTED else TaskPurse.COLLATERAL
    )
    holds = {purse: (task.customer, hold) for purse, hold in customer_holds(task_id, place).items()}
    provider_hold = slot_hold(task_id, task, slot)
    holds[provider_purse] = (slot.provider, provider_hold)
    payments = money.settle(outcome, replace(_money(market, task, slot, _held(market, holds)), due=due))
    _pay_out(market, task, slot.provider, holds, payments)
    earned_grains = sum(payment.amount for payment in payments if payment.payee in (TaskPayee.PROVIDER, TaskPayee.FEE))
    _record_outcome(
        market, task, slot, outcome, _grains_paid_to(payments, TaskPurse.ESCROW, TaskPayee.PROVIDER, TaskPayee.FEE)
    )
    # Claims and rulings may have taken their part before.
    lost_grains = slot.collateral - market.lock.locked(slot.provider, provider_hold)
    market.emit(SlotSettled(task_id, place, slot.provider, outcome, earned_grains, lost_grains))


def unpaid(task: Task, slot: Slot) -> int:
    """Return the unpaid part of a slot's price. It is less than the price only for time, which is paid by intervals."""
    paid_grains = slot.price * task.owed // task.milestones if is_by_time(task.order) else 0
    return slot.price - paid_grains


def pay_standby(market: TrainingStorage, task_id: bytes, task: Task, place: int, provider: bytes, price: int) -> None:
    """Pay a standby, bound or taking over, its share of the price of the slot at `place`."""
    holds = {TaskPurse.ESCROW: (task.customer, Hold(TASK_ESCROW, slot_case(task_id, place)))}
    slot_money = TaskMoney(task.rules, task.terms, _held(market, holds), price)
    _pay_out(market, task, provider, holds, money.settle(TaskOutcome.STOOD_BY, slot_money))


def burn_for_cancelling(market: TrainingStorage, task_id: bytes, task: Task, place: int) -> None:
    """Burn a part of the customer's bond for an unawarded slot, because the customer cancelled the task."""
    holds = {purse: (task.customer, hold) for purse, hold in customer_holds(task_id, place).items()}
    slot_money = TaskMoney(task.rules, task.terms, _held(market, holds))
    _pay_out(market, task, task.customer, holds, money.settle(TaskOutcome.CANCELLED_BEFORE_AWARD, slot_money))


def _held(market: TrainingStorage, holds: Mapping[TaskPurse, tuple[bytes, Hold]]) -> dict[TaskPurse, int]:
    """Return the grains in each purse."""
    return {purse: market.lock.locked(owner, hold) for purse, (owner, hold) in holds.items()}


def _money(market: TrainingStorage, task: Task, slot: Slot, held: dict[TaskPurse, int]) -> TaskMoney:
    end_height = slot.finished_at or market.height
    # `owed`, not `done`: a winner may own the runner-up, so its confirmations earn no pay.
    return TaskMoney(
        rules=task.rules,
        terms=task.terms,
        held=held,
        price=slot.price,
        collateral=slot.collateral,
        promised=slot.promised,
        elapsed=end_height - task.started_at if task.started_at else 0,
        stated=kept_step(task),
        taken=taken_by(task, slot, market.height),
        milestones=task.milestones,
        done=task.owed,
    )


def _pay_out(
    market: TrainingStorage,
    task: Task,
    provider: bytes,
    holds: dict[TaskPurse, tuple[bytes, Hold]],
    payments: tuple[TaskFlow, ...],
) -> None:
    """Pay each purse's flows out of its hold. `provider` is the account that worked, stood by, or bid."""
    shares_by_purse: dict[TaskPurse, list[Share]] = {}
    for payment in payments:
        shares = shares_by_purse.setdefault(payment.purse, [])
        if payment.payee is TaskPayee.FEE:
            to_treasury, burned = money.fee_parts(payment.amount)
            shares += [Share(TREASURY, to_treasury), Share(None, burned)]
        else:
            shares.append(Share(_account_of(task, provider, payment.payee), payment.amount))
    for purse, shares in shares_by_purse.items():
        owner, hold = holds[purse]
        market.lock.pay_out(owner, hold, shares)


def _account_of(task: Task, provider: bytes, payee: TaskPayee) -> bytes | None:
    if payee is TaskPayee.BURNED:
        return None
    return task.customer if payee is TaskPayee.CUSTOMER else provider


def _grains_paid_to(payments: tuple[TaskFlow, ...], purse: TaskPurse, *payees: TaskPayee) -> int:
    return sum(payment.amount for payment in payments if payment.purse is purse and payment.payee in payees)


def _record_outcome(market: TrainingStorage, task: Task, slot: Slot, outcome: TaskOutcome, paid_grains: int) -> None:
    """Record a provider's payment and its failure in its track record."""
    current_era, provider = market.stake.current_era.get(), slot.provider
    if paid_grains:
        market.provider_records[provider] = record_after_settling(
            market.provider_records[provider], paid_grains, current_era
        )
    if outcome in FAILURES:
        # Only the unearned part of the price counts as failed.
        market.provider_records[provider] = record_after_failing(
            market.provider_records[provider], unpaid(task, slot) - paid_grains, current_era
        )
