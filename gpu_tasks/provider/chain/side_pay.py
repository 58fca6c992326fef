"""What a provider is paid beside its own work: fees of cases that it judged or audited, its share for standing by.

No record of the chain keeps any. Always: all are read in the block that paid them, behind which the seat, the check, or
the place as a runner-up, is gone: a judge's fee by the courts' own rules over the state before, an auditor's by the
check in the state before and by whom its end names, a share by the event of its payment. What ended further back than
is looked, or where the node has no state any more, is not told.
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
"""Blocks: a daemon that follows the chain is a few behind."""
OVERLAP_BLOCKS = 2
"""What was seen last may have been read a block before its view, or behind it."""


@dataclass(frozen=True, slots=True)
class SidePayment:
    """What a case, a check or a place as a runner-up brought, in grains, and the block that paid it."""

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
    """What the check of each of these batches paid its auditor at its end; None while it goes on, left out if unknown.

    0 grains for an auditor whose word did not stand.
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
    """The batches for whose check something of a provider is held as their auditor's, in the final state."""
    item = client.runtime.item(Balances.held_cases)
    held = await client.entries(Balances.held_cases, stash, at=await client.finalized())
    holds = [map_keys(item, key)[1] for key in held]
    return {hold.case for hold in holds if hold.reason == LEAF_SEAT}


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


async def blocks_since(client: ChainClient, since: int) -> tuple[int, list[bytes]]:
    """The final blocks from a little before one on, with the number of the first; not endlessly many."""
    last = await client.height(await client.finalized())
    first = max(1, since - OVERLAP_BLOCKS, last - LOOKED_BACK_MAX)
    return first, await client.final_ids(first, last) if first <= last else []


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


async def _check(client: ChainClient, unit: bytes, at: bytes) -> LeafCheck | None:
    found: LeafCheck | None = await client.read(LeafChecks.checks, unit, at=at)
    return found


async def _is_checked(client: ChainClient, unit: bytes, at: bytes) -> bool:
    return await _check(client, unit, at) is not None


async def _auditors(client: ChainClient, stash: bytes, unit: bytes, before: bytes, block: bytes) -> int:
    """An auditor's fee, whole, if the check of a batch ended in a block and names it as who earned that."""
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
