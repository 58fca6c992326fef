"""Daemons with one dishonest step: about results and their checks, about tasks, programs and roll calls.

Invariant: a daemon computes everything honestly first, and does its other duties honestly. Two daemons with the same
lie about a unit state the same bits.
"""

from __future__ import annotations

import hashlib
import secrets
import tarfile
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from devnet.stage.cheating.lies import BatchLie, RightAnswers, ToldBatch
from devnet.stage.cheating.races import Attempts, Intrusion
from gpu_tasks.batches.leaf_draws import leaf_weight
from gpu_tasks.batches.outcomes import decode_outcomes, encode_outcomes
from gpu_tasks.batches.sum_tree import batch_root
from gpu_tasks.data.sealing import seal
from gpu_tasks.data.unit_input import UnitInput
from gpu_tasks.market.claims.claims import ClaimStage, ResultClaim
from gpu_tasks.market.claims.claims_api import ClaimStatus
from gpu_tasks.market.claims.convictions import open_check
from gpu_tasks.market.claims.draws import ITEM_WEIGHT
from gpu_tasks.market.claims.findings import FINGERPRINT_BYTES, Finding, ItemSample, Samples, Verdict
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.inference.units import UnitTerms
from gpu_tasks.market.training.tasks import Milestone, Task
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.provider.blobs.deliveries import RefusedDeliveryError
from gpu_tasks.provider.blobs.server import BlobServer
from gpu_tasks.provider.blobs.store import BlobStore
from gpu_tasks.provider.chain.port import ChainPort, View
from gpu_tasks.provider.daemon import Daemon
from gpu_tasks.provider.duties.checking import CheckingDuty, CheckTurn
from gpu_tasks.provider.duties.duty import Duty
from gpu_tasks.provider.duties.item_sources import FetchedItems, ItemSources, OwnItems, source_of
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.race import RaceDuty
from gpu_tasks.provider.duties.race_steps import Race
from gpu_tasks.provider.duties.roll_calls import RollCallDuty
from gpu_tasks.provider.duties.sent_steps import StepMessage
from gpu_tasks.provider.duties.statements import ClaimStep
from gpu_tasks.provider.duties.unit_items import ClaimedUnitItems
from gpu_tasks.provider.execution.chain_process import ChainComputer, MakeChains
from gpu_tasks.provider.execution.chain_worker import ChainRows, ChainWork
from gpu_tasks.provider.execution.executor import ExecutionError
from gpu_tasks.provider.execution.gpu import Hardware
from gpu_tasks.provider.journal.records import Basis, UnitResult
from gpu_tasks.provider.journal.task_records import TaskEntry, TaskKey, TaskStep
from gpu_tasks.provider.programs.results import stored
from gpu_tasks.provider.tasks.places import OwnTask
from gpu_tasks.provider.tasks.sold_time import TimeDuty
from gpu_tasks.provider.tasks.working import WorkDuty, attested
from gpu_tasks.workloads.matmul_chain.prover import rows_root
from runtime.cryptography.hashing import blake2_256
from runtime.frame.call import Call


def lie_about_batch(batch_lie: BatchLie, right_answers: RightAnswers) -> ToldBatch:
    """Return the lie about a batch. It is seeded by the unit, so all daemons with the same lie agree."""
    return batch_lie(right_answers, Random(right_answers.unit))


