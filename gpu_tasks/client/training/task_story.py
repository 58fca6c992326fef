"""Who worked on a task and who was paid what, read for one that anybody names.

Always: events are read where a task was awarded; for a provider that died longer ago than the node keeps states, the
blocks of its life say for which checkpoints the customer signed, and so what it is owed.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpu_tasks.client.training.block_statements import life_blocks, task_blocks
from gpu_tasks.client.training.happened import TaskEvents, task_events
from gpu_tasks.client.training.shifts import WorkShift, shifts_of
from gpu_tasks.client.training.task_payments import TaskAccount, payments_of_task
from gpu_tasks.data import training_reads
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.tasks import Task, has_bidding
from gpu_tasks.tasks.task_check import AuctionRecords
from wallet.client import ChainClient
from wallet.rpc import OddAnswerError, RpcError

BODIES_READ = 1_024


@dataclass(frozen=True, slots=True)
class TaskStory:
    """Who worked, and who was paid what."""

    shifts: list[WorkShift]
    account: TaskAccount


async def story_of(client: ChainClient, task_id: bytes, task: Task, final: bytes) -> TaskStory | None:
    """The story of a task; None of one that has not come to an award yet."""
    if task.auction == 1 and has_bidding(task):
        return None
    told = await task_events(client, task_id, task, final)
    auctions = await _auctions(client, task_id, task, final)
    shifts = shifts_of(task, auctions, told)
    held = await _held(client, task_id, task, final, shifts)
    return TaskStory(shifts, payments_of_task(task_id, task, auctions, shifts, told, held))


async def cost_by_record(client: ChainClient, task_id: bytes, task: Task, final: bytes, step_fee: int) -> int | None:
    """Return a task's cost, fees apart, from its records alone; None if these are not enough."""
    auctions = await _auctions(client, task_id, task, final)
    told = TaskEvents()
    shifts = shifts_of(task, auctions, told)
    return payments_of_task(task_id, task, auctions, shifts, told, {}).cost(step_fee)


async def _auctions(client: ChainClient, task_id: bytes, task: Task, final: bytes) -> list[AuctionRecords]:
    """Return the task's auctions, from the first on."""
    found = []
    for number in range(1, task.auction + 1):
        award = await training_reads.award(client, task_id, number, final)
        bids = await training_reads.bids(client, task_id, final, auction=number)
        found.append(AuctionRecords(award, bids))
    return found


async def _held(
    client: ChainClient, task_id: bytes, task: Task, final: bytes, shifts: list[WorkShift]
) -> dict[int, int]:
    """For how many milestones its customer had signed when somebody died whose end no event tells; by auction."""
    if not any(shift.outcome is TaskOutcome.DIED and shift.event is None for shift in shifts):
        return {}
    try:
        life = await life_blocks(client, task, final, BODIES_READ)
        blocks = await task_blocks(client, task_id, life, final)
    except (RpcError, OddAnswerError):
        return {}
    if not blocks.is_whole:
        return {}
    own = [each.number for each in blocks.holdings if each.by == task.customer and each.number <= task.behind]
    return {1: max(own, default=0)}
