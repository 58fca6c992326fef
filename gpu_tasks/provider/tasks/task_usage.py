"""What computing a task consumed, summed from chunk to chunk: the usage that its attestations state."""

from __future__ import annotations

from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.provider.execution.executor import LaterState
from gpu_tasks.provider.execution.gpu import Reading

NOTHING_USED = Usage(0, 0, 0, 0, 0, 0)


def used(steps: int, wall_us: int, later: LaterState, reading: Reading) -> Usage:
    """What so many steps took: a unit of work is a step, and a GPU works for as long as it is waited for."""
    wall_ms = wall_us // 1_000
    return Usage(
        work_units=steps,
        gpu_ms=wall_ms if reading.is_gpu else 0,
        energy_mj=reading.energy_mj,
        cpu_ms=later.cpu_ms,
        wall_ms=wall_ms,
        memory_peak_bytes=max(reading.memory_peak_bytes, later.memory_peak_bytes),
    )


def together(first: Usage, second: Usage) -> Usage:
    """What two pieces of work took, one after the other: the greater peak of memory, the sum of everything else."""
    return Usage(
        first.work_units + second.work_units,
        first.gpu_ms + second.gpu_ms,
        first.energy_mj + second.energy_mj,
        first.cpu_ms + second.cpu_ms,
        first.wall_ms + second.wall_ms,
        max(first.memory_peak_bytes, second.memory_peak_bytes),
    )
