"""Missing inputs: a slot's provider reports one before it starts, and judges decide.

Invariants: only a ruling makes a customer pay for a missing input, or a provider for a false report. Without a decision
the input counts as good, and no party pays. In any case the provider has no further part in the task.
"""

from dataclasses import replace

from gpu_tasks.market.courts.cases import CaseTerms, ClaimKind, PartyClaim
from gpu_tasks.market.courts.money import FIRST_JUDGES
from gpu_tasks.market.courts.numbers import PromisedNumbers
from gpu_tasks.market.training import money, purses
from gpu_tasks.market.training.events import DoneAlready, TaskJudged
from gpu_tasks.market.training.life import ending, failing
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.storage import TrainingStorage
from gpu_tasks.market.training.tasks import TASK_ESCROW, JudgedFor, Slot, Task, TaskState, slot_case, with_slot
from gpu_tasks.market.training.terms import covered
from runtime.frame.holds import Hold
from runtime.frame.pallet import ensure


def report(market: TrainingStorage, task_id: bytes, place: int, account: bytes) -> None:
    """Report a missing input: a committee decides, and everybody else waits for it."""
    task, slot = market.worked(task_id, place, account)
    market.ensure_in(task, TaskState.STARTING)
    ensure(not slot.started_at and slot.outcome is None, DoneAlready)
    case_id = slot_case(task_id, place)
    market.task_of_case[case_id] = task_id
    market.put(
        task_id,
        replace(task, state=TaskState.JUDGED, deadline=0, cases=1, judged_for=JudgedFor.INPUT, close=None),
    )
    judge_fee = money.fee_of_judge(task.rules, task.terms.price_max)
    promised = PromisedNumbers(judge_fee, task.rules.audit_rate_ppm)
    market.courts.open(market.index, case_id, _terms(market, task_id, task, place, judge_fee), promised)
    market.emit(TaskJudged(task_id, JudgedFor.INPUT))


def end_of_report(market: TrainingStorage, task_id: bytes, task: Task) -> None:
    """End a report with its ruling: the task ends without its input, or the runner-up takes the reporter's place."""
    task = replace(task, judged_for=None)
    if any(slot.outcome is TaskOutcome.INPUT_MISSING for slot in task.slots):
        for place in range(len(task.slots)):
            purses.settle(market, task_id, task, place, TaskOutcome.INPUT_MISSING)
        task = ending.release_standby(market, task_id, task)
        ending.free_slots(market, task_id, task)
        ending.end(market, task_id, task, TaskOutcome.INPUT_MISSING)
        return
    place = next(place for place, slot in enumerate(task.slots) if slot.outcome is TaskOutcome.PARTNER_DIED)
    # The courts have already charged a false report.
    purses.settle(market, task_id, task, place, TaskOutcome.PARTNER_DIED)
    task = with_slot(task, place, replace(task.slots[place], outcome=None))
    if task.standby is not None and task.standby.is_bound:
        failing.replace_slot(market, task_id, task, place)
    else:
        failing.auction_again(market, task_id, task)


def _terms(market: TrainingStorage, task_id: bytes, task: Task, place: int, judge_fee: int) -> CaseTerms:
    """Return the terms of a case with one right answer, the input's own root, if the input is available."""
    slot, hold = task.slots[place], Hold(TASK_ESCROW, slot_case(task_id, place))
    others: list[Slot] = [other for other in task.slots if other.provider != slot.provider]
    standby_account = [task.standby.provider] if task.standby is not None else []
    escrow_left = market.lock.locked(task.customer, hold) - money.standby_max(task.rules, task.terms.price_max)
    held = market.lock.locked(slot.provider, purses.slot_hold(task_id, task, slot))
    return CaseTerms(
        customer=task.customer,
        price=covered(task.terms.price_max, slot.collateral),
        customer_bond=0,  # A half of the bond is due to the provider (row INPUT_MISSING), so the courts may not use it.
        customer_price=min(FIRST_JUDGES * judge_fee, escrow_left),
        customer_spare=0,
        collateral=slot.collateral,
        pot_max=money.pot_max(task.rules, slot.price),
        sealed_at=task.order.sealed_at,
        run_blocks=0,
        excluded=tuple(dict.fromkeys((*standby_account, *(other.provider for other in others)))),
        claims=(PartyClaim(slot.provider, ClaimKind.DECLINED, None, held),),
    )
