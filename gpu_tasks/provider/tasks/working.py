"""The work on bids: open, win, run step by step, state and show; or stand by, and take over.

Invariants:

* The next step is a function of chain and journal.
* A publicly visible step is in the journal before it is sent, and repeated until the chain shows it.
* A milestone or result in the journal is never computed again, and no other is ever stated.
* A bid is opened only after its commitment is final.
* Nothing is signed for another task than the bid's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from gpu_tasks.data.blob_client import BlobError
from gpu_tasks.data.run_states import root_of, state_index
from gpu_tasks.market.attestations.kinds import AnyAttestation
from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.training import money
from gpu_tasks.market.training.bids import auction_id
from gpu_tasks.market.training.money import TaskMoney, TaskPayee, TaskPurse
from gpu_tasks.market.training.orders import is_by_time, is_replicated, runs_program
from gpu_tasks.market.training.showing import ShownStretch, judged_stretches
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
from gpu_tasks.market.training.tasks import Milestone, Slot, Task, TaskResult, TaskState, kept_step, slot_case
from gpu_tasks.market.training.time_paid import end_flows, interval_flows
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.provider.blobs.inputs import UnusableInputError
from gpu_tasks.provider.chain.port import ChainError, Identity, TaskPort, View
from gpu_tasks.provider.chain.side_pay import is_standing_by
from gpu_tasks.provider.duties.appeals import is_found_lying
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
from gpu_tasks.provider.tasks.task_inputs import name_of
from gpu_tasks.provider.tasks.task_runs import TaskRun, check_state
from gpu_tasks.provider.telemetry import Detail, failure
from gpu_tasks.traces.trace import traced_state
from runtime.frame.call import Call

ATTESTED = (TaskStep.MILESTONE, TaskStep.FINISH)
"""Steps that authors include as attestations."""
AUCTIONS_APART = 1_024
"""The factor that combines a milestone's number with the auction's number in a step's key."""
WORKED_STATES = (
    TaskState.STARTING, TaskState.RUNNING, TaskState.SUBMITTED, TaskState.SHOWING, TaskState.JUDGED,
)  # fmt: skip


# A task's pay by the row of the money table with which its slot ended, computed from the chain's record.
# Invariant: a pure function. It leaves out a court's penalties and jointly signed ends, because the task's record does
# not contain them.
def earned(task: Task | None, stash: bytes, device: bytes) -> int:
    """Return the grains paid to the provider of a slot, after fees; 0 if the chain no longer knows the task."""
    place = None if task is None else own_place(task, stash, device)
    if task is None or place is None:
        return 0
    slot, rules, terms = task.slots[place], task.rules, task.terms
    is_over = task.state is TaskState.ENDED
    outcome = slot.outcome
    if outcome is None and is_over:
        outcome = task.outcome  # a stopped task ends alike for all
    if outcome is None:
        return 0
    until = slot.finished_at or (task.deadline - task.windows.keep if is_over else 0)
    held = {
        TaskPurse.ESCROW: money.escrow(rules, terms.price_max),
        TaskPurse.CUSTOMER_BOND: money.customer_bond(rules, terms.price_max),
        TaskPurse.COLLATERAL: slot.collateral,
    }
    if is_by_time(task.order):
        flows = (*interval_flows(task, slot), *end_flows(task, slot, outcome, held))
    else:
        flows = money.settle(outcome, _at_end(task, slot, held, until))
    return sum(flow.amount for flow in flows if flow.payee is TaskPayee.PROVIDER)


def _at_end(task: Task, slot: Slot, held: Mapping[TaskPurse, int], until: int) -> TaskMoney:
    return TaskMoney(
        rules=task.rules,
        terms=task.terms,
        held=held,
        price=slot.price,
        collateral=slot.collateral,
        promised=slot.promised,
        added=slot.added,
        stated=kept_step(task),
        elapsed=until - task.started_at if task.started_at else 0,
        milestones=task.milestones,
        done=task.owed,
    )


