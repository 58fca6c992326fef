"""A task's run computed again by its customer: which segment of the result is wrong, so that a dispute can name it.

Who names a wrong segment has it judged; judges by themselves look at a fifth of a run. Always: what is compared are the
hashes of the trace that was stated; the computing is done apart from the loop that talks to the node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

from gpu_tasks.client.training.run_blobs import RunBlobError, fetch_input, stated_digests
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.market.devices.records import Provider
from gpu_tasks.market.training.showing import own_segments
from gpu_tasks.market.training.tasks import Task
from gpu_tasks.traces.trace import state_hash
from gpu_tasks.workloads import registry
from gpu_tasks.workloads.stepwise import states, stepwise
from wallet.keypair import Keypair

OnComputed = Callable[[int, int], None]
"""How many segments are computed, of how many."""


async def first_wrong(
    blobs: BlobClient, key: Keypair, task: Task, providers: dict[bytes, Provider], backend: str, tell: OnComputed
) -> int | None:
    """The first segment of the newest leg that is wrong in the stated trace; None where all of the trace is right.

    RunBlobError where input or result cannot be had, where this program or machine cannot compute the workload, or
    where the trace is wrong before that leg: who had it last did not compute those segments.
    """
    request = await fetch_input(blobs, key, task, providers)
    stated = await stated_digests(blobs, key, task, providers)
    index = await asyncio.to_thread(_first_difference, task, request, stated, backend, tell)
    if index is None:
        return None
    own = own_segments(task)
    if index not in own:
        raise RunBlobError(
            f"its state {index} is not the run's, and who stated the result answers for segments from {own.start} on: "
            "dispute it without a segment; judges compare where it begins with the checkpoint that counts"
        )
    return index


def _first_difference(
    task: Task, request: bytes, stated: Sequence[bytes], backend: str, tell: OnComputed
) -> int | None:
    """The first segment behind which the stated hash is not that of the computed state; 0 if s(0) itself is wrong."""
    for number, digest in enumerate(_digests(task, request, backend)):
        tell(number, task.order.segments)
        if stated[number] != digest:
            return max(0, number - 1)
    return None


def _digests(task: Task, request: bytes, backend: str) -> Iterator[bytes]:
    form = registry.form_of(task.order.workload)
    if form is None or not form.is_stepwise:
        raise RunBlobError("this program does not know what the task computes: use a newer one")
    try:
        workload = form.open(backend)
    except (LookupError, ImportError) as error:
        raise RunBlobError(f"it cannot be computed here: {error}") from error
    return (state_hash(state) for state in states(stepwise(workload).begin(request)))
