"""Tasks at auction on the final chain: the events of each task, by height, and the money that each event moved.

Invariant: only final blocks are read. The expected sums come from the money table and the task's record after the
previous block. So the runtime's own sums are compared with the table, not with themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from devnet.stage.measuring.ledger import EventTrace, block_hash, final_blocks, final_height
from devnet.stage.measuring.task_claims import BONDS, TaskClaims, task_after
from gpu_tasks.market.training import events, money
from gpu_tasks.market.training.items import auction_items
from gpu_tasks.market.training.life.submitting import looks
from gpu_tasks.market.training.money import OWNERS, TaskMoney, TaskOutcome, TaskPayee, TaskPurse
from gpu_tasks.market.training.orders import is_by_time
from gpu_tasks.market.training.tasks import Task, kept_step, slot_case, taken_by
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.blocks.digest import find_author
from runtime.pallets.system import System
from runtime.pallets.timestamp import Timestamp
from runtime.pallets.transaction_payment import TransactionFeePaid
from wallet.client import ChainClient

TASK_EVENT_KINDS = tuple(
    kind for kind in vars(events).values() if isinstance(kind, type) and kind in TrainingMarket.events
)
STOOD_BY = TaskOutcome.STOOD_BY
CHECK_PAY = "checks and votes"
"""The reason of payments to checkers, finders and voters."""
PROVIDERS_PURSES = tuple(purse for purse, owner in OWNERS.items() if owner is not TaskPayee.CUSTOMER)


@dataclass(frozen=True, slots=True)
class TaskMove:
    """Grains that an account gained for a task in a block. A loss is negative."""

    height: int
    account: bytes
    grains: int
    why: str


@dataclass(frozen=True, slots=True)
class TaskLoss:
    """A loss of a bidder, worker, standby, checker, disputer or voter: the chain's amount and the table's."""

    height: int
    account: bytes
    what: str
    taken: int
    expected: int


@dataclass(slots=True)
class TaskSums:
    """The moves of a task by the money table, and the differences to the chain."""

    moves: list[TaskMove] = field(default_factory=list)
    losses: list[TaskLoss] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def of(self, account: bytes) -> int:
        """Return the grains that an account gained from the task."""
        return sum(move.grains for move in self.moves if move.account == account)


@dataclass(slots=True)
class TaskLedger:
    """Tasks by id, their sums, and the fees of each account, from the block after `height` on.

    The tips of a block go to its author and count as negative fees.
    """

    height: int
    tasks: dict[bytes, EventTrace] = field(default_factory=dict)
    sums: dict[bytes, TaskSums] = field(default_factory=dict)
    fees: dict[bytes, int] = field(default_factory=dict)
    moments: dict[int, float] = field(default_factory=dict)
    """The timestamp of each block, in seconds."""
    claims: TaskClaims = field(default_factory=TaskClaims)

    async def catch_up(self, chain: ChainClient) -> None:
        """Read the new final blocks. Call it often enough, because nodes discard old states."""
        async for height, at_block, block_events in final_blocks(chain, self.height + 1):
            self.moments[height] = await chain.read(Timestamp.now, at=at_block) / 1_000
            await self.take_block(chain, height, block_events)

    async def take_block(self, chain: ChainClient, height: int, block_events: Iterable[Any]) -> None:
        """Take the events of one final block."""
        for event in block_events:
            await self._take_event(chain, height, event)
        self._record_claims(height)
        self.height = height

    async def _take_event(self, chain: ChainClient, height: int, event: Any) -> None:
        if isinstance(event, TransactionFeePaid):
            self.fees[event.who] = self.fees.get(event.who, 0) + event.actual_fee
            # The tip is a part of the fee, and goes to the block's author.
            if event.tip:
                block_author = find_author(await chain.read(System.digest, at=await block_hash(chain, height)))
                assert block_author is not None, "a block has an author"
                self.fees[block_author] = self.fees.get(block_author, 0) - event.tip
            return
        await self.claims.take(chain, height, event)
        if isinstance(event, TASK_EVENT_KINDS):
            self.tasks.setdefault(event.task, EventTrace()).happened.append((height, event))
            await _record_moves(chain, height, event, self.sums.setdefault(event.task, TaskSums()), self.claims)

    def _record_claims(self, height: int) -> None:
        """Record the payments of claims and disputes in a block, and compare bonds with the chain."""
        flows, paid = self.claims.end_block()
        expected: Counter[tuple[bytes, bytes, str]] = Counter()
        for task_id, flow in flows:
            moves = self.sums[task_id].moves
            moves.append(TaskMove(height, flow.payer, -flow.grains, flow.reason))
            if flow.payee is not None:
                moves.append(TaskMove(height, flow.payee, flow.grains, CHECK_PAY))
            if flow.reason in BONDS:
                expected[task_id, flow.payer, flow.reason] += flow.grains
        for task_id, account, reason in dict.fromkeys((*expected, *paid)):
            key = task_id, account, reason
            self.sums[task_id].losses.append(TaskLoss(height, account, reason, paid[key], expected[key]))

    def moved(self, account: bytes) -> int:
        """Return the expected gain of an account: its moves of all tasks, less its fees."""
        return sum(sums_of_task.of(account) for sums_of_task in self.sums.values()) - self.fees.get(account, 0)


async def _record_moves(chain: ChainClient, height: int, event: Any, task_sums: TaskSums, claims: TaskClaims) -> None:
    """Record the moves that an event requires."""
    match event:
        case events.TaskSubmitted():
            await _record_prepaid(chain, height, event, task_sums)
        case events.SlotSettled():
            record = await _task_before(chain, height, event.task)
            task_money, spent = settled_money(record, event.place, height), _taken_from(claims, event)
            held = {purse: grains - spent.get(purse, 0) for purse, grains in task_money.held.items()}
            lost = spent.get(TaskPurse.COLLATERAL, 0)
            _record_settlement(task_sums, height, event, record, replace(task_money, held=held), lost)
        case events.StandbyReleased():
            record = await _task_before(chain, height, event.task)
            _record_standby(task_sums, height, event.provider, record, record.slots[0].price)
        case events.SlotStarted():
            record = await _task_before(chain, height, event.task)
            task_slot = record.slots[event.place] if event.place < len(record.slots) else None
            if task_slot is not None and task_slot.was_standby:
                _record_standby(task_sums, height, event.provider, record, task_slot.price)
        case events.BidEnded() if event.burned:
            record = await _task_before(chain, height, event.task)
            bid_bond = money.bid_bond(record.rules, record.order.price_max)
            task_sums.losses.append(TaskLoss(height, event.provider, "NOT_REVEALED", event.burned, bid_bond))
            task_sums.moves.append(TaskMove(height, event.provider, -event.burned, "a bid that was not opened"))
        case _:
            pass


def settled_money(record: Task, slot_index: int, height: int) -> TaskMoney:
    """Return the slot's state for the money table, if it is settled in the block at a height.

    Its purses are full: claims and disputes may have taken their part.
    """
    task_slot, task_rules, price_max = record.slots[slot_index], record.rules, record.order.price_max
    end_height = task_slot.finished_at or height
    held_by_purse = {
        TaskPurse.ESCROW: money.escrow(task_rules, price_max, auction_items(record.order, 0)),
        TaskPurse.CUSTOMER_BOND: money.customer_bond(task_rules, price_max),
        TaskPurse.COLLATERAL: task_slot.collateral,
        TaskPurse.STANDBY_COLLATERAL: task_slot.collateral,
    }
    return TaskMoney(
        rules=task_rules,
        terms=record.terms,
        held=held_by_purse,
        price=task_slot.price,
        collateral=task_slot.collateral,
        promised=task_slot.promised,
        elapsed=end_height - record.started_at if record.started_at else 0,
        stated=kept_step(record),
        taken=taken_by(record, task_slot, height),
        milestones=record.milestones,
        done=record.owed,
    )


async def _task_before(chain: ChainClient, height: int, task_id: bytes) -> Task:
    """Return the task's record after the previous block."""
    record = await chain.read(TrainingMarket.tasks, task_id, at=await block_hash(chain, height - 1))
    assert isinstance(record, Task), "the task exists in the block before its slot is settled"
    return record


