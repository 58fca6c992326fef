"""Started real worker processes: of a workload, or hostile ones under tight limits."""

import contextlib
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import asdict

import hostile_worker
from gpu_tasks.provider.execution.executor import WorkerExecutor
from gpu_tasks.provider.execution.limits import Limits, limits_for
from gpu_tasks.provider.execution.sandbox import Sandbox
from gpu_tasks.provider.execution.worker_start import worker_command

TIGHT = Limits(cpu_seconds=1, wall_seconds=20, address_mib=512)


@contextlib.asynccontextmanager
async def started(executor: WorkerExecutor) -> AsyncIterator[WorkerExecutor]:
    await executor.start()
    try:
        yield executor
    finally:
        await executor.close()


def hostile(limits: Limits = TIGHT, sandbox: Sandbox | None = None) -> WorkerExecutor:
    command = [sys.executable, hostile_worker.__file__, json.dumps(asdict(limits))]
    return WorkerExecutor(command if sandbox is None else sandbox.around(command), limits)


def worker_of(workload: str, backend: str = "numpy") -> WorkerExecutor:
    limits = limits_for(backend)
    return WorkerExecutor(worker_command(workload, backend, limits), limits)
