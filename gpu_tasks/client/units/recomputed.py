"""Answers recomputed on this machine, before their customer disputes one.

Invariant: an answer counts as wrong only if the same request gives another one here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpu_tasks.client.units.results import PaidOutput, ResultError
from gpu_tasks.workloads.form import WorkloadForm, outcomes_of
from gpu_tasks.workloads.workload import NonConformingBackendError, Workload
from wallet.amounts import counted


def first_wrong(paid: PaidOutput, indices: Sequence[int], backend: str, tell: Callable[[int], None]) -> int | None:
    """Return the first of these requests, counted from 0 in its unit, whose answer differs here; None if none does.

    `tell` receives the number of computed requests.
    """
    form = paid.form
    if form is None:
        reason = "this program does not know the unit's workload and cannot compute it. Update ogpu"
        raise ResultError(reason, code="unknown_workload")
    require_request(indices, len(paid.requests))
    chosen = [paid.requests[index] for index in indices]
    outputs: list[bytes | None] = [None] * len(chosen)
    workload = _open_backend(form, backend)
    for computed_count, (place, output) in enumerate(workload.run_many(chosen), 1):
        outputs[place] = output
        tell(computed_count)
    computed = zip(indices, outcomes_of(form, chosen, outputs), strict=True)
    return next((index for index, outcome in computed if outcome != paid.outcomes[index]), None)


def require_request(indices: Sequence[int], count: int) -> None:
    """Raise ResultError if a unit of `count` requests lacks one of these."""
    if indices and max(indices) >= count:
        raise ResultError(
            f"the unit has {counted(count, 'request')}. Name one from 0 to {count - 1}", code="no_such_request"
        )


def _open_backend(form: WorkloadForm, backend: str) -> Workload:
    try:
        return form.open(backend)
    except (LookupError, ImportError, ValueError, NonConformingBackendError) as error:
        reason = f"this machine cannot compute the request: {error}. Name another --backend"
        raise ResultError(reason, code="unusable_backend") from None
