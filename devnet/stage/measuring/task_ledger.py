"""Tasks at auction on the final chain: the events of each task, by height, and the money that each event moved.

Invariant: only final blocks are read. The expected sums come from the money table and the task's record after the
previous block. So the runtime's own sums are compared with the table, not with themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from devnet.stage.measuring.ledger import EventTrace, block_hash, final_blocks, final_height
from devnet.stage.measuring.task_audits import CASE_EVENTS, TaskAudits
from gpu_tasks.market.training import events, money
from gpu_tasks.market.training.fraud_claims import reward_of
from gpu_tasks.market.training.life.submitting import looks
from gpu_tasks.market.training.money import OWNERS, TaskMoney, TaskOutcome, TaskPayee, TaskPurse
from gpu_tasks.market.training.orders import is_by_time
from gpu_tasks.market.training.tasks import JudgedFor, Task, kept_step, slot_case, taken_by
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
    """A loss of a bidder, worker or standby: the chain's amount and the table's."""

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

    def of(self, account_id: bytes) -> int:
        """Return the grains that an account gained from the task."""
        return sum(task_move.grains for task_move in self.moves if task_move.account == account_id)


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
    audits: TaskAudits = field(default_factory=TaskAudits)

    async def catch_up(self, chain_client: ChainClient) -> None:
        """Read the new final blocks. Call it often enough, because nodes discard old states."""
        async for block_height, at_block, block_events in final_blocks(chain_client, self.height + 1):
            self.moments[block_height] = await chain_client.read(Timestamp.now, at=at_block) / 1_000
            for task_event in block_events:
                await self._take_event(chain_client, block_height, task_event)
            self.height = block_height

    async def _take_event(self, chain_client: ChainClient, block_height: int, task_event: Any) -> None:
        if isinstance(task_event, TransactionFeePaid):
            self.fees[task_event.who] = self.fees.get(task_event.who, 0) + task_event.actual_fee
            # The tip is a part of the fee, and goes to the block's author.
            if task_event.tip:
                block_author = find_author(
                    await chain_client.read(System.digest, at=await block_hash(chain_client, block_height))
                )
                assert block_author is not None, "a block has an author"
                self.fees[block_author] = self.fees.get(block_author, 0) - task_event.tip
        elif isinstance(task_event, TASK_EVENT_KINDS):
            self.tasks.setdefault(task_event.task, EventTrace()).happened.append((block_height, task_event))
            if isinstance(task_event, events.TaskJudged):
                self.audits.open(task_event.task, await _task_after(chain_client, block_height, task_event.task))
            await _record_moves(
                chain_client, block_height, task_event, self.sums.setdefault(task_event.task, TaskSums()), self.audits
            )
        elif isinstance(task_event, CASE_EVENTS) and task_event.case in self.audits.slots:
            case_moves, wrong_moves = await self.audits.take(chain_client, block_height, task_event)
            task_sums = self.sums[self.audits.slots[task_event.case].task]
            task_sums.moves += [
                TaskMove(block_height, account_id, moved_grains, "its judges")
                for account_id, moved_grains in case_moves
            ]
            task_sums.wrong += wrong_moves

    def moved(self, account_id: bytes) -> int:
        """Return the expected gain of an account: its moves of all tasks, less its fees."""
        return sum(sums_of_task.of(account_id) for sums_of_task in self.sums.values()) - self.fees.get(account_id, 0)


async def _record_moves(
    chain_client: ChainClient, block_height: int, task_event: Any, task_sums: TaskSums, task_audits: TaskAudits
) -> None:
    """Record the moves that an event requires."""
    match task_event:
        case events.TaskSubmitted():
            await _record_prepaid(chain_client, block_height, task_event, task_sums)
        case events.SlotSettled():
            task_record = await _task_before(chain_client, block_height, task_event.task)
            judged_slot = task_audits.slots.get(slot_case(task_event.task, task_event.place))
            if judged_slot is not None and judged_slot.lost is not None and task_event.outcome is TaskOutcome.LIED:
                _record_lie(task_sums, block_height, task_event, judged_slot.lost)
            else:
                spent_by_judges = 0 if judged_slot is None else judged_slot.judged_by_bond
                _record_settlement(
                    task_sums,
                    block_height,
                    task_event,
                    task_record,
                    settled_money(task_record, task_event.place, block_height, spent_by_judges),
                )
        case events.FraudProven():
            task_record = await _task_before(chain_client, block_height, task_event.task)
            _record_fraud_proof(task_sums, block_height, task_event, task_record)
        case events.FraudNotShown():
            task_sums.moves.append(
                TaskMove(block_height, task_event.challenger, -task_event.burned, "a proof that was not opened")
            )
        case events.StandbyReleased():
            task_record = await _task_before(chain_client, block_height, task_event.task)
            _record_standby(task_sums, block_height, task_event.provider, task_record, task_record.slots[0].price)
        case events.SlotStarted():
            task_record = await _task_before(chain_client, block_height, task_event.task)
            task_slot = task_record.slots[task_event.place] if task_event.place < len(task_record.slots) else None
            if task_slot is not None and task_slot.was_standby:
                _record_standby(task_sums, block_height, task_event.provider, task_record, task_slot.price)
        case events.BidEnded() if task_event.burned:
            task_record = await _task_before(chain_client, block_height, task_event.task)
            bid_bond = money.bid_bond(task_record.rules, task_record.order.price_max)
            task_sums.losses.append(
                TaskLoss(block_height, task_event.provider, "NOT_REVEALED", task_event.burned, bid_bond)
            )
            task_sums.moves.append(
                TaskMove(block_height, task_event.provider, -task_event.burned, "a bid that was not opened")
            )
        case _:
            pass


def settled_money(task_record: Task, slot_index: int, block_height: int, spent_by_judges: int = 0) -> TaskMoney:
    """Return the slot's state for the money table, if it is settled in the block at a height.

    `spent`: the grains that judges took from the disputer's bond.
    """
    task_slot, task_rules, price_max = task_record.slots[slot_index], task_record.rules, task_record.order.price_max
    end_height = task_slot.finished_at or block_height
    held_by_purse = {
        TaskPurse.ESCROW: money.escrow(task_rules, price_max),
        TaskPurse.CUSTOMER_BOND: money.customer_bond(task_rules, price_max),
        TaskPurse.COLLATERAL: task_slot.collateral,
        TaskPurse.STANDBY_COLLATERAL: task_slot.collateral,
    }
    if task_record.judged_for is JudgedFor.DISPUTE:
        held_by_purse[TaskPurse.DISPUTE_BOND] = (
            money.dispute_bond(task_rules, task_record.terms.price_max, task_slot.price) - spent_by_judges
        )
    return TaskMoney(
        rules=task_rules,
        terms=task_record.terms,
        held=held_by_purse,
        price=task_slot.price,
        collateral=task_slot.collateral,
        promised=task_slot.promised,
        added=task_slot.added,
        elapsed=end_height - task_record.started_at if task_record.started_at else 0,
        stated=kept_step(task_record),
        taken=taken_by(task_record, task_slot, block_height),
        milestones=task_record.milestones,
        done=task_record.owed,
    )


async def _task_before(chain_client: ChainClient, block_height: int, task_id: bytes) -> Task:
    """Return the task's record after the previous block."""
    task_record = await chain_client.read(
        TrainingMarket.tasks, task_id, at=await block_hash(chain_client, block_height - 1)
    )
    assert isinstance(task_record, Task), "the task exists in the block before its slot is settled"
    return task_record