def _taken_from(claims: TaskClaims, event: events.SlotSettled) -> dict[TaskPurse, int]:
    """Return the grains that claims and disputes took from each purse of a slot, and forget them."""
    case = slot_case(event.task, event.place)
    return {purse: claims.spent.pop((case, purse), 0) for purse in TaskPurse}


async def _record_prepaid(chain: ChainClient, height: int, event: events.TaskSubmitted, task_sums: TaskSums) -> None:
    record = await task_after(chain, height, event.task)
    at_block = await block_hash(chain, height)
    step_fee: int = await chain.read(TrainingMarket.parameters["step_fee"].item, at=at_block)
    prepaid = step_fee * looks(
        record.order.auctions, record.order.slots, record.order.milestones if is_by_time(record.order) else 0
    )
    task_sums.moves.append(TaskMove(height, event.customer, -prepaid, "the work of blocks is prepaid"))


def _record_settlement(
    task_sums: TaskSums,
    height: int,
    event: events.SlotSettled,
    record: Task,
    task_money: TaskMoney,
    lost_before: int,
) -> None:
    """Record the moves of an outcome's row, and compare them with the event.

    `lost_before`: the grains that claims and disputes took from the provider's collateral.
    """
    flows = money.settle(event.outcome, task_money)
    outcome, provider_purses = event.outcome.name, PROVIDERS_PURSES
    earned_grains = sum(flow.amount for flow in flows if flow.payee in (TaskPayee.PROVIDER, TaskPayee.FEE))
    lost_grains = lost_before + sum(flow.amount for flow in flows if flow.purse in provider_purses)
    if (earned_grains, lost_grains) != (event.earned, event.lost):
        task_sums.wrong.append(
            f"block {height}: {outcome} moved {event.earned} and {event.lost} grains, and the "
            f"table says {earned_grains}, {lost_grains}"
        )
    if lost_grains or event.lost:
        task_sums.losses.append(TaskLoss(height, event.provider, outcome, event.lost, lost_grains))
    for flow in flows:
        purse_owner = event.provider if flow.purse in provider_purses else record.customer
        task_sums.moves.append(TaskMove(height, purse_owner, -flow.amount, outcome))
        if flow.payee in (TaskPayee.PROVIDER, TaskPayee.STANDBY):
            task_sums.moves.append(TaskMove(height, event.provider, flow.amount, outcome))
        elif flow.payee is TaskPayee.CUSTOMER:
            task_sums.moves.append(TaskMove(height, record.customer, flow.amount, outcome))


