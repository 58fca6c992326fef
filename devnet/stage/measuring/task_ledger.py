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

KINDS = tuple(kind for kind in vars(events).values() if isinstance(kind, type) and kind in TrainingMarket.events)
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
    audits: TaskAudits = field(default_factory=TaskAudits)

    async def catch_up(self, chain: ChainClient) -> None:
        """Read the new final blocks. Call it often enough, because nodes discard old states."""
        async for height, at, happened in final_blocks(chain, self.height + 1):
            self.moments[height] = await chain.read(Timestamp.now, at=at) / 1_000
            for event in happened:
                await self._take(chain, height, event)
            self.height = height

    async def _take(self, chain: ChainClient, height: int, event: Any) -> None:
        if isinstance(event, TransactionFeePaid):
            self.fees[event.who] = self.fees.get(event.who, 0) + event.actual_fee
            if event.tip:
                author = find_author(await chain.read(System.digest, at=await block_hash(chain, height)))
                assert author is not None, "a block has an author"
                self.fees[author] = self.fees.get(author, 0) - event.tip
        elif isinstance(event, KINDS):
            self.tasks.setdefault(event.task, EventTrace()).happened.append((height, event))
            if isinstance(event, events.TaskJudged):
                self.audits.open(event.task, await _after(chain, height, event.task))
            await _reckon(chain, height, event, self.sums.setdefault(event.task, TaskSums()), self.audits)
        elif isinstance(event, CASE_EVENTS) and event.case in self.audits.slots:
            moved, wrong = await self.audits.take(chain, height, event)
            sums = self.sums[self.audits.slots[event.case].task]
            sums.moves += [TaskMove(height, account, grains, "its judges") for account, grains in moved]
            sums.wrong += wrong

    def moved(self, account: bytes) -> int:
        """Return the expected gain of an account: its moves of all tasks, less its fees."""
        return sum(each.of(account) for each in self.sums.values()) - self.fees.get(account, 0)


async def _reckon(chain: ChainClient, height: int, event: Any, found: TaskSums, audits: TaskAudits) -> None:
    """Record the moves that an event requires."""
    match event:
        case events.TaskSubmitted():
            await _prepaid(chain, height, event, found)
        case events.SlotSettled():
            task = await _before(chain, height, event.task)
            judged = audits.slots.get(slot_case(event.task, event.place))
            if judged is not None and judged.lost is not None and event.outcome is TaskOutcome.LIED:
                _found_lying(found, height, event, judged.lost)
            else:
                spent = 0 if judged is None else judged.judged_by_bond
                _settled(found, height, event, task, settled_money(task, event.place, height, spent))
        case events.FraudProven():
            task = await _before(chain, height, event.task)
            _proven(found, height, event, task)
        case events.FraudNotShown():
            found.moves.append(TaskMove(height, event.challenger, -event.burned, "a proof that was not opened"))
        case events.StandbyReleased():
            task = await _before(chain, height, event.task)
            _stood_by(found, height, event.provider, task, task.slots[0].price)
        case events.SlotStarted():
            task = await _before(chain, height, event.task)
            slot = task.slots[event.place] if event.place < len(task.slots) else None
            if slot is not None and slot.was_standby:
                _stood_by(found, height, event.provider, task, slot.price)
        case events.BidEnded() if event.burned:
            task = await _before(chain, height, event.task)
            bond = money.bid_bond(task.rules, task.order.price_max)
            found.losses.append(TaskLoss(height, event.provider, "NOT_REVEALED", event.burned, bond))
            found.moves.append(TaskMove(height, event.provider, -event.burned, "a bid that was not opened"))
        case _:
            pass


def settled_money(task: Task, place: int, height: int, spent: int = 0) -> TaskMoney:
    """Return the slot's state for the money table, if it is settled in the block at a height.

    `spent`: the grains that judges took from the disputer's bond.
    """
    slot, rules, price_max = task.slots[place], task.rules, task.order.price_max
    until = slot.finished_at or height
    held = {
        TaskPurse.ESCROW: money.escrow(rules, price_max),
        TaskPurse.CUSTOMER_BOND: money.customer_bond(rules, price_max),
        TaskPurse.COLLATERAL: slot.collateral,
        TaskPurse.STANDBY_COLLATERAL: slot.collateral,
    }
    if task.judged_for is JudgedFor.DISPUTE:
        held[TaskPurse.DISPUTE_BOND] = money.dispute_bond(rules, task.terms.price_max, slot.price) - spent
    return TaskMoney(
        rules=rules,
        terms=task.terms,
        held=held,
        price=slot.price,
        collateral=slot.collateral,
        promised=slot.promised,
        added=slot.added,
        elapsed=until - task.started_at if task.started_at else 0,
        stated=kept_step(task),
        taken=taken_by(task, slot, height),
        milestones=task.milestones,
        done=task.owed,
    )


async def _before(chain: ChainClient, height: int, task_id: bytes) -> Task:
    """Return the task's record after the previous block."""
    found = await chain.read(TrainingMarket.tasks, task_id, at=await block_hash(chain, height - 1))
    assert isinstance(found, Task), "the task exists in the block before its slot is settled"
    return found


