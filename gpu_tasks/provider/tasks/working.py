"""The work on bids: open, win, run step by step, and state; or stand by, and take over.

Invariants:

* The next step is a function of chain and journal.
* A publicly visible step is in the journal before it is sent, and repeated until the chain shows it.
* A milestone or result in the journal is never computed again, and no other is ever stated.
* A bid is opened only after its commitment is final.
* Nothing is signed for another task than the bid's.
* A run stays on the disk until its task has ended, so that this provider can deliver its items and show samples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from gpu_tasks.data.blob_client import BlobError
from gpu_tasks.data.run_states import root_of, state_index
from gpu_tasks.market.attestations.kinds import AnyAttestation
from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.market.training import money
from gpu_tasks.market.training.bids import auction_id
from gpu_tasks.market.training.items import auction_items
from gpu_tasks.market.training.money import TaskMoney, TaskPayee, TaskPurse
from gpu_tasks.market.training.orders import is_by_time, is_replicated, runs_program
from gpu_tasks.market.training.task_statement import (
    TASK_VERSION,
    SignedTaskAttestation,
    Stated,
    StatedMilestone,
    StatedResult,
    TaskAttestation,
    step_of,
    task_signing_payload,
)
from gpu_tasks.market.training.tasks import Milestone, Slot, Task, TaskResult, TaskState, kept_step
from gpu_tasks.market.training.time_paid import end_flows, interval_flows
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.provider.blobs.inputs import UnusableInputError
from gpu_tasks.provider.chain.port import ChainError, Identity, TaskPort, View
from gpu_tasks.provider.chain.side_pay import is_standing_by
from gpu_tasks.provider.duties.dispute_appeals import OwnDispute
from gpu_tasks.provider.duties.duty import Duty
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.sent_steps import RESEND_BLOCKS, StepBook, StepKey, StepMessage
from gpu_tasks.provider.execution.executor import BadRequestError, ExecutionError
from gpu_tasks.provider.journal.task_records import FoundMilestone, TaskEntry, TaskKey, TaskStep
from gpu_tasks.provider.programs.supervisor import ContainerSupervisor
from gpu_tasks.provider.tasks.checkpoint_blobs import fetch_run, seal_run, spread
from gpu_tasks.provider.tasks.places import (
    LAST_BLOCKS,
    OnHand,
    OwnTask,
    commitment_of,
    is_about,
    is_held,
    newest_stated,
    next_step,
    own_place,
    own_standby,
    why_over,
    why_waiting,
)
from gpu_tasks.provider.tasks.replica_places import bound_result
from gpu_tasks.provider.tasks.sold_time import TimeDuty
from gpu_tasks.provider.tasks.task_book import TaskBook
from gpu_tasks.provider.tasks.task_disputes import own_dispute
from gpu_tasks.provider.tasks.task_inputs import name_of
from gpu_tasks.provider.tasks.task_runs import TaskRun, check_state
from gpu_tasks.provider.telemetry import Detail, failure
from runtime.frame.call import Call

ATTESTED = (TaskStep.MILESTONE, TaskStep.FINISH)
"""Steps that authors include as attestations."""
AUCTIONS_APART = 1_024
"""The factor that combines a milestone's number with the auction's number in a step's key."""
CLAIMED_STATES = (TaskState.CLAIMED, TaskState.DISPUTED)
WORKED_STATES = (TaskState.STARTING, TaskState.RUNNING, *CLAIMED_STATES)


