"""The pallet TrainingMarket: tasks that are sold in sealed auctions. Their results are claims.

Invariants: a device has one active assignment, and a bid is one. A submission locks the greatest cost of its task. Each
state has a scheduled deadline, so no party depends on another one's transaction. The work of the hook is bounded.
"""

from collections.abc import Sequence

from gpu_tasks.market.attestations.attestations import ATTACH_WEIGHT
from gpu_tasks.market.attestations.work_source import OpenWork
from gpu_tasks.market.block_room import KEPT_FOR_UNITS, BlockRoom
from gpu_tasks.market.claims.claims import ClaimOutcome
from gpu_tasks.market.claims.handlers import Ruling
from gpu_tasks.market.ids import DeviceId, TaskId
from gpu_tasks.market.training import events as ev
from gpu_tasks.market.training.bids import BidOffer
from gpu_tasks.market.training.life import (
    attested_steps,
    awarding,
    bidding,
    ending,
    failing,
    inputs,
    leaving,
    metering,
    replicating,
    running,
    sides,
    slot_claims,
    submitting,
)
from gpu_tasks.market.training.orders import TaskOrder, is_by_time, is_replicated
from gpu_tasks.market.training.selection import BIDS_MAX
from gpu_tasks.market.training.storage import TrainingStorage
from gpu_tasks.market.training.task_statement import SignedTaskAttestation, StatedMilestone
from gpu_tasks.market.training.tasks import (
    BID_BOND,
    TASK_BOND,
    TASK_COLLATERAL,
    TASK_DEPOSIT,
    TASK_ESCROW,
    Milestone,
    Task,
    TaskResult,
    TaskState,
)
from gpu_tasks.market.training.terms import SLOTS_MAX
from gpu_tasks.market.weights import WEIGHTS
from runtime.encoding.codec import U8
from runtime.encoding.types import BlockNumber, Hash, Weight
from runtime.frame.measured import times
from runtime.frame.pallet import Constant, Hold, HoldEnd, PostDispatch, Signed, call
from runtime.frame.weights import work
from runtime.pallets.staking.slashing import Share

STEP_WEIGHT = WEIGHTS["TrainingMarket.on_initialize step"]
"""The weight of a task's step, without its slots."""
SLOT_WEIGHT = WEIGHTS["TrainingMarket.on_initialize slot"]
"""The weight of settling and releasing a slot, with all its customer's holds for it."""
BID_WEIGHT = WEIGHTS["TrainingMarket.on_initialize bid"]
"""The weight of releasing a bid, or dropping its record."""
READ_BID_WEIGHT = WEIGHTS["TrainingMarket.on_initialize read_bid"]
"""The weight of reading, scoring and placing a bid."""
PREPAID_BY_A_BID = READ_BID_WEIGHT + BID_WEIGHT + BID_WEIGHT
"""The prepaid weight of a bid: to read, release and drop it."""
VOLUNTEER_WEIGHT = WEIGHTS["TrainingMarket.volunteer"] + PREPAID_BY_A_BID
YIELDING_WEIGHT = times(BIDS_MAX, READ_BID_WEIGHT) + BID_WEIGHT + BID_WEIGHT
"""The weight of finding the least bond in a full draw, and of releasing its offer."""
HEIGHT_BUDGET = work(microseconds=24_000)
FINAL_BUDGET = work(microseconds=16_000)
CLEARING_BUDGET = work(microseconds=8_000)


def _weight_of_slots(name: str, slot_count: int) -> Weight:
    """Return the weight of a call that touches up to `slots` slots of a task."""
    return WEIGHTS[f"TrainingMarket.{name}"] + times(slot_count, WEIGHTS[f"TrainingMarket.{name} slot"])


def step_weight(slot_count: int, bid_count: int = 0) -> Weight:
    """Return the weight of a task's step, with a number of bids to choose from if it is awarded."""
    return STEP_WEIGHT + times(slot_count, SLOT_WEIGHT) + times(bid_count, READ_BID_WEIGHT)


