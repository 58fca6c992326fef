"""What a program left in /out, and what it wrote last: fetched, opened with the customer's key, and checked.

Always: outputs count only if they are the archive whose hash its provider has stated on the chain; the lines are its
word.
"""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Iterator
from itertools import islice

from gpu_tasks.client.training.run_blobs import RunBlobError, no_result, opened_blob
from gpu_tasks.data.blob_client import BlobClient
from gpu_tasks.data.program_left import ProgramLeft, decode_left
from gpu_tasks.market.devices.records import Provider
from gpu_tasks.market.training.orders import is_replicated
from gpu_tasks.market.training.tasks import Task, TaskResult
from gpu_tasks.tasks.replica_check import agreed_results
from runtime.encoding.codec import DecodeError
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
    if NOTHING in (stated.root, stated.blob):
        raise RunBlobError(
            f"the program left nothing that its provider could take out; it ended with exit code {stated.metric}; "
            "`ogpu logs` shows what it wrote last"
        )
    left = await _opened(blobs, key, task, providers, stated, "the outputs")
    if hashlib.blake2b(left.outputs, digest_size=32).digest() != stated.root:
        raise RunBlobError("the outputs are not those whose hash was stated: the provider shows something else")
    return left.outputs


def places_with_lines(task: Task, place: int | None = None) -> list[int]:
    """Where a program has ended and its last lines were kept; all places, or one alone."""
    asked = range(len(task.slots)) if place is None else [place] * (place < len(task.slots))
    results = ((each, task.slots[each].result) for each in asked)
    return [each for each, result in results if result is not None and result.blob != NOTHING]


async def fetch_lines(
    blobs: BlobClient, key: Keypair, task: Task, providers: dict[bytes, Provider], place: int
) -> ProgramLeft:
    """What the program at a place wrote last, by its provider's word; RunBlobError."""
    result = task.slots[place].result
    assert result is not None, "it is one of `places_with_lines`"
    return await _opened(blobs, key, task, providers, result, f"the lines of place {place}")


async def _opened(
    blobs: BlobClient, key: Keypair, task: Task, providers: dict[bytes, Provider], stated: TaskResult, what: str
) -> ProgramLeft:
    _, content = await opened_blob(blobs, key, task, stated.blob, providers, what)
    try:
        return decode_left(content)
    except DecodeError as error:
        raise RunBlobError(f"{what} cannot be read: the provider sealed something else ({error})") from None


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
