"""Daemons with one dishonest step: about batches and their leaves, about tasks, programs and roll calls.

Invariant: a daemon computes everything honestly first, and does its other duties honestly. Two daemons with the same
lie about a unit state the same bits.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import tarfile
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from devnet.stage.cheating.lies import BatchLie, RightAnswers, ToldBatch, drawn_paths
from devnet.stage.cheating.races import Attempts, Intrusion
from gpu_tasks.batches.leaf_draws import weight_floor
from gpu_tasks.batches.outcomes import decode_outcomes, encode_outcomes
from gpu_tasks.batches.sum_tree import batch_root
from gpu_tasks.data.sealing import seal
from gpu_tasks.data.unit_input import UnitInput
from gpu_tasks.market.courts.opinions import Answered, Statement
from gpu_tasks.market.inference.units import UnitTerms
from gpu_tasks.market.leaf_checks.leaf_checks import LeafChecks
from gpu_tasks.market.leaf_checks.leaf_checks_api import CheckStatus
from gpu_tasks.market.training.tasks import Milestone, Task
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.provider.blobs.reseal import RefusedResealError
from gpu_tasks.provider.blobs.server import BlobServer
from gpu_tasks.provider.blobs.store import BlobStore
from gpu_tasks.provider.chain.port import ChainError, ChainPort, View
from gpu_tasks.provider.daemon import Daemon
from gpu_tasks.provider.duties.batch_disputes import DifferingDuty
from gpu_tasks.provider.duties.cases import JudgeStep, Search
from gpu_tasks.provider.duties.checks import CheckDuty
from gpu_tasks.provider.duties.duty import Duty
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.race import RaceDuty
from gpu_tasks.provider.duties.race_steps import Race
from gpu_tasks.provider.duties.roll_calls import RollCallDuty
from gpu_tasks.provider.duties.sent_steps import StepMessage
from gpu_tasks.provider.execution.chain_process import ChainComputer, MakeChains
from gpu_tasks.provider.execution.chain_worker import ChainRows, ChainWork
from gpu_tasks.provider.execution.gpu import Hardware
from gpu_tasks.provider.journal.records import Basis, UnitResult
from gpu_tasks.provider.journal.task_records import TaskEntry, TaskKey, TaskStep
from gpu_tasks.provider.programs.results import stored
from gpu_tasks.provider.tasks.judging_tasks import TaskJudgeDuty
from gpu_tasks.provider.tasks.places import OwnTask
from gpu_tasks.provider.tasks.sold_time import TimeDuty
from gpu_tasks.provider.tasks.task_verdicts import TaskCase
from gpu_tasks.provider.tasks.working import WorkDuty, attested
from gpu_tasks.workloads.matmul_chain.prover import rows_root
from runtime.frame.call import Call


def told_about(lie: BatchLie, right: RightAnswers) -> ToldBatch:
    """Return the lie about a batch. It is seeded by the unit, so all daemons with the same lie agree."""
    return lie(right, Random(right.unit))


def most_of(terms: UnitTerms) -> tuple[int, ...]:
    """Return the most output tokens that each request of a unit can claim if all claim equally many."""
    return (terms.tokens_max // terms.requests,) * terms.requests


class LyingRacing(RaceDuty):
    """A race duty that computes its batches and answers something else."""

    def __init__(self, parts: Parts[ChainPort], lie: BatchLie) -> None:
        """Begin without any lie told."""
        super().__init__(parts)
        self._lie = lie
        self.told: dict[bytes, ToldBatch] = {}

    def _keep(self, race: Race, basis: Basis, result: UnitResult, asked: UnitInput) -> None:
        parts, unit, outcomes = self.parts, race.unit_id, decode_outcomes(result.outcomes)
        right = RightAnswers(parts.identity.genesis, unit, asked.salt, outcomes, most_of(race.unit.terms))
        told = self.told[unit] = told_about(self._lie, right)
        content = encode_outcomes(told.outcomes)
        lied = replace(
            result,
            outcomes=content,
            output_root=batch_root(told.totals),
            output_blob=parts.store.put(seal(content, [asked.reply_key]), is_own=True),
            totals=told.totals,
            usage=replace(result.usage, work_units=told.totals.tokens_out),
        )
        super()._keep(race, basis, lied, asked)


class LyingShowing(CheckDuty):
    """A check duty that shows the drawn leaves of its lie if all have paths, else none. It audits honestly."""

    def __init__(self, parts: Parts[ChainPort], told: dict[bytes, ToldBatch], *, hides: bool) -> None:
        """Take the lies from the racing duty. A duty that `hides` shows nothing."""
        super().__init__(parts)
        self._told, self._hides = told, hides

    async def _show(self, status: CheckStatus) -> None:
        unit, check, told = status.unit, status.check, self._told.get(status.unit)
        if told is None:
            await super()._show(status)
            return
        terms = check.terms
        assert check.seed is not None, "it is known which leaves are shown"
        floor = weight_floor(terms.allowed, terms.requests)
        drawn = drawn_paths(told, check.seed, unit, floor, terms.input_share)
        paths = tuple(path for path in drawn if path is not None)
        if self._hides or len(paths) < len(drawn):
            self.parts.telemetry.tell("cheat", mode="lying", unit=unit, what="leaves", answer="kept back")
            return
        call = LeafChecks.show_leaves(unit=unit, totals=told.totals, paths=paths)
        await _sent(self, StepMessage(call, "leaves_shown", {"unit": unit}))


class LazyChecking(CheckDuty):
    """A check duty that passes every audit: it computes nothing and invents the proof of its work."""

    async def _audit(self, status: CheckStatus) -> None:
        call = LeafChecks.pass_leaves(unit=status.unit, proof=os.urandom(32))
        self.parts.telemetry.tell("cheat", mode="lazy-auditor", unit=status.unit, what="proof", answer="made up")
        await _sent(self, StepMessage(call, "leaves_passed", {"unit": status.unit}))


async def _sent(duty: CheckDuty, message: StepMessage) -> None:
    """Send a message. Report a refusal as an event."""
    try:
        await duty.book.send(message)
    except ChainError as error:
        duty.parts.telemetry.tell("refused", problem=str(error))


REPLAYED = 2
"""The number of the milestone that the cheat replaces by the previous one. It does nothing after it."""


class ReplayingWork(WorkDuty):
    """A work duty that states its first milestone twice, then states it a third time as the second, and stops."""

    def __init__(self, *parts: Any) -> None:
        """Begin without a replayed task."""
        super().__init__(*parts)
        self._replayed: set[bytes] = set()

    async def _take_if_due(self, own: OwnTask, task: Task, entry: TaskEntry, step: TaskStep) -> None:
        number = task.behind + task.slots[0].reported + 1 if step is TaskStep.MILESTONE else 0
        if step is TaskStep.FINISH or number > REPLAYED:
            return
        if number == REPLAYED and own.key[0] not in self._replayed:
            self._replayed.add(own.key[0])
            again = TrainingMarket.report_milestone(task=own.key[0], place=0, milestone=entry.milestones[REPLAYED - 1])
            attempts = Attempts(self.parts, "replayed-milestone")
            await attempts.call(own.key[0], again)
            statement = attested(self.parts.identity, task, again, entry.usages, self.steps.newest)
            await attempts.state(own.key[0], statement)
        await super()._take_if_due(own, task, entry, step)

    def _call(self, own: OwnTask, task: Task, entry: TaskEntry, step: TaskStep, number: int) -> Call:
        if step is TaskStep.MILESTONE and number == REPLAYED:
            again = replace(entry.found[-1], milestone=renamed(entry.milestones[number - 1]))
            entry = replace(entry, found=(*entry.found, again))
        return super()._call(own, task, entry, step, number)


def renamed(milestone: Milestone) -> Milestone:
    """Return the milestone under the next number."""
    return replace(milestone, number=milestone.number + 1)


class NothingShown:
    """An endpoint that refuses every judge's question."""

    async def answer(self, data: bytes) -> bytes:
        """Raise RefusedResealError."""
        raise RefusedResealError(f"nothing is shown, for {len(data)} bytes of a question")


