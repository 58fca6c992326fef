"""Missing inputs: a slot's provider reports one before it starts, and validators vote.

Invariants: only a ruling makes a customer pay for a missing input, or a provider for a false report. Without a decision
no party pays. In any case the provider has no further part in the task.
"""

from dataclasses import replace

from gpu_tasks.market.claims.disputes import DisputeQuestion
from gpu_tasks.market.claims.findings import Verdict
from gpu_tasks.market.claims.handlers import Ruling, payments_to_voters
from gpu_tasks.market.claims.money import MoneyEvent, Purse
from gpu_tasks.market.training import money, purses
from gpu_tasks.market.training.events import DoneAlready
from gpu_tasks.market.training.life import ending, failing, task_disputes
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.storage import TrainingStorage
from gpu_tasks.market.training.tasks import Task, TaskState, slot_case, with_slot
from runtime.frame.pallet import ensure


def report(market: TrainingStorage, task_id: bytes, place: int, account: bytes) -> None:
    """Report a missing input: voters decide, and everybody else waits for them."""
    task, slot = market.worked(task_id, place, account)
    market.ensure_in(task, TaskState.STARTING)
    ensure(not slot.started_at and slot.outcome is None, DoneAlready)
    # The customer's bond pays for an input that cannot be opened.
    parties = (task.customer, slot.provider)
    fee = money.input_fee(task.rules, task.terms.price_max)
    question = DisputeQuestion.INPUT
    task_disputes.ask(market, task_id, replace(task, reported=place), question, parties, fee=fee, run_blocks=0)


def rule(market: TrainingStorage, task_id: bytes, task: Task, place: int, ruling: Ruling) -> None:
    """Charge the customer for a missing input, or the provider for a false report, and record the outcome."""
    outcome = TaskOutcome.PARTNER_DIED
    if ruling.vote is not None and ruling.vote.verdict is not Verdict.RIGHT:
        task_disputes.charge_for_input(market, task_id, task, place, ruling)
        outcome = TaskOutcome.INPUT_MISSING
    elif ruling.vote is not None:
        _charge_reporter(market, task_id, task, place, ruling)
    slot = replace(task.slots[place], outcome=outcome)
    market.put(task_id, replace(with_slot(task, place, slot), deadline=market.height))


def end_of_report(market: TrainingStorage, task_id: bytes, task: Task) -> None:
    """End a report with its ruling: the task ends without its input, or the runner-up takes the reporter's place."""
    place = task.reported
    assert place is not None, "a report names its place"
    slot, task = task.slots[place], replace(task, reported=None)
    if slot.outcome is TaskOutcome.INPUT_MISSING:
        for each in range(len(task.slots)):
            purses.settle(market, task_id, task, each, TaskOutcome.INPUT_MISSING)
        task = ending.release_standby(market, task_id, task)
        ending.free_slots(market, task_id, task)
        ending.end(market, task_id, task, TaskOutcome.INPUT_MISSING)
        return
    # The ruling has already charged a false report.
    purses.settle(market, task_id, task, place, TaskOutcome.PARTNER_DIED)
    task = with_slot(task, place, replace(slot, outcome=None))
    if task.standby is not None and task.standby.is_bound:
        failing.replace_slot(market, task_id, task, place)
    else:
        failing.auction_again(market, task_id, task)


def _charge_reporter(market: TrainingStorage, task_id: bytes, task: Task, place: int, ruling: Ruling) -> None:
    """Pay the voters out of the reporter's collateral, and burn the rest of the cost of a false report."""
    slot, case_id = task.slots[place], slot_case(task_id, place)
    hold = purses.slot_hold(task_id, task, slot)
    cost = money.false_report_cost(task.rules, task.terms.price_max)
    charged = {Purse.DISPUTER: ((case_id, min(cost, market.lock.locked(slot.provider, hold))),)}
    fee = money.input_fee(task.rules, task.terms.price_max)
    for shares in payments_to_voters(MoneyEvent.FALSE_DISPUTE, charged, ruling, fee=fee).values():
        market.lock.pay_out(slot.provider, hold, shares)
