"""What a program left in /out: fetched from whoever has it, opened with the customer's key, and checked.

Always: it counts only if it is the archive whose hash its provider has stated on the chain.
"""

from __future__ import annotations

import hashlib

from gpu_tasks.client.training.run_blobs import RunBlobError, no_result, opened_blob
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.market.devices.records import Provider
from gpu_tasks.market.training.orders import is_replicated
from gpu_tasks.market.training.tasks import Task, TaskResult
from gpu_tasks.tasks.replica_check import agreed_results
from wallet.keypair import Keypair

NOTHING = bytes(32)


def stated_outputs(task: Task, place: int | None = None) -> list[TaskResult]:
    """What was stated at the end of a program: of replicas what most agree on, once for each; or of the one at `place`.

    RunBlobError where there is none.
    """
    if place is not None:
        at_place = task.slots[place].result if place < len(task.slots) else None
        found = [] if at_place is None else [at_place]
    elif is_replicated(task.order):
        found = [result for _, result in agreed_results(task)]
        if not found and any(slot.result is not None for slot in task.slots):
            raise RunBlobError("its replicas do not agree, or have not all opened: --place N shows what one found")
    else:
        found = [slot.result for slot in task.slots if slot.result is not None][:1]
    if not found:
        raise RunBlobError(no_result(task))
    return found


async def fetch_outputs(
    blobs: BlobClient, key: Keypair, task: Task, providers: dict[bytes, Provider], place: int | None = None
) -> bytes:
    """The archive of /out, a tar; RunBlobError where there is none, or it is another than was stated.

    Replicas that agree have each sealed the same: the first that shows it is enough.
    """
    problems = []
    for stated in stated_outputs(task, place):
        try:
            return await _fetched(blobs, key, task, providers, stated)
        except RunBlobError as error:
            problems.append(error)
    raise problems[0]


async def _fetched(
    blobs: BlobClient, key: Keypair, task: Task, providers: dict[bytes, Provider], stated: TaskResult
) -> bytes:
    if stated.blob == NOTHING:
        raise RunBlobError(
            f"the program left nothing that its provider could take out; it ended with exit code {stated.metric}"
        )
    _, content = await opened_blob(blobs, key, task, stated.blob, providers, "the outputs")
    if hashlib.blake2b(content, digest_size=32).digest() != stated.root:
        raise RunBlobError("the outputs are not those whose hash was stated: the provider shows something else")
    return content
