"""`make gpu`: tests of a GPU of this machine, used as the provider's daemon uses it, against the documents.

The exit status is 1 if a test fails. It needs an NVIDIA GPU with its driver, and PyTorch with CUDA in the environment.
Without them it prints the reason and exits with 2. It changes no setting of the card.

It measures and tests:
* NVML's readings idle and at work.
* Completions of the CUDA worker, which must equal NumPy's bit for bit.
* Products at the limit of float32, which must be exact.
* The worker's limits, and the error messages when a GPU fails.
* Tokens per second and energy, beside NumPy and PyTorch on the CPU.

Writes out/gpu.json.
"""

import argparse
import asyncio
import importlib.util
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np

from benchmarks.built_in import loaded_on
from benchmarks.figures import Figures, machine
from benchmarks.gpu import serving, troubles, verdict
from benchmarks.gpu.drawn_requests import drawn_requests
from benchmarks.gpu.exactness import wrong_batches, wrong_products
from gpu_tasks.models.text import END_TOKEN
from gpu_tasks.provider.execution.gpu import MIB, Hardware, find_hardware, why_no_gpu
from gpu_tasks.provider.execution.worker_start import CUDA
from gpu_tasks.workloads.decoder_int8.transformer import KeyValueCache, LoadedDecoder, forward, logits_of
from gpu_tasks.workloads.integer_arrays import Integers
from gpu_tasks.workloads.integer_transformer.backends import arithmetic
from simulation.runs import ended

OUT = Path("out/gpu.json")
CPU_BACKENDS = ("numpy", "torch-cpu")
NO_GPU = 2
VISIBLE = f"{CUDA}:0"
"""The only GPU that CUDA sees in this process, as in a worker."""
Report = dict[str, object]


# Decoding of several texts at once on a device: tokens per second by batch size, and equality of tokens. Each text has
# a prompt of its own and is decoded greedily. The clock runs from the first step after the prompts until the last
# step's logits are on the CPU.
BATCHES = (1, 8, 32, 128, 512)
PROMPT, STEPS = 32, 32
SEED = 2027


def batched(backends: Sequence[str], batches: Sequence[int] = BATCHES) -> tuple[dict[str, Figures], list[str]]:
    """Return each backend's rates by batch, and one sentence for each batch with other tokens than the first's."""
    models = {backend: loaded_on(arithmetic(backend)) for backend in backends}
    rates: dict[str, Figures] = {backend: {} for backend in backends}
    wrong = []
    for batch in batches:
        prompts = np.random.default_rng(SEED + batch).integers(0, END_TOKEN, (batch, PROMPT))
        first: Integers | None = None
        for backend, model in models.items():
            texts, seconds = _decoded(model, prompts)
            rates[backend][f"tokens_per_second_at_{batch}"] = round(batch * STEPS / seconds)
            if first is not None and not np.array_equal(first, texts):
                wrong.append(f"batch of {batch}: {backend} decodes other tokens than {backends[0]}")
            first = texts if first is None else first
    return rates, wrong


def _decoded(model: LoadedDecoder, prompts: Integers) -> tuple[Integers, float]:
    """Return the texts and the seconds of their steps, from the second run, because the first warms up."""
    _steps(model, prompts)
    return _steps(model, prompts)


def _steps(model: LoadedDecoder, prompts: Integers) -> tuple[Integers, float]:
    cache = KeyValueCache(model, len(prompts), PROMPT + STEPS)
    read, texts, began = prompts, [], 0.0
    for start in (0, *range(PROMPT, PROMPT + STEPS)):
        stream = forward(model, read, cache, np.full(len(prompts), start))[:, -1]
        last: Integers = logits_of(model, stream).argmax(axis=-1)
        texts.append(last)
        read, began = last[:, None], began or time.perf_counter()
    return np.stack(texts, axis=1), time.perf_counter() - began


def main() -> int:
    """Find the GPU, run all tests, write the report and print a summary."""
    options = _parse()
    hardware, reason = _gpu(options.device)
    if hardware is None:
        print(f"gpu: no GPU here: {reason}")
        return NO_GPU
    report, failures, line = asyncio.run(_prove(hardware, options.requests, options.seconds))
    return ended(OUT, report | {"failures": failures}, failures, line)


