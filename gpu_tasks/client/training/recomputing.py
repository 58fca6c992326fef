"""A task's run computed again by its customer: which segment of the result is wrong, so that a dispute can name it.

Who names a wrong segment has it judged; judges by themselves look at a fifth of a run. Always: what is compared are the
hashes of the trace that was stated; computing needs no result, and goes on apart from the loop that talks to the node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from gpu_tasks.client.training.run_blobs import RunBlobError, fetch_input
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


async def right_digests(
    blobs: BlobClient, key: Keypair, task: Task, providers: dict[bytes, Provider], backend: str, tell: OnComputed
) -> Sequence[bytes]:
    """The hashes of all states of a task's run, computed here, whoever works on it and however far that is.

    RunBlobError where the input cannot be had, or where this program or machine cannot compute the workload.
    """
    request = await fetch_input(blobs, key, task, providers)
    return await asyncio.to_thread(_computed, task, request, backend, tell)


def first_wrong(task: Task, right: Sequence[bytes], stated: Sequence[bytes]) -> int | None:
    """The first segment of the newest leg that is wrong in the stated trace; None where all of the trace is right.

    RunBlobError where it is wrong before that leg: who had the task last did not compute those segments.
    """
    differs = next((number for number, digest in enumerate(right) if stated[number] != digest), None)
    if differs is None:
        return None
    segment, own = max(0, differs - 1), own_segments(task)
    if segment not in own:
        raise RunBlobError(
            f"its state {differs} is not the run's, and who stated the result answers for segments from {own.start} "
            "on: dispute it without a segment; judges compare where it begins with the checkpoint that counts"
        )
    return segment


def _computed(task: Task, request: bytes, backend: str, tell: OnComputed) -> Sequence[bytes]:
    form = registry.form_of(task.order.workload)
    if form is None or not form.is_stepwise:
        raise RunBlobError("this program does not know what the task computes: use a newer one")
    try:
        workload = form.open(backend)
    except (LookupError, ImportError) as error:
        raise RunBlobError(f"it cannot be computed here: {error}") from error
    digests, run = [], stepwise(workload).begin(request)
    if run.segments != task.order.segments:
        raise RunBlobError(f"the input asks for {run.segments} segments, and the task for {task.order.segments}")
    for number, state in enumerate(states(run)):
        digests.append(state_hash(state))
        tell(number, task.order.segments)
    return digests
