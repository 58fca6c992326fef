"""Daemons with one dishonest step about tasks: a milestone stated again, states shown to nobody, a judge that is lazy.

Always: everything else is the honest daemon's, its devices, its bids, its work.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from devnet.proofs.cheating.attempts import Attempts
from gpu_tasks.market.courts.opinions import Answered, Statement
from gpu_tasks.market.training.tasks import Milestone, Task
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.provider.blobs.reseal import RefusedResealError
from gpu_tasks.provider.blobs.server import BlobServer
from gpu_tasks.provider.blobs.store import BlobStore
from gpu_tasks.provider.chain.port import ChainError
from gpu_tasks.provider.daemon import Daemon
from gpu_tasks.provider.duties.cases import JudgeStep
from gpu_tasks.provider.journal.task_records import TaskEntry
from gpu_tasks.provider.tasks.judging_tasks import TaskJudgeDuty
from gpu_tasks.provider.tasks.places import OwnTask, TaskStep
from gpu_tasks.provider.tasks.task_attesting import attested
from gpu_tasks.provider.tasks.task_verdicts import TaskCase
from gpu_tasks.provider.tasks.working import WorkDuty
from runtime.frame.call import Call

REPLAYED = 2
"""The milestone for which the one before it is stated once more; after it the cheat does nothing."""


class ReplayingWork(WorkDuty):
    """States its first milestone, that one again, then that one as the second; and computes no more."""

    def __init__(self, *parts: Any) -> None:
        """As `WorkDuty`."""
        super().__init__(*parts)
        self._replayed: set[bytes] = set()

    async def _take_if_due(self, own: OwnTask, task: Task, entry: TaskEntry, step: TaskStep) -> None:
        number = task.behind + task.slots[0].reported + 1 if step is TaskStep.MILESTONE else 0
        if step is TaskStep.FINISH or number > REPLAYED:
            return
        if number == REPLAYED and own.key[0] not in self._replayed:
            self._replayed.add(own.key[0])
            again = TrainingMarket.checkpoint(task=own.key[0], place=0, milestone=entry.milestones[REPLAYED - 1])
            attempts = Attempts(self.parts, "replayed-milestone")
            await attempts.call(own.key[0], again)
            statement = attested(self.parts.identity, task, again, entry.usages, self.steps.newest)
            await attempts.state(own.key[0], statement)
        await super()._take_if_due(own, task, entry, step)

    def _call(self, own: OwnTask, task: Task, entry: TaskEntry, step: TaskStep, number: int) -> Call:
        if step is TaskStep.MILESTONE and number == REPLAYED:
            entry = replace(entry, milestones=entry.milestones | {number: renamed(entry.milestones[number - 1])})
        return super()._call(own, task, entry, step, number)


def renamed(milestone: Milestone) -> Milestone:
    """A milestone under the next number."""
    return replace(milestone, number=milestone.number + 1)


class ReplayedMilestone(Daemon):
    """See `ReplayingWork`."""

    def __init__(self, *parts: Any) -> None:
        """As `Daemon`."""
        super().__init__(*parts)
        honest = self.working
        self.working = ReplayingWork(self.parts, honest.book, honest.selling.programs, lambda: False)


class NothingShown:
    """Answers no judge."""

    async def answer(self, data: bytes) -> bytes:
        """RefusedResealError."""
        raise RefusedResealError(f"nothing is shown, for {len(data)} bytes of a question")


class WithholdingWork(WorkDuty):
    """Brings what it computed to nobody."""

    async def _spread(self, blob: bytes) -> None:
        self.parts.telemetry.tell("cheat", mode="withheld-checkpoint", unit=blob, what="blob", answer="kept back")


class WithheldCheckpoint(Daemon):
    """Works and states honestly; and gives its checkpoints, its result and its states to nobody."""

    def __init__(self, *parts: Any) -> None:
        """As `Daemon`, with a store for others in which nothing of its own is."""
        super().__init__(*parts)
        honest = self.working
        self.working = WithholdingWork(self.parts, honest.book, honest.selling.programs, lambda: False)
        empty = BlobStore(self.settings.base_path / "for-others", self.settings.quota)
        self.server = BlobServer(empty, NothingShown(), NothingShown())


class LazyJudging(TaskJudgeDuty):
    """Seconds whatever was stated, and computes nothing; its probe is anything."""

    async def _judge(self, case: TaskCase) -> None:
        result = case.slot.result
        assert result is not None, "who is judged has stated a result"
        try:
            self._keep(case, Statement(Answered(result.root), os.urandom(32)))
            await self._take_if_due(case, JudgeStep.COMMIT)
        except ChainError as error:
            self.parts.telemetry.tell("no_verdict", task=case.task_id, problem=str(error))


class LazyJudge(Daemon):
    """See `LazyJudging`."""

    def __init__(self, *parts: Any) -> None:
        """As `Daemon`."""
        super().__init__(*parts)
        self.judging_tasks = LazyJudging(self.parts)
