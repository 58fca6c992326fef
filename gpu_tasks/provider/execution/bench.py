"""One device at work: a worker process for each workload that it computes, and its meter.

Always: a device computes one request at a time (`line` sees to it); a worker starts when it is first needed, ends when
it has been idle for `IDLE_SECONDS`, and there are never more than `WORKERS_PER_DEVICE_MAX` of a device; a worker that
says to be another workload than the one asked for computes nothing.
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
"""Each holds a model in memory."""
IDLE_SECONDS = 600.0

_Done = TypeVar("_Done")
MakeExecutor = Callable[[Hardware, WorkloadForm], Executor]


@dataclass(slots=True)
class _Worker:
    executor: Executor
    used_at: float


class Bench:
    """A device's workers."""

    def __init__(
        self,
        hardware: Hardware,
        make: MakeExecutor,
        meter: Meter | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing runs. `clock` gives seconds, and only goes forward."""
        self.hardware = hardware
        self._make = make
        self._meter = meter or meter_for(hardware)
        self._clock = clock
        self._workers: dict[bytes, _Worker] = {}

    def has_worker(self, form: WorkloadForm) -> bool:
        """Whether a worker of this workload runs, so that a request need not wait for its start."""
        return form.workload_id in self._workers

    async def worker(self, form: WorkloadForm) -> Executor:
        """The worker of a workload, running, its conformance vectors passed; ExecutionError."""
        worker = self._workers.get(form.workload_id)
        if worker is not None:
            worker.used_at = self._clock()
            return worker.executor
        while len(self._workers) >= WORKERS_PER_DEVICE_MAX:
            await self._end(min(self._workers, key=lambda workload: self._workers[workload].used_at))
        worker = _Worker(self._make(self.hardware, form), self._clock())
        self._workers[form.workload_id] = worker
        try:
            await worker.executor.start()
            _check_identity(worker.executor, form)
        except BaseException:
            await self._end(form.workload_id)
            raise
        return worker.executor

    async def measured(self, work: Awaitable[_Done]) -> tuple[_Done, Reading]:
        """What a worker gives, and what the device consumed meanwhile; errors of the work."""
        self._meter.begin()
        try:
            done = await work
        finally:
            reading = self._meter.end()
        return done, reading

    async def end_idle(self) -> None:
        """End the workers that nobody has needed for a while."""
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
        raise ExecutionError(f"the worker computes something else than {form.name}: is the installation mixed?")
