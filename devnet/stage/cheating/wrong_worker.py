"""A worker that computes a language model wrongly: `wrong_worker CHEAT WORKLOAD BACKEND LIMITS`."""

from __future__ import annotations

import json
import sys

from gpu_tasks.provider.execution import limits, worker
from gpu_tasks.provider.execution.limits import Limits


def main() -> None:
    """Load the published model, change it, and serve."""
    cheat, workload_name, backend_name, encoded_limits = sys.argv[1:]
    worker_limits = Limits(**json.loads(encoded_limits))
    limits.apply(worker_limits)
    input_pipe, output_pipe = worker.pipes()
    from devnet.stage.cheating import wrong_models  # noqa: PLC0415  # NumPy loads under the limits

    _, _, model = workload_name.partition(":")
    workload = wrong_models.open_wrong_decoder(cheat, model, backend_name)
    worker.serve(workload, worker_limits, input_pipe, output_pipe)


if __name__ == "__main__":
    main()
