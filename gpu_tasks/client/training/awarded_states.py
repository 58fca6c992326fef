"""Who won an auction whose slots are gone from the task's record: read in the state of the block that awarded it.

Always: the seed of an award is written together with the slots that it gave, so the first state that has the seed shows
them; it is found among the blocks of the task's life in a few reads, each proved. States that the node keeps no more
are older than those that it keeps.
"""

from __future__ import annotations

from dataclasses import replace

from gpu_tasks.client.training.block_statements import LifeBlocks
from gpu_tasks.data import training_reads
from gpu_tasks.market.training.tasks import Task
from gpu_tasks.tasks.task_check import AuctionRecords, is_told_now
from wallet.client import ChainClient
from wallet.rpc import OddAnswerError, RpcError

TOO_OLD = "its award is older than the blocks that were looked at (`--blocks` for more)"
GONE = "the node keeps no state of the block that awarded it any more"
NOBODY = "the state of the block that awarded it shows no slots"


async def with_winners(
    client: ChainClient, task_id: bytes, task: Task, number: int, records: AuctionRecords, life: LifeBlocks
) -> AuctionRecords:
    """The records of an auction, with the task's record as the block of its award left it, or why that is not known."""
    if records.award is None or records.award.seed is None or is_told_now(task, number):
        return records
    place, has_older = await _award_place(client, task_id, number, life)
    if place == len(life.ids):
        return replace(records, why_not=TOO_OLD if not life.ids else GONE)
    try:
        then = await training_reads.task(client, task_id, life.ids[place])
    except (RpcError, OddAnswerError):
        then = None
    if then is not None and is_told_now(then, number):
        return replace(records, then=then, then_at=life.first + place)
    if has_older:
        return replace(records, why_not=GONE)
    is_first = place == 0 and not life.is_whole
    return replace(records, why_not=TOO_OLD if is_first else NOBODY)


async def _award_place(client: ChainClient, task_id: bytes, number: int, life: LifeBlocks) -> tuple[int, bool]:
    """The first of the blocks whose state is there and has the award's seed; whether the one before it is not there."""
    low, high, gone = 0, len(life.ids), -1
    while low < high:
        middle = (low + high) // 2
        try:
            award = await training_reads.award(client, task_id, number, life.ids[middle])
        except (RpcError, OddAnswerError):
            gone, low = middle, middle + 1
            continue
        if award is not None and award.seed is not None:
            high = middle
        else:
            low = middle + 1
    return low, gone == low - 1 >= 0
