"""What this machine computes at roll calls: a chain is timed, and the work is chosen that fits between two blocks.

Work is chosen for `WORK_SLOTS` slots of computing: from the seed's block to the commit's there are at most ten, of
which the way of two blocks takes some; a device that computes more than it can in time proves nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

from gpu_tasks.market.capacity.proofs import ROUNDS_MAX, ROWS_MIN, SIZE_MAX, SIZE_MIN, WorkShape, operations
from gpu_tasks.market.capacity.roll_call import COMMITS_TO, UNIT
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.provider.execution.chain_process import ChainComputer
from gpu_tasks.provider.execution.chain_worker import ChainWork
from gpu_tasks.workloads.matmul_chain.challenge import ChainChallenge, ChainShape

WORK_SLOTS = 6
SECONDS_LEAST = 2.0
"""A measurement is as long as that, so that what every answer costs besides hardly counts."""


@dataclass(frozen=True, slots=True)
class MeasuredRate:
    """What a device computes, in thousand millions of operations a slot, and the work to enrol with."""

    rate: int
    shape: WorkShape

    @property
    def proves(self) -> int:
        """What that work proves in the last block that counts, whatever the network does."""
        return operations(self.shape) // (COMMITS_TO * UNIT)


async def measured_rate(computer: ChainComputer, slot_ms: int) -> MeasuredRate:
    """Time chains until one takes long enough; ExecutionError."""
    await computer.start()
    shape = WorkShape(SIZE_MIN, ROWS_MIN, 1)
    while True:
        began = time.perf_counter()
        given = ChainShape(shape.size, shape.rows, shape.rounds)
        await computer.rows(ChainWork(ChainChallenge(os.urandom(32), given)))
        seconds = time.perf_counter() - began
        larger = shape_for(4 * operations(shape))
        if seconds >= SECONDS_LEAST or larger == shape:
            rate = int(operations(shape) * slot_ms / (seconds * 1_000 * UNIT))
            return MeasuredRate(rate, shape_for(rate * UNIT * WORK_SLOTS))
        shape = larger


def shape_for(wanted: int) -> WorkShape:
    """The work of so many operations at most, of the fewest columns that hold it; the least there is for less."""
    size = SIZE_MIN
    while size < SIZE_MAX and wanted > operations(WorkShape(size, ROWS_MIN, ROUNDS_MAX)):
        size *= 2
    rows = ROWS_MIN
    while wanted > operations(WorkShape(size, rows, ROUNDS_MAX)) and rows < 2**16:
        rows *= 2
    rounds = wanted // operations(WorkShape(size, rows, 1))
    return WorkShape(size, rows, min(ROUNDS_MAX, max(1, rounds)))


def class_reached(rate: int, least: Sequence[int]) -> DeviceClass | None:
    """The largest class whose least a rate reaches; None for none."""
    reached = [kind for kind in DeviceClass if rate >= least[kind]]
    return reached[-1] if reached else None