# A task's pay by the row of the money table with which its slot ended, computed from the chain's record.
# Invariant: a pure function. It leaves out charges of claims and disputes, and jointly signed ends, because the task's
# record does not contain them.
def earned(task: Task | None, stash: bytes, device_id: bytes) -> int:
    """Return the grains paid to the provider of a slot, after fees; 0 if the chain no longer knows the task."""
    place = None if task is None else own_place(task, stash, device_id)
    if task is None or place is None:
        return 0
    slot, task_rules, terms = task.slots[place], task.rules, task.terms
    has_ended = task.state is TaskState.ENDED
    slot_outcome = slot.outcome
    if slot_outcome is None and has_ended:
        slot_outcome = task.outcome  # a stopped task ends alike for all
    if slot_outcome is None:
        return 0
    end_height = slot.finished_at or (task.deadline - task.windows.keep if has_ended else 0)
    held_by_purse = {
        TaskPurse.ESCROW: money.escrow(task_rules, terms.price_max, auction_items(task.order, task.behind)),
        TaskPurse.CUSTOMER_BOND: money.customer_bond(task_rules, terms.price_max),
        TaskPurse.COLLATERAL: slot.collateral,
    }
    if is_by_time(task.order):
        payments = (*interval_flows(task, slot), *end_flows(task, slot, slot_outcome, held_by_purse))
    else:
        payments = money.settle(slot_outcome, _slot_money(task, slot, held_by_purse, end_height))
    return sum(payment.amount for payment in payments if payment.payee is TaskPayee.PROVIDER)


def _slot_money(task: Task, slot: Slot, held_by_purse: Mapping[TaskPurse, int], end_height: int) -> TaskMoney:
    return TaskMoney(
        rules=task.rules,
        terms=task.terms,
        held=held_by_purse,
        price=slot.price,
        collateral=slot.collateral,
        promised=slot.promised,
        stated=kept_step(task),
        elapsed=end_height - task.started_at if task.started_at else 0,
        milestones=task.milestones,
        done=task.owed,
    )