class WithholdingWork(WorkDuty):
    """A work duty that uploads none of its results."""

    async def _spread(self, blob: bytes) -> None:
        self.parts.telemetry.tell("cheat", mode="withheld-checkpoint", unit=blob, what="blob", answer="kept back")


class LazyJudging(TaskJudgeDuty):
    """A judge duty that repeats the provider's statement without computing. Its probe is random."""

    async def _judge(self, case: TaskCase, search: Search) -> None:
        result = case.slot.result
        assert result is not None, "who is judged has stated a result"
        try:
            self._keep(case, Statement(Answered(result.root), os.urandom(32)))
            await self._take_if_due(case, JudgeStep.COMMIT)
        except ChainError as error:
            self.parts.telemetry.tell("no_verdict", task=case.task_id, problem=str(error))


class BendingTime(TimeDuty):
    """A lease duty that flips a bit of the first file of a program's outputs."""

    async def _left(self, key: TaskKey) -> tuple[bytes, bytes]:
        honest = (await self.programs.outputs(key)).archive
        at = tarfile.BLOCKSIZE  # The first header of a tar takes one block. The first file begins after it.
        bent = honest[:at] + bytes((honest[at] ^ 1,)) + honest[at + 1 :]
        blob = stored(self.parts, bent, self.programs.log(key), self.programs.reply_key(key))
        return hashlib.blake2b(bent, digest_size=32).digest(), blob


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

    def __init__(self, honest: ChainComputer) -> None:
        """Wrap an honest computer."""
        self._honest = honest

    async def start(self) -> None:
        """See `ChainComputer`."""
        await self._honest.start()

    async def rows(self, work: ChainWork) -> ChainRows:
        """Return random digests at once for a whole chain, and the right ones for named rows."""
        if work.rows:
            return await self._honest.rows(work)
        digests = [secrets.token_bytes(DIGEST_BYTES) for _ in range(work.challenge.shape.rows)]
        return ChainRows(rows_root(digests), b"".join(digests))

    async def close(self) -> None:
        """See `ChainComputer`."""
        await self._honest.close()


