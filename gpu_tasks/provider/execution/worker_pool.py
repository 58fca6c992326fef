"""The machine's computing: the workers (a `Bench`) of each registered device on this machine, side by side.

A provider without a device on this machine still checks, with the machine's first piece of hardware.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from gpu_tasks.provider.execution.bench import Bench, MakeExecutor
from gpu_tasks.provider.execution.device_times import Activity, DeviceTimes
from gpu_tasks.provider.execution.executor import (
    BegunRun,
    CheckedOutput,
    Execution,
    ExecutionError,
    Finished,
    LaterState,
    ManyExecuted,
)
from gpu_tasks.provider.execution.gpu import Hardware, Reading
from gpu_tasks.provider.execution.line import FIRST, Line, Rank
from gpu_tasks.provider.execution.workloads import Workloads
from gpu_tasks.workloads.form import WorkloadForm

CHECKS_BENCH = b""
"""The key of the bench without a device on the chain."""


class WorkerPool:
    """The devices and their workers. `serve` names the devices, and nothing runs before that."""

    def __init__(self, hardware: Sequence[Hardware], workloads: Workloads, make: MakeExecutor) -> None:
        """`make` returns an executor of a workload on a piece of hardware."""
        self.hardware = tuple(hardware)
        self.workloads = workloads
        self._make_executor = make
        self._benches: dict[bytes, Bench] = {}
        self._line = Line()
        self.times = DeviceTimes()
        """Working and idle times of each device on the chain."""
        self.live_workers: Callable[[bytes], int] = lambda _: 0
        """Returns the number of live workers that answer on a device now, beside the line."""

    @property
    def devices(self) -> dict[bytes, Hardware]:
        """The chain's devices that this machine serves."""
        return {
            device: device_bench.hardware for device, device_bench in self._benches.items() if device != CHECKS_BENCH
        }

    def is_working(self, device: bytes) -> bool:
        """Return True if a device executes a request."""
        return not self._line.is_free(device)

    def serve(self, hardware_by_device: Mapping[bytes, Hardware]) -> None:
        """Add these devices of the chain."""
        hardware_by_bench = dict(hardware_by_device)
        if not hardware_by_bench and not self._benches:
            hardware_by_bench = {CHECKS_BENCH: self.hardware[0]}
        for device, hardware in hardware_by_bench.items():
            if device not in self._benches:
                self._benches[device] = Bench(hardware, self._make_executor)
                self._line.add(device)
                if device != CHECKS_BENCH:
                    self.times.add(device)

    async def start(self, device: bytes, form: WorkloadForm) -> None:
        """Start a device's worker for a workload. Raise ExecutionError if it does not conform."""
        async with self._bench_turn(device, Activity.STARTING) as bench:
            await bench.worker(form)

    async def race(
        self,
        device: bytes,
        form: WorkloadForm,
        request: bytes,
        race_rank: Rank = FIRST,
        seconds_max: float = math.inf,
    ) -> tuple[Execution, Reading]:
        """Execute a request on the drawn device, in its turn.

        Raise BadRequestError, ExecutionError, or TooLargeError if it needs more than the device's memory or
        `seconds_max`.
        """
        async with self._bench_turn(device, Activity.UNITS, turn_rank=race_rank) as bench:
            worker = await bench.worker(form)
            await worker.admit((request,), self._undivided(device, seconds_max))
            return await bench.measured(worker.run(request))

    async def race_many(
        self,
        device: bytes,
        form: WorkloadForm,
        requests: Sequence[bytes],
        finished: Finished,
        race_rank: Rank = FIRST,
        seconds_max: float = math.inf,
    ) -> tuple[ManyExecuted, Reading]:
        """Execute a batch on the drawn device, in its turn. Raise ExecutionError, or TooLargeError as `race`."""
        async with self._bench_turn(device, Activity.UNITS, turn_rank=race_rank) as bench:
            worker = await bench.worker(form)
            await worker.admit(requests, self._undivided(device, seconds_max))
            return await bench.measured(worker.run_many(requests, finished))

    async def recompute_many(
        self, form: WorkloadForm, requests: Sequence[bytes], activity: Activity = Activity.VOTES
    ) -> list[bytes | None]:
        """Execute a batch on any device, as a checker or a voter. Return None for each invalid request.

        Raise ExecutionError on failure.
        """
        computed_outputs: dict[int, bytes | None] = {}
        async with self._bench_turn(None, activity, form) as bench:
            await (await bench.worker(form)).run_many(requests, computed_outputs.update)
        return [computed_outputs[request_place] for request_place in range(len(requests))]

    async def fingerprint(self, form: WorkloadForm, request: bytes, output: bytes, seed: bytes) -> bytes:
        """Return the fingerprint of a right output, on any device. Raise BadRequestError or ExecutionError."""
        async with self._bench_turn(None, Activity.VOTES, form) as bench:
            return await (await bench.worker(form)).fingerprint(request, output, seed)

    async def check(
        self, form: WorkloadForm, request: bytes, output: bytes, seed: bytes, activity: Activity = Activity.VOTES
    ) -> CheckedOutput:
        """Check an output on any device, and fingerprint a right one. Raise BadRequestError or ExecutionError."""
        async with self._bench_turn(None, activity, form) as bench:
            return await (await bench.worker(form)).check(request, output, seed)

    async def begin(self, form: WorkloadForm, request: bytes, device: bytes | None = None) -> BegunRun:
        """Begin a run in steps, on the given device or any. Raise BadRequestError or ExecutionError."""
        async with self._bench_turn(device, _of_task(device), form) as bench:
            return await (await bench.worker(form)).begin(request)

    async def advance(
        self,
        form: WorkloadForm,
        request: bytes,
        state: bytes,
        steps: int,
        device: bytes | None = None,
        trail: bytes | None = None,
    ) -> tuple[LaterState, Reading]:
        """Return the state after `steps` more steps, on the given device or any, and the consumption.

        See `Executor.advance` for the trail and the errors.
        """
        async with self._bench_turn(device, _of_task(device), form) as bench:
            return await bench.measured((await bench.worker(form)).advance(request, state, steps, trail))

    async def metric(self, form: WorkloadForm, request: bytes, state: bytes, device: bytes | None = None) -> int:
        """Return the metric of a state. It raises the errors of `advance`."""
        async with self._bench_turn(device, _of_task(device), form) as bench:
            return await (await bench.worker(form)).metric(request, state)

    def _undivided(self, device: bytes, seconds: float) -> float:
        """Return the time of work that fits into `seconds` beside the live workers of a device.

        The kernel and the GPU give each process an equal share at worst. A live worker computes all its lanes in one
        process.
        """
        return seconds / (1 + self.live_workers(device))

    async def end_idle(self) -> None:
        """End workers without recent work, on free devices only."""
        # A device at work has its worker in use, and waiting for it would delay the daemon's loop.
        for device in [device for device in self._benches if self._line.is_free(device)]:
            async with self._bench_turn(device, None) as bench:
                await bench.end_idle()

    async def close(self) -> None:
        """End all workers."""
        for closed_bench in self._benches.values():
            await closed_bench.close()

    @contextlib.asynccontextmanager
    async def _bench_turn(
        self,
        bench_place: bytes | None,
        activity: Activity | None,
        form: WorkloadForm | None = None,
        turn_rank: Rank = FIRST,
    ) -> AsyncIterator[Bench]:
        """Yield a device's workers in its turn. Its time counts under `activity`; None counts no time."""
        if bench_place is not None and bench_place not in self._benches:
            raise ExecutionError(f"device 0x{bench_place.hex()[:8]}.. is not on this machine", code="device_not_here")
        # Starting a worker loads a model, so a device that already runs the workload is preferred.
        warm_places = [device for device, bench in self._benches.items() if form is not None and bench.has_worker(form)]
        taken_place = await self._line.take(bench_place, preferred_places=warm_places, request_rank=turn_rank)
        try:
            with contextlib.nullcontext() if activity is None else self.times.at(taken_place, activity):
                yield self._benches[taken_place]
        finally:
            self._line.give(taken_place)


def _of_task(device: bytes | None) -> Activity:
    """Return the activity of a run: a task on the device of a bid, otherwise a check or a look before a bid."""
    return Activity.VOTES if device is None else Activity.TASKS