class TrainingMarket(TrainingStorage, index=15):
    """Tasks, bids, milestones and results."""

    variants = (SignedTaskAttestation,)
    open_work = OpenWork(TrainingStorage.open_task_count, "ogpu_open_tasks", "Open tasks with locked money")

    sealed_age_max: Constant[BlockNumber] = Constant(600, doc="Greatest age of `sealed_at` in blocks.")

    events = (
        ev.TaskSubmitted, ev.BidCommitted, ev.BidsClosed, ev.BidRevealed, ev.TaskAwarded, ev.StandbyNamed,
        ev.StandbyReleased, ev.BidEnded, ev.SlotStarted, ev.TaskRunning, ev.MilestoneReported, ev.MilestoneCounted,
        ev.ResultStated, ev.ResultsClaimed, ev.StandbyAsked, ev.TaskReopened, ev.TaskDisputed, ev.SlotSettled,
        ev.TaskEnded, ev.ReplicasSought, ev.Volunteered, ev.ResultBound, ev.ReplicasCompared,
    )  # fmt: skip
    errors = (
        ev.UnknownTask, ev.UnsoundOrder, ev.StaleOrder, ev.TooManyTasks, ev.NotTaskCustomer, ev.WrongTaskState,
        ev.NotEligible, ev.TooManyBids, ev.DeviceHasBid, ev.NoSuchBid, ev.WrongBidOpening, ev.CollateralTooLow,
        ev.NotSlotOwner, ev.DoneAlready, ev.WrongMilestone, ev.NothingToConfirm, ev.MayNotConfirm, ev.NotDueYet,
        ev.WrongResultOpening,
    )  # fmt: skip
    hold_reasons = (TASK_ESCROW, TASK_BOND, TASK_DEPOSIT, BID_BOND, TASK_COLLATERAL)

    # ------------------------------------------------------------------------------------------------- the auction

    @call(index=0, weight=lambda order: _weight_of_slots("submit", order.slots))
    def submit(self, origin: Signed, order: TaskOrder) -> None:
        """Put a task to auction: lock its greatest cost, and prepay the steps that blocks make for it."""
        submitting.submit(self, origin.account, order, self.sealed_age_max)

    @call(index=1, weight=WEIGHTS["TrainingMarket.commit_bid"] + PREPAID_BY_A_BID)
    def commit_bid(self, origin: Signed, task: TaskId, device: DeviceId, commitment: Hash) -> None:
        """Commit to a sealed bid for one slot with your device (`bids.bid_commitment`). Stash or provider key sign."""
        bidding.commit(self, task, origin.account, device, commitment)

    @call(index=2, weight=WEIGHTS["TrainingMarket.reveal_bid"])
    def reveal_bid(self, origin: Signed, task: TaskId, device: DeviceId, offer: BidOffer, salt: Hash) -> None:
        """Open your bid. Its collateral is locked, and the bond becomes a part of it."""
        bidding.reveal(self, task, origin.account, device, offer, salt)

    # ---------------------------------------------------------------------------------------------------- the work

    @call(index=3, weight=WEIGHTS["TrainingMarket.start"])
    def start(self, origin: Signed, task: TaskId, place: U8) -> None:
        """State that your work on a slot begins. A runner-up that was asked takes the slot over by this call."""
        running.start(self, task, place, origin.account)

    @call(index=4, weight=WEIGHTS["TrainingMarket.report_milestone"] + WEIGHTS["TrainingMarket.report_milestone time"])
    def report_milestone(self, origin: Signed, task: TaskId, place: U8, milestone: Milestone) -> PostDispatch:
        """State the next milestone by transaction, if authors omit its attestation. Free if it succeeds.

        For bought time, it states that the interval is over, and the interval is paid.
        """
        # Weighed before the call, which may end the task.
        weight = self.stating_weight(self.open_task(task), is_result=False)
        running.report_milestone(self, task, place, origin.account, milestone)
        return PostDispatch(pays_fee=False, actual_weight=weight)

    @call(index=5, weight=WEIGHTS["TrainingMarket.confirm_checkpoint"])
    def confirm_checkpoint(self, origin: Signed, task: TaskId, number: U8, root: Hash) -> None:
        """Confirm, as the customer or the runner-up, that you hold the blob of the milestone with this number and root.

        The root is signed too: a withheld signature must not count for a milestone that another provider states later.
        """
        running.confirm_checkpoint(self, task, origin.account, number, root)

    @call(index=6, weight=_weight_of_slots("finish", SLOTS_MAX))
    def finish(self, origin: Signed, task: TaskId, place: U8, result: TaskResult) -> PostDispatch:
        """State the result of your slot by transaction, if authors omit its attestation. Free if it succeeds."""
        # Weighed before the call, which may end the task.
        weight = self.stating_weight(self.open_task(task), is_result=True)
        running.finish(self, task, place, origin.account, result)
        return PostDispatch(pays_fee=False, actual_weight=weight)

    @call(index=16, weight=WEIGHTS["TrainingMarket.leave"])
    def leave(self, origin: Signed, task: TaskId) -> None:
        """Leave a task that is paid by time. You lose the current interval, and a part of the unearned price."""
        metering.leave(self, task, origin.account)

    @call(index=15, weight=WEIGHTS["TrainingMarket.report_input"])
    def report_input(self, origin: Signed, task: TaskId, place: U8) -> None:
        """Report, before you start, that the input is missing. Voters decide.

        A false report costs as much as a missed start, or the fees of the voters if that is more.
        """
        inputs.report(self, task, place, origin.account)

    @call(index=17, weight=VOLUNTEER_WEIGHT + YIELDING_WEIGHT)
    def volunteer(self, origin: Signed, task: TaskId, device: DeviceId) -> PostDispatch:
        """Offer your device as a replica, at the price of the award. The beacon draws the places.

        When 128 devices are offered, the one with the least bond yields to a larger one.
        """
        # Read before the call, which makes room for the new offer.
        is_full = self.open_task(task).volunteers >= BIDS_MAX
        replicating.volunteer(self, task, origin.account, device)
        return PostDispatch(actual_weight=VOLUNTEER_WEIGHT + YIELDING_WEIGHT if is_full else VOLUNTEER_WEIGHT)

    @call(index=18, weight=WEIGHTS["TrainingMarket.open_result"])
    def open_result(self, origin: Signed, task: TaskId, place: U8, result: TaskResult, salt: Hash) -> PostDispatch:
        """Open your committed result as a replica (`replicas.replica_commitment`). Free if it succeeds."""
        replicating.open_result(self, task, place, origin.account, result, salt)
        return PostDispatch(pays_fee=False)

    # ------------------------------------------------------------------------------------------- changes of mind

    @call(index=10, weight=_weight_of_slots("stop", SLOTS_MAX))
    def stop(self, origin: Signed, task: TaskId) -> PostDispatch:
        """Stop a running task."""
        # Weighed before the call, which ends the task.
        weight = self._weight("stop", task)
        leaving.stop(self, task, origin.account)
        return weight

    @call(index=11, weight=_weight_of_slots("cancel", SLOTS_MAX))
    def cancel(self, origin: Signed, task: TaskId) -> PostDispatch:
        """Cancel a task that does not run yet."""
        # Weighed before the call, which ends the task.
        weight = self._weight("cancel", task)
        leaving.cancel(self, task, origin.account)
        return weight

    # --------------------------------------------------------- a handler: the interface to ResultClaims and to Disputes

    def charge_provider(self, claim: bytes, shares: Sequence[Share]) -> None:
        """Pay the shares out of the collateral of a slot."""
        slot_claims.charge_provider(self, claim, shares)

    def charge_customer(self, claim: bytes, shares: Sequence[Share]) -> None:
        """Pay the shares out of the customer's escrow for a slot."""
        slot_claims.charge_customer(self, claim, shares)

    def conclude(self, claim: bytes, outcome: ClaimOutcome) -> None:
        """Settle the slot of a claim that is over."""
        slot_claims.conclude(self, claim, outcome)

    def rule(self, dispute: bytes, ruling: Ruling) -> None:
        """Carry out the ruling about a missing input, or about different results."""
        task_id, task = self.take_disputed(dispute)
        if task.reported is None:
            sides.rule(self, task_id, task, ruling)
        else:
            inputs.rule(self, task_id, task, task.reported, ruling)

    # ----------------------------------------------------------- a work source: the interface to attestations and nodes

    def attestation_problem(self, signed: SignedTaskAttestation) -> str:
        """Return the reason why a statement of a step may not be attached now, or "" if it may."""
        return attested_steps.problem(self, signed)

    def lasting_problem(self, signed: SignedTaskAttestation) -> str:
        """Return the reason why this branch will never take a statement of a step, or "" if it may."""
        return attested_steps.lasting_problem(self, signed)

    def is_overtaken(self, signed: SignedTaskAttestation) -> bool:
        """Return True if the step was stated otherwise, or its time is over.

        A slot has 64 steps, which would fill a pool.
        """
        return bool(attested_steps.record_problem(self.tasks[signed.statement.task], signed.statement))

    def attaching_weight(self, signed: SignedTaskAttestation) -> Weight:
        """Return the weight of the equivalent call and of the attestation. A result looks at all slots."""
        is_result = not isinstance(signed.statement.stated, StatedMilestone)
        return ATTACH_WEIGHT + self.stating_weight(self.open_task(signed.statement.task), is_result=is_result)

    def attach_work(self, signed: SignedTaskAttestation) -> None:
        """Record the milestone or the result of an admissible statement."""
        attested_steps.attach(self, signed)

    def stating_weight(self, task: Task, *, is_result: bool) -> Weight:
        """Return the weight of stating a milestone or a result. For bought time, the statement settles a slot."""
        call_weight = (
            _weight_of_slots("finish", task.terms.slots) if is_result else WEIGHTS["TrainingMarket.report_milestone"]
        )
        name = "finish" if is_result else "report_milestone"
        return call_weight + WEIGHTS[f"TrainingMarket.{name} time"] if is_by_time(task.order) else call_weight

    def _weight(self, name: str, task: bytes) -> PostDispatch:
        """Return the actual weight of a call that may touch every slot of a task. Its declared weight is the most."""
        return PostDispatch(actual_weight=_weight_of_slots(name, self.open_task(task).terms.slots))

    # ------------------------------------------------------------------------------------------------------- hooks

    def hold_end(self, hold: Hold) -> HoldEnd:
        """Return the end of a deposit hold: its scheduled block, or a number of blocks after the task's end."""
        task = self.tasks[hold.case] if hold.reason is TASK_DEPOSIT else None
        if task is None:
            return HoldEnd()
        return HoldEnd(block=task.deadline) if task.state is TaskState.ENDED else HoldEnd(stays=task.windows.keep)

    def on_initialize(self) -> Weight:
        """Step every task with a passed deadline or a final beacon. Then release bids.

        At an era's turn with many candidates, tasks may wait a block.
        """
        # The hook of units runs later in the block, and its deadlines cannot wait for a later one.
        room = BlockRoom(self.context.mandatory_left - KEPT_FOR_UNITS.ref_time)
        height_budget, final_budget, cleared_budget = (
            room.budget(kind) for kind in (HEIGHT_BUDGET, FINAL_BUDGET, CLEARING_BUDGET)
        )
        for task_id in self.agenda.take(self.height, height_budget):
            height_budget.spend(self._step_due(task_id))
        for task_id in self.final_agenda.take(self.beacon.final_height(), final_budget):
            final_budget.spend(self._awaited(task_id))
        for task_id in self.clearing.take(self.height, cleared_budget):
            cleared_budget.spend(times(ending.clear_bids(self, task_id), BID_WEIGHT))
        return height_budget.spent + final_budget.spent + cleared_budget.spent

    def _step_due(self, task_id: bytes) -> Weight:
        """Do the work of a deadline, and return its weight."""
        task = self._on_agenda(task_id)
        if task.state is TaskState.ENDED:
            return times(1 + ending.drop(self, task_id, task), BID_WEIGHT)
        step_by_state = {
            TaskState.COMMITTING: awarding.close_commits,
            TaskState.REVEALING: awarding.close_reveals,
            TaskState.VOLUNTEERING: replicating.end_of_offers,
            TaskState.STARTING: replicating.not_started if is_replicated(task.order) else failing.not_started,
            TaskState.RUNNING: replicating.end_of_running if is_replicated(task.order) else failing.provider_died,
            TaskState.OPENING: replicating.compare,
            TaskState.ASKING: ending.reopen,
            TaskState.CLAIMED: slot_claims.step,
            TaskState.DISPUTED: sides.end_of_dispute if task.reported is None else inputs.end_of_report,
        }
        step_by_state[task.state](self, task_id, task)
        return step_weight(task.terms.slots)

    def _awaited(self, task_id: bytes) -> Weight:
        """Do the work that waited for a final beacon, and return its weight."""
        task = self._on_agenda(task_id)
        if task.state is TaskState.AWARDING:
            awarding.award(self, task_id, task)
            return step_weight(task.terms.slots, task.bids)
        assert task.state is TaskState.VOLUNTEERING, "only these states wait for finality"
        replicating.draw(self, task_id, task)
        return step_weight(task.terms.slots, task.volunteers)

    def _on_agenda(self, task_id: bytes) -> Task:
        task = self.tasks[task_id]
        assert task is not None, "every task on an agenda has a record"
        return task