class WorkDuty(Duty):
    """The steps of all bids and of the won tasks."""

    def __init__(
        self, parts: Parts[TaskPort], book: TaskBook, programs: ContainerSupervisor, drains: Callable[[], bool]
    ) -> None:
        """Tasks run in parallel, each on the device of its bid. A draining provider takes over no task."""
        self.parts = parts
        self.book = book
        self._drains = drains
        self.steps: StepBook[TaskStep] = StepBook(parts)
        self.selling = TimeDuty(parts, programs, self.steps.tasks)
        self.running = self.steps.tasks, self.selling.telling
        self._held: dict[TaskKey, Milestone] = {}
        self._attested: dict[StepKey, TaskStep] = {}
        self._seen_final: set[TaskKey] = set()

    async def step(self, view: View) -> None:
        """Take the due steps of every open bid. Raise ChainError if the chain cannot be read."""
        self.steps.look(view)
        self.selling.tidy()
        entries = dict(self.parts.journal.open_tasks())
        owns = await self._own(entries) if entries else []
        stash = self.parts.identity.stash
        self.book.standing = {
            own.key[0]: entries[own.key].device
            for own in owns
            if own.task is not None and is_standing_by(own.task, stash)
        }
        for own in owns:
            try:
                await self._step(own, entries[own.key], view)
            except ChainError as error:
                self.parts.telemetry.tell("refused", task=own.key[0], **failure(error))

    async def _own(self, entries: dict[TaskKey, TaskEntry], *, final: bool = False) -> list[OwnTask]:
        """Return the chain's tasks and bids for these journal entries."""
        chain = self.parts.chain
        names = {key: (auction_id(*key), entry.device) for key, entry in entries.items()}
        tasks = await chain.tasks(list(dict.fromkeys(task for task, _ in entries)), final=final)
        bids = await chain.bids(list(names.values()), final=final)
        return [OwnTask(key, tasks.get(key[0]), bids.get(names[key])) for key in entries]

    async def _step(self, own: OwnTask, entry: TaskEntry, view: View) -> None:
        stash, task = self.parts.identity.stash, own.task
        if why_over(own, entry, stash, view.height):
            await self._end_if_final(own.key, entry, view)
            return
        if task is None:
            return
        # A dishonest node could show another task to have something signed for it.
        if not is_about(task, entry):
            self.book.wait(own.key[0], "not_final", "the node's task differs from the one of the bid", is_problem=True)
            return
        if own.bid is not None and own.bid.opened is not None:
            self.book.note_opened(own.key)
        self._work_beside(own, task, entry)
        if task.state is TaskState.JUDGED:
            await self._appeal_if_wronged(own, task, entry)
        step = next_step(own, entry, stash, self._on_hand(own, task), view.newest)
        if step is None:
            self.book.wait(own.key[0], "waiting", why_waiting(own, entry, stash))
        elif await self._may_be_seen(own, entry, step, view):
            await self._take_if_due(own, task, entry, step)

    async def _end_if_final(self, key: TaskKey, entry: TaskEntry, view: View) -> None:
        """End a bid without remaining work, if the final chain agrees."""
        (own,) = await self._own({key: entry}, final=True)
        why = why_over(own, entry, self.parts.identity.stash, view.height)
        if not why:
            return
        paid = earned(own.task, self.parts.identity.stash, entry.device)
        kind = "task" if own.task is None else name_of(self.parts, own.task.order)
        self.selling.forget(key)
        self.parts.earnings.note("task", *key, device=entry.device, service=kind, grains=paid)
        self.parts.journal.tasks.change(key, end=why, paid=paid)
        self.steps.forget(key)
        self.steps.tasks.cancel((*key, "hold"))
        self._held.pop(key, None)
        self._attested = {each: step for each, step in self._attested.items() if each[0] != key[0]}
        self._seen_final.discard(key)
        self.book.forget(key[0])
        self.parts.telemetry.tell("task_over", task=key[0], device=entry.device, why=why, grains=paid)
        self.parts.watch.end(key[0])

    async def _appeal_if_wronged(self, own: OwnTask, task: Task, entry: TaskEntry) -> None:
        """Appeal a verdict against a result that this machine computed."""
        place = own_place(task, self.parts.identity.stash, entry.device)
        if place is None or entry.result is None:
            return
        case_id = slot_case(own.key[0], place)
        case = await self.parts.chain.case(case_id)
        if case is not None and is_found_lying(case, self.parts.identity.stash):
            key = (case_id, own.key[1])
            if self.steps.is_due(key, TaskStep.APPEAL):
                details: dict[str, Detail] = {"task": own.key[0], "place": place}
                await self.steps.send(StepMessage(Courts.appeal(case_id=case_id), "appealed", details))

    # ------------------------------------------------------------------------------------------------ beside the chain

    def _work_beside(self, own: OwnTask, task: Task, entry: TaskEntry) -> None:
        """Start long work: preparing a run, running it, or fetching a checkpoint to hold."""
        stash, tasks = self.parts.identity.stash, self.steps.tasks
        place = own_place(task, stash, entry.device)
        if runs_program(task.order):
            self.selling.beside(own, task, entry, place, self.steps.newest)
            return
        is_standby = own_standby(task, stash, entry.device) is not None
        if place is not None and task.state in WORKED_STATES:
            has_more = task.state is TaskState.RUNNING and entry.result is None
            # A submitted or judged task needs its run too: after a restart its states are read from the disk to be
            # shown.
            if has_more or self.book.run(own.key[0], task) is None:
                tasks.start(own.key, self._run(own, task, entry, has_more=has_more))
        elif is_standby and task.state is TaskState.ASKING:
            if self.book.run(own.key[0], task) is None and not self._drains():
                tasks.start(own.key, self._run(own, task, entry, has_more=False))
        elif (
            is_standby
            and task.state is TaskState.RUNNING
            and newest_stated(task)
            and not is_held(task, self._held.get(own.key))
        ):
            tasks.start((*own.key, "hold"), self._fetch_to_hold(own, task, entry))

    async def _run(self, own: OwnTask, task: Task, entry: TaskEntry, *, has_more: bool) -> None:
        """Prepare a run and compute it to its end. An error is retried at the next block."""
        try:
            run = await self.book.prepare(own.key[0], task, entry.device)
            self._let_watch(own.key[0], task, entry, run)
            while has_more:
                await self._note_milestones(own.key, task, run)
                if run.is_whole:
                    break
                await run.compute_next(partial(self._tell_progress, own.key[0], run))
        except (UnusableInputError, BadRequestError, BlobError, ExecutionError, ChainError, OSError) as error:
            self.parts.telemetry.tell("hindered", task=own.key[0], **failure(error))

    def _let_watch(self, task_id: bytes, task: Task, entry: TaskEntry, run: TaskRun) -> None:
        """Start telemetry for the customer, if this machine has the slot."""
        place = own_place(task, self.parts.identity.stash, entry.device)
        if place is not None:
            self.parts.watch.begin(task_id, place, entry.device, run.asked.reply_key)

    def _tell_progress(self, task_id: bytes, run: TaskRun, done: int) -> None:
        self.parts.watch.progress(task_id, done, run.boundaries[-1], run.step_us)

    async def _note_milestones(self, key: TaskKey, task: Task, run: TaskRun) -> None:
        """Store and note the finished milestones and the result, before any other party learns of them."""
        order = task.order
        for number in range(task.behind + 1, order.milestones + 1):
            index, is_last = state_index(order, number), number == order.milestones
            if index > run.index:
                return
            noted = self.parts.journal.tasks[key]
            if (noted.result is not None) if is_last else (number in noted.milestones):
                continue
            # After a restart a milestone may be older than the newest state.
            state = run.newest if index == run.index else run.folder.state(index)
            if state is None:
                raise ExecutionError(f"the state of milestone {number} is no longer on disk")
            digests = tuple(run.digests[: index + 1])
            metric = await self.parts.workers.metric(run.form, run.asked.request, state, run.device)
            blob = await seal_run(self.parts, task, run.asked.reply_key, digests, state)
            if is_last:
                result = TaskResult(root_of(digests), blob, metric)
                self.parts.journal.tasks.change(key, result=result, result_usage=run.usage_taken())
            else:
                milestone = Milestone(number, root_of(digests), metric, blob)
                self.parts.journal.tasks.add(key, found=FoundMilestone(milestone, run.usage_taken()))
            self.parts.telemetry.tell("computed", task=key[0], milestone=number, of=order.milestones, metric=metric)
            # Copies at other stores let a standby continue if this machine fails.
            self.steps.tasks.start((*key, blob), self._spread(blob))

    async def _spread(self, blob: bytes) -> None:
        try:
            await spread(self.parts, blob)
        except ChainError as error:
            self.parts.telemetry.tell("not_spread", **failure(error))

    async def _fetch_to_hold(self, own: OwnTask, task: Task, entry: TaskEntry) -> None:
        """Fetch and check the newest milestone's checkpoint.

        A provider that signs for it may have to continue from it.
        """
        milestone = task.slots[0].milestone
        assert milestone is not None, "a milestone exists"
        try:
            run = await self.book.prepare(own.key[0], task, entry.device)
            makers = [slot.provider for slot in task.slots]
            found = await fetch_run(self.parts, task, milestone, makers, is_kept=True)
            done = run.boundaries[state_index(task.order, milestone.number)]
            await check_state(self.parts, run.form, run.asked.request, found.state, done)
            self._held[own.key] = milestone
        except (UnusableInputError, BadRequestError, BlobError, ExecutionError, ChainError, OSError) as error:
            problem = f"milestone {milestone.number} is not confirmed: {error}"
            self.book.wait(own.key[0], "not_held", problem, is_problem=True)

    # ---------------------------------------------------------------------------------------------------------- steps

    def _on_hand(self, own: OwnTask, task: Task) -> OnHand:
        is_refused = task.state is TaskState.ASKING and self._drains()
        if runs_program(task.order):
            return self.selling.on_hand(own, task, is_refused=is_refused)
        has_input = self.book.run(own.key[0], task) is not None and not is_refused
        return OnHand(has_input, newest_stated(task) if is_held(task, self._held.get(own.key)) else 0)

    async def _may_be_seen(self, own: OwnTask, entry: TaskEntry, step: TaskStep, view: View) -> bool:
        """Return True if a step reveals nothing too early: a bid is opened only after its commitment is final.

        A node that suppressed the commitment could claim that bids are opened, and pass the price to a rival.
        """
        if step is not TaskStep.REVEAL or own.key in self._seen_final:
            return True
        (final,) = await self._own({own.key: entry}, final=True)
        sealed = commitment_of(self.parts.identity.genesis, own.key, self.parts.identity.stash, entry)
        if final.bid is None or final.bid.commitment != sealed or final.task is None:
            self.book.wait(own.key[0], "not_final", "the final chain does not have the bid", is_problem=True)
            return False
        # If finality is delayed, a bid that is opened too late costs more than an early one.
        is_closed = final.task.state is not TaskState.COMMITTING
        is_late = own.task is not None and own.task.deadline <= view.newest + LAST_BLOCKS
        if is_closed:
            self._seen_final.add(own.key)
        return is_closed or is_late

    async def _take_if_due(self, own: OwnTask, task: Task, entry: TaskEntry, step: TaskStep) -> None:
        number = _number(task, entry, self.parts.identity.stash, step)
        key = (own.key[0], own.key[1] + AUCTIONS_APART * number)
        if step is TaskStep.SHOW and self.book.run(own.key[0], task) is None:
            self.book.wait(own.key[0], "waiting", "the states to show are being read from disk")
            return
        # a second copy of an earlier process's step only costs a fee, but a missed window costs more
        may_wait = task.deadline > self.steps.newest + 2 * RESEND_BLOCKS
        if self.steps.is_due(key, step, was_sent=may_wait and step in entry.sent and not number):
            intent = partial(self.parts.journal.tasks.add, own.key, sent=step)
            call = self._call(own, task, entry, step, number)
            details: dict[str, Detail] = {"task": own.key[0], "device": entry.device}
            details |= {"milestone": number} if number else {}
            content: Call | AnyAttestation = call
            if step in ATTESTED:
                content = self._by_turns(key, step, task, entry, call)
            await self.steps.send(StepMessage(content, f"task_{step.name.lower()}", details, intent))

    def _by_turns(
        self, key: StepKey, step: TaskStep, task: Task, entry: TaskEntry, call: Call
    ) -> Call | AnyAttestation:
        """Return an attestation, or the call if the previous attestation did not get into a block, in alternation."""
        turn = self._attested.get(key)
        if turn is step:
            del self._attested[key]
            return call
        self._attested[key] = step
        return attested(self.parts.identity, task, call, entry.usages, self.steps.newest)

    def _call(  # noqa: C901  # a row for each step
        self, own: OwnTask, task: Task, entry: TaskEntry, step: TaskStep, number: int
    ) -> Call:
        """Return the call of a step."""
        task_id, genesis, stash = own.key[0], self.parts.identity.genesis, self.parts.identity.stash
        place = own_place(task, stash, entry.device) or 0  # a standby that takes over gets the first slot
        match step:
            case TaskStep.COMMIT:
                sealed = commitment_of(genesis, own.key, stash, entry)
                return TrainingMarket.commit_bid(task=task_id, device=entry.device, commitment=sealed)
            case TaskStep.REVEAL:
                return TrainingMarket.reveal_bid(task=task_id, device=entry.device, offer=entry.offer, salt=entry.salt)
            case TaskStep.START:
                return TrainingMarket.start(task=task_id, place=place)
            case TaskStep.REPORT:
                return TrainingMarket.report_input(task=task_id, place=place)
            case TaskStep.MILESTONE:
                return TrainingMarket.report_milestone(task=task_id, place=place, milestone=entry.milestones[number])
            case TaskStep.FINISH | TaskStep.OPEN:
                return _result_call(genesis, own.key, task, place, entry, step)
            case TaskStep.VOLUNTEER:
                return TrainingMarket.volunteer(task=task_id, device=entry.device)
            case TaskStep.LEAVE:
                return TrainingMarket.leave(task=task_id)
            case TaskStep.HOLD:
                return TrainingMarket.confirm_checkpoint(task=task_id, number=number, root=self._held[own.key].root)
            case TaskStep.SHOW:
                return TrainingMarket.show(task=task_id, place=place, stretches=self._shown(task_id, task, place))
            case _:
                raise AssertionError(f"{step.name} is not a step with a transaction")

    def _shown(self, task_id: bytes, task: Task, place: int) -> tuple[ShownStretch, ...]:
        """Return the hashes before and after each judged stretch, with their paths."""
        run = self.book.run(task_id, task)
        assert run is not None, "the shown rows were read earlier"
        assert task.drawn is not None, "`next_step` requests nothing to show earlier"
        return tuple(
            ShownStretch(traced_state(run.digests, each.first), traced_state(run.digests, each.end))
            for each in judged_stretches(task_id, task, place)
        )


