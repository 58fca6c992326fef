"""A task as it stands in the state: what was ordered, who works on it, how far it came, how it ended.

Always: what a task goes by (rules, windows, terms) is frozen in its record; every state but the last has a deadline on
the agenda, or waits for a height to be final, or for the courts; amounts are for one slot. A *leg* is what one award
covers: when work changes hands, the milestones that were counted are behind it, and the rest is a task of its own.
"""

from dataclasses import replace
from enum import IntEnum
from typing import Annotated

from gpu_tasks.market.ids import DeviceId, TaskId
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.orders import JURORS, TaskOrder, interval_of, is_replicated
from gpu_tasks.market.training.rules import TaskRules
from gpu_tasks.market.training.terms import SLOTS_MAX, TaskTerms
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signing import domain
from runtime.encoding.codec import U8, U16, U32, U64, Bounded, codec, named, struct
from runtime.encoding.types import AccountId, Balance, BlockNumber, Hash
from runtime.frame.holds import HoldReason

CLAIMS_MAX = 4
"""Of a task: each fraud proof that is wrong delays its payment. One that is not opened in time makes room."""
TASKS_OPEN_MAX = 4_000

TASK_ESCROW = HoldReason("TaskEscrow", "What a slot of a task may cost its customer; the case is the slot.")
TASK_BOND = HoldReason("TaskBond", "The customer's bond for a slot of a task; the case is the slot.")
TASK_DEPOSIT = HoldReason(
    "TaskDeposit", "For the record of a task, which is the case, until that is dropped.", is_deposit=True
)
TASK_DISPUTE = HoldReason("TaskDispute", "The customer's bond of its dispute about a slot, which is the case.")
BID_BOND = HoldReason("BidBond", "What a bid locks until it is revealed; the case is the bid.")
TASK_CHALLENGE = HoldReason("TaskChallenge", "What a fraud proof costs if it proves nothing; the case is the task.")
TASK_COLLATERAL = HoldReason("TaskCollateral", "What a bid stands for once it is revealed; the case is the bid.")


@named("ogpu::TaskState")
class TaskState(IntEnum):
    """How far a task is: `docs/training.md` says who may do what in each, and what its deadline does."""

    COMMITTING = 0
    """Providers commit to bids."""
    REVEALING = 1
    """They open them."""
    AWARDING = 2
    """The beacon that decides between equal bids is awaited."""
    STARTING = 3
    """Awarded; not all have started."""
    RUNNING = 4
    """All have started; the next milestone, or the result, is awaited."""
    ASKING = 5
    """Who worked is gone; the runner-up, bound no more, is asked first."""
    SUBMITTED = 6
    """All have stated a result; the customer's word is awaited, and whether the beacon asks for an audit."""
    SHOWING = 7
    """The states that were drawn are to be shown."""
    JUDGED = 8
    """The courts judge it."""
    ENDED = 9
    """Nothing is held for it any more but the deposit for its record."""
    VOLUNTEERING = 10
    """Replicas are sought: who computes it too, at the price of the award, says so; then the beacon draws."""
    OPENING = 11
    """Replicas are bound to what they found, and open it."""


@named("ogpu::Acceptance")
class Acceptance(IntEnum):
    """How a customer took a result."""

    ACCEPTED = 0
    BY_SILENCE = 1


@named("ogpu::JudgedFor")
class JudgedFor(IntEnum):
    """Why a task is before the courts."""

    AUDIT = 0
    """The beacon asked for it."""
    DISPUTE = 1
    """The customer says that the result is wrong."""
    FRAUD_PROOF = 2
    """Somebody shows a segment that does not follow."""
    INPUT = 3
    """A provider says that the input is not to be had."""


@struct
class TaskWindows:
    """How long each part of a task's life lasts, in blocks."""

    commit: BlockNumber
    """To commit to bids: so long that no few authors can keep one out."""
    reveal: BlockNumber
    """To reveal them; the same holds."""
    start: BlockNumber
    """To start, from the award."""
    grace: BlockNumber
    """For a milestone beside twice its share of the promised blocks: who is silent for longer is gone."""
    ask: BlockNumber
    """For a runner-up that is bound no more to take over."""
    dispute: BlockNumber
    """To dispute a result, from when it is stated."""
    accept: BlockNumber
    """After so long a silent customer has accepted."""
    show: BlockNumber
    """To show the states that were drawn."""
    keep: BlockNumber
    """For so long the record of an ended task is kept."""


