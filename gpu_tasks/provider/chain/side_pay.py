"""Payments for standing by, which the chain keeps no record of.

Invariant: each is read in the block that paid it and removed the runner-up's place. Ends before the search range, or
without a state at the node, are not reported.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial

from gpu_tasks.data import training_reads
from gpu_tasks.market.training import money
from gpu_tasks.market.training.items import auction_items
from gpu_tasks.market.training.money import TaskMoney, TaskOutcome, TaskPayee, TaskPurse
from gpu_tasks.market.training.tasks import TASK_ESCROW, Task, slot_case
from runtime.pallets.staking.trust_lock import Paid
from wallet.client import ChainClient

LOOKED_BACK_MAX = 64
"""Blocks. A daemon that follows the chain is a few blocks behind."""
OVERLAP_BLOCKS = 2
"""The last seen end may have been read a block before its view, or a block after it."""


@dataclass(frozen=True, slots=True)
class SidePayment:
    """The grains of a check, a vote or a runner-up's place, and the block that paid them."""

    block: int
    grains: int


def is_standing_by(task: Task, stash: bytes) -> bool:
    """Return True if a provider is due a share for standing by: it is bound, or took over and has not begun."""
    is_bound = task.standby is not None and task.standby.is_bound and task.standby.provider == stash
    return is_bound or any(task_slot.provider == stash and task_slot.was_standby for task_slot in task.slots)


async def side_payments(
    client: ChainClient, stash: bytes, task_ids: Collection[bytes], since_height: int
) -> dict[bytes, SidePayment]:
    """Return the payment of each of these tasks, by id. Ends that are not final or not found are left out."""
    first_height, block_ids = await blocks_since(client, since_height)
    payments: dict[bytes, SidePayment] = {}
    for task_id in task_ids:
        end = await _last_end(block_ids, partial(_stands_by, client, stash, task_id))
        if end is not None:
            payments[task_id] = SidePayment(
                first_height + end, await _share(client, stash, task_id, block_ids[end - 1], block_ids[end])
            )
    return payments


def share_paid(earlier: Task, task_id: bytes, stash: bytes, events: Sequence[object]) -> int:
    """Return the paid share for standing by, found among a block's payments with the task's earlier record."""
    share_by_case = {
        slot_case(task_id, slot_index): _standby_price(earlier, task_slot.price)
        for slot_index, task_slot in enumerate(earlier.slots)
    }
    paid_events = (event for event in events if isinstance(event, Paid))
    own_events = (event for event in paid_events if event.payee == stash and event.reason is TASK_ESCROW)
    # The block may also pay the stash for its work. Only a payment of the share's own amount counts.
    return next((event.amount for event in own_events if event.amount == share_by_case.get(event.case)), 0)


def _standby_price(task: Task, slot_price: int) -> int:
    """Return the share for standing by for a slot of this price, after the fee."""
    items = auction_items(task.order, task.behind)
    held_grains = {TaskPurse.ESCROW: money.escrow(task.rules, task.terms.price_max, items)}
    money_flows = money.settle(TaskOutcome.STOOD_BY, TaskMoney(task.rules, task.terms, held_grains, slot_price))
    return sum(flow.amount for flow in money_flows if flow.payee is TaskPayee.STANDBY)


async def blocks_since(client: ChainClient, since_height: int) -> tuple[int, list[bytes]]:
    """Return a bounded number of final blocks, from a little before `since_height`, and the first one's height."""
    last_height = await client.height(await client.finalized())
    # Bounded, because a daemon that returns after days would read thousands of blocks.
    first_height = max(1, since_height - OVERLAP_BLOCKS, last_height - LOOKED_BACK_MAX)
    return first_height, await client.final_ids(first_height, last_height) if first_height <= last_height else []


async def _last_end(block_ids: Sequence[bytes], is_there: Callable[[bytes], Awaitable[bool]]) -> int | None:
    """Return the index of the last block that removed something: present after the block before, absent after it."""
    # Read backwards: the newest end is the one that just happened.
    was_gone = None
    for index in range(len(block_ids) - 1, -1, -1):
        if await is_there(block_ids[index]):
            return was_gone
        was_gone = index
    return None


async def _stands_by(client: ChainClient, stash: bytes, task_id: bytes, block_hash: bytes) -> bool:
    task = await training_reads.task(client, task_id, block_hash)
    return task is not None and is_standing_by(task, stash)


async def _share(client: ChainClient, stash: bytes, task_id: bytes, parent: bytes, block_hash: bytes) -> int:
    task = await training_reads.task(client, task_id, parent)
    events = [record.event for record in await client.events(block_hash)]
    return 0 if task is None else share_paid(task, task_id, stash, events)
