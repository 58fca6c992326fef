"""Streamed answers of a live worker process beside the bare engine: the same lanes in this process.

    Run: MODEL=decoder-int8:smollm2-135m-instruct OPENBLAS_NUM_THREADS=1 python -m benchmarks live_decoding

MODEL is the name of a workload with a model of the store, by default the built-in model. PROMPT and ANSWER are numbers
of tokens, 64 and 128 by default. ROUNDS is 3 by default. BACKEND=torch-cpu chooses another backend.

Each round measures one text and four at once: the engine (`bare`), the host (`host`) and a batch without a stream
(`batch`). Times are of the clock, which other programs on the machine disturb. Ratios are of one round. CPU time is
that of this process and the worker together, and shows the cost of the host on a busy machine.
"""

import asyncio
import os
import statistics
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.built_in import WORKLOAD
from benchmarks.figures import Figures, median_figures
from benchmarks.processes import children, cpu_seconds_of
from gpu_tasks.models.model_store import FOLDER_VARIABLE, default_folder
from gpu_tasks.provider.execution.limits import limits_for
from gpu_tasks.provider.execution.live import LiveHost
from gpu_tasks.provider.execution.worker_start import worker_command
from gpu_tasks.workloads.decoder_int8.request import REQUEST, TOP_P_ONE, GenerationRequest
from gpu_tasks.workloads.model_forms import form_named
from gpu_tasks.workloads.streamed import StreamedWorkload, streamed

PLACES = (1, 4)
SIZES = (("PROMPT", 64), ("ANSWER", 128), ("ROUNDS", 3))
GREATEST_ID = 250
"""Token ids of the prompts, which every model has."""


class Streamed(NamedTuple):
    """The times of answers side by side."""

    first_seconds: Sequence[float]
    """From the request to the first token of each answer."""
    tokens_per_second: float
    """Of all answers together, from the request to the last token."""
    cpu_ms_per_token: float


def measure() -> Figures:
    """Return the medians of the rounds."""
    name, backend = os.environ.get("MODEL", WORKLOAD), os.environ.get("BACKEND", "numpy")
    prompt, answer, rounds = (int(os.environ.get(each, default)) for each, default in SIZES)
    form = form_named(name)
    limits = limits_for(backend, form.memory_bytes(), form.room_bytes())
    command = worker_command(name, backend, limits, max(PLACES))
    host = LiveHost(command, limits, max(PLACES), {FOLDER_VARIABLE: str(default_folder())})
    workload = streamed(form.open(backend))
    return median_figures(asyncio.run(_rounds(workload, host, requests(prompt, answer, max(PLACES)), rounds)))


def requests(prompt: int, answer: int, count: int) -> list[bytes]:
    """Return greedy requests that no token ends early."""
    draw = np.random.default_rng(5)
    return [
        REQUEST.encode(
            GenerationRequest(
                tuple(int(token) for token in draw.integers(0, GREATEST_ID, prompt)), answer, 0, TOP_P_ONE, bytes(32),
                (), has_logprobs=False,
            )
        )
        for _ in range(count)
    ]  # fmt: skip


async def _rounds(workload: StreamedWorkload, host: LiveHost, asked: Sequence[bytes], rounds: int) -> list[Figures]:
    await host.start()
    try:
        return [await _round(workload, host, asked) for _ in range(rounds)]
    finally:
        await host.close()


async def _round(workload: StreamedWorkload, host: LiveHost, asked: Sequence[bytes]) -> Figures:
    figures: Figures = {}
    for places in PLACES:
        bare = bare_engine(workload, asked[:places])
        hosted = await through_host(host, asked[:places])
        batch = batch_rate(workload, asked[:places])
        for name, found in (("bare", bare), ("host", hosted)):
            figures[f"{name}_{places}_first_token_median_ms"] = statistics.median(found.first_seconds) * 1000
            figures[f"{name}_{places}_first_token_last_ms"] = max(found.first_seconds) * 1000
            figures[f"{name}_{places}_tokens_per_second"] = found.tokens_per_second
            figures[f"{name}_{places}_cpu_ms_per_token"] = found.cpu_ms_per_token
        figures[f"batch_{places}_tokens_per_second"] = batch
        figures[f"host_{places}_of_bare"] = hosted.tokens_per_second / bare.tokens_per_second
        figures[f"host_{places}_of_bare_by_cpu"] = bare.cpu_ms_per_token / hosted.cpu_ms_per_token
        figures[f"host_{places}_of_batch"] = hosted.tokens_per_second / batch
    return figures


class _Stopwatch:
    """The time since its making, by the clock and of the processors."""

    def __init__(self) -> None:
        self._began, self._cpu = time.perf_counter(), _cpu_seconds()

    def seconds(self) -> float:
        return time.perf_counter() - self._began

    def streamed(self, first_seconds: Sequence[float], tokens: int) -> Streamed:
        cpu_seconds = _cpu_seconds() - self._cpu
        return Streamed(first_seconds, tokens / self.seconds(), cpu_seconds * 1000 / tokens)


def _cpu_seconds() -> float:
    return time.process_time() + sum(map(cpu_seconds_of, children()))


def bare_engine(workload: StreamedWorkload, asked: Sequence[bytes]) -> Streamed:
    """Answer requests in the lanes of this process."""
    lanes = workload.live(len(asked))
    stopwatch, first, count = _Stopwatch(), dict[int, float](), 0
    going = {lanes.begin(request) for request in asked}
    while going:
        for lane, tokens, finish in lanes.step():
            count += len(tokens)
            if tokens:
                first.setdefault(lane, stopwatch.seconds())
            if finish is not None:
                going.discard(lane)
    return stopwatch.streamed(list(first.values()), count)


async def through_host(host: LiveHost, asked: Sequence[bytes]) -> Streamed:
    """Answer requests in the live worker."""
    stopwatch = _Stopwatch()

    async def answered(request: bytes) -> tuple[float, int]:
        first, count = 0.0, 0
        async for tokens, _ in host.generate(request):
            first = first or stopwatch.seconds()
            count += len(tokens)
        return first, count

    answers = await asyncio.gather(*(answered(request) for request in asked))
    return stopwatch.streamed([first for first, _ in answers], sum(count for _, count in answers))


def batch_rate(workload: StreamedWorkload, asked: Sequence[bytes]) -> float:
    """Return the tokens per second of a batch, whose answers come at their end."""
    began = time.perf_counter()
    outputs = dict(workload.run_many(asked))
    assert None not in outputs.values()
    tokens = sum(REQUEST.decode(request).max_tokens for request in asked)
    return tokens / (time.perf_counter() - began)
