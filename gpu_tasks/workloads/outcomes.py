"""What the outputs of a batch come to: an outcome for each request, with the tokens that are paid for."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_tasks.batches.outcomes import BatchOutcome, Completed, RefusedRequest
from gpu_tasks.workloads.form import WorkloadForm


def outcomes_of(
    form: WorkloadForm, requests: Sequence[bytes], outputs: Sequence[bytes | None]
) -> tuple[BatchOutcome, ...]:
    """What each request gave, and the tokens of it; None in `outputs` for a request that is none."""
    return tuple(
        RefusedRequest() if output is None else Completed(output, form.cost_in(request), form.cost(output))
        for request, output in zip(requests, outputs, strict=True)
    )