async def _task_after(chain_client: ChainClient, block_height: int, task_id: bytes) -> Task:
    """Return the task's record after this block."""
    task_record = await chain_client.read(
        TrainingMarket.tasks, task_id, at=await block_hash(chain_client, block_height)
    )
    assert isinstance(task_record, Task), "a task that is judged is there"
    return task_record


async def _record_prepaid(
    chain_client: ChainClient, block_height: int, task_event: events.TaskSubmitted, task_sums: TaskSums
) -> None:
    at_block = await block_hash(chain_client, block_height)
    task_record = await chain_client.read(TrainingMarket.tasks, task_event.task, at=at_block)
    step_fee: int = await chain_client.read(TrainingMarket.parameters["step_fee"].item, at=at_block)
    prepaid = step_fee * looks(
        task_record.order.auctions,
        task_record.order.slots,
        task_record.order.milestones if is_by_time(task_record.order) else 0,
    )
    task_sums.moves.append(TaskMove(block_height, task_event.customer, -prepaid, "the work of blocks is prepaid"))


def _record_settlement(
    task_sums: TaskSums, block_height: int, task_event: events.SlotSettled, task_record: Task, task_money: TaskMoney
) -> None:
    """Record the moves of an outcome's row, and compare them with the event."""
    money_flows = money.settle(task_event.outcome, task_money)
    outcome_name, provider_purses = task_event.outcome.name, PROVIDERS_PURSES
    earned_grains = sum(
        money_flow.amount for money_flow in money_flows if money_flow.payee in (TaskPayee.PROVIDER, TaskPayee.FEE)
    )
    lost_grains = sum(money_flow.amount for money_flow in money_flows if money_flow.purse in provider_purses)
    if (earned_grains, lost_grains) != (task_event.earned, task_event.lost):
        task_sums.wrong.append(
            f"block {block_height}: {outcome_name} moved {task_event.earned} and {task_event.lost} grains, and the "
            f"table says {earned_grains}, {lost_grains}"
        )
    if lost_grains or task_event.lost:
        task_sums.losses.append(TaskLoss(block_height, task_event.provider, outcome_name, task_event.lost, lost_grains))
    for money_flow in money_flows:
        purse_owner = task_event.provider if money_flow.purse in provider_purses else task_record.customer
        task_sums.moves.append(TaskMove(block_height, purse_owner, -money_flow.amount, outcome_name))
        if money_flow.payee in (TaskPayee.PROVIDER, TaskPayee.STANDBY):
            task_sums.moves.append(TaskMove(block_height, task_event.provider, money_flow.amount, outcome_name))
        elif money_flow.payee is TaskPayee.CUSTOMER:
            task_sums.moves.append(TaskMove(block_height, task_record.customer, money_flow.amount, outcome_name))