def _record_standby(task_sums: TaskSums, height: int, provider: bytes, record: Task, price_grains: int) -> None:
    escrow = money.escrow(record.rules, record.order.price_max, auction_items(record.order, 0))
    held_by_purse = {TaskPurse.ESCROW: escrow}
    for flow in money.settle(STOOD_BY, TaskMoney(record.rules, record.terms, held_by_purse, price_grains)):
        task_sums.moves.append(TaskMove(height, record.customer, -flow.amount, STOOD_BY.name))
        if flow.payee is TaskPayee.STANDBY:
            task_sums.moves.append(TaskMove(height, provider, flow.amount, STOOD_BY.name))


POLL_SECONDS = 1.0
CLOSE_SECONDS = 30.0


@contextlib.contextmanager
def following(node_url: str, first_height: int | None = None) -> Iterator[TaskLedger]:
    """Yield a ledger of tasks that a thread keeps current, from the newest final block on (or after `first_height`).

    The ledger is complete when the block ends.
    """
    block_ended, ledger, reading_errors = threading.Event(), TaskLedger(0), list[BaseException]()
    ledger.height = asyncio.run(_newest_final_height(node_url)) if first_height is None else first_height

    def follow() -> None:
        try:
            asyncio.run(_follow_until_ended(node_url, ledger, block_ended))
        except BaseException as error:  # noqa: BLE001  # raised below, in the caller's thread
            reading_errors.append(error)

    # A thread, because the caller's programs block it for minutes and nodes discard old states meanwhile.
    reading_thread = threading.Thread(target=follow, daemon=True)
    reading_thread.start()
    try:
        yield ledger
    finally:
        block_ended.set()
        reading_thread.join(CLOSE_SECONDS)
    if reading_errors:
        raise reading_errors[0]


async def _newest_final_height(node_url: str) -> int:
    async with await ChainClient.connect(node_url) as chain:
        return await final_height(chain)


async def _follow_until_ended(node_url: str, ledger: TaskLedger, block_ended: threading.Event) -> None:
    async with await ChainClient.connect(node_url) as chain:
        while not block_ended.is_set():
            await ledger.catch_up(chain)
            await asyncio.sleep(POLL_SECONDS)
        # More blocks can have become final since the last look.
        await ledger.catch_up(chain)
