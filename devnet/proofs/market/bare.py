"""The workload of the market with nothing beside it, as many processes as there are devices, as fast as those.

`python -m devnet.proofs.market.bare` computes one batch in its own process, and prints tokens and seconds.
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
    """What the devices compute with nothing else to do."""

    tokens_per_second: float
    cpu_per_token: float
    """In seconds."""

    def mean(self, other: Bare) -> Bare:
        """Of what was measured before and after: a machine is not as fast at all times."""
        return Bare(
            (self.tokens_per_second + other.tokens_per_second) / 2, (self.cpu_per_token + other.cpu_per_token) / 2
        )


def bare(devices: int, part: float) -> Bare:
    """Measure it: one process for each device, which runs for such a part of the time."""
    command = [sys.executable, "-m", "devnet.proofs.market.bare"]
    one_thread = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=one_thread) for _ in range(devices)]
    with in_turns(lambda: [[process.pid] for process in running if process.returncode is None], part):
        said = [process.communicate()[0].split() for process in running]
    if any(process.returncode for process in running):
        raise RuntimeError("the bare workload failed: its message stands above")
    tokens = [int(each[0]) for each in said]
    wall, cpu = max(float(each[1]) for each in said), sum(float(each[2]) for each in said)
    return Bare(sum(tokens) / wall, cpu / sum(tokens))


def _compute_bare() -> None:
    """Tokens, seconds and processor seconds of this process alone, of one batch."""
    workload, form = open_workload(WORKLOAD), form_named(WORKLOAD)
    lines = read_prompts(DEFAULT_PROMPTS, BARE_REQUESTS)
    requests = [form.encode(line, MAX_TOKENS, {}, number.to_bytes(32, "little")) for number, line in enumerate(lines)]
    began, cpu_began = time.monotonic(), time.process_time()
    tokens = sum(form.cost(output) for _, output in workload.run_many(requests) if output is not None)
    sys.stdout.write(f"{tokens} {time.monotonic() - began} {time.process_time() - cpu_began}\n")


if __name__ == "__main__":
    _compute_bare()