def _record_lie(task_sums: TaskSums, block_height: int, task_event: events.SlotSettled, lost_grains: int) -> None:
    """Record a proven lie. The courts' verdict is its whole cost, and the case's own events moved it."""
    task_sums.losses.append(TaskLoss(block_height, task_event.provider, "LIED", task_event.lost, lost_grains))
    if (0, lost_grains) != (task_event.earned, task_event.lost):
        task_sums.wrong.append(
            f"block {block_height}: LIED moved {task_event.earned} and {task_event.lost} grains, and the courts' "
            f"table says 0, {lost_grains}"
        )


def _record_fraud_proof(
    task_sums: TaskSums, block_height: int, task_event: events.FraudProven, task_record: Task
) -> None:
    """Record a fraud proof: the liar's collateral pays the challenger's reward."""
    task_slot = task_record.slots[task_event.place]
    challenger_reward = reward_of(task_record, task_slot)
    if task_event.reward != challenger_reward:
        task_sums.wrong.append(
            f"block {block_height}: a fraud proof brought {task_event.reward} grains, and {challenger_reward} is "
            "its reward"
        )
    task_sums.losses.append(
        TaskLoss(block_height, task_slot.provider, "a fraud proof", task_event.reward, challenger_reward)
    )
    task_sums.moves.append(TaskMove(block_height, task_slot.provider, -challenger_reward, "a fraud proof"))
    task_sums.moves.append(TaskMove(block_height, task_event.challenger, challenger_reward, "a fraud proof"))


def _record_standby(
    task_sums: TaskSums, block_height: int, provider: bytes, task_record: Task, price_grains: int
) -> None:
    held_by_purse = {TaskPurse.ESCROW: money.escrow(task_record.rules, task_record.order.price_max)}
    for money_flow in money.settle(
        STOOD_BY, TaskMoney(task_record.rules, task_record.terms, held_by_purse, price_grains)
    ):
        task_sums.moves.append(TaskMove(block_height, task_record.customer, -money_flow.amount, STOOD_BY.name))
        if money_flow.payee is TaskPayee.STANDBY:
            task_sums.moves.append(TaskMove(block_height, provider, money_flow.amount, STOOD_BY.name))


POLL_SECONDS = 1.0
CLOSE_SECONDS = 30.0


@contextlib.contextmanager
def following(node_url: str, first_height: int | None = None) -> Iterator[TaskLedger]:
    """Yield a ledger of tasks that a thread keeps current, from the newest final block on (or after `first`).

    The ledger is complete when the block ends.
    """
    block_ended, task_ledger, reading_errors = threading.Event(), TaskLedger(0), list[BaseException]()
    task_ledger.height = asyncio.run(_newest_final_height(node_url)) if first_height is None else first_height

    def follow() -> None:
        try:
            asyncio.run(_follow_until_ended(node_url, task_ledger, block_ended))
        except BaseException as reading_error:  # noqa: BLE001  # raised below, in the caller's thread
            reading_errors.append(reading_error)

    # A thread, because the caller's programs block it for minutes and nodes discard old states meanwhile.
    reading_thread = threading.Thread(target=follow, daemon=True)
    reading_thread.start()
    try:
        yield task_ledger
    finally:
        block_ended.set()
        reading_thread.join(CLOSE_SECONDS)
    if reading_errors:
        raise reading_errors[0]


async def _newest_final_height(node_url: str) -> int:
    async with await ChainClient.connect(node_url) as chain_client:
        return await final_height(chain_client)


async def _follow_until_ended(node_url: str, task_ledger: TaskLedger, block_ended: threading.Event) -> None:
    async with await ChainClient.connect(node_url) as chain_client:
        while not block_ended.is_set():
            await task_ledger.catch_up(chain_client)
            await asyncio.sleep(POLL_SECONDS)
        # More blocks can have become final since the last look.
        await task_ledger.catch_up(chain_client)
