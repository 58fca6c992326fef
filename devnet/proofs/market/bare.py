"""The market's workload without a network: one process per device, at the devices' speed.

`python -m devnet.proofs.market.bare` computes one batch in its own process, and prints tokens, seconds and CPU seconds.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass

from devnet.proofs.market.processes import in_turns
from devnet.stage.actors.purchase import DEFAULT_PROMPTS, read_prompts
from gpu_tasks.workloads.registry import form_named, open_workload

WORKLOAD, MAX_TOKENS = "textgen-int8", 32
BARE_REQUESTS = 128


@dataclass(frozen=True, slots=True)
class Bare:
    """The devices' throughput without any other load."""

    tokens_per_second: float
    cpu_per_token: float
    """CPU seconds."""

    def mean(self, other: Bare) -> Bare:
        """Return the mean of two measurements, one before and one after, because a machine's speed varies."""
        return Bare(
            (self.tokens_per_second + other.tokens_per_second) / 2, (self.cpu_per_token + other.cpu_per_token) / 2
        )


def bare(devices: int, part: float) -> Bare:
    """Measure the throughput: one process per device, each running for a part of the time."""
    command = [sys.executable, "-m", "devnet.proofs.market.bare"]
    # A device has a part of one core, so its process needs no further threads.
    one_thread = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=one_thread) for _ in range(devices)]
    with in_turns(lambda: [[process.pid] for process in running if process.returncode is None], part):
        said = [process.communicate()[0].split() for process in running]
    if any(process.returncode for process in running):
        raise RuntimeError("the bare workload failed: its message is above")
    tokens = [int(each[0]) for each in said]
    wall, cpu = max(float(each[1]) for each in said), sum(float(each[2]) for each in said)
    return Bare(sum(tokens) / wall, cpu / sum(tokens))


def _compute_batch() -> None:
    """Print tokens, seconds and CPU seconds of one batch in this process."""
    workload, form = open_workload(WORKLOAD), form_named(WORKLOAD)
    lines = read_prompts(DEFAULT_PROMPTS, BARE_REQUESTS)
    requests = [form.encode(line, MAX_TOKENS, {}, number.to_bytes(32, "little")) for number, line in enumerate(lines)]
    start_time, cpu_began = time.monotonic(), time.process_time()
    tokens = sum(form.cost(output) for _, output in workload.run_many(requests) if output is not None)
    sys.stdout.write(f"{tokens} {time.monotonic() - start_time} {time.process_time() - cpu_began}\n")


if __name__ == "__main__":
    _compute_batch()