def inventing(honest: MakeChains) -> MakeChains:
    """Return a factory that wraps each computer of an honest factory."""

    def make(hardware: Hardware) -> RowInventor:
        return RowInventor(honest(hardware))

    return make


class HidingDuty(DifferingDuty):
    """A duty that shows its tree in no dispute, and reports that once per window."""

    async def step(self, view: View) -> None:
        """Send nothing."""
        keys = {(status.unit, status.dispute.deadline) for status in view.disputes}
        for unit, _ in sorted(keys - self._keys):
            self.parts.telemetry.tell("cheat", mode="hidden-tree", unit=unit, what="nodes", answer="kept back")
        self._keys = keys


# The functions below change a daemon before it runs.
def answering(lie: BatchLie, *, hides: bool = False) -> Callable[[Daemon], None]:
    """Return a change: the daemon tells one lie about each batch. If it `hides`, it shows no leaf."""

    def cheat(daemon: Daemon) -> None:
        racing = LyingRacing(daemon.parts, lie)
        daemon.replace(RaceDuty, racing)
        daemon.replace(CheckDuty, LyingShowing(daemon.parts, racing.told, hides=hides))

    return cheat


def with_duty(kind: type[Duty], made: Callable[[Parts[ChainPort]], Duty]) -> Callable[[Daemon], None]:
    """Return a change: the daemon has another duty in the place of one kind."""
    return lambda daemon: daemon.replace(kind, made(daemon.parts))


def with_work(made: type[WorkDuty]) -> Callable[[Daemon], None]:
    """Return a change: the daemon has another work duty, which never drains."""

    def cheat(daemon: Daemon) -> None:
        honest = daemon.duty(WorkDuty)
        daemon.replace(WorkDuty, made(daemon.parts, honest.book, honest.selling.programs, lambda: False))

    return cheat


def withhold_checkpoints(daemon: Daemon) -> None:
    """Withhold checkpoints, results and states: the public store is an empty one."""
    with_work(WithholdingWork)(daemon)
    empty = BlobStore(daemon.settings.base_path / "for-others", daemon.settings.quota)
    daemon.server = BlobServer(empty, NothingShown(), NothingShown())


def make_up_rows(daemon: Daemon) -> None:
    """Commit to rows that were never computed."""
    roll_calls = daemon.duty(RollCallDuty)
    roll_calls.make = inventing(roll_calls.make)


def intrude(daemon: Daemon) -> None:
    """Commit to the races of others, beside the honest duties."""
    daemon.duties.append(Intrusion(daemon.parts))
