"""Disputes about a task: validators vote, and the market is the handler that opens the dispute.

Invariants: a task has at most one open dispute, and no open claim beside it. The hook of the block after the ruling
releases the parties and continues the task, because a ruling may weigh only as much as its payments.
"""

from dataclasses import replace

from gpu_tasks.market.claims.disputes import DisputeQuestion, DisputeTerms
from gpu_tasks.market.claims.handlers import Ruling, payments_to_voters
from gpu_tasks.market.claims.money import MoneyEvent, Purse
from gpu_tasks.market.training import money
from gpu_tasks.market.training.events import TaskDisputed
from gpu_tasks.market.training.life.slot_claims import outside
from gpu_tasks.market.training.storage import TrainingStorage
from gpu_tasks.market.training.tasks import TASK_BOND, Task, TaskState, dispute_id_of, slot_case
from runtime.frame.holds import Hold


def ask(
    market: TrainingStorage,
    task_id: bytes,
    task: Task,
    question: DisputeQuestion,
    parties: tuple[bytes, ...],
    *,
    fee: int,
    run_blocks: int,
) -> None:
    """Ask voters a question about a task. Everybody else waits for the ruling."""
    dispute_id = dispute_id_of(task_id, task.disputes)
    task = replace(task, state=TaskState.DISPUTED, deadline=0, disputes=task.disputes + 1)
    market.put(task_id, task)
    market.task_of_dispute[dispute_id] = task_id
    market.emit(TaskDisputed(task_id, dispute_id, question))
    terms = DisputeTerms(
        handler=market.index,
        question=question,
        work=task_id,
        index=0,
        point=None,
        seeds=(),
        parties=parties,
        excluded=outside(task, *parties),
        fee=fee,
        sealed_at=task.order.sealed_at,
        run_blocks=run_blocks,
    )
    market.disputes.open(dispute_id, terms)


def charge_for_input(market: TrainingStorage, task_id: bytes, task: Task, place: int, ruling: Ruling) -> None:
    """Pay voters that could not open the input, out of the customer's bond for one slot."""
    case_id = slot_case(task_id, place)
    charged = {Purse.INPUT: ((case_id, money.input_charge(task.rules, task.terms.price_max)),)}
    fee = money.input_fee(task.rules, task.terms.price_max)
    for shares in payments_to_voters(MoneyEvent.INPUT_BAD, charged, ruling, fee=fee).values():
        market.lock.pay_out(task.customer, Hold(TASK_BOND, case_id), shares)
