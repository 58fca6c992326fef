"""Deliberate failures of machines with GPUs. Each must end in one clear error, and the next request must succeed.

The failures are a worker killed at work, a missing GPU, a hidden GPU, an unknown identifier and full memory.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from benchmarks.built_in import WORKLOAD, greedy
from benchmarks.gpu.serving import LONG, bench_of, completed, worker_pids
from gpu_tasks.provider.execution.executor import ExecutionError, WorkerExecutor
from gpu_tasks.provider.execution.gpu import MIB, Hardware, meter_for
from gpu_tasks.provider.execution.limits import limits_for
from gpu_tasks.provider.execution.worker_start import CUDA, worker_command

MISSING_GPU = 99
MEMORY_RETURNS_SECONDS = 30.0
MEMORY_SLACK_MIB = 16
SEEN = "import torch; print(*(torch.cuda.get_device_properties(i).uuid for i in range(torch.cuda.device_count())))"


async def killed(hardware: Hardware, backend: str) -> tuple[str, list[str]]:
    """Kill a worker at work. Return the daemon's error, and the findings against it."""
    bench = bench_of(hardware, backend)
    before = _memory_mib(hardware)
    try:
        right = (await completed(bench, greedy(LONG)))[0].output
        (pid,) = worker_pids()
        os.kill(pid, signal.SIGSTOP)  # a stopped worker is certainly still at work when the kill arrives
        asked = asyncio.create_task(completed(bench, greedy(LONG)))
        await asyncio.sleep(0.2)
        os.kill(pid, signal.SIGKILL)
        said, wrong = await _failure(asked)
        if (await completed(bench, greedy(LONG)))[0].output != right:
            wrong.append("after a kill: another completion")
    finally:
        await bench.close()
    left = await asyncio.to_thread(_memory_left, hardware, before)
    if left > MEMORY_SLACK_MIB:
        wrong.append(f"after a kill: {left} MiB of the device stay taken")
    return said, wrong


async def refused(backend: str, environment: dict[str, str], command: Sequence[str] = ()) -> tuple[str, list[str]]:
    """Start a worker that cannot start. Return the daemon's error, and the findings against it."""
    limits = limits_for(backend)
    worker = WorkerExecutor(command or worker_command(WORKLOAD, backend, limits), limits, environment)
    try:
        said, wrong = await _failure(asyncio.create_task(worker.start()))
    finally:
        await worker.close()
    if not wrong and "cannot use the device" not in said:
        wrong.append(f"no sentence about the device: {said}")
    return said, wrong


async def all_troubles(hardware: Hardware) -> tuple[dict[str, str], list[str]]:
    """Cause each failure of a CUDA device. Return the errors and all findings."""
    mine = {"CUDA_VISIBLE_DEVICES": hardware.uuid}
    limits = limits_for(CUDA)
    starved = worker_command(WORKLOAD, f"{CUDA}:0", limits)
    starved[starved.index("gpu_tasks.provider.execution.worker")] = "benchmarks.gpu.starved_worker"
    found = {
        "killed": await killed(hardware, CUDA),
        "no such GPU": await refused(f"{CUDA}:{MISSING_GPU}", mine),
        "hidden": await refused(f"{CUDA}:0", {"CUDA_VISIBLE_DEVICES": ""}),
        "unknown identifier": await refused(f"{CUDA}:0", {"CUDA_VISIBLE_DEVICES": "GPU-00000000-none"}),
        "out of memory": await refused(f"{CUDA}:0", mine, starved),
    }
    seen = seen_by_a_worker(hardware)
    wrong = [f"{name}: {sentence}" for name, (_, sentences) in found.items() for sentence in sentences]
    if seen != [hardware.uuid]:
        wrong.append(f"a worker of {hardware.uuid} sees {seen}")
    return {name: said for name, (said, _) in found.items()} | {"seen": ", ".join(seen)}, wrong


def seen_by_a_worker(hardware: Hardware) -> list[str]:
    """Return the identifiers of the GPUs that CUDA shows to a process with this device's environment."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": hardware.uuid}
    done = subprocess.run([sys.executable, "-c", SEEN], capture_output=True, text=True, check=True, env=environment)
    return [f"GPU-{uuid}" for uuid in done.stdout.split()]


async def _failure(work: "asyncio.Task[object]") -> tuple[str, list[str]]:
    """Return the text of the failure, and a finding if there was none."""
    try:
        await work
    except ExecutionError as error:
        return str(error), []
    return "", ["no failure where there must be one"]


def _memory_left(hardware: Hardware, before: int) -> int:
    """Return the growth of the used device memory in MiB, after giving the driver time to free it."""
    until = time.monotonic() + MEMORY_RETURNS_SECONDS
    while (left := _memory_mib(hardware) - before) > MEMORY_SLACK_MIB and time.monotonic() < until:
        time.sleep(0.5)
    return left


def _memory_mib(hardware: Hardware) -> int:
    meter = meter_for(hardware)
    meter.begin()
    return meter.end().memory_peak_bytes // MIB
