"""Batches with one wrong answer in the middle; and a daemon that, called to show its tree, shows nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from devnet.proofs.cheating.executors import FlippedBit
from devnet.proofs.cheating.lies import flipped
from gpu_tasks.provider.chain.port import View
from gpu_tasks.provider.daemon import Daemon
from gpu_tasks.provider.duties.differing import DifferingDuty
from gpu_tasks.provider.execution.bench import MakeExecutor
from gpu_tasks.provider.execution.executor import Finished, ManyExecuted
from gpu_tasks.provider.execution.sandbox import Sandbox
from gpu_tasks.provider.execution.starting import workers_with


def bent_place(requests: int) -> int:
    """Which answer of a batch is wrong."""
    return requests // 2


class BentMiddle(FlippedBit):
    """As its base, but for where a batch is wrong."""

    async def run_many(self, requests: Sequence[bytes], finished: Finished) -> ManyExecuted:
        """One bit of the output in the middle is flipped; all others are right."""
        bent = bent_place(len(requests))

        def told(part: Sequence[tuple[int, bytes | None]]) -> None:
            finished([(place, flipped(output) if output and place == bent else output) for place, output in part])

        return await self._honest.run_many(requests, told)


def bending(backend: str, sandbox: Sandbox | None) -> MakeExecutor:
    """Honest workers, each wrapped."""
    honest = workers_with(backend, sandbox)
    return lambda hardware, form: BentMiddle(honest(hardware, form))


class HidingDuty(DifferingDuty):
    """Shows its tree in no dispute, and says so once of each window."""

    async def step(self, view: View) -> None:
        """Nothing leaves."""
        keys = {(status.unit, status.dispute.deadline) for status in view.disputes}
        for unit, _ in sorted(keys - self._keys):
            self.parts.telemetry.tell("cheat", mode="hidden-tree", unit=unit, what="nodes", answer="kept back")
        self._keys = keys


class HiddenTree(Daemon):
    """See `HidingDuty`."""

    def __init__(self, *parts: Any) -> None:
        """As `Daemon`."""
        super().__init__(*parts)
        self.differing = HidingDuty(self.parts)