class WorkDuty(Duty):
    """The steps of all bids and of the won tasks."""

    def __init__(
        self, parts: Parts[TaskPort], book: TaskBook, programs: ContainerSupervisor, is_draining: Callable[[], bool]
    ) -> None:
        """Tasks run in parallel, each on the device of its bid. A draining provider takes over no task."""
        self.parts = parts
        self.book = book
        self._drains = is_draining
        self.steps: StepBook[TaskStep] = StepBook(parts)
        self.selling = TimeDuty(parts, programs, self.steps.tasks)
        self.running = self.steps.tasks, self.selling.telling
        self._held: dict[TaskKey, Milestone] = {}
        self._attested: dict[StepKey, TaskStep] = {}
        self._seen_final: set[TaskKey] = set()
        self.disputes: tuple[OwnDispute, ...] = ()
        """The open disputes about own tasks, as last read from the chain."""

    async def step(self, view: View) -> None:
        """Take the due steps of every open bid. Raise ChainError if the chain cannot be read."""
        self.steps.look(view)
        self.selling.tidy()
        open_entries = dict(self.parts.journal.open_tasks())
        own_tasks = await self._own_tasks(open_entries) if open_entries else []
        stash = self.parts.identity.stash
        self.book.standing = {
            own_task.key[0]: open_entries[own_task.key].device
            for own_task in own_tasks
            if own_task.task is not None and is_standing_by(own_task.task, stash)
        }
        disputes = (own_dispute(self.parts, own_task, open_entries[own_task.key]) for own_task in own_tasks)
        self.disputes = tuple(dispute for dispute in disputes if dispute is not None)
        for own_task in own_tasks:
            try:
                await self._take_step(own_task, open_entries[own_task.key], view)
            except ChainError as error:
                self.parts.telemetry.tell("refused", task=own_task.key[0], **failure(error))

    async def _own_tasks(self, open_entries: dict[TaskKey, TaskEntry], *, is_final: bool = False) -> list[OwnTask]:
        """Return the chain's tasks and bids for these journal entries."""
        chain_port = self.parts.chain
        bid_keys = {task_key: (auction_id(*task_key), entry.device) for task_key, entry in open_entries.items()}
        task_records = await chain_port.tasks(list(dict.fromkeys(task for task, _ in open_entries)), final=is_final)
        bid_records = await chain_port.bids(list(bid_keys.values()), final=is_final)
        return [
            OwnTask(task_key, task_records.get(task_key[0]), bid_records.get(bid_keys[task_key]))
            for task_key in open_entries
        ]

    async def _take_step(self, own_task: OwnTask, entry: TaskEntry, view: View) -> None:
        stash, task = self.parts.identity.stash, own_task.task
        if why_over(own_task, entry, stash, view.height):
            await self._end_if_final(own_task.key, entry, view)
            return
        if task is None:
            return
        # A dishonest node could show another task to have something signed for it.
        if not is_about(task, entry):
            self.book.wait(
                own_task.key[0], "not_final", "the node's task differs from the one of the bid", is_problem=True
            )
            return
        if own_task.bid is not None and own_task.bid.opened is not None:
            self.book.note_opened(own_task.key)
        self._work_beside(own_task, task, entry)
        step = next_step(own_task, entry, stash, self._on_hand(own_task, task), view.newest)
        if step is None:
            self.book.wait(own_task.key[0], "waiting", why_waiting(own_task, entry, stash))
        elif await self._may_be_seen(own_task, entry, step, view):
            await self._take_if_due(own_task, task, entry, step)

    async def _end_if_final(self, task_key: TaskKey, entry: TaskEntry, view: View) -> None:
        """End a bid without remaining work, if the final chain agrees."""
        (final_own_task,) = await self._own_tasks({task_key: entry}, is_final=True)
        reason_over = why_over(final_own_task, entry, self.parts.identity.stash, view.height)
        if not reason_over:
            return
        paid_grains = earned(final_own_task.task, self.parts.identity.stash, entry.device)
        kind = "task" if final_own_task.task is None else name_of(self.parts, final_own_task.task.order)
        self.selling.forget(task_key)
        with self.parts.journal.step():
            self.parts.earnings.note("task", *task_key, device=entry.device, service=kind, grains=paid_grains)
            self.parts.journal.tasks.change(task_key, end=reason_over, paid=paid_grains)
        self.steps.forget(task_key)
        self.steps.tasks.cancel((*task_key, "hold"))
        self._held.pop(task_key, None)
        self._attested = {
            attested_key: attested_step
            for attested_key, attested_step in self._attested.items()
            if attested_key[0] != task_key[0]
        }
        self._seen_final.discard(task_key)
        self.book.forget(task_key[0])
        self.parts.telemetry.tell(
            "task_over", task=task_key[0], device=entry.device, why=reason_over, grains=paid_grains
        )
        self.parts.watch.end(task_key[0])

    # ------------------------------------------------------------------------------------------------ beside the chain

    def _work_beside(self, own_task: OwnTask, task: Task, entry: TaskEntry) -> None:
        """Start long work: preparing a run, running it, or fetching a checkpoint to hold."""
        stash, tasks = self.parts.identity.stash, self.steps.tasks
        place = own_place(task, stash, entry.device)
        if runs_program(task.order):
            self.selling.beside(own_task, task, entry, place, self.steps.newest)
            return
        is_standby = own_standby(task, stash, entry.device) is not None
        if place is not None and task.state in WORKED_STATES:
            has_more = self._has_more(own_task, task, entry)
            # A reported input may be missing.
            if has_more or (task.reported is None and self.book.run(own_task.key[0], task) is None):
                tasks.start(own_task.key, self._run_task(own_task, task, entry, has_more=has_more))
        elif is_standby and task.state is TaskState.ASKING:
            if self.book.run(own_task.key[0], task) is None and not self._drains():
                tasks.start(own_task.key, self._run_task(own_task, task, entry, has_more=False))
        elif (
            is_standby
            and task.state is TaskState.RUNNING
            and newest_stated(task)
            and not is_held(task, self._held.get(own_task.key))
        ):
            tasks.start((*own_task.key, "hold"), self._fetch_to_hold(own_task, task, entry))

    def _has_more(self, own_task: OwnTask, task: Task, entry: TaskEntry) -> bool:
        """Return True if a part of the run must be computed."""
        if task.state is TaskState.RUNNING:
            return entry.result is None
        # A claimed task needs its run too: after a restart its states are read from the disk to be delivered, and lost
        # ones are computed again.
        task_run = self.book.run(own_task.key[0], task)
        is_whole = task_run is not None and task_run.is_whole
        return task.state in CLAIMED_STATES and task.reported is None and not is_whole

    async def _run_task(self, own_task: OwnTask, task: Task, entry: TaskEntry, *, has_more: bool) -> None:
        """Prepare a run and compute it to its end. An error is retried at the next block."""
        try:
            task_run = await self.book.prepare(own_task.key[0], task, entry.device)
            self._let_watch(own_task.key[0], task, entry, task_run)
            while has_more:
                await self._note_milestones(own_task.key, task, task_run)
                if task_run.is_whole:
                    break
                await task_run.compute_next(partial(self._tell_progress, own_task.key[0], task_run))
        except (UnusableInputError, BadRequestError, BlobError, ExecutionError, ChainError, OSError) as error:
            self.parts.telemetry.tell("hindered", task=own_task.key[0], **failure(error))

    def _let_watch(self, task_id: bytes, task: Task, entry: TaskEntry, task_run: TaskRun) -> None:
        """Start telemetry for the customer, if this machine has the slot."""
        place = own_place(task, self.parts.identity.stash, entry.device)
        if place is not None:
            self.parts.watch.begin(task_id, place, entry.device, task_run.asked.reply_key)

    def _tell_progress(self, task_id: bytes, task_run: TaskRun, steps_done: int) -> None:
        self.parts.watch.progress(task_id, steps_done, task_run.boundaries[-1], task_run.step_us)

    async def _note_milestones(self, task_key: TaskKey, task: Task, task_run: TaskRun) -> None:
        """Store and note the finished milestones and the result, before any other party learns of them."""
        order = task.order
        for milestone_number in range(task.behind + 1, order.milestones + 1):
            boundary_index, is_last_milestone = (
                state_index(order, milestone_number),
                milestone_number == order.milestones,
            )
            if boundary_index > task_run.index:
                return
            noted_entry = self.parts.journal.tasks[task_key]
            if (noted_entry.result is not None) if is_last_milestone else (milestone_number in noted_entry.milestones):
                continue
            # After a restart a milestone may be older than the newest state.
            newest_state = (
                task_run.newest if boundary_index == task_run.index else task_run.folder.state(boundary_index)
            )
            if newest_state is None:
                raise ExecutionError(f"the state of milestone {milestone_number} is no longer on disk")
            state_digests = tuple(task_run.digests[: boundary_index + 1])
            state_metric = await self.parts.workers.metric(
                task_run.form, task_run.asked.request, newest_state, task_run.device
            )
            state_blob = await seal_run(self.parts, task, task_run.asked.reply_key, state_digests, newest_state)
            if is_last_milestone:
                task_result = TaskResult(root_of(state_digests), state_blob, state_metric)
                self.parts.journal.tasks.change(task_key, result=task_result, result_usage=task_run.usage_taken())
            else:
                milestone = Milestone(milestone_number, root_of(state_digests), state_metric, state_blob)
                self.parts.journal.tasks.add(task_key, found=FoundMilestone(milestone, task_run.usage_taken()))
            self.parts.telemetry.tell(
                "computed", task=task_key[0], milestone=milestone_number, of=order.milestones, metric=state_metric
            )
            # Copies at other stores let a standby continue if this machine fails.
            self.steps.tasks.start((*task_key, state_blob), self._spread(state_blob))

    async def _spread(self, address: bytes) -> None:
        try:
            await spread(self.parts, address)
        except ChainError as error:
            self.parts.telemetry.tell("not_spread", **failure(error))

    async def _fetch_to_hold(self, own_task: OwnTask, task: Task, entry: TaskEntry) -> None:
        """Fetch and check the newest milestone's checkpoint.

        A provider that signs for it may have to continue from it.
        """
        milestone = task.slots[0].milestone
        assert milestone is not None, "a milestone exists"
        try:
            task_run = await self.book.prepare(own_task.key[0], task, entry.device)
            state_makers = [slot.provider for slot in task.slots]
            fetched_run = await fetch_run(self.parts, task, milestone, state_makers, is_to_keep=True)
            steps_done = task_run.boundaries[state_index(task.order, milestone.number)]
            # Before it is signed for: the next provider continues from a held state, and a false one would convict it.
            await check_state(self.parts, task_run.form, task_run.asked.request, fetched_run.state, steps_done)
            self._held[own_task.key] = milestone
        except (UnusableInputError, BadRequestError, BlobError, ExecutionError, ChainError, OSError) as error:
            problem_text = f"milestone {milestone.number} is not confirmed: {error}"
            self.book.wait(own_task.key[0], "not_held", problem_text, is_problem=True)

    # ---------------------------------------------------------------------------------------------------------- steps

    def _on_hand(self, own_task: OwnTask, task: Task) -> OnHand:
        is_refused = task.state is TaskState.ASKING and self._drains()
        if runs_program(task.order):
            return self.selling.on_hand(own_task, task, is_refused=is_refused)
        has_input = self.book.run(own_task.key[0], task) is not None and not is_refused
        return OnHand(has_input, newest_stated(task) if is_held(task, self._held.get(own_task.key)) else 0)

    async def _may_be_seen(self, own_task: OwnTask, entry: TaskEntry, step: TaskStep, view: View) -> bool:
        """Return True if a step reveals nothing too early: a bid is opened only after its commitment is final.

        A node that suppressed the commitment could claim that bids are opened, and pass the price to a rival.
        """
        if step is not TaskStep.REVEAL or own_task.key in self._seen_final:
            return True
        (final_own_task,) = await self._own_tasks({own_task.key: entry}, is_final=True)
        own_commitment = commitment_of(self.parts.identity.genesis, own_task.key, self.parts.identity.stash, entry)
        # A node that swallowed the commitment would be shown the sealed price, and a rival could bid below it.
        if final_own_task.bid is None or final_own_task.bid.commitment != own_commitment or final_own_task.task is None:
            self.book.wait(own_task.key[0], "not_final", "the final chain does not have the bid", is_problem=True)
            return False
        # If finality is delayed, a bid that is opened too late costs more than an early one.
        is_closed = final_own_task.task.state is not TaskState.COMMITTING
        is_window_ending = own_task.task is not None and own_task.task.deadline <= view.newest + LAST_BLOCKS
        if is_closed:
            self._seen_final.add(own_task.key)
        return is_closed or is_window_ending

    async def _take_if_due(self, own_task: OwnTask, task: Task, entry: TaskEntry, step: TaskStep) -> None:
        step_number = _step_number(task, entry, self.parts.identity.stash, step)
        step_key = (own_task.key[0], own_task.key[1] + AUCTIONS_APART * step_number)
        # a second copy of an earlier process's step only costs a fee, but a missed window costs more
        may_wait = task.deadline > self.steps.newest + 2 * RESEND_BLOCKS
        if self.steps.is_due(step_key, step, was_sent=may_wait and step in entry.sent and not step_number):
            journal_intent = partial(self.parts.journal.tasks.add, own_task.key, sent=step)
            call = self._call_of_step(own_task, task, entry, step, step_number)
            step_details: dict[str, Detail] = {"task": own_task.key[0], "device": entry.device}
            step_details |= {"milestone": step_number} if step_number else {}
            call_content: Call | AnyAttestation = call
            if step in ATTESTED:
                call_content = self._by_turns(step_key, step, task, entry, call)
            await self.steps.send(StepMessage(call_content, f"task_{step.name.lower()}", step_details, journal_intent))

    def _by_turns(
        self, step_key: StepKey, step: TaskStep, task: Task, entry: TaskEntry, call: Call
    ) -> Call | AnyAttestation:
        """Return an attestation, or the call if the previous attestation did not get into a block, in alternation."""
        turn_state = self._attested.get(step_key)
        if turn_state is step:
            del self._attested[step_key]
            return call
        self._attested[step_key] = step
        return attested(self.parts.identity, task, call, entry.usages, self.steps.newest)

    def _call_of_step(  # a row for each step
        self, own_task: OwnTask, task: Task, entry: TaskEntry, step: TaskStep, step_number: int
    ) -> Call:
        """Return the call of a step."""
        task_id, genesis_hash, stash = own_task.key[0], self.parts.identity.genesis, self.parts.identity.stash
        place = own_place(task, stash, entry.device) or 0  # a standby that takes over gets the first slot
        match step:
            case TaskStep.COMMIT:
                own_commitment = commitment_of(genesis_hash, own_task.key, stash, entry)
                return TrainingMarket.commit_bid(task=task_id, device=entry.device, commitment=own_commitment)
            case TaskStep.REVEAL:
                return TrainingMarket.reveal_bid(task=task_id, device=entry.device, offer=entry.offer, salt=entry.salt)
            case TaskStep.START:
                return TrainingMarket.start(task=task_id, place=place)
            case TaskStep.REPORT:
                return TrainingMarket.report_input(task=task_id, place=place)
            case TaskStep.MILESTONE:
                return TrainingMarket.report_milestone(
                    task=task_id, place=place, milestone=entry.milestones[step_number]
                )
            case TaskStep.FINISH | TaskStep.OPEN:
                return _result_call(genesis_hash, own_task.key, task, place, entry, step)
            case TaskStep.VOLUNTEER:
                return TrainingMarket.volunteer(task=task_id, device=entry.device)
            case TaskStep.LEAVE:
                return TrainingMarket.leave(task=task_id)
            case TaskStep.HOLD:
                return TrainingMarket.confirm_checkpoint(
                    task=task_id, number=step_number, root=self._held[own_task.key].root
                )
            case _:
                raise AssertionError(f"{step.name} is not a step with a transaction")


