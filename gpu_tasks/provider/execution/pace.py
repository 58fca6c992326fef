"""The pace of one worker, measured by probes, and the time that requests need at it.

A model reads a prompt as fast as the machine multiplies, and takes the steps of an answer one after another. The two
are measured apart, because their ratio differs a hundredfold between processors and GPUs.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gpu_tasks.workloads.form import Effort, WorkloadForm

SIZE_FIRST = 16
"""Tokens of the first probe."""
PROBE_SECONDS = 0.5
"""Probes grow until one takes this long: a short one would measure a GPU's launches instead of its products."""
PROBE_STEPS = 8
SLACK = 4
"""A worker may take so many times the expected time: other programs may use the machine meanwhile."""


@dataclass(frozen=True, slots=True)
class WorkerPace:
    """Operations a second, for each part of an effort."""

    reading: float
    stepping: float

    def seconds(self, effort: Effort) -> float:
        """Return the expected time for an effort."""
        return effort.reading / self.reading + effort.stepping / self.stepping

    def tokens_per_second(self, form: WorkloadForm) -> tuple[float, float | None]:
        """Return the rates of a short prompt, and of an answer to one text alone; None if an answer has no tokens."""
        shortest, prompt, steps = form.probe(1, 1), form.probe(SIZE_FIRST, 1), form.probe(1, PROBE_STEPS)
        if shortest is None or prompt is None or steps is None:
            raise ValueError("a workload without probes has no pace")
        start = self.seconds(_effort(form, shortest))
        prompt_seconds = self.seconds(_effort(form, prompt)) - start
        steps_seconds = self.seconds(_effort(form, steps)) - start
        return (SIZE_FIRST - 1) / prompt_seconds, (PROBE_STEPS - 1) / steps_seconds if steps_seconds > 0 else None


async def measured_pace(
    form: WorkloadForm, run: Callable[[bytes], Awaitable[float]], clock_seconds: Callable[[], float] = time.monotonic
) -> WorkerPace | None:
    """Return the pace at which `run` computes probes, or None for a workload without them.

    `run` returns the CPU seconds of a probe. They count where they are fewer than the clock's: other programs may use
    the machine for a moment, and a unit is declined only if it cannot end in time.
    """

    async def seconds_of(probe: bytes) -> float:
        began = clock_seconds()
        cpu_seconds = await run(probe)
        return max(min(cpu_seconds, clock_seconds() - began), 1e-3)

    reading, size, took = 0.0, SIZE_FIRST, 0.0
    while took < PROBE_SECONDS and (probe := form.probe(size, 1)) is not None:
        took = await seconds_of(probe)
        # With its one step, so that a long text is not expected to take less than it took here.
        reading, size = sum(_effort(form, probe)) / took, size * 2
    steps = form.probe(1, PROBE_STEPS)
    if not reading or steps is None:
        return None
    return WorkerPace(reading, _effort(form, steps).stepping / await seconds_of(steps))


def _effort(form: WorkloadForm, probe: bytes) -> Effort:
    return form.effort((probe,), form.room_bytes())
