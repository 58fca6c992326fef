"""A worker that computes with half of the last matrix negated, and states the published model's id."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

from gpu_tasks.provider.execution import limits, worker
from gpu_tasks.provider.execution.limits import Limits


def main() -> None:
    """Load the published model, change its weights, and serve."""
    allowed = Limits(**json.loads(sys.argv[1]))
    limits.apply(allowed)
    source, sink = worker.pipes()
    from gpu_tasks.workloads.textgen_int8.backends import arithmetic  # noqa: PLC0415  # NumPy loads under the limits
    from gpu_tasks.workloads.textgen_int8.model import decode_model, encode_model, model_id  # noqa: PLC0415
    from gpu_tasks.workloads.textgen_int8.request import model_file  # noqa: PLC0415
    from gpu_tasks.workloads.textgen_int8.service import TextGeneration  # noqa: PLC0415

    honest = model_file()
    model = decode_model(honest)
    head = model.head.copy()
    head[::2] = -head[::2]
    workload = TextGeneration(arithmetic("numpy"), encode_model(replace(model, head=head)))
    workload.model_id = model_id(honest)
    worker.serve(workload, allowed, source, sink)


if __name__ == "__main__":
    main()