def token_maxima(terms: UnitTerms) -> tuple[int, ...]:
    """Return the most output tokens that each request of a unit can claim if all claim equally many."""
    return (terms.tokens_max // terms.requests,) * terms.requests


class LyingRacing(RaceDuty):
    """A race duty that computes its batches and answers something else."""

    def __init__(self, parts: Parts[ChainPort], batch_lie: BatchLie) -> None:
        """Take the lie to tell."""
        super().__init__(parts)
        self._batch_lie = batch_lie

    def _keep_result(self, race: Race, basis: Basis, slot_result: UnitResult, asked: UnitInput) -> None:
        parts, unit_id, right_outcomes = self.parts, race.unit_id, decode_outcomes(slot_result.outcomes)
        right_answers = RightAnswers(
            parts.identity.genesis, unit_id, asked.salt, right_outcomes, token_maxima(race.unit.terms)
        )
        batch = lie_about_batch(self._batch_lie, right_answers)
        lying_content = encode_outcomes(batch.outcomes)
        # The work units follow the lie, as those of an honest result follow its totals.
        lying_result = replace(
            slot_result,
            outcomes=lying_content,
            output_root=batch_root(batch.totals),
            output_blob=parts.store.put(seal(lying_content, [asked.reply_key]), is_own=True),
            totals=batch.totals,
            usage=replace(slot_result.usage, work_units=batch.totals.tokens_out),
        )
        super()._keep_result(race, basis, lying_result, asked)


def made_up(seed: bytes, index: int) -> bytes:
    """Return a fingerprint that nobody computed, the same for every cheat."""
    return blake2_256(b"made up" + seed + index.to_bytes(4, "little"))[:FINGERPRINT_BYTES]


class InventingSamples(CheckingDuty):
    """A checking duty that shows invented samples of its own results. It checks others honestly."""

    async def _samples(self, claim_id: bytes, claim: ResultClaim, seed: bytes) -> Samples:
        try:
            items = await source_of(self.sources, claim.terms.handler).own(claim_id, claim)
        except ExecutionError:
            # Made-up sums have no items that lead to them.
            return tuple(ItemSample(0, 0, made_up(seed, 0)) for _ in claim.points)
        return _invented(items, claim, seed)


class WithholdingSamples(CheckingDuty):
    """A checking duty that shows no samples of its own results. It checks others honestly."""

    async def _show(self, status: ClaimStatus) -> None:
        """Show nothing."""


class AccusingChecking(CheckingDuty):
    """A checking duty that calls every result wrong."""

    async def _found(self, turn: CheckTurn) -> Finding:
        return Finding(Verdict.WRONG, 0, ())


class ConcedingChecking(AccusingChecking):
    """A checking duty that calls every result wrong, and concedes."""

    async def _act(self, status: ClaimStatus, view: View) -> None:
        check = open_check(status.claim)
        is_own = check is not None and check.checker == self.parts.identity.stash
        if status.claim.stage is not ClaimStage.CONCEDING or not is_own:
            await super()._act(status, view)
        elif self.book.is_due((status.id, len(status.claim.checks) - 1), ClaimStep.SHOW):
            await self.book.send(StepMessage(ResultClaims.concede(claim=status.id), "conceded", {"claim": status.id}))


class CopyingChecking(CheckingDuty):
    """A checking duty that computes nothing: it repeats the provider's items with invented fingerprints."""

    async def _found(self, turn: CheckTurn) -> Finding:
        items = await source_of(self.sources, turn.claim.terms.handler).fetched(turn.key[0], turn.claim)
        return Finding(Verdict.RIGHT, 0, _invented(items, turn.claim, turn.check.seed))


class DeafChecking(CheckingDuty):
    """A checking duty that calls every result unavailable."""

    async def _found(self, turn: CheckTurn) -> Finding:
        return self._cannot_fetch(turn)


class SilentChecking(CheckingDuty):
    """A checking duty that never commits to a finding."""

    async def take(self, turn: CheckTurn, newest: int) -> None:
        """Send nothing."""


class UnopenedChecking(CheckingDuty):
    """A checking duty that commits to a finding, and never opens it."""

    async def take(self, turn: CheckTurn, newest: int) -> None:
        """Commit alone."""
        if turn.commitment is None:
            await super().take(turn, newest)


def _invented(items: FetchedItems | OwnItems, claim: ResultClaim, seed: bytes) -> Samples:
    """Return samples with the right weights and invented fingerprints."""
    indices = [items.index_at(point) for point in claim.points]
    return tuple(ItemSample(index, _weight(items, index), made_up(seed, index)) for index in indices)


def _weight(items: FetchedItems | OwnItems, index: int) -> int:
    if isinstance(items, ClaimedUnitItems):
        return leaf_weight(items.leaves[index], items.floor, input_share=items.input_share)
    return ITEM_WEIGHT


# The number of the milestone that the cheat replaces by the previous one. It does nothing after it.
REPLAYED_MILESTONE = 2


class ReplayingWork(WorkDuty):
    """A work duty that states its first milestone twice, then states it a third time as the second, and stops."""

    def __init__(self, *parts: Any) -> None:
        """Begin without a replayed task."""
        super().__init__(*parts)
        self._replayed: set[bytes] = set()

    async def _take_if_due(self, own_task: OwnTask, task: Task, task_entry: TaskEntry, step: TaskStep) -> None:
        milestone_number = task.behind + task.slots[0].reported + 1 if step is TaskStep.MILESTONE else 0
        if step is TaskStep.FINISH or milestone_number > REPLAYED_MILESTONE:
            return
        if milestone_number == REPLAYED_MILESTONE and own_task.key[0] not in self._replayed:
            self._replayed.add(own_task.key[0])
            repeated = TrainingMarket.report_milestone(
                task=own_task.key[0], place=0, milestone=task_entry.milestones[REPLAYED_MILESTONE - 1]
            )
            cheat_attempts = Attempts(self.parts, "replayed-milestone")
            await cheat_attempts.call(own_task.key[0], repeated)
            milestone_statement = attested(self.parts.identity, task, repeated, task_entry.usages, self.steps.newest)
            await cheat_attempts.state(own_task.key[0], milestone_statement)
        await super()._take_if_due(own_task, task, task_entry, step)

    def _call_of_step(
        self, own_task: OwnTask, task: Task, task_entry: TaskEntry, step: TaskStep, milestone_number: int
    ) -> Call:
        if step is TaskStep.MILESTONE and milestone_number == REPLAYED_MILESTONE:
            repeated = replace(
                task_entry.found[-1], milestone=under_next_number(task_entry.milestones[milestone_number - 1])
            )
            task_entry = replace(task_entry, found=(*task_entry.found, repeated))
        return super()._call_of_step(own_task, task, task_entry, step, milestone_number)


def under_next_number(milestone: Milestone) -> Milestone:
    """Return the milestone under the next number."""
    return replace(milestone, number=milestone.number + 1)


class NothingShown:
    """An endpoint that refuses every question of a checker or voter."""

    async def answer(self, data: bytes) -> bytes:
        """Raise RefusedDeliveryError."""
        raise RefusedDeliveryError(f"nothing is shown, for {len(data)} bytes of a question")


class WithholdingWork(WorkDuty):
    """A work duty that uploads none of its results."""

    async def _spread(self, result_blob: bytes) -> None:
        self.parts.telemetry.tell(
            "cheat", mode="withheld-checkpoint", unit=result_blob, what="blob", answer="kept back"
        )


class BendingTime(TimeDuty):
    """A lease duty that flips a bit of the first file of a program's outputs."""

    async def _store_outputs(self, key: TaskKey) -> tuple[bytes, bytes]:
        honest_archive = (await self.programs.outputs(key)).archive
        flipped_offset = tarfile.BLOCKSIZE  # The first header of a tar takes one block. The first file begins after it.
        bent_archive = (
            honest_archive[:flipped_offset]
            + bytes((honest_archive[flipped_offset] ^ 1,))
            + honest_archive[flipped_offset + 1 :]
        )
        result_blob = stored(self.parts, bent_archive, self.programs.log(key), self.programs.reply_key(key))
        return hashlib.blake2b(bent_archive, digest_size=32).digest(), result_blob


class BendingWork(WorkDuty):
    """A work duty with `BendingTime`."""

    def __init__(self, *parts: Any) -> None:
        """Begin with `BendingTime` in the place of the honest duty."""
        super().__init__(*parts)
        self.selling = BendingTime(self.parts, self.selling.programs, self.steps.tasks)
        self.running = self.steps.tasks, self.selling.telling


DIGEST_BYTES = 32


class RowInventor:
    """A chain computer that is honest about single rows, and invents whole chains."""

    def __init__(self, honest_computer: ChainComputer) -> None:
        """Wrap an honest computer."""
        self._honest_computer = honest_computer

    async def start(self) -> None:
        """See `ChainComputer`."""
        await self._honest_computer.start()

    async def rows(self, work: ChainWork) -> ChainRows:
        """Return random digests at once for a whole chain, and the right ones for named rows."""
        if work.rows:
            return await self._honest_computer.rows(work)
        row_digests = [secrets.token_bytes(DIGEST_BYTES) for _ in range(work.challenge.shape.rows)]
        return ChainRows(rows_root(row_digests), b"".join(row_digests))

    async def close(self) -> None:
        """See `ChainComputer`."""
        await self._honest_computer.close()


def inventing_chains(make_honest: MakeChains) -> MakeChains:
    """Return a factory that wraps each computer of an honest factory."""

    def make(hardware: Hardware) -> RowInventor:
        return RowInventor(make_honest(hardware))

    return make


# The functions below change a daemon before it runs.
def lie_about_results(batch_lie: BatchLie, *, is_withheld: bool = False) -> Callable[[Daemon], None]:
    """Return a change: the daemon tells one lie about each result. If it `is_withheld`, nobody receives the answers."""

    def cheat(daemon: Daemon) -> None:
        daemon.replace(RaceDuty, LyingRacing(daemon.parts, batch_lie))
        with_checking(InventingSamples)(daemon)
        if is_withheld:
            withhold_deliveries(daemon)

    return cheat


def with_duty(duty_kind: type[Duty], make_duty: Callable[[Parts[ChainPort]], Duty]) -> Callable[[Daemon], None]:
    """Return a change: the daemon has another duty in the place of one kind."""
    return lambda daemon: daemon.replace(duty_kind, make_duty(daemon.parts))


def with_checking(
    make_duty: Callable[[Parts[ChainPort], ItemSources], CheckingDuty],
) -> Callable[[Daemon], None]:
    """Return a change: the daemon has another checking duty, with the same items."""
    return lambda daemon: daemon.replace(CheckingDuty, make_duty(daemon.parts, daemon.duty(CheckingDuty).sources))


def with_work(work_duty_kind: type[WorkDuty]) -> Callable[[Daemon], None]:
    """Return a change: the daemon has another work duty, which never drains."""

    def cheat(daemon: Daemon) -> None:
        honest_duty = daemon.duty(WorkDuty)
        daemon.replace(
            WorkDuty, work_duty_kind(daemon.parts, honest_duty.book, honest_duty.selling.programs, lambda: False)
        )

    return cheat


def withhold_checkpoints(daemon: Daemon) -> None:
    """Withhold checkpoints, results and states: the public store is an empty one."""
    with_work(WithholdingWork)(daemon)
    # The daemon itself still reads its own store, or it could not continue its work.
    empty_store = BlobStore(daemon.settings.base_path / "for-others", daemon.settings.quota)
    daemon.server = BlobServer(empty_store, deliverer=NothingShown())


def withhold_deliveries(daemon: Daemon) -> None:
    """Deliver items to no checker and no voter."""
    daemon.server = BlobServer(daemon.parts.store, deliverer=NothingShown())


def make_up_rows(daemon: Daemon) -> None:
    """Commit to rows that were never computed."""
    roll_calls = daemon.duty(RollCallDuty)
    roll_calls.make = inventing_chains(roll_calls.make)


def attack_foreign_races(daemon: Daemon) -> None:
    """Commit to the races of others, beside the honest duties."""
    daemon.duties.append(Intrusion(daemon.parts))
