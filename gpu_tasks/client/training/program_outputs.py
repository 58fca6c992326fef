"""What a program left in /out: fetched from whoever has it, opened with the customer's key, and checked.

Always: it counts only if it is the archive whose hash its provider has stated on the chain.
"""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Iterator
from itertools import islice

from gpu_tasks.client.training.run_blobs import RunBlobError, no_result, opened_blob
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.market.devices.records import Provider
from gpu_tasks.market.training.orders import is_replicated
from gpu_tasks.market.training.tasks import Task, TaskResult
from gpu_tasks.tasks.replica_check import agreed_results
from wallet.keypair import Keypair

NOTHING = bytes(32)
NAMES_SHOWN = 20
RECORD_BYTES_MAX = 4_096
"""Of a pax header, which a long name has."""


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


def names_in(archive: bytes) -> list[str]:
    """The first files of an archive; RunBlobError where it is none.

    What a provider has sealed is anything, so no reader of all kinds of archives looks at it: packed, a megabyte would
    be gigabytes, and a long or a nested header takes hours, or the stack.
    """
    try:
        return list(islice(_files_of(archive), NAMES_SHOWN))
    except tarfile.TarError as error:
        raise RunBlobError(f"the outputs are no archive: {error}") from None


def _files_of(archive: bytes) -> Iterator[str]:
    """The names of plain files, as the headers of ustar and the records of pax say them."""
    at, path = 0, ""
    while at < len(archive):
        header = archive[at : at + tarfile.BLOCKSIZE]
        if not any(header):
            return
        entry = tarfile.TarInfo.frombuf(header, "utf-8", "replace")
        begin, is_record = at + tarfile.BLOCKSIZE, entry.type == tarfile.XHDTYPE
        if entry.size < 0 or (is_record and entry.size > RECORD_BYTES_MAX):
            raise tarfile.HeaderError("a header is too long")
        if entry.isfile():
            yield path or entry.name
        path = _path_in(archive[begin : begin + entry.size]) if is_record else ""
        at = begin + -(-entry.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE


def _path_in(records: bytes) -> str:
    """The name that a pax header gives the entry behind it; none where it gives none."""
    _, _, rest = records.partition(b" path=")
    return rest.partition(b"\n")[0].decode(errors="replace")