async def _after(chain: ChainClient, height: int, task_id: bytes) -> Task:
    """Return the task's record after this block."""
    found = await chain.read(TrainingMarket.tasks, task_id, at=await block_hash(chain, height))
    assert isinstance(found, Task), "a task that is judged is there"
    return found


async def _prepaid(chain: ChainClient, height: int, event: events.TaskSubmitted, found: TaskSums) -> None:
    at = await block_hash(chain, height)
    task = await chain.read(TrainingMarket.tasks, event.task, at=at)
    fee: int = await chain.read(TrainingMarket.parameters["step_fee"].item, at=at)
    prepaid = fee * looks(task.order.auctions, task.order.slots, task.order.milestones if is_by_time(task.order) else 0)
    found.moves.append(TaskMove(height, event.customer, -prepaid, "what blocks look at is prepaid"))


def _settled(found: TaskSums, height: int, event: events.SlotSettled, task: Task, state: TaskMoney) -> None:
    """Record the moves of an outcome's row, and compare them with the event."""
    flows = money.settle(event.outcome, state)
    name, mine = event.outcome.name, PROVIDERS_PURSES
    earned = sum(flow.amount for flow in flows if flow.payee in (TaskPayee.PROVIDER, TaskPayee.FEE))
    lost = sum(flow.amount for flow in flows if flow.purse in mine)
    if (earned, lost) != (event.earned, event.lost):
        found.wrong.append(
            f"block {height}: {name} moved {event.earned} and {event.lost} grains, and the table says {earned}, {lost}"
        )
    if lost or event.lost:
        found.losses.append(TaskLoss(height, event.provider, name, event.lost, lost))
    for flow in flows:
        owner = event.provider if flow.purse in mine else task.customer
        found.moves.append(TaskMove(height, owner, -flow.amount, name))
        if flow.payee in (TaskPayee.PROVIDER, TaskPayee.STANDBY):
            found.moves.append(TaskMove(height, event.provider, flow.amount, name))
        elif flow.payee is TaskPayee.CUSTOMER:
            found.moves.append(TaskMove(height, task.customer, flow.amount, name))


def _found_lying(found: TaskSums, height: int, event: events.SlotSettled, lost: int) -> None:
    """Record a proven lie. The courts' verdict is its whole cost, and the case's own events moved it."""
    found.losses.append(TaskLoss(height, event.provider, "LIED", event.lost, lost))
    if (0, lost) != (event.earned, event.lost):
        found.wrong.append(
            f"block {height}: LIED moved {event.earned} and {event.lost} grains, and the courts' table says 0, {lost}"
        )


def _proven(found: TaskSums, height: int, event: events.FraudProven, task: Task) -> None:
    """Record a fraud proof: the liar's collateral pays the challenger's reward."""
    slot = task.slots[event.place]
    reward = reward_of(task, slot)
    if event.reward != reward:
        found.wrong.append(f"block {height}: a fraud proof brought {event.reward} grains, and {reward} is its reward")
    found.losses.append(TaskLoss(height, slot.provider, "a fraud proof", event.reward, reward))
    found.moves.append(TaskMove(height, slot.provider, -reward, "a fraud proof"))
    found.moves.append(TaskMove(height, event.challenger, reward, "a fraud proof"))


def _stood_by(found: TaskSums, height: int, provider: bytes, task: Task, price: int) -> None:
    held = {TaskPurse.ESCROW: money.escrow(task.rules, task.order.price_max)}
    for flow in money.settle(STOOD_BY, TaskMoney(task.rules, task.terms, held, price)):
        found.moves.append(TaskMove(height, task.customer, -flow.amount, STOOD_BY.name))
        if flow.payee is TaskPayee.STANDBY:
            found.moves.append(TaskMove(height, provider, flow.amount, STOOD_BY.name))


POLL_SECONDS = 1.0
CLOSE_SECONDS = 30.0


@contextlib.contextmanager
def following(url: str, first: int | None = None) -> Iterator[TaskLedger]:
    """Yield a ledger of tasks that a thread keeps current, from the newest final block on (or after `first`).

    The ledger is complete when the block ends.
    """
    ended, ledger, failed = threading.Event(), TaskLedger(0), list[BaseException]()
    ledger.height = asyncio.run(_height(url)) if first is None else first

    def follow() -> None:
        try:
            asyncio.run(_following(url, ledger, ended))
        except BaseException as error:  # noqa: BLE001  # raised below, in the caller's thread
            failed.append(error)

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield ledger
    finally:
        ended.set()
        thread.join(CLOSE_SECONDS)
    if failed:
        raise failed[0]


async def _height(url: str) -> int:
    async with await ChainClient.connect(url) as chain:
        return await final_height(chain)


async def _following(url: str, ledger: TaskLedger, ended: threading.Event) -> None:
    async with await ChainClient.connect(url) as chain:
        while not ended.is_set():
            await ledger.catch_up(chain)
            await asyncio.sleep(POLL_SECONDS)
        # More blocks can have become final since the last look.
        await ledger.catch_up(chain)
