"""The record of a task: its order, its providers, its progress and its end.

Invariants: a task's rules, windows and terms are frozen in its record. Every state but the last has a scheduled
deadline, or waits for a final height, for claims or for voters. Amounts are for one slot.

A *leg* is the part of a run that one award covers. When the work changes hands, the counted milestones are complete.
The remaining ones form a new leg, which is handled like a task of its own.
"""

from dataclasses import replace
from enum import IntEnum
from typing import Annotated

from gpu_tasks.market.ids import DeviceId, TaskId
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.orders import TaskOrder, interval_of, is_by_time, is_replicated
from gpu_tasks.market.training.rules import TaskRules
from gpu_tasks.market.training.terms import SLOTS_MAX, TaskTerms
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signing import domain
from runtime.encoding.codec import U8, U32, U64, Bounded, codec, named, struct
from runtime.encoding.types import AccountId, Balance, BlockNumber, Hash
from runtime.frame.holds import HoldReason

TASKS_OPEN_MAX = 4_000
SILENT_TIMES = 2
"""A provider has died if it states no milestone for this many times its share of the promised blocks, plus the grace.
"""

TASK_ESCROW = HoldReason("TaskEscrow", "The most that a slot of a task may cost its customer. One for each slot.")
TASK_BOND = HoldReason("TaskBond", "The customer's bond for a slot of a task. One for each slot.")
TASK_DEPOSIT = HoldReason(
    "TaskDeposit",
    "The deposit for a task's record, until the chain drops the record. One for each task.",
    is_deposit=True,
)
BID_BOND = HoldReason("BidBond", "The bond of a bid until its reveal. One for each bid.")
TASK_COLLATERAL = HoldReason("TaskCollateral", "The collateral of a bid after its reveal. One for each bid.")


@named("ogpu::TaskState")
class TaskState(IntEnum):
    """The state of a task. `docs/training.md` lists the calls and the deadline of each."""

    COMMITTING = 0
    """Providers commit to bids."""
    REVEALING = 1
    """Providers open their bids."""
    AWARDING = 2
    """The task waits for the beacon that decides between equal bids."""
    STARTING = 3
    """The task is awarded, and not all providers have started."""
    RUNNING = 4
    """All have started, and the next milestone or the result is due."""
    ASKING = 5
    """The provider has left or died. The runner-up, no longer bound, is asked first."""
    CLAIMED = 6
    """All have stated results, which are claims until they have passed. The customer can read them."""
    DISPUTED = 7
    """Voters decide about different results, or about a missing input."""
    ENDED = 8
    """Only the deposit for its record is still held."""
    VOLUNTEERING = 9
    """Replicas are sought: providers offer devices at the price of the award, then the beacon draws."""
    OPENING = 10
    """Replicas have committed to their results, and open them."""


@struct
class TaskWindows:
    """The lengths of the parts of a task's life, in blocks."""

    commit: BlockNumber
    """The window to commit to bids. It is long enough that a few authors cannot keep a bid out."""
    reveal: BlockNumber
    """The window to reveal bids, as long for the same reason."""
    start: BlockNumber
    """The window to start, from the award."""
    grace: BlockNumber
    """The time for a milestone beyond twice its share of the promised blocks. A provider silent for longer has died."""
    ask: BlockNumber
    """The window for a runner-up that is no longer bound to take over."""
    keep: BlockNumber
    """The time for which the record of an ended task is kept."""


@struct
class Milestone:
    """A provider's statement about a point of its run."""

    number: U8
    """The number, counted from 1 over all legs of the task."""
    root: Hash
    """The root of the state there."""
    metric: U64
    """A figure of the workload, such as the loss, for people."""
    blob: Hash
    """The address of the checkpoint in the provider's blob store."""


@struct
class HeldCheckpoint:
    """A counted milestone: another party than the provider has signed that it holds the blob."""

    milestone: Milestone
    holder: AccountId


@struct
class TaskResult:
    """The result that a slot's provider states at its end."""

    root: Hash
    """The root over the trace, or of the output if there is no trace."""
    blob: Hash
    metric: U64


@struct
class Slot:
    """One of the k places of a leg, with its provider."""

    provider: AccountId
    device: DeviceId
    price: Balance
    promised: BlockNumber
    collateral: Balance
    """K, as it was locked."""
    started_at: BlockNumber = 0
    reported: U8 = 0
    """The number of milestones of this leg that it has stated."""
    milestone: Milestone | None = None
    """The newest stated milestone."""
    taken: BlockNumber = 0
    """Blocks taken for the stated milestones. Each counts from the block in which all had stated the one before, so a
    provider that waits for a partner is not late."""
    finished_at: BlockNumber = 0
    result: TaskResult | None = None
    was_standby: bool = False
    """True if it took over while it was bound. Its standby pay falls due at its start."""
    outcome: TaskOutcome | None = None
    """Its outcome, or the outcome that a ruling has set for its end."""
    draw: U8 = 0
    """For a replica, the number of the draw that chose it, or 0 for the winner of the auction."""
    commitment: Hash | None = None
    """A replica's commitment to its result."""


@struct
class Standby:
    """The runner-up, which takes over at its own price."""

    provider: AccountId
    device: DeviceId
    price: Balance
    """Its own second-score price, for the whole leg."""
    promised: BlockNumber
    collateral: Balance
    is_bound: bool = True
    """True while its device and its collateral are bound: until the leg's first milestone."""


