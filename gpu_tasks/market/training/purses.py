"""The holds of a slot, and payments by the rows of the money table.

Invariants: payments are those that `money.settle` lists, each out of the hold of its purse. A purse belongs to one slot
or one bid, so no slot is paid from another's money. Payments to a provider count in its track record, and its failures
count against it.
"""

from dataclasses import replace

from gpu_tasks.market.courts.cases import AUDIT_POT
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
    TASK_DISPUTE,
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
    TaskPurse.DISPUTE_BOND: TASK_DISPUTE,
}
FAILURES = (
    TaskOutcome.LIED, TaskOutcome.DIED, TaskOutcome.NOT_STARTED, TaskOutcome.STANDBY_NOT_STARTED, TaskOutcome.LEFT,
)  # fmt: skip
UNMARKED = (TaskOutcome.CLOSED, TaskOutcome.STOOD_BY)
"""Outcomes whose payments say nothing about work: the parties could agree on any pay, and a standby does no work."""


def collateral_hold(task_id: bytes, task: Task, device: bytes, draw: int = 0) -> Hold:
    """Return the hold of a bid's collateral in the newest auction, or of a replica's in draw number `draw`."""
    number = DRAWS_FROM + draw if draw else task.auction
    return Hold(TASK_COLLATERAL, bid_case(auction_id(task_id, number), device))


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
    pay: int = 0,
    back: int = 0,
    due: int = 0,
) -> None:
    """Make the payments of a row between the customer and the slot's provider. The rest stays held.

    `pay` and `back` are the amounts that both have signed. `due` is the number of blocks to be paid by now, for bought
    time.
    """
    slot = task.slots[place]
    own = TaskPurse.STANDBY_COLLATERAL if outcome is TaskOutcome.STANDBY_NOT_STARTED else TaskPurse.COLLATERAL
    holds = customer_holds(task_id, place)
    holds[own] = slot_hold(task_id, task, slot)
    owners = {purse: slot.provider if purse is own else task.customer for purse in holds}
    held = {purse: market.lock.locked(owners[purse], hold) for purse, hold in holds.items()}
    state = replace(_money(market, task, slot, held), agreed_pay=pay, agreed_back=back, due=due)
    flows = money.settle(outcome, state)
    _move(market, task, slot.provider, {purse: (owners[purse], hold) for purse, hold in holds.items()}, flows)
    earned = sum(flow.amount for flow in flows if flow.payee in (TaskPayee.PROVIDER, TaskPayee.FEE))
    _mark(market, task, slot, outcome, _of(flows, TaskPurse.ESCROW, TaskPayee.PROVIDER, TaskPayee.FEE))
    lost = sum(flow.amount for flow in flows if flow.purse is own)
    market.emit(SlotSettled(task_id, place, slot.provider, outcome, earned, lost))


def unpaid(task: Task, slot: Slot) -> int:
    """Return the unpaid part of a slot's price. It is less than the price only for time, which is paid by intervals."""
    paid = slot.price * task.owed // task.milestones if is_by_time(task.order) else 0
    return slot.price - paid


def pay_standby(market: TrainingStorage, task_id: bytes, task: Task, place: int, provider: bytes, price: int) -> None:
    """Pay a standby, bound or taking over, its share of the price of the slot at `place`."""
    hold = Hold(TASK_ESCROW, slot_case(task_id, place))
    held = {TaskPurse.ESCROW: market.lock.locked(task.customer, hold)}
    flows = money.settle(TaskOutcome.STOOD_BY, TaskMoney(task.rules, task.terms, held, price))
    _move(market, task, provider, {TaskPurse.ESCROW: (task.customer, hold)}, flows)


def burn_for_cancelling(market: TrainingStorage, task_id: bytes, task: Task, place: int) -> None:
    """Burn a part of the customer's bond for an unawarded slot, because the customer cancelled the task."""
    holds = {purse: (task.customer, hold) for purse, hold in customer_holds(task_id, place).items()}
    held = {purse: market.lock.locked(owner, hold) for purse, (owner, hold) in holds.items()}
    flows = money.settle(TaskOutcome.CANCELLED_BEFORE_AWARD, TaskMoney(task.rules, task.terms, held))
    _move(market, task, task.customer, holds, flows)


def note_lie(market: TrainingStorage, task_id: bytes, task: Task, place: int) -> None:
    """Record a lie that a court has found in a slot's result. The court has already charged the collateral."""
    slot = task.slots[place]
    left = market.lock.locked(slot.provider, slot_hold(task_id, task, slot))
    _mark(market, task, slot, TaskOutcome.LIED, 0)
    market.emit(SlotSettled(task_id, place, slot.provider, TaskOutcome.LIED, 0, slot.collateral - left))


def _money(market: TrainingStorage, task: Task, slot: Slot, held: dict[TaskPurse, int]) -> TaskMoney:
    until = slot.finished_at or market.height
    # `owed`, not `done`: a winner may own the runner-up, so its confirmations earn no pay.
    return TaskMoney(
        rules=task.rules,
        terms=task.terms,
        held=held,
        price=slot.price,
        collateral=slot.collateral,
        promised=slot.promised,
        added=slot.added,
        elapsed=until - task.started_at if task.started_at else 0,
        stated=kept_step(task),
        taken=taken_by(task, slot, market.height),
        milestones=task.milestones,
        done=task.owed,
    )


def _move(
    market: TrainingStorage,
    task: Task,
    provider: bytes,
    purses: dict[TaskPurse, tuple[bytes, Hold]],
    flows: tuple[TaskFlow, ...],
) -> None:
    """Pay each purse's flows out of its hold. `provider` is the account that worked, stood by, or bid."""
    shares: dict[TaskPurse, list[Share]] = {}
    for flow in flows:
        paid = shares.setdefault(flow.purse, [])
        if flow.payee is TaskPayee.FEE:
            to_treasury, burned = money.fee_parts(flow.amount)
            paid += [Share(TREASURY, to_treasury), Share(None, burned)]
        else:
            paid.append(Share(_payee(task, provider, flow.payee), flow.amount))
    for purse, paid in shares.items():
        owner, hold = purses[purse]
        market.lock.pay_out(owner, hold, paid)


def _payee(task: Task, provider: bytes, payee: TaskPayee) -> bytes | None:
    if payee is TaskPayee.BURNED:
        return None
    if payee is TaskPayee.POT:
        return AUDIT_POT
    return task.customer if payee is TaskPayee.CUSTOMER else provider


def _of(flows: tuple[TaskFlow, ...], purse: TaskPurse, *payees: TaskPayee) -> int:
    return sum(flow.amount for flow in flows if flow.purse is purse and flow.payee in payees)


def _mark(market: TrainingStorage, task: Task, slot: Slot, outcome: TaskOutcome, paid: int) -> None:
    """Record a provider's payment and its failure in its track record."""
    era, who = market.stake.current_era.get(), slot.provider
    if paid and outcome not in UNMARKED:
        market.provider_records[who], market.value_by_customer[who] = record_after_settling(
            market.provider_records[who], market.value_by_customer[who], customer=task.customer, paid=paid, era=era
        )
    if outcome in FAILURES:
        # Only the unearned part of the price counts as failed.
        market.provider_records[who] = record_after_failing(
            market.provider_records[who], unpaid(task, slot) - paid, era
        )
