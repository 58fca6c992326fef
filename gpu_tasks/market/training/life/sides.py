"""Partners of a gang with different results: voters compute an item of each, and providers of false results have lied.

Invariants: a provider with the right result loses nothing, and claims its pay afterwards. Without a decision all
results are undecided, and no money moves. The collateral of the false sides covers nine voters' fees, because each
covers 18 fees of an item, and there is at most one root more than false sides.
"""

from dataclasses import replace

from gpu_tasks.market.claims.disputes import DisputeQuestion
from gpu_tasks.market.claims.findings import Verdict
from gpu_tasks.market.claims.handlers import Ruling, payments_to_voters
from gpu_tasks.market.claims.money import MoneyEvent, Purse
from gpu_tasks.market.training import money, purses
from gpu_tasks.market.training.items import items_of
from gpu_tasks.market.training.life import ending, slot_claims, task_disputes
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.storage import TrainingStorage
from gpu_tasks.market.training.tasks import Slot, Task, slot_case


def take_results(market: TrainingStorage, task_id: bytes, task: Task) -> None:
    """Take all stated results: different ones go to voters, equal ones become claims."""
    task = replace(task, finished_at=market.height)
    if len({_root_of(slot) for slot in task.slots}) == 1:
        slot_claims.await_claims(market, task_id, task)
        return
    parties = tuple(dict.fromkeys((task.customer, *(slot.provider for slot in task.slots))))
    fee, question = vote_fee(task), DisputeQuestion.SIDES
    task_disputes.ask(market, task_id, task, question, parties, fee=fee, run_blocks=task.order.run_blocks)


def vote_fee(task: Task) -> int:
    """Return the fee of a voter, which computes at most one item for each of the different results."""
    roots = len({_root_of(slot) for slot in task.slots})
    return roots * money.vote_fee(task.rules, task.terms.price_max, items_of(task.order, task.behind))


def rule(market: TrainingStorage, task_id: bytes, task: Task, ruling: Ruling) -> None:
    """Charge the false sides, or the customer if its input cannot be opened, and record the outcomes."""
    vote, outcomes = ruling.vote, dict[int, TaskOutcome]()
    if vote is None:
        outcomes = dict.fromkeys(range(len(task.slots)), TaskOutcome.UNDECIDED)
    elif vote.verdict is not Verdict.RIGHT:
        task_disputes.charge_for_input(market, task_id, task, 0, ruling)
        outcomes = dict.fromkeys(range(len(task.slots)), TaskOutcome.INPUT_MISSING)
    else:
        false = [place for place, slot in enumerate(task.slots) if _root_of(slot) != vote.answer]
        _charge(market, task_id, task, false, ruling)
        outcomes = dict.fromkeys(false, TaskOutcome.LIED)
    slots = tuple(replace(slot, outcome=outcomes.get(place)) for place, slot in enumerate(task.slots))
    market.put(task_id, replace(task, slots=slots, deadline=market.height))


def end_of_dispute(market: TrainingStorage, task_id: bytes, task: Task) -> None:
    """Settle the slots that have an outcome by the ruling. The others claim their pay."""
    for place, slot in enumerate(task.slots):
        if slot.outcome is not None:
            task = ending.settle_slot(market, task_id, task, place, slot.outcome)
    slot_claims.step(market, task_id, task)


def _charge(market: TrainingStorage, task_id: bytes, task: Task, false: list[int], ruling: Ruling) -> None:
    """Pay the voters out of the collateral of the false sides, and burn the rest of it."""
    holds = {slot_case(task_id, place): purses.slot_hold(task_id, task, task.slots[place]) for place in false}
    owners = {slot_case(task_id, place): task.slots[place].provider for place in false}
    charged = {Purse.PROVIDER: tuple((case, market.lock.locked(owners[case], holds[case])) for case in holds)}
    fee = vote_fee(task)
    for case, shares in payments_to_voters(MoneyEvent.PROVIDER_FALSE, charged, ruling, fee=fee).items():
        market.lock.pay_out(owners[case], holds[case], shares)


def _root_of(slot: Slot) -> bytes:
    assert slot.result is not None, "all slots have stated results"
    return slot.result.root
