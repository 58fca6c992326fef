"""What a program left in /out: fetched from whoever has it, opened with the customer's key, and checked.

Always: it counts only if it is the archive whose hash its provider has stated on the chain.
"""

from __future__ import annotations

import hashlib

from gpu_tasks.client.training.run_blobs import RunBlobError, no_result, opened_blob
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.market.devices.records import Provider
from gpu_tasks.market.training.tasks import Task, TaskResult
from wallet.keypair import Keypair

NOTHING = bytes(32)


def stated_outputs(task: Task) -> TaskResult:
    """What the provider of a task that bought time has stated at its end; RunBlobError where it has not."""
    found = next((slot.result for slot in task.slots if slot.result is not None), None)
    if found is None:
        raise RunBlobError(no_result(task))
    return found


async def fetch_outputs(blobs: BlobClient, key: Keypair, task: Task, providers: dict[bytes, Provider]) -> bytes:
    """The archive of /out, a tar; RunBlobError where there is none, or it is another than was stated."""
    stated = stated_outputs(task)
    if stated.blob == NOTHING:
        raise RunBlobError(
            f"the program left nothing that its provider could take out; it ended with exit code {stated.metric}"
        )
    _, content = await opened_blob(blobs, key, task, stated.blob, providers, "the outputs")
    if hashlib.blake2b(content, digest_size=32).digest() != stated.root:
        raise RunBlobError("the outputs are not those whose hash was stated: the provider shows something else")
    return content
