"""TrainingMarket: tasks that go to sealed auctions. This is the pallet: calls, hook, and what the courts ask of it.

Always: a device has one active assignment, and a bid is one; what a task can cost its customer is locked when it is
submitted; each state has a deadline that the agenda keeps, so that nobody waits for anybody's transaction; the hook is
bounded by work.
"""

from collections.abc import Sequence

from gpu_tasks.market.attestations.attestations import ATTACH_WEIGHT
from gpu_tasks.market.attestations.work_source import OpenWork
from gpu_tasks.market.block_room import KEPT_FOR_UNITS, BlockRoom
from gpu_tasks.market.courts.handlers import CaseRuling
from gpu_tasks.market.ids import DeviceId, TaskId
from gpu_tasks.market.training import events as ev
from gpu_tasks.market.training import replica_events as replica_ev
from gpu_tasks.market.training.bids import BidOffer
from gpu_tasks.market.training.life import (
    attested_steps,
    awarding,
    bidding,
    ending,
    failing,
    fraud_proofs,
    inputs,
    judging,
    leaving,
    metering,
    replicating,
    running,
    submitting,
)
from gpu_tasks.market.training.life.leaving import Amendment
from gpu_tasks.market.training.orders import JURORS, TaskOrder, is_by_time, is_replicated
from gpu_tasks.market.training.selection import BIDS_MAX
from gpu_tasks.market.training.showing import ShownStretches
from gpu_tasks.market.training.storage import TrainingStorage
from gpu_tasks.market.training.task_statement import SignedTaskAttestation, StatedMilestone
from gpu_tasks.market.training.tasks import (
    BID_BOND,
    TASK_BOND,
    TASK_CHALLENGE,
    TASK_COLLATERAL,
    TASK_DEPOSIT,
    TASK_DISPUTE,
    TASK_ESCROW,
    JudgedFor,
    Milestone,
    Task,
    TaskResult,
    TaskState,
    places_held,
)
from gpu_tasks.market.training.terms import SLOTS_MAX
from gpu_tasks.market.weights import WEIGHTS
from gpu_tasks.traces.trace import TraceFraudProof
from runtime.encoding.codec import U8, U16
from runtime.encoding.types import Balance, BlockNumber, Hash, Weight
from runtime.frame.measured import times
from runtime.frame.pallet import Constant, Hold, HoldEnd, PostDispatch, Signed, call
from runtime.frame.weights import work
from runtime.pallets.staking.slashing import Share

STEP_WEIGHT = WEIGHTS["TrainingMarket.on_initialize step"]
"""A task that is looked at, its slots apart."""
SLOT_WEIGHT = WEIGHTS["TrainingMarket.on_initialize slot"]
"""A slot settled and set free, and all that its customer held for it."""
BID_WEIGHT = WEIGHTS["TrainingMarket.on_initialize bid"]
"""A bid set free, or its record dropped."""
READ_BID_WEIGHT = WEIGHTS["TrainingMarket.on_initialize read_bid"]
"""A bid read, scored and placed."""
PREPAID_BY_A_BID = READ_BID_WEIGHT + BID_WEIGHT + BID_WEIGHT
"""To be read, set free, and dropped."""
VOLUNTEER_WEIGHT = WEIGHTS["TrainingMarket.volunteer"] + PREPAID_BY_A_BID
YIELDING_WEIGHT = times(BIDS_MAX, READ_BID_WEIGHT) + BID_WEIGHT + BID_WEIGHT
"""To look for the least bond of a draw that is full, and to set its offer free."""
HEIGHT_BUDGET = work(microseconds=24_000)
FINAL_BUDGET = work(microseconds=16_000)
CLEARING_BUDGET = work(microseconds=8_000)


def _of_slots(name: str, slots: int) -> Weight:
    """What a call weighs that may touch so many slots of a task."""
    return WEIGHTS[f"TrainingMarket.{name}"] + times(slots, WEIGHTS[f"TrainingMarket.{name} slot"])


