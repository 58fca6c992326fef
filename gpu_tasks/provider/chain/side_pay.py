"""What a provider is paid beside its own work: fees of cases that it judged, its share for standing by.

No record of the chain keeps either. Always: both are read in the block that paid them, behind which the seat, or the
place as a runner-up, is gone: a fee by the courts' own rules over the state before, a share by the event of its
payment. What ended further back than is looked, or where the node has no state any more, is not told.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial

from gpu_tasks.data import training_reads
from gpu_tasks.data.case_flows import flows_at_end
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.events import CaseEnded
from gpu_tasks.market.training import money
from gpu_tasks.market.training.money import TaskMoney, TaskOutcome, TaskPayee, TaskPurse
from gpu_tasks.market.training.tasks import TASK_ESCROW, Task, slot_case
from runtime.pallets.staking.trust_lock import Paid
from wallet.client import ChainClient
from wallet.trial import over_state

LOOKED_BACK_MAX = 64
"""Blocks: a daemon that follows the chain is a few behind."""
OVERLAP_BLOCKS = 2
"""What was seen last may have been read a block before its view, or behind it."""


@dataclass(frozen=True, slots=True)
class SidePayment:
    """What a case or a place as a runner-up brought, in grains, and the block that paid it."""

    block: int
    grains: int


def is_standing_by(task: Task, stash: bytes) -> bool:
    """Whether a provider is due its share once it stands by no more: it is bound, or took over and has not begun."""
    is_bound = task.standby is not None and task.standby.is_bound and task.standby.provider == stash
    return is_bound or any(slot.provider == stash and slot.was_standby for slot in task.slots)


async def side_payments(
    client: ChainClient, stash: bytes, cases: Collection[bytes], tasks: Collection[bytes], since: int
) -> dict[bytes, SidePayment]:
    """What each of these cases and tasks paid at its end, by its id; none where that is not final, or not found."""
    last = await client.height(await client.finalized())
    first = max(1, since - OVERLAP_BLOCKS, last - LOOKED_BACK_MAX)
    ids = await client.final_ids(first, last) if first <= last else []
    found: dict[bytes, SidePayment] = {}
    for case in cases:
        end = await _last_end(ids, partial(_has_seat, client, stash, case))
        if end is not None:
            found[case] = SidePayment(first + end, await _fee(client, stash, case, ids[end - 1], ids[end]))
    for task in tasks:
        end = await _last_end(ids, partial(_stands_by, client, stash, task))
        if end is not None:
            found[task] = SidePayment(first + end, await _share(client, stash, task, ids[end - 1], ids[end]))
    return found


def share_paid(before: Task, task_id: bytes, stash: bytes, events: Sequence[object]) -> int:
    """The share of the price for standing by among the payments of a block, by the task's record before it."""
    shares = {slot_case(task_id, place): _share_of(before, slot.price) for place, slot in enumerate(before.slots)}
    paid = (event for event in events if isinstance(event, Paid))
    mine = (event for event in paid if event.payee == stash and event.reason is TASK_ESCROW)
    return next((event.amount for event in mine if event.amount == shares.get(event.case)), 0)


def _share_of(task: Task, price: int) -> int:
    """What standing by for a slot of such a price brings, after the fee."""
    held = {TaskPurse.ESCROW: money.escrow(task.rules, task.terms.price_max)}
    flows = money.settle(TaskOutcome.STOOD_BY, TaskMoney(task.rules, task.terms, held, price))
    return sum(flow.amount for flow in flows if flow.payee is TaskPayee.STANDBY)


async def _last_end(ids: Sequence[bytes], is_there: Callable[[bytes], Awaitable[bool]]) -> int | None:
    """The place of the last block after which something is gone that was there after the one before."""
    was_gone = None
    for place in range(len(ids) - 1, -1, -1):
        if await is_there(ids[place]):
            return was_gone
        was_gone = place
    return None


async def _has_seat(client: ChainClient, stash: bytes, case: bytes, at: bytes) -> bool:
    return await client.read(Courts.seats, stash, case, at=at) is not None


async def _stands_by(client: ChainClient, stash: bytes, task_id: bytes, at: bytes) -> bool:
    task = await training_reads.task(client, task_id, at)
    return task is not None and is_standing_by(task, stash)


async def _fee(client: ChainClient, stash: bytes, case: bytes, before: bytes, block: bytes) -> int:
    events = [record.event for record in await client.events(block)]
    ended = next((event for event in events if isinstance(event, CaseEnded) and event.case == case), None)
    if ended is None:
        return 0
    moved = await over_state(client, before, lambda bound: flows_at_end(bound, case, ended))
    return 0 if moved is None else sum(flow.amount for flow in moved[1] if flow.payee == stash)


async def _share(client: ChainClient, stash: bytes, task_id: bytes, before: bytes, block: bytes) -> int:
    task = await training_reads.task(client, task_id, before)
    events = [record.event for record in await client.events(block)]
    return 0 if task is None else share_paid(task, task_id, stash, events)