@struct
class Task:
    """A task's record."""

    customer: AccountId
    order: TaskOrder
    rules: TaskRules
    windows: TaskWindows
    state: TaskState
    submitted_at: BlockNumber
    deadline: BlockNumber
    """The last block of the state's window, or 0 while it waits for finality, claims or voters."""
    terms: TaskTerms
    """The terms of this leg."""
    milestones: U8
    """The number of milestones of this leg."""
    done: U8 = 0
    """The number of accepted milestones of this leg. The next provider continues after them."""
    owed: U8 = 0
    """The number of them that the customer itself has signed. These are paid if their provider dies."""
    behind: U8 = 0
    """The number of milestones counted in earlier legs."""
    begun_from: Hash | None = None
    """The root of the milestone that this leg continues from, or None for the start of the run."""
    checkpoint: HeldCheckpoint | None = None
    """The newest counted milestone of any leg."""
    auction: U8 = 1
    """The number of the current or last auction."""
    bids: U8 = 0
    """The number of bids committed in it."""
    revealed: U8 = 0
    beacon_at: BlockNumber = 0
    """The height of the beacon that breaks ties or draws replicas."""
    slots: Annotated[tuple[Slot, ...], Bounded(SLOTS_MAX)] = ()
    standby: Standby | None = None
    started_at: BlockNumber = 0
    """The block in which all had started."""
    reported_at: BlockNumber = 0
    """The block in which all had last stated a milestone, or started."""
    finished_at: BlockNumber = 0
    open_claims: U8 = 0
    """The number of its open claims."""
    disputes: U8 = 0
    """The number of its disputes so far."""
    reported: U8 | None = None
    """The place whose provider reports a missing input, until that is decided."""
    deposit: Balance = 0
    outcome: TaskOutcome | None = None
    """The outcome of its first slot, or of the whole, once it has ended."""
    draws: U8 = 0
    """The number of draws of replicas so far, over all legs."""
    volunteers: U8 = 0
    """The number of devices offered in the newest draw."""


@struct
class _TaskBody:
    customer: AccountId
    number: U32


_TASK_BODY = codec(_TaskBody)


def task_id_of(genesis_hash: bytes, customer: bytes, submission_number: int) -> TaskId:
    """Return the id of the task that `customer` submits as its number `number`, counted from 0."""
    return blake2_256(domain(b"task", genesis_hash, _TASK_BODY.encode(_TaskBody(customer, submission_number))))


def slot_case(task: bytes, place: int) -> bytes:
    """Return the case of a slot, which names its customer's holds and its claim."""
    return blake2_256(b"ogpu/slot" + task + bytes((place,)))


def dispute_id_of(task: bytes, number: int) -> bytes:
    """Return the id of a task's dispute number `number`, counted from 0."""
    return blake2_256(b"ogpu/task-dispute" + task + number.to_bytes(4, "little"))


def is_open(task: Task) -> bool:
    """Return True if money is held for the task's work."""
    return task.state is not TaskState.ENDED


def has_bidding(task: Task) -> bool:
    """Return True if the task's bids still hold money or devices."""
    return task.state in (TaskState.COMMITTING, TaskState.REVEALING, TaskState.AWARDING)


def with_slot(task: Task, place: int, slot: Slot) -> Task:
    """Return the task with another slot at a place."""
    return replace(task, slots=(*task.slots[:place], slot, *task.slots[place + 1 :]))


def auctioned_terms(task: Task) -> TaskTerms:
    """Return the terms of a task's auction. A replicated task sells one place and draws the others."""
    return replace(task.terms, slots=1) if is_replicated(task.order) else task.terms


def has_volunteers(task: Task) -> bool:
    """Return True if the devices offered in the newest draw are still held."""
    return task.state is TaskState.VOLUNTEERING


def kept_step(task: Task) -> int:
    """Return the number of milestones of this leg that all working slots have stated."""
    return min((slot.reported for slot in task.slots if slot.outcome is None), default=0)


def taken_by(task: Task, slot: Slot, height: int) -> int:
    """Return the blocks that a slot has taken since all had started, without waits for its partners."""
    is_stated = slot.result is not None or slot.commitment is not None
    is_awaited = task.started_at and not is_stated and slot.reported == kept_step(task)
    return slot.taken + (height - task.reported_at if is_awaited else 0)


def agreed_milestone(task: Task) -> Milestone | None:
    """Return the newest milestone if all providers have stated it with one root, else None."""
    newest_milestone = task.slots[0].milestone if task.slots else None
    if newest_milestone is None:
        return None
    stated_milestones = [slot.milestone for slot in task.slots]
    return (
        newest_milestone
        if all(
            stated and (stated.number, stated.root) == (newest_milestone.number, newest_milestone.root)
            for stated in stated_milestones
        )
        else None
    )


def slot_of(standby: Standby, *, was_standby: bool = False) -> Slot:
    """Return the slot of a runner-up that takes over. Its price and promise are already those of the rest."""
    return Slot(
        provider=standby.provider,
        device=standby.device,
        price=standby.price,
        promised=standby.promised,
        collateral=standby.collateral,
        was_standby=was_standby,
    )


def paid_blocks(task: Task, intervals: int) -> int:
    """Return the blocks in the first `intervals` intervals of a leg of bought time, at most all bought blocks."""
    return min(intervals * interval_of(task.order), task.slots[0].promised)


def interval_end(task: Task) -> int:
    """Return the first block after the current interval of bought time."""
    return task.started_at + paid_blocks(task, task.owed + 1)


def silent_until(task: Task) -> int:
    """Return the last block in which the next milestone, interval, or commitment of a replica may be stated."""
    if is_by_time(task.order):
        return interval_end(task) + task.windows.grace
    longest_share = max(-(-slot.promised // task.milestones) for slot in task.slots)
    return task.reported_at + SILENT_TIMES * longest_share + task.windows.grace
