"""One device at work: a worker process for each workload that it computes, and its meter.

Always: a device computes one request at a time (`line` sees to it); a worker starts when it is first needed, ends when
it has been idle for `IDLE_SECONDS`, and there are never more than `WORKERS_PER_DEVICE_MAX` of a device; a worker that
says to be another workload than the one asked for computes nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from gpu_tasks.provider.execution.executor import (
    BegunRun,
    Execution,
    ExecutionError,
    Executor,
    Finished,
    LaterState,
    ManyExecuted,
)
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
    """A device's workers. Times are seconds of any clock that only goes forward."""

    def __init__(self, hardware: Hardware, make: MakeExecutor, meter: Meter | None = None) -> None:
        """Nothing runs."""
        self.hardware = hardware
        self._make = make
        self._meter = meter or meter_for(hardware)
        self._workers: dict[bytes, _Worker] = {}

    def has_worker(self, form: WorkloadForm) -> bool:
        """Whether a worker of this workload runs, so that a request need not wait for its start."""
        return form.workload_id in self._workers

    async def start(self, form: WorkloadForm, now: float) -> None:
        """Have a worker ready, its conformance vectors passed; ExecutionError."""
        await self._executor(form, now)

    async def run(self, form: WorkloadForm, request: bytes, now: float) -> tuple[Execution, Reading]:
        """A request's output, and what the device consumed; BadRequestError, ExecutionError."""
        executor = await self._executor(form, now)
        return await self._measured(executor.run(request))

    async def run_many(
        self, form: WorkloadForm, requests: Sequence[bytes], finished: Finished, now: float
    ) -> tuple[ManyExecuted, Reading]:
        """Execute all requests, and what the device consumed; ExecutionError."""
        executor = await self._executor(form, now)
        return await self._measured(executor.run_many(requests, finished))

    async def verify(self, form: WorkloadForm, request: bytes, output: bytes, now: float) -> bool:
        """Whether `output` is what `run` would give; BadRequestError, ExecutionError."""
        return await (await self._executor(form, now)).verify(request, output)

    async def trace(self, form: WorkloadForm, request: bytes, output: bytes, place: bytes, now: float) -> bytes:
        """The hash of the computation of a right output at a place; BadRequestError, ExecutionError."""
        return await (await self._executor(form, now)).trace(request, output, place)

    async def begin(self, form: WorkloadForm, request: bytes, now: float) -> BegunRun:
        """Where a run in steps begins; BadRequestError, ExecutionError."""
        return await (await self._executor(form, now)).begin(request)

    async def advance(
        self, form: WorkloadForm, request: bytes, state: bytes, steps: int, now: float
    ) -> tuple[LaterState, Reading]:
        """The state so many steps later, and what the device consumed; errors as `Executor.advance`."""
        executor = await self._executor(form, now)
        return await self._measured(executor.advance(request, state, steps))

    async def metric(self, form: WorkloadForm, request: bytes, state: bytes, now: float) -> int:
        """How good a state is; errors as `advance`."""
        return await (await self._executor(form, now)).metric(request, state)

    async def end_idle(self, now: float) -> None:
        """End the workers that nobody has needed for a while."""
        for workload, worker in list(self._workers.items()):
            if now - worker.used_at >= IDLE_SECONDS:
                await self._end(workload)

    async def close(self) -> None:
        """End all workers."""
        for workload in list(self._workers):
            await self._end(workload)

    async def _measured(self, work: Awaitable[_Done]) -> tuple[_Done, Reading]:
        self._meter.begin()
        try:
            done = await work
        finally:
            reading = self._meter.end()
        return done, reading

    async def _executor(self, form: WorkloadForm, now: float) -> Executor:
        worker = self._workers.get(form.workload_id)
        if worker is not None:
            worker.used_at = now
            return worker.executor
        while len(self._workers) >= WORKERS_PER_DEVICE_MAX:
            await self._end(min(self._workers, key=lambda workload: self._workers[workload].used_at))
        worker = _Worker(self._make(self.hardware, form), now)
        self._workers[form.workload_id] = worker
        try:
            await worker.executor.start()
            _check_identity(worker.executor, form)
        except BaseException:
            await self._end(form.workload_id)
            raise
        return worker.executor

    async def _end(self, workload: bytes) -> None:
        await self._workers.pop(workload).executor.close()


def _check_identity(executor: Executor, form: WorkloadForm) -> None:
    if (executor.workload_id, executor.model_id) != (form.workload_id, form.model_id):
        raise ExecutionError(f"the worker computes something else than {form.name}: is the installation mixed?")