def _result_call(
    genesis_hash: bytes, task_key: TaskKey, task: Task, place: int, entry: TaskEntry, step: TaskStep
) -> Call:
    """Return the call that states a result, commits a replica to it, or opens a replica's result."""
    assert entry.result is not None, "`next_step` requests a result only once one exists"
    if step is TaskStep.OPEN:
        assert entry.result_salt is not None, "its salt was written with it"
        return TrainingMarket.open_result(task=task_key[0], place=place, result=entry.result, salt=entry.result_salt)
    is_bound = is_replicated(task.order)
    opened_result = bound_result(genesis_hash, task_key, place, task.slots[place], entry) if is_bound else entry.result
    return TrainingMarket.finish(task=task_key[0], place=place, result=opened_result)


def _step_number(task: Task, entry: TaskEntry, stash: bytes, step: TaskStep) -> int:
    """Return the milestone of a step; 0 if it has none."""
    if step is TaskStep.MILESTONE:
        place = own_place(task, stash, entry.device)
        assert place is not None, "a provider that reports a milestone has a slot"
        return task.behind + task.slots[place].reported + 1
    return newest_stated(task) if step is TaskStep.HOLD else 0


def attested(
    identity: Identity, task: Task, call: Call, usage_by_number: Mapping[int, Usage], height: int
) -> SignedTaskAttestation:
    """Return the attestation that is equivalent to a call of `report_milestone` or `finish`.

    `usage_by_number` has the usage of that step, and `height` is the newest block. The node accepts an
    attestation without a fee or a transaction. If no author includes it, the next attempt is a call, which is free if
    it succeeds, then an attestation again.
    """
    arguments = call.named_arguments
    slot = task.slots[arguments["place"]]
    stated_step = _stated_in(call)
    started_at = max(task.reported_at, slot.started_at)
    statement = TaskAttestation(
        version=TASK_VERSION,
        task=arguments["task"],
        auction=task.auction,
        place=arguments["place"],
        provider_key=identity.key.public_key,
        device=slot.device,
        stated=stated_step,
        usage=usage_by_number[step_of(stated_step)],
        started_at=started_at,
        finished_at=max(started_at, height),
    )
    return SignedTaskAttestation(statement, identity.key.sign(task_signing_payload(identity.genesis, statement)))


def _stated_in(call: Call) -> Stated:
    if call.name == f"{TrainingMarket.__name__}.report_milestone":
        return StatedMilestone(call.named_arguments["milestone"])
    return StatedResult(call.named_arguments["result"])