@struct
class Milestone:
    """What a provider says of a point of its run."""

    number: U8
    """Counted from 1 over all legs of the task."""
    root: Hash
    """Of the state there."""
    metric: U64
    """A figure of the workload's own, the loss say; for people."""
    blob: Hash
    """Where the checkpoint lies: its address in the blob store of the provider."""


@struct
class HeldCheckpoint:
    """A milestone that counts: somebody beside the provider has signed that it holds the blob."""

    milestone: Milestone
    holder: AccountId


@struct
class TaskResult:
    """What a slot's provider states at its end."""

    root: Hash
    """Over the trace, or of the output where there is none."""
    blob: Hash
    metric: U64


@struct
class Slot:
    """One of the k places of a leg, and who has it."""

    provider: AccountId
    device: DeviceId
    price: Balance
    promised: BlockNumber
    collateral: Balance
    """K, as it was locked."""
    added: BlockNumber = 0
    """Of the promised blocks, those that its customer has given it beside its own."""
    started_at: BlockNumber = 0
    reported: U8 = 0
    """Milestones of this leg that it has stated."""
    milestone: Milestone | None = None
    """The newest of them."""
    taken: BlockNumber = 0
    """Blocks that it took for what it has stated, each from when all had stated what was before: who waits for a
    partner is not late."""
    finished_at: BlockNumber = 0
    result: TaskResult | None = None
    was_standby: bool = False
    """Whether it took over while it was bound: what it is paid for that falls due when it starts."""
    is_shown: bool = False
    """Whether it has shown the states that were drawn."""
    outcome: TaskOutcome | None = None
    """How it ended, or what the courts have found that it has to end as."""
    draw: U8 = 0
    """Of a replica, in which draw of its task it was drawn; 0 for who won the place at auction."""
    commitment: Hash | None = None
    """What a replica has bound itself to."""


@struct
class Standby:
    """The runner-up: who takes over, at which price."""

    provider: AccountId
    device: DeviceId
    price: Balance
    """Its own second-score price, for the whole leg."""
    promised: BlockNumber
    collateral: Balance
    is_bound: bool = True
    """Its device and its collateral are; until the first milestone of the leg."""


@struct
class CloseOffer:
    """Another end that a customer offers, for each slot, and who of the providers has signed it."""

    pay: Balance
    """Of the escrow, to the provider."""
    back: Balance
    """Of the collateral, to the customer."""
    signed: U32 = 0
    """A bit for each slot."""


@struct
class FraudClaim:
    """A fraud proof that was committed to."""

    commitment: Hash
    made_at: BlockNumber


@struct
class Challenge:
    """A fraud proof that was opened, and is judged."""

    challenger: AccountId
    place: U8
    """Of the slot whose trace it is about."""
    segment: U16
    bond: Balance
    reward: Balance
    """Out of the liar's collateral, if it is one."""


@struct
class Task:
    """A task as it stands."""

    customer: AccountId
    order: TaskOrder
    rules: TaskRules
    windows: TaskWindows
    state: TaskState
    submitted_at: BlockNumber
    deadline: BlockNumber
    """The last block of the state's window; 0 where it waits for finality or the courts."""
    terms: TaskTerms
    """Of this leg."""
    milestones: U8
    """Of this leg."""
    done: U8 = 0
    """How many of them count: who takes over begins behind them."""
    owed: U8 = 0
    """For how many of them the customer itself has signed: so many are paid for if their provider dies."""
    behind: U8 = 0
    """Milestones that counted in earlier legs."""
    begun_from: Hash | None = None
    """The root of the milestone that this leg goes on from; None where it begins with the run."""
    checkpoint: HeldCheckpoint | None = None
    """The newest that counts, of any leg."""
    auction: U8 = 1
    """Which auction this is, or was the last."""
    bids: U8 = 0
    """How many were committed to in it."""
    revealed: U8 = 0
    beacon_at: BlockNumber = 0
    """The height whose beacon breaks ties, or draws segments; the chance of an audit is of the four from two on."""
    slots: Annotated[tuple[Slot, ...], Bounded(SLOTS_MAX)] = ()
    standby: Standby | None = None
    started_at: BlockNumber = 0
    """When all had started."""
    reported_at: BlockNumber = 0
    """When all had last stated a milestone, or started."""
    finished_at: BlockNumber = 0
    accepted: Acceptance | None = None
    is_checked: bool = False
    """Whether the beacon has said if there is an audit."""
    is_due: bool = False
    """Whether it asked for one while a fraud proof is judged, which comes first."""
    judged_for: JudgedFor | None = None
    drawn: Hash | None = None
    """What draws the parts of the trace that are to be shown."""
    named: U16 | None = None
    """The segment that its customer, disputing, says is wrong."""
    claims: U8 = 0
    """Fraud proofs that were committed to, ever."""
    challenge: Challenge | None = None
    cases: U8 = 0
    """How many are open before the courts."""
    close: CloseOffer | None = None
    deposit: Balance = 0
    outcome: TaskOutcome | None = None
    """Of its first slot, or of the whole, once it has ended."""
    draws: U8 = 0
    """How often replicas were sought, over all legs."""
    volunteers: U8 = 0
    """Devices that were offered in the newest draw."""
    jury_from: U8 = 0
    """The place of the first juror: replicas that were drawn anew, of a dispute. 0: there are none."""


