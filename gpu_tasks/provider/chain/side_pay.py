"""Payments beside a provider's own work: fees of cases that it judged or audited, and its share for standing by.

The chain keeps no record of these payments. Invariant: each is read in the block that paid it and removed the seat, the
check or the runner-up's place:

* a judge's fee, by the courts' own rules over the state before
* an auditor's fee, by the check in the state before and the earner in its closing event
* a share, by the event of its payment

Ends before the search range, or without a state at the node, are not reported.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial

from gpu_tasks.data import training_reads
from gpu_tasks.data.appeals import flows_at_end
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.events import CaseEnded
from gpu_tasks.market.leaf_checks.checks import LEAF_SEAT, LeafCheck
from gpu_tasks.market.leaf_checks.events import LeafCheckEnded
from gpu_tasks.market.leaf_checks.leaf_checks import LeafChecks
from gpu_tasks.market.training import money
from gpu_tasks.market.training.money import TaskMoney, TaskOutcome, TaskPayee, TaskPurse
from gpu_tasks.market.training.tasks import TASK_ESCROW, Task, slot_case
from runtime.pallets.balances import Balances
from runtime.pallets.staking.trust_lock import Paid
from wallet.client import ChainClient
from wallet.proved.keys import map_keys
from wallet.trial import over_state

LOOKED_BACK_MAX = 64
"""Blocks. A daemon that follows the chain is a few blocks behind."""
OVERLAP_BLOCKS = 2
"""The last seen end may have been read a block before its view, or a block after it."""


@dataclass(frozen=True, slots=True)
class SidePayment:
    """The grains of a case, a check or a runner-up's place, and the block that paid them."""

    block: int
    grains: int


def is_standing_by(task: Task, stash: bytes) -> bool:
    """Return True if a provider is due a share for standing by: it is bound, or took over and has not begun."""
    is_bound = task.standby is not None and task.standby.is_bound and task.standby.provider == stash
    return is_bound or any(slot.provider == stash and slot.was_standby for slot in task.slots)


async def side_payments(
    client: ChainClient, stash: bytes, cases: Collection[bytes], tasks: Collection[bytes], since: int
) -> dict[bytes, SidePayment]:
    """Return the payment of each of these cases and tasks, by id. Ends that are not final or not found are left out."""
    first, ids = await blocks_since(client, since)
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


async def audit_payments(
    client: ChainClient, stash: bytes, units: Collection[bytes], since: int
) -> dict[bytes, SidePayment | None]:
    """Return the auditor's payment for each of these batches' checks.

    The value is None while a check continues. Unknown checks are left out. An auditor without the accepted answer
    received 0 grains.
    """
    first, ids = await blocks_since(client, since)
    if not ids:
        return {}
    checks = await client.read_many(LeafChecks.checks, list(units), at=ids[-1])  # an auditor may have hundreds
    is_open = {unit: check is not None for unit, check in zip(units, checks, strict=True)}
    found: dict[bytes, SidePayment | None] = {unit: None for unit in units if is_open[unit]}
    for unit in (unit for unit in units if not is_open[unit]):
        end = await _last_end(ids, partial(_is_checked, client, unit))
        if end is not None:
            found[unit] = SidePayment(first + end, await _auditors(client, stash, unit, ids[end - 1], ids[end]))
    return found


async def audited(client: ChainClient, stash: bytes) -> set[bytes]:
    """Return the batches whose check holds an auditor's deposit of this provider, in the final state."""
    item = client.runtime.item(Balances.held_cases)
    held = await client.entries(Balances.held_cases, stash, at=await client.finalized())
    holds = [map_keys(item, key)[1] for key in held]
    return {hold.case for hold in holds if hold.reason == LEAF_SEAT}


def share_paid(before: Task, task_id: bytes, stash: bytes, events: Sequence[object]) -> int:
    """Return the paid share for standing by, found among a block's payments with the task's earlier record."""
    shares = {slot_case(task_id, place): _share_of(before, slot.price) for place, slot in enumerate(before.slots)}
    paid = (event for event in events if isinstance(event, Paid))
    mine = (event for event in paid if event.payee == stash and event.reason is TASK_ESCROW)
    # The block may also pay the stash for its work. Only a payment of the share's own amount counts.
    return next((event.amount for event in mine if event.amount == shares.get(event.case)), 0)


def _share_of(task: Task, price: int) -> int:
    """Return the share for standing by for a slot of this price, after the fee."""
    held = {TaskPurse.ESCROW: money.escrow(task.rules, task.terms.price_max)}
    flows = money.settle(TaskOutcome.STOOD_BY, TaskMoney(task.rules, task.terms, held, price))
    return sum(flow.amount for flow in flows if flow.payee is TaskPayee.STANDBY)


async def blocks_since(client: ChainClient, since: int) -> tuple[int, list[bytes]]:
    """Return a bounded number of final blocks, from a little before `since`, and the first one's height."""
    last = await client.height(await client.finalized())
    # Bounded, because a daemon that returns after days would read thousands of blocks.
    first = max(1, since - OVERLAP_BLOCKS, last - LOOKED_BACK_MAX)
    return first, await client.final_ids(first, last) if first <= last else []


async def _last_end(ids: Sequence[bytes], is_there: Callable[[bytes], Awaitable[bool]]) -> int | None:
    """Return the index of the last block that removed something: present after the block before, absent after it."""
    # Read backwards: the newest end is the one that just happened.
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


async def _check(client: ChainClient, unit: bytes, at: bytes) -> LeafCheck | None:
    found: LeafCheck | None = await client.read(LeafChecks.checks, unit, at=at)
    return found


async def _is_checked(client: ChainClient, unit: bytes, at: bytes) -> bool:
    return await _check(client, unit, at) is not None


async def _auditors(client: ChainClient, stash: bytes, unit: bytes, before: bytes, block: bytes) -> int:
    """Return the whole auditor's fee if a batch's check ended in a block and named this stash as earner, else 0."""
    check = await _check(client, unit, before)
    events = [record.event for record in await client.events(block)]
    ended = (event for event in events if isinstance(event, LeafCheckEnded) and event.unit == unit)
    is_earner = any(event.earner == stash for event in ended)
    return check.terms.fee if check is not None and is_earner else 0


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
