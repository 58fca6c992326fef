"""A worker that computes with half of the last matrix negated, and states the published model's id."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

from gpu_tasks.provider.execution import limits, worker
from gpu_tasks.provider.execution.limits import Limits


def main() -> None:
    """Load the published model, change its weights, and serve."""
    worker_limits = Limits(**json.loads(sys.argv[1]))
    limits.apply(worker_limits)
    input_pipe, output_pipe = worker.pipes()
    from gpu_tasks.workloads.textgen_int8.backends import arithmetic  # noqa: PLC0415  # NumPy loads under the limits
    from gpu_tasks.workloads.textgen_int8.model import decode_model, encode_model, model_id  # noqa: PLC0415
    from gpu_tasks.workloads.textgen_int8.request import model_file  # noqa: PLC0415
    from gpu_tasks.workloads.textgen_int8.service import TextGeneration  # noqa: PLC0415

    model = model_file()
    text_model = decode_model(model)
    head_matrix = text_model.head.copy()
    head_matrix[::2] = -head_matrix[::2]
    workload = TextGeneration(arithmetic("numpy"), encode_model(replace(text_model, head=head_matrix)))
    # The worker states the published model, so only its outputs betray the other weights.
    workload.model_id = model_id(model)
    worker.serve(workload, worker_limits, input_pipe, output_pipe)


if __name__ == "__main__":
    main()
