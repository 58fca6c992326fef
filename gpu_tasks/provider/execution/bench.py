"""One device at work: a worker process for each workload that it computes, and its meter.

Invariants:

* A device computes one request at a time (`line` ensures this).
* A worker starts when first needed and ends after `IDLE_SECONDS` without work.
* A device has at most `WORKERS_PER_DEVICE_MAX` workers.
* A worker that reports another workload than the requested one computes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from gpu_tasks.provider.execution.executor import ExecutionError, Executor
from gpu_tasks.provider.execution.gpu import Hardware, Meter, Reading, meter_for
from gpu_tasks.workloads.form import WorkloadForm

WORKERS_PER_DEVICE_MAX = 4
"""Each worker holds a model in memory."""
IDLE_SECONDS = 600.0

_Done = TypeVar("_Done")
MakeExecutor = Callable[[Hardware, WorkloadForm], Executor]


@dataclass(slots=True)
class _Worker:
    executor: Executor
    used_at: float


class Bench:
    """The workers of a device."""

    def __init__(
        self,
        hardware: Hardware,
        make: MakeExecutor,
        meter: Meter | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing runs yet. `clock` gives monotonic seconds."""
        self.hardware = hardware
        self._make = make
        self._meter = meter or meter_for(hardware)
        self._clock = clock
        self._workers: dict[bytes, _Worker] = {}

    def has_worker(self, form: WorkloadForm) -> bool:
        """Return True if a worker of this workload runs, so that a request need not wait for its start."""
        return form.workload_id in self._workers

    async def worker(self, form: WorkloadForm) -> Executor:
        """Return a running worker of a workload, with its conformance vectors passed.

        Raise ExecutionError on failure.
        """
        worker = self._workers.get(form.workload_id)
        if worker is not None:
            worker.used_at = self._clock()
            return worker.executor
        # The worker that has been idle longest makes room.
        while len(self._workers) >= WORKERS_PER_DEVICE_MAX:
            await self._end(min(self._workers, key=lambda workload: self._workers[workload].used_at))
        worker = _Worker(self._make(self.hardware, form), self._clock())
        self._workers[form.workload_id] = worker
        try:
            await worker.executor.start()
            # A mixed installation could load other weights, and wrong results are slashed.
            _check_identity(worker.executor, form)
        except BaseException:
            await self._end(form.workload_id)
            raise
        return worker.executor

    async def measured(self, work: Awaitable[_Done]) -> tuple[_Done, Reading]:
        """Return the result of `work` and the device's consumption meanwhile. It raises the errors of `work`."""
        self._meter.begin()
        try:
            done = await work
        finally:
            reading = self._meter.end()
        return done, reading

    async def end_idle(self) -> None:
        """End the workers without recent work."""
        for workload, worker in list(self._workers.items()):
            if self._clock() - worker.used_at >= IDLE_SECONDS:
                await self._end(workload)

    async def close(self) -> None:
        """End all workers."""
        for workload in list(self._workers):
            await self._end(workload)

    async def _end(self, workload: bytes) -> None:
        await self._workers.pop(workload).executor.close()


def _check_identity(executor: Executor, form: WorkloadForm) -> None:
    if (executor.workload_id, executor.model_id) != (form.workload_id, form.model_id):
        raise ExecutionError(
            f"the worker does not compute {form.name} as this program does; reinstall the release",
            code="other_worker_release",
        )
