"""A device used as the daemon uses it, with bench, worker process and limits: comparison of completions, and timing.

Speed is wall time, because a GPU's work takes no CPU time. Each figure is a median, or a sum over some seconds.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.built_in import WORKLOAD, greedy, tokens_of
from benchmarks.figures import Figures
from benchmarks.processes import children, command_of
from gpu_tasks.provider.execution.bench import Bench
from gpu_tasks.provider.execution.executor import BadRequestError, Execution
from gpu_tasks.provider.execution.gpu import MIB, Hardware, Reading, meter_for
from gpu_tasks.provider.execution.worker_start import workers_with
from gpu_tasks.workloads.form import WorkloadForm
from gpu_tasks.workloads.model_forms import form_named, open_workload

SHORT, LONG = 48, 200
ROUNDS = 5
WORKER = "execution.worker"
SEED = bytes(32)
"""The seed of the fingerprints of checked answers."""
REFERENCE_EVERY = 10
"""One request in this number is also computed by the int64 reference, which is slow."""


@dataclass(frozen=True, slots=True)
class Served:
    """A backend's figures, and the limits that the kernel enforces on its worker."""

    figures: Figures
    limits: Mapping[str, str]


def form() -> WorkloadForm:
    """Return the workload that every step here computes."""
    return form_named(WORKLOAD)


def bench_of(hardware: Hardware, backend: str) -> Bench:
    """Return a bench like the daemon's for a device of the chain."""
    return Bench(hardware, workers_with(backend))


async def completed(bench: Bench, request: bytes) -> tuple[Execution, Reading]:
    """Return the worker's answer to a request, and the device's consumption."""
    return await bench.measured((await bench.worker(form())).run(request))


def worker_pids() -> list[int]:
    """Return the living worker processes that this process has started."""
    return [pid for pid in children() if WORKER in command_of(pid)]


def idle(hardware: Hardware, seconds: float) -> tuple[Reading, float]:
    """Return the reading of the daemon's meter without any request, and the seconds that it covers."""
    meter, began = meter_for(hardware), time.monotonic()
    meter.begin()
    time.sleep(seconds)
    return meter.end(), time.monotonic() - began


async def wrong_completions(bench: Bench, requests: Sequence[bytes]) -> tuple[list[str], int]:
    """Return one sentence for each difference of the worker from NumPy, and the number of compared tokens."""
    numpy, reference, wrong, tokens = open_workload(WORKLOAD), open_workload(WORKLOAD, "reference"), [], 0
    for number, request in enumerate(requests):
        expected = numpy.run(request)
        execution, _ = await completed(bench, request)
        tokens += tokens_of(expected)
        if number % REFERENCE_EVERY == 0 and reference.run(request) != expected:
            wrong.append(f"request {number}: NumPy here differs from the int64 reference")
        if execution.output != expected:
            wrong.append(f"request {number}: another completion than NumPy's")
        if not (await (await bench.worker(form())).check(request, expected, SEED)).is_right:
            wrong.append(f"request {number}: refuses NumPy's completion")
        if (await (await bench.worker(form())).check(request, _spoiled(expected), SEED)).is_right:
            wrong.append(f"request {number}: accepts a wrong completion")
    try:
        await completed(bench, b"no request")
        wrong.append("bytes that are no request: an answer")
    except BadRequestError:
        pass
    return wrong, tokens


async def speed(hardware: Hardware, backend: str, seconds: float, idle_watts: float) -> Served:
    """Return the start time, the rates of decoding and checking, and the consumption under load, in a fresh worker."""
    bench = bench_of(hardware, backend)
    try:
        began = time.monotonic()
        await bench.worker(form())
        start = time.monotonic() - began
        limits = limits_of(worker_pids()[0])
        output = (await completed(bench, greedy(LONG)))[0].output
        short = statistics.median([await _seconds(bench, greedy(SHORT)) for _ in range(ROUNDS)])
        long = statistics.median([await _seconds(bench, greedy(LONG)) for _ in range(ROUNDS)])
        checks = []
        for _ in range(ROUNDS):
            began = time.monotonic()
            await (await bench.worker(form())).check(greedy(LONG), output, SEED)
            checks.append(time.monotonic() - began)
        check = statistics.median(checks)
        load = await under_load(bench, seconds, idle_watts)
    finally:
        await bench.close()
    timed = {
        "start_s": round(start, 2),
        # The difference of two lengths removes the costs of the prompt and of the call.
        "decode_tokens_per_second": round((tokens_of(output) - SHORT) / max(long - short, 1e-6)),
        "generate_200_ms": round(1000 * long, 1),
        "check_200_ms": round(1000 * check, 1),
        "generate_to_check": round(long / check, 1),
    }
    return Served({**timed, **load}, limits)


async def under_load(bench: Bench, seconds: float, idle_watts: float) -> Figures:
    """Send one request after the other for some seconds. Return the sums of the daemon's meter readings."""
    began, tokens, energy, cpu, peak, resident = time.monotonic(), 0, 0, 0, 0, 0
    while time.monotonic() - began < seconds:
        execution, reading = await completed(bench, greedy(LONG))
        tokens, energy, cpu = tokens + tokens_of(execution.output), energy + reading.energy_mj, cpu + execution.cpu_ms
        peak, resident = max(peak, reading.memory_peak_bytes), max(resident, execution.memory_peak_bytes)
    took = time.monotonic() - began
    watts = energy / 1000 / took
    return {
        "tokens_per_second": round(tokens / took),
        "cpu_ms_per_token": round(cpu / tokens, 3),
        "resident_mib": resident // MIB,
        "device_memory_mib": peak // MIB,
        "watts": round(watts, 1),
        "energy_mj_per_token": round(energy / tokens, 2),
        "energy_mj_per_token_above_idle": round(max(0.0, watts - idle_watts) * took * 1000 / tokens, 2),
    }


def limits_of(pid: int) -> dict[str, str]:
    """Return the kernel's limits on a process and its usage of them, under Linux's names."""
    limits = Path(f"/proc/{pid}/limits").read_text(encoding="ascii").splitlines()
    soft = {line[:26].strip(): line[26:].split()[0] for line in limits[1:]}
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines()
    used = {line.partition(":")[0]: line.partition(":")[2].strip() for line in status}
    files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    wanted = ("Max address space", "Max processes", "Max file size", "Max open files", "Max core file size")
    return {name: soft[name] for name in wanted} | {
        "VmPeak": used["VmPeak"],
        "VmHWM": used["VmHWM"],
        "Threads": used["Threads"],
        "files open": str(files),
    }


async def _seconds(bench: Bench, request: bytes) -> float:
    execution, _ = await completed(bench, request)
    return execution.wall_ms / 1000


def _spoiled(output: bytes) -> bytes:
    return output[:-1] + bytes([output[-1] ^ 1])


def median_milliseconds(work: Callable[[], object], rounds: int) -> float:
    """Return the median wall time of some runs, in milliseconds."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return round(1000 * statistics.median(times), 3)
