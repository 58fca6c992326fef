"""The market's workload without a network: one process per device, at the devices' speed.

`python -m devnet.proofs.market.bare WORKLOAD REQUESTS` computes one batch in its own process. It prints tokens, seconds
and CPU seconds, without the time to load the model.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass

from devnet.proofs.market.processes import in_turns
from devnet.stage.actors.purchase import DEFAULT_PROMPTS, read_prompts
from gpu_tasks.workloads.model_forms import form_named, open_workload

BACKEND, MAX_TOKENS = "numpy", 32


@dataclass(frozen=True, slots=True)
class BareBatch:
    """The batch that each device computes bare."""

    workload: str = "decoder-int8:ogpu-bytes"
    requests: int = 128


@dataclass(frozen=True, slots=True)
class BareThroughput:
    """The devices' throughput without any other load."""

    tokens_per_second: float
    cpu_per_token: float
    """CPU seconds."""

    def mean(self, other_measurement: BareThroughput) -> BareThroughput:
        """Return the mean of two measurements, one before and one after, because a machine's speed varies."""
        return BareThroughput(
            (self.tokens_per_second + other_measurement.tokens_per_second) / 2,
            (self.cpu_per_token + other_measurement.cpu_per_token) / 2,
        )


def measure_bare(batch: BareBatch, device_count: int, core_share: float) -> BareThroughput:
    """Measure the throughput: one process per device, each running for a part of the time."""
    command = [sys.executable, "-m", "devnet.proofs.market.bare", batch.workload, str(batch.requests)]
    # A device has a part of one core, so its process needs no further threads.
    one_thread = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    bare_processes = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=one_thread) for _ in range(device_count)
    ]
    with in_turns(lambda: [[process.pid] for process in bare_processes if process.returncode is None], core_share):
        printed_figures = [process.communicate()[0].split() for process in bare_processes]
    if any(process.returncode for process in bare_processes):
        raise RuntimeError("the bare workload failed: its message is above")
    token_counts = [int(process_figures[0]) for process_figures in printed_figures]
    wall_seconds, cpu_seconds = (
        max(float(process_figures[1]) for process_figures in printed_figures),
        sum(float(process_figures[2]) for process_figures in printed_figures),
    )
    return BareThroughput(sum(token_counts) / wall_seconds, cpu_seconds / sum(token_counts))


def _compute_batch(batch: BareBatch) -> None:
    """Print tokens, seconds and CPU seconds of one batch in this process."""
    workload, workload_form = open_workload(batch.workload, BACKEND), form_named(batch.workload)
    prompts = read_prompts(DEFAULT_PROMPTS, batch.requests)
    requests = [
        workload_form.encode(prompt, MAX_TOKENS, {}, number.to_bytes(32, "little"))
        for number, prompt in enumerate(prompts)
    ]
    started, cpu_began = time.monotonic(), time.process_time()
    token_count = sum(workload_form.cost(output) for _, output in workload.run_many(requests) if output is not None)
    sys.stdout.write(f"{token_count} {time.monotonic() - started} {time.process_time() - cpu_began}\n")


if __name__ == "__main__":
    _compute_batch(BareBatch(sys.argv[1], int(sys.argv[2])))