@struct
class _TaskBody:
    customer: AccountId
    number: U32


_TASK_BODY = codec(_TaskBody)


def task_id_of(genesis: bytes, customer: bytes, number: int) -> TaskId:
    """The id of the task that `customer` submits as its number `number`, counted from 0."""
    return blake2_256(domain(b"task", genesis, _TASK_BODY.encode(_TaskBody(customer, number))))


def slot_case(task: bytes, place: int) -> bytes:
    """The case of a slot: of what its customer holds for it, and before the courts."""
    return blake2_256(b"ogpu/slot" + task + bytes((place,)))


def is_open(task: Task) -> bool:
    """Whether money is held for its work."""
    return task.state is not TaskState.ENDED


def has_bidding(task: Task) -> bool:
    """Whether its bids still hold something."""
    return task.state in (TaskState.COMMITTING, TaskState.REVEALING, TaskState.AWARDING)


def with_slot(task: Task, place: int, slot: Slot) -> Task:
    """The task with another slot at a place."""
    return replace(task, slots=(*task.slots[:place], slot, *task.slots[place + 1 :]))


def auctioned_terms(task: Task) -> TaskTerms:
    """What an auction of a task goes by: of replicas one place is sold, and the others are drawn."""
    return replace(task.terms, slots=1) if is_replicated(task.order) else task.terms


def has_volunteers(task: Task) -> bool:
    """Whether those who were offered in the newest draw still hold something."""
    return task.state is TaskState.VOLUNTEERING


def places_held(task: Task) -> int:
    """For so many places its customer may hold something: those of a jury that is sought among them."""
    return max(task.terms.slots, task.jury_from + JURORS if task.jury_from else 0)


def panel(task: Task) -> range:
    """The places of those who work now: all, but of a disputed task the jury."""
    return range(task.jury_from, len(task.slots))


def kept_step(task: Task) -> int:
    """Milestones of this leg that all who work have stated."""
    working = [task.slots[place] for place in panel(task)]
    return min((slot.reported for slot in working if slot.outcome is None), default=0)


def taken_by(task: Task, slot: Slot, height: int) -> int:
    """Blocks that a slot has taken since all had started, those apart in which it waited for its partners."""
    is_stated = slot.result is not None or slot.commitment is not None
    is_awaited = task.started_at and not is_stated and slot.reported == kept_step(task)
    return slot.taken + (height - task.reported_at if is_awaited else 0)


def agreed_milestone(task: Task) -> Milestone | None:
    """The newest milestone, if all providers have stated it, and with one root."""
    newest = task.slots[0].milestone if task.slots else None
    if newest is None:
        return None
    said = [slot.milestone for slot in task.slots]
    return newest if all(each and (each.number, each.root) == (newest.number, newest.root) for each in said) else None


def slot_of(standby: Standby, *, was_standby: bool = False) -> Slot:
    """A runner-up as who has the slot; price and promise are already those of what is left."""
    return Slot(
        provider=standby.provider,
        device=standby.device,
        price=standby.price,
        promised=standby.promised,
        collateral=standby.collateral,
        was_standby=was_standby,
    )


def paid_blocks(task: Task, intervals: int) -> int:
    """Blocks of so many intervals of a leg of bought time: at most all that were bought."""
    return min(intervals * interval_of(task.order), task.slots[0].promised)


def interval_end(task: Task) -> int:
    """The first block in which the interval of bought time that runs is over."""
    return task.started_at + paid_blocks(task, task.owed + 1)