def _result_call(genesis: bytes, key: TaskKey, task: Task, place: int, entry: TaskEntry, step: TaskStep) -> Call:
    """Return the call that states a result, commits a replica to it, or opens a replica's result."""
    assert entry.result is not None, "`next_step` requests a result only once one exists"
    if step is TaskStep.OPEN:
        assert entry.result_salt is not None, "its salt was written with it"
        return TrainingMarket.open_result(task=key[0], place=place, result=entry.result, salt=entry.result_salt)
    is_bound = is_replicated(task.order)
    result = bound_result(genesis, key, place, task.slots[place], entry) if is_bound else entry.result
    return TrainingMarket.finish(task=key[0], place=place, result=result)


def _number(task: Task, entry: TaskEntry, stash: bytes, step: TaskStep) -> int:
    """Return the milestone of a step; 0 if it has none."""
    if step is TaskStep.MILESTONE:
        place = own_place(task, stash, entry.device)
        assert place is not None, "a provider that reports a milestone has a slot"
        return task.behind + task.slots[place].reported + 1
    return newest_stated(task) if step is TaskStep.HOLD else 0


def attested(
    identity: Identity, task: Task, call: Call, usages: Mapping[int, Usage], height: int
) -> SignedTaskAttestation:
    """Return the attestation that is equivalent to a call of `report_milestone` or `finish`.

    `usages` has the usage of that step, and `height` is the newest block. The node accepts an attestation without a fee
    or a transaction. If no author includes it, the next attempt is a call, which is free if it succeeds, then an
    attestation again.
    """
    arguments = call.named_arguments
    slot = task.slots[arguments["place"]]
    stated = _stated(call)
    since = max(task.reported_at, slot.started_at)
    statement = TaskAttestation(
        version=TASK_VERSION,
        task=arguments["task"],
        auction=task.auction,
        place=arguments["place"],
        provider_key=identity.key.public_key,
        device=slot.device,
        stated=stated,
        usage=usages[step_of(stated)],
        started_at=since,
        finished_at=max(since, height),
    )
    return SignedTaskAttestation(statement, identity.key.sign(task_signing_payload(identity.genesis, statement)))


def _stated(call: Call) -> Stated:
    if call.name == f"{TrainingMarket.__name__}.report_milestone":
        return StatedMilestone(call.named_arguments["milestone"])
    return StatedResult(call.named_arguments["result"])