async def _prove(hardware: Hardware, count: int, seconds: float) -> tuple[Report, list[str], str]:
    """Run all tests one after the other, because each would disturb another's readings."""
    _tell("telemetry at rest")
    rest, took = serving.idle(hardware, seconds)
    idle_watts, idle_mib = round(rest.energy_mj / 1000 / took, 1), rest.memory_peak_bytes // MIB
    _tell("speed")
    served = {backend: await serving.speed(hardware, backend, seconds, idle_watts) for backend in (*CPU_BACKENDS, CUDA)}
    _tell(f"{count} requests, and the edges")
    bench = serving.bench_of(hardware, CUDA)
    try:
        failures, tokens = await serving.wrong_completions(bench, drawn_requests(1, count))
    finally:
        await bench.close()
    _tell("troubles")
    said, wrong = await troubles.all_troubles(hardware)
    cuda = served[CUDA]
    memory = (idle_mib, int(cuda.figures["device_memory_mib"]))
    failures += wrong + verdict.wrong_limits(cuda.limits)
    failures += verdict.wrong_telemetry(hardware, idle_watts, cuda.figures["watts"], memory)
    _tell("arithmetic")
    found, wrong = _arithmetic()  # in this thread, because PyTorch's profiler works only in the thread that loaded it
    failures += wrong
    _tell("batches")
    rates, wrong = batched(("numpy", VISIBLE))
    failures += wrong
    speeds = {backend: worker.figures for backend, worker in served.items()}
    report: Report = {
        "machine": machine(),
        "hardware": _described(hardware, idle_watts, idle_mib),
        "speed": speeds,
        "limits": {backend: worker.limits for backend, worker in served.items()},
        "tokens_compared": tokens,
        "troubles": said,
        "arithmetic": found,
        "batches": rates,
    }
    return report, failures, verdict.line(hardware, speeds, tokens, len(failures))


def _arithmetic() -> tuple[Report, list[str]]:
    """Test the arithmetic in this process. Run it last, because it takes device memory outside of the worker."""
    from benchmarks.gpu.launches import launches  # noqa: PLC0415  # PyTorch

    use = arithmetic(VISIBLE)
    failures = [f"product: {label}" for label in wrong_products(use)]
    failures += [f"logits: {label}" for label in wrong_batches(use, arithmetic("numpy"))]
    return {**launches(VISIBLE)}, failures


def _described(hardware: Hardware, idle_watts: float, idle_mib: int) -> Report:
    """Return NVML's description of the GPU, and the daemon's waiting times for NVML."""
    with tempfile.TemporaryDirectory() as folder:
        finding = serving.median_milliseconds(lambda: find_hardware(Path(folder)), 3)
    reading = serving.median_milliseconds(lambda: serving.idle(hardware, 0), 5)
    return {
        "name": hardware.name,
        "class": hardware.kind.name,
        "memory_mib": hardware.memory_mib,
        "driver": hardware.driver,
        "torch": version("torch"),
        "idle_watts": idle_watts,
        "idle_mib": idle_mib,
        "find_ms": finding,
        "meter_ms": reading,
    }


def _gpu(number: int) -> tuple[Hardware | None, str]:
    """Return the GPU to test, or the reason why there is none."""
    with tempfile.TemporaryDirectory() as folder:  # find_hardware stores a CPU identifier there, useless here
        found = {device.index: device for device in find_hardware(Path(folder))}
    if number not in found:
        return None, why_no_gpu() or f"NVML has no number {number}"
    if importlib.util.find_spec("torch") is None:
        return None, "PyTorch is not installed, and CUDA is used through it"
    # CUDA numbers GPUs in an order of its own. It reads this variable only once, at its first use.
    os.environ["CUDA_VISIBLE_DEVICES"] = found[number].uuid
    import torch  # noqa: PLC0415  # optional

    if not torch.cuda.is_available():
        return None, f"PyTorch {torch.__version__} cannot use it (built for CUDA {torch.version.cuda})"
    return found[number], ""


def _tell(step: str) -> None:
    print(f"== {step}", flush=True)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--device", type=int, default=0, help="NVML's number of the GPU, as `ogpu-provider devices`")
    parser.add_argument("--requests", type=int, default=100, help="random requests beside those at the edges")
    parser.add_argument("--seconds", type=float, default=5.0, help="of rest, and of load on each backend")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