def step_weight(slots: int, bids: int = 0) -> Weight:
    """What a look at a task weighs, with so many bids to choose from if it is awarded."""
    return STEP_WEIGHT + times(slots, SLOT_WEIGHT) + times(bids, READ_BID_WEIGHT)


class TrainingMarket(TrainingStorage, index=15):
    """Tasks, bids, milestones and results."""

    variants = (SignedTaskAttestation,)
    open_work = OpenWork(TrainingStorage.open_task_count, "ogpu_open_tasks", "Tasks that hold money of their customers")

    sealed_age_max: Constant[BlockNumber] = Constant(600, doc="How far back `sealed_at` may lie.")

    events = (
        ev.TaskSubmitted, ev.BidCommitted, ev.BidsClosed, ev.BidRevealed, ev.TaskAwarded, ev.StandbyNamed,
        ev.StandbyReleased, ev.BidEnded, ev.SlotStarted, ev.TaskRunning, ev.MilestoneReported, ev.MilestoneCounted,
        ev.ResultStated, ev.ResultAccepted, ev.StandbyAsked, ev.TaskReopened, ev.SegmentsDrawn, ev.StatesShown,
        ev.FraudClaimed, ev.FraudShown, ev.FraudProven, ev.TaskJudged, ev.TaskAmended, ev.CloseOffered,
        ev.SlotSettled, ev.TaskEnded, ev.FraudNotShown, replica_ev.ReplicasSought, replica_ev.Volunteered,
        replica_ev.ResultBound, replica_ev.ReplicasCompared,
    )  # fmt: skip
    errors = (
        ev.UnknownTask, ev.UnsoundOrder, ev.StaleOrder, ev.TooManyTasks, ev.NotTaskCustomer, ev.WrongTaskState,
        ev.NotEligible, ev.TooManyBids, ev.DeviceHasBid, ev.NoSuchBid, ev.WrongBidOpening, ev.CollateralTooLow,
        ev.NotSlotOwner, ev.DoneAlready, ev.WrongMilestone, ev.NothingToConfirm, ev.MayNotConfirm, ev.NotShown,
        ev.TooManyClaims, ev.NoSuchClaim, ev.ProvesNothing, ev.NoCloseOffer, ev.UnsoundAmendment, ev.NoSuchSegment,
        ev.NotDueYet, replica_ev.WrongResultOpening,
    )  # fmt: skip
    hold_reasons = (TASK_ESCROW, TASK_BOND, TASK_DEPOSIT, TASK_DISPUTE, BID_BOND, TASK_COLLATERAL, TASK_CHALLENGE)

    # ------------------------------------------------------------------------------------------------- the auction

    @call(index=0, weight=lambda order: _of_slots("submit", order.slots))
    def submit(self, origin: Signed, order: TaskOrder) -> None:
        """Put a task to auction: locks all that it can cost, and prepays the blocks that have to look at it."""
        submitting.submit(self, origin.account, order, self.sealed_age_max)

    @call(index=1, weight=WEIGHTS["TrainingMarket.commit_bid"] + PREPAID_BY_A_BID)
    def commit_bid(self, origin: Signed, task: TaskId, device: DeviceId, commitment: Hash) -> None:
        """Commit to a sealed bid for one slot with a device (bids.bid_commitment); the stash signs, or its key."""
        bidding.commit(self, task, origin.account, device, commitment)

    @call(index=2, weight=WEIGHTS["TrainingMarket.reveal_bid"])
    def reveal_bid(self, origin: Signed, task: TaskId, device: DeviceId, offer: BidOffer, salt: Hash) -> None:
        """Open a bid: its collateral is locked, of which the bond is a part."""
        bidding.reveal(self, task, origin.account, device, offer, salt)

    # ---------------------------------------------------------------------------------------------------- the work

    @call(index=3, weight=WEIGHTS["TrainingMarket.start"])
    def start(self, origin: Signed, task: TaskId, place: U8) -> None:
        """Say that the work on a slot begins; a runner-up that is asked takes it over so."""
        running.start(self, task, place, origin.account)

    @call(index=4, weight=WEIGHTS["TrainingMarket.report_milestone"] + WEIGHTS["TrainingMarket.report_milestone time"])
    def report_milestone(self, origin: Signed, task: TaskId, place: U8, milestone: Milestone) -> PostDispatch:
        """State the next milestone, where authors leave its attestation out. Free when it succeeds, as that is.

        Where time is bought, that the interval is over: it is paid by this.
        """
        weight = self.stating_weight(self.open_task(task), is_result=False)
        running.report_milestone(self, task, place, origin.account, milestone)
        return PostDispatch(pays_fee=False, actual_weight=weight)

    @call(index=5, weight=WEIGHTS["TrainingMarket.confirm_checkpoint"])
    def confirm_checkpoint(self, origin: Signed, task: TaskId, number: U8, root: Hash) -> None:
        """Sign, as the customer or the runner-up, that one holds the blob of the milestone with this number and root.

        Without the root a signature that is kept back would count for what somebody else states later.
        """
        running.confirm_checkpoint(self, task, origin.account, number, root)

    @call(index=6, weight=_of_slots("finish", SLOTS_MAX))
    def finish(self, origin: Signed, task: TaskId, place: U8, result: TaskResult) -> PostDispatch:
        """State the result of a slot, where authors leave its attestation out. Free when it succeeds, as that is."""
        weight = self.stating_weight(self.open_task(task), is_result=True)
        running.finish(self, task, place, origin.account, result)
        return PostDispatch(pays_fee=False, actual_weight=weight)

    @call(index=16, weight=WEIGHTS["TrainingMarket.leave"])
    def leave(self, origin: Signed, task: TaskId) -> None:
        """Go, as who is paid by time: the interval that runs is lost, and a part of the price that is not earned."""
        metering.leave(self, task, origin.account)

    @call(index=15, weight=WEIGHTS["TrainingMarket.report_input"])
    def report_input(self, origin: Signed, task: TaskId, place: U8) -> None:
        """Say, before one starts, that the input is not to be had: judges find out; a false word costs a miss."""
        inputs.report(self, task, place, origin.account)

    @call(index=17, weight=VOLUNTEER_WEIGHT + YIELDING_WEIGHT)
    def volunteer(self, origin: Signed, task: TaskId, device: DeviceId) -> PostDispatch:
        """Offer a device as a replica, or a juror, at the price of the award; the beacon draws who has a place.

        Where 128 are offered, the one with the least bond yields to a larger one.
        """
        is_full = self.open_task(task).volunteers >= BIDS_MAX
        replicating.volunteer(self, task, origin.account, device)
        return PostDispatch(actual_weight=VOLUNTEER_WEIGHT + YIELDING_WEIGHT if is_full else VOLUNTEER_WEIGHT)

    @call(index=18, weight=WEIGHTS["TrainingMarket.open_result"])
    def open_result(self, origin: Signed, task: TaskId, place: U8, result: TaskResult, salt: Hash) -> PostDispatch:
        """Open, as a replica, what one is bound to (replicas.replica_commitment). Free when it succeeds."""
        replicating.open_result(self, task, place, origin.account, result, salt)
        return PostDispatch(pays_fee=False)

    # ------------------------------------------------------------------------------------------------- the result

    @call(index=7, weight=WEIGHTS["TrainingMarket.accept"])
    def accept(self, origin: Signed, task: TaskId) -> None:
        """Take the result; it is paid as soon as it is known that it is not audited."""
        judging.accept(self, task, origin.account)

    @call(index=8, weight=_of_slots("dispute", SLOTS_MAX))
    def dispute(self, origin: Signed, task: TaskId, segment: U16 | None) -> PostDispatch:
        """Say that the result is wrong, with a bond that pays the judges if it is not.

        `segment`, of the trace, is looked at beside those that are drawn.
        """
        weight = self._weight("dispute", task)
        judging.dispute(self, task, origin.account, segment)
        return weight

    @call(index=9, weight=WEIGHTS["TrainingMarket.show"])
    def show(self, origin: Signed, task: TaskId, place: U8, stretches: ShownStretches) -> None:
        """Show the states that are looked at of a slot's trace; who does not in time counts as having lied."""
        judging.show(self, task, place, origin.account, stretches)

    @call(index=13, weight=WEIGHTS["TrainingMarket.claim_fraud"] + BID_WEIGHT)
    def claim_fraud(self, origin: Signed, task: TaskId, commitment: Hash) -> None:
        """Commit to a fraud proof of a trace (fraud_claims.claim_commitment), with a bond that pays its judges.

        Where all places are taken, that of who has opened nothing for long is free: it loses its bond.
        """
        fraud_proofs.claim(self, task, origin.account, commitment)

    @call(index=14, weight=WEIGHTS["TrainingMarket.show_fraud"])
    def show_fraud(self, origin: Signed, task: TaskId, place: U8, proof: TraceFraudProof, salt: Hash) -> None:
        """Open a fraud proof in a later block: right, it brings twice its bond; wrong, it costs that."""
        fraud_proofs.show(self, task, place, origin.account, proof, salt)

    # ------------------------------------------------------------------------------------------- changes of mind

    @call(index=10, weight=_of_slots("amend", SLOTS_MAX))
    def amend(self, origin: Signed, task: TaskId, change: Amendment) -> PostDispatch:
        """Raise the price before the first bid, give a running task more blocks, or stop it."""
        weight = self._weight("amend", task)
        leaving.amend(self, task, origin.account, change)
        return weight

    @call(index=11, weight=_of_slots("cancel", SLOTS_MAX))
    def cancel(self, origin: Signed, task: TaskId) -> PostDispatch:
        """Take back a task that does not run yet."""
        weight = self._weight("cancel", task)
        leaving.cancel(self, task, origin.account)
        return weight

    @call(index=12, weight=_of_slots("close", SLOTS_MAX))
    def close(self, origin: Signed, task: TaskId, pay: Balance, back: Balance) -> PostDispatch:
        """Offer another end as the customer, or sign the one that is offered as the stash of a slot."""
        weight = self._weight("close", task)
        leaving.close(self, task, origin.account, pay, back)
        return weight

    # ------------------------------------------------------ a handler of cases: what the courts ask of who brings them

    def charge_party(self, case: bytes, party: bytes, shares: Sequence[Share]) -> None:
        """Pay the shares out of the collateral of a slot."""
        judging.charge_party(self, case, party, shares)

    def charge_customer(self, case: bytes, shares: Sequence[Share]) -> None:
        """Pay the shares out of what the customer holds for a slot."""
        judging.charge_customer(self, case, shares)

    def carry_out(self, case: bytes, ruling: CaseRuling) -> None:
        """A case about a slot is over."""
        judging.carry_out(self, case, ruling)

    # -------------------------------------------------------- a work source: what attestations and nodes ask of markets

    def attestation_problem(self, signed: SignedTaskAttestation) -> str:
        """Why a statement of a step may not be attached now; empty if it may."""
        return attested_steps.problem(self, signed)

    def lasting_problem(self, signed: SignedTaskAttestation) -> str:
        """Why this branch will never take a statement of a step; empty if it may."""
        return attested_steps.lasting_problem(self, signed)

    def is_overtaken(self, signed: SignedTaskAttestation) -> bool:
        """Whether the step was stated otherwise, or its time is over: a slot has 64 steps, which would fill a pool."""
        return bool(attested_steps.record_problem(self.tasks[signed.statement.task], signed.statement))

    def attaching_weight(self, signed: SignedTaskAttestation) -> Weight:
        """The weight of the call that states the same, and of the attestation; a result looks at all slots."""
        is_result = not isinstance(signed.statement.stated, StatedMilestone)
        return ATTACH_WEIGHT + self.stating_weight(self.open_task(signed.statement.task), is_result=is_result)

    def attach_work(self, signed: SignedTaskAttestation) -> None:
        """Write down the milestone or the result of an admissible statement."""
        attested_steps.attach(self, signed)

    def stating_weight(self, task: Task, *, is_result: bool) -> Weight:
        """What it weighs to state a milestone of a task, or its result; where time is bought, that settles a slot."""
        weight = _of_slots("finish", task.terms.slots) if is_result else WEIGHTS["TrainingMarket.report_milestone"]
        name = "finish" if is_result else "report_milestone"
        return weight + WEIGHTS[f"TrainingMarket.{name} time"] if is_by_time(task.order) else weight

    def _weight(self, name: str, task: bytes) -> PostDispatch:
        """What a call takes that may touch every slot of a task; before it is known how many, it is charged for all."""
        record = self.open_task(task)
        jurors = JURORS if is_replicated(record.order) else 0
        return PostDispatch(actual_weight=_of_slots(name, max(record.terms.slots, jurors)))

    # ------------------------------------------------------------------------------------------------------- hooks

    def hold_end(self, hold: Hold) -> HoldEnd:
        """The deposit of a record: it comes back so many blocks after the task has ended."""
        task = self.tasks[hold.case] if hold.reason is TASK_DEPOSIT else None
        if task is None:
            return HoldEnd()
        return HoldEnd(block=task.deadline) if task.state is TaskState.ENDED else HoldEnd(stays=task.windows.keep)

    def on_initialize(self) -> Weight:
        """Look at every task whose deadline is over or whose beacon is final; then clear bids.

        Where an era turns and many stand for election, tasks wait a block.
        """
        room = BlockRoom(self.context.mandatory_left - KEPT_FOR_UNITS.ref_time)
        reached, final, cleared = (room.budget(kind) for kind in (HEIGHT_BUDGET, FINAL_BUDGET, CLEARING_BUDGET))
        for task_id in self.agenda.take(self.height, reached):
            reached.spend(self._due(task_id))
        for task_id in self.final_agenda.take(self.beacon.final_height(), final):
            final.spend(self._awaited(task_id))
        for task_id in self.clearing.take(self.height, cleared):
            cleared.spend(times(ending.clear_bids(self, task_id), BID_WEIGHT))
        return reached.spent + final.spent + cleared.spent

    def _due(self, task_id: bytes) -> Weight:
        """Do what a deadline does; what that weighed."""
        task = self._on_agenda(task_id)
        if task.state is TaskState.ENDED:
            return times(1 + ending.drop(self, task_id, task), BID_WEIGHT)
        steps = {
            TaskState.COMMITTING: awarding.close_commits,
            TaskState.REVEALING: awarding.close_reveals,
            TaskState.VOLUNTEERING: replicating.end_of_offers,
            TaskState.STARTING: replicating.not_started if is_replicated(task.order) else failing.not_started,
            TaskState.RUNNING: replicating.end_of_running if is_replicated(task.order) else failing.died,
            TaskState.OPENING: replicating.compare,
            TaskState.ASKING: ending.reopen,
            TaskState.SUBMITTED: judging.end_of_acceptance,
            TaskState.SHOWING: judging.end_of_showing,
            TaskState.JUDGED: inputs.end_of_report if task.judged_for is JudgedFor.INPUT else judging.end_of_case,
        }
        steps[task.state](self, task_id, task)
        return step_weight(places_held(task))

    def _awaited(self, task_id: bytes) -> Weight:
        """Do what a final beacon allows; what that weighed."""
        task = self._on_agenda(task_id)
        if task.state is TaskState.AWARDING:
            awarding.award(self, task_id, task)
            return step_weight(task.terms.slots, task.bids)
        if task.state is TaskState.VOLUNTEERING:
            replicating.draw(self, task_id, task)
            return step_weight(task.terms.slots + JURORS, task.volunteers)
        if task.state in (TaskState.SUBMITTED, TaskState.JUDGED):
            judging.take_chance(self, task_id, task)
        else:
            assert task.state is TaskState.SHOWING, "no other state waits for finality"
            judging.draw_segments(self, task_id, task)
        return step_weight(task.terms.slots)

    def _on_agenda(self, task_id: bytes) -> Task:
        task = self.tasks[task_id]
        assert task is not None, "a task that is gone is on no agenda"
        return task
