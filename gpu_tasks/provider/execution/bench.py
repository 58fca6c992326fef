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
        clock_seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing runs yet. `clock_seconds` gives monotonic seconds."""
        self.hardware = hardware
        self._make_executor = make
        self._meter = meter or meter_for(hardware)
        self._clock_seconds = clock_seconds
        self._workers: dict[bytes, _Worker] = {}
        """By workload and model."""

    def has_worker(self, form: WorkloadForm) -> bool:
        """Return True if a worker of this workload runs, so that a request need not wait for its start."""
        return _key(form) in self._workers

    async def worker(self, form: WorkloadForm) -> Executor:
        """Return a running worker of a workload, with its conformance vectors passed.

        Raise ExecutionError on failure.
        """
        started_worker = self._workers.get(_key(form))
        if started_worker is not None:
            started_worker.used_at = self._clock_seconds()
            return started_worker.executor
        # The worker that has been idle longest makes room.
        while len(self._workers) >= WORKERS_PER_DEVICE_MAX:
            await self._end(min(self._workers, key=lambda workload: self._workers[workload].used_at))
        started_worker = _Worker(self._make_executor(self.hardware, form), self._clock_seconds())
        self._workers[_key(form)] = started_worker
        try:
            await started_worker.executor.start()
            # A mixed installation could load other weights, and wrong results are slashed.
            _check_identity(started_worker.executor, form)
        except BaseException:
            await self._end(_key(form))
            raise
        return started_worker.executor

    async def measured(self, measured_work: Awaitable[_Done]) -> tuple[_Done, Reading]:
        """Return the result of `measured_work`, or raise its error, and the device's consumption meanwhile."""
        self._meter.begin()
        try:
            work_result = await measured_work
        finally:
            reading = self._meter.end()
        return work_result, reading

    async def end_idle(self) -> None:
        """End the workers without recent work."""
        for workload, idle_worker in list(self._workers.items()):
            if self._clock_seconds() - idle_worker.used_at >= IDLE_SECONDS:
                await self._end(workload)

    async def close(self) -> None:
        """End all workers."""
        for workload in list(self._workers):
            await self._end(workload)

    async def _end(self, workload: bytes) -> None:
        await self._workers.pop(workload).executor.close()


def _key(form: WorkloadForm) -> bytes:
    return form.workload_id + form.model_id


def _check_identity(executor: Executor, form: WorkloadForm) -> None:
    if (executor.workload_id, executor.model_id) != (form.workload_id, form.model_id):
        raise ExecutionError(
            f"the worker does not compute {form.name} as this program does; reinstall the release",
            code="other_worker_release",
        )
