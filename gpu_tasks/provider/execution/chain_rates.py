"""The rate of a device at matrix chains, and the work for a roll call that follows from it."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from gpu_tasks.market.capacity.proofs import ROUNDS_MAX, ROWS_MIN, SIZE_MAX, SIZE_MIN, WorkShape, operations
from gpu_tasks.market.capacity.roll_call import PROOFS_TO, UNIT
from gpu_tasks.provider.execution.chain_process import ChainComputer
from gpu_tasks.provider.execution.chain_worker import ChainWork
from gpu_tasks.workloads.matmul_chain.challenge import ChainChallenge, ChainShape

WORK_SLOTS = 7
"""Slots of computing at a roll call. At most ten lie between the seed's block and the proof's, and the two messages
take some. A device that computes more than fits proves nothing."""
SECONDS_LEAST = 2.0
"""The least length of a measurement. The fixed cost of an answer hardly counts then."""
ROWS_WANTED_MAX = 2**19


@dataclass(frozen=True, slots=True)
class MeasuredRate:
    """A device's rate, in thousand millions of operations a slot."""

    rate: int

    def work(self, slots: int = WORK_SLOTS) -> WorkShape:
        """Return the work of so many slots."""
        return shape_for(self.rate * UNIT * slots)

    @property
    def proves(self) -> int:
        """The rate that the usual work proves even in the last block that counts."""
        return operations(self.work()) // (PROOFS_TO * UNIT)


async def measured_rate(computer: ChainComputer, slot_ms: int) -> MeasuredRate:
    """Time chains until one takes long enough. Raise ExecutionError if a worker fails."""
    await computer.start()
    shape = WorkShape(SIZE_MIN, ROWS_MIN, 1)
    while True:
        began_seconds = time.perf_counter()
        await computer.rows(ChainWork(ChainChallenge(os.urandom(32), chain_shape(shape))))
        chain_seconds = time.perf_counter() - began_seconds
        # A short run measures the start of the computation more than its rate.
        larger_shape = shape_for(4 * operations(shape))
        if chain_seconds >= SECONDS_LEAST or larger_shape == shape:
            return MeasuredRate(int(operations(shape) * slot_ms / (chain_seconds * 1_000 * UNIT)))
        shape = larger_shape


def shape_for(operations_max: int) -> WorkShape:
    """Return the work of at most `operations_max` operations with the fewest columns.

    It is never less than the least work.
    """
    columns = SIZE_MIN
    while columns < SIZE_MAX and operations_max > operations(WorkShape(columns, ROWS_MIN, ROUNDS_MAX)):
        columns *= 2
    rows = ROWS_MIN
    while operations_max > operations(WorkShape(columns, rows, ROUNDS_MAX)) and rows < ROWS_WANTED_MAX:
        rows *= 2
    rounds = operations_max // operations(WorkShape(columns, rows, 1))
    return WorkShape(columns, rows, min(ROUNDS_MAX, max(1, rounds)))


def chain_shape(shape: WorkShape) -> ChainShape:
    """Return the shape of a chain for a device's work."""
    return ChainShape(shape.size, shape.rows, shape.rounds)
