"""Checkpoints, results and programs' outputs: fetched from any store, opened, checked, and kept.

A milestone counts, and is paid if its provider dies, only when its customer has signed that it holds the checkpoint. A
successor begins there.

Invariants:

* A blob counts only if it matches its statement: its address, the state's hash, and the root of all hashes up to there.
  Any store may serve it.
* Outputs count only if they are the archive whose hash the provider stated on the chain. Log lines are the provider's
  claim.
* The customer signs for a blob only after it was opened, checked, kept here, and stored beyond its provider's reach.
* A newer held checkpoint of a task replaces the older ones.
"""

from __future__ import annotations

import contextlib
import hashlib
import tarfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from durable.folders import make_folder
from gpu_tasks.client.tasks.records import unheld
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import COPIES, BlobClient, BlobError, stores_for
from gpu_tasks.data.market_reads import endpoint_of, endpoints_of
from gpu_tasks.data.program_left import ProgramLeft, decode_left
from gpu_tasks.data.run_states import RunState, WrongRunStateError, goes_on_from, read_run_state
from gpu_tasks.data.sealing import BLOB_BYTES_MAX, SealError, SealKey, address_of
from gpu_tasks.data.unit_input import commitment_of, decode_input
from gpu_tasks.market.devices.records import Provider
from gpu_tasks.market.training.orders import is_replicated
from gpu_tasks.market.training.tasks import Milestone, Task, TaskResult, TaskState
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.tasks.replica_check import agreed_results
from runtime.encoding.codec import DecodeError
from runtime.frame.call import Call
from wallet.client import ChainClient
from wallet.errors import WalletError
from wallet.keypair import Keypair
from wallet.private_file import replace

StatedRun = tuple[bytes, int, bytes]
"""The address of a blob, and its stated milestone and root."""


class RunBlobError(WalletError):
    """A checkpoint or result is missing or wrong. The text gives the reason and the next step."""


@dataclass(frozen=True, slots=True)
class FetchedRun:
    """A blob with its content."""

    blob: bytes
    run: RunState


async def fetch_checkpoint(
    blob_client: BlobClient, keypair: Keypair, task: Task, milestone: Milestone, providers: dict[bytes, Provider]
) -> FetchedRun:
    """Return the checkpoint of a milestone. Raise RunBlobError if it cannot be had."""
    subject = f"the checkpoint of milestone {milestone.number}"
    stated = milestone.blob, milestone.number, milestone.root
    fetched_run = await _fetched_run(blob_client, keypair, task, stated, providers, subject)
    _check_with_checkpoint(task, fetched_run.run, subject)
    return fetched_run


async def fetch_result(
    blob_client: BlobClient, keypair: Keypair, task: Task, providers: dict[bytes, Provider]
) -> FetchedRun:
    """Return the result of a task, from the first slot with a correct blob. Raise RunBlobError if there is none.

    For a task that ended without a result, it is the newest milestone that counts, because its customer may have paid
    for it.
    """
    newest = last_stated(task)
    if newest is None:
        raise RunBlobError(no_result(task), code="no_result")
    if isinstance(newest, Milestone):
        return await fetch_checkpoint(blob_client, keypair, task, newest, providers)

    async def checked(result: StatedRun) -> FetchedRun:
        fetched_run = await _fetched_run(blob_client, keypair, task, result, providers, "the result")
        _check_with_checkpoint(task, fetched_run.run, "the result")
        return fetched_run

    return await _first_usable(_result_statements(task), checked)


async def stated_digests(
    blob_client: BlobClient, keypair: Keypair, task: Task, providers: dict[bytes, Provider]
) -> Sequence[bytes]:
    """Return the hashes of all states of a run, as a result states them. Raise RunBlobError if there is none.

    The run may continue from any checkpoint.
    """

    async def fetched(result: StatedRun) -> FetchedRun:
        return await _fetched_run(blob_client, keypair, task, result, providers, "the result")

    if not _result_statements(task):
        raise RunBlobError(no_result(task), code="no_result")
    return (await _first_usable(_result_statements(task), fetched)).run.digests


def _result_statements(task: Task) -> list[StatedRun]:
    """Return the distinct statements of the providers: address, milestone and root."""
    stated = [slot.result for slot in task.slots if slot.result is not None]
    return list(dict.fromkeys((result.blob, task.order.milestones, result.root) for result in stated))


async def _first_usable(
    results: Sequence[StatedRun], fetch: Callable[[StatedRun], Awaitable[FetchedRun]]
) -> FetchedRun:
    refusals = []
    for result in results:
        try:
            return await fetch(result)
        except RunBlobError as error:
            refusals.append(str(error))
    raise RunBlobError("; ".join(refusals), code="no_blob")


async def fetch_input(blob_client: BlobClient, keypair: Keypair, task: Task, providers: dict[bytes, Provider]) -> bytes:
    """Return the request of a task. Raise RunBlobError if it cannot be had."""
    address = task.order.input_blob
    try:
        content = SealKey.of(keypair).open(await blob_client.get(address, _stores_of_task(task, address, providers)))
        if commitment_of(content) != task.order.input_root:
            raise RunBlobError("the stored input is not the submitted one", code="wrong_blob")
        return decode_input(content).request
    except BlobError as error:
        raise RunBlobError(f"no store serves the input: {error}. Try again later", code="no_blob") from error
    except (SealError, DecodeError) as error:
        reason = f"this key cannot open the input: {error}. Is --key the customer's?"
        raise RunBlobError(reason, code="sealed_blob") from error


def last_stated(task: Task) -> TaskResult | Milestone | None:
    """Return the result of a task, or for one that ended without it the newest milestone that counts, or None."""
    held = task.checkpoint if task.state is TaskState.ENDED else None
    return next((slot.result for slot in task.slots if slot.result), None if held is None else held.milestone)


def no_result(task: Task) -> str:
    """Return a sentence about the missing result."""
    if task.state is TaskState.ENDED:
        return (
            "the task ended without a result. `ogpu task show` tells how it ended. `ogpu task submit` submits it again"
        )
    return f"the task is {task.state.name.lower()}: there is no result yet. Follow it with `ogpu task watch`"


async def _fetched_run(
    blob_client: BlobClient,
    keypair: Keypair,
    task: Task,
    stated_run: StatedRun,
    providers: dict[bytes, Provider],
    subject: str,
) -> FetchedRun:
    address, number, root = stated_run
    blob, content = await opened_blob(blob_client, keypair, task, address, providers, subject)
    try:
        return FetchedRun(blob, read_run_state(content, task.order, number, root))
    except WrongRunStateError as error:
        raise RunBlobError(f"{subject} differs from its statement: {error}", code="wrong_blob") from error


async def opened_blob(
    blob_client: BlobClient,
    keypair: Keypair,
    task: Task,
    address: bytes,
    providers: dict[bytes, Provider],
    subject: str,
) -> tuple[bytes, bytes]:
    """Return a blob of a task, and its opened content. Raise RunBlobError if it cannot be had or opened."""
    try:
        blob = await blob_client.get(address, _stores_of_task(task, address, providers))
    except BlobError as error:
        raise RunBlobError(f"no store serves {subject}: {error}. Try again later", code="no_blob") from error
    try:
        return blob, SealKey.of(keypair).open(blob)
    except SealError as error:
        then = ". Is --key the customer's? If so, the provider sealed it to another key"
        raise RunBlobError(f"this key cannot open {subject}: {error}{then}", code="sealed_blob") from error


def _check_with_checkpoint(task: Task, run: RunState, subject: str) -> None:
    """Raise RunBlobError unless the run's hashes begin with those of the newest checkpoint that counts."""
    held = task.checkpoint
    if held is None or goes_on_from(run.digests, task.order, held.milestone):
        return
    raise RunBlobError(
        f"{subject} does not continue from the confirmed milestone {held.milestone.number}. Run `ogpu task dispute "
        "--compute`",
        code="not_continued",
    )


def _stores_of_task(task: Task, address: bytes, providers: dict[bytes, Provider]) -> Sequence[str]:
    """Return the stores to ask: the blob's makers first, then the usual stores of the address."""
    slot_endpoints = (endpoint_of(providers[slot.provider]) for slot in task.slots if slot.provider in providers)
    makers = [endpoint for endpoint in slot_endpoints if endpoint is not None]
    return list(dict.fromkeys([*makers, *stores_for(address, endpoints_of(providers))]))


NOTHING = bytes(32)
NAMES_SHOWN = 20
RECORD_BYTES_MAX = 4_096
"""The most bytes of a pax header, which a long name needs."""


def stated_outputs(task: Task, place: int | None = None) -> list[TaskResult]:
    """Return the statements at a program's end, or the one at `place`. Raise RunBlobError if there are none.

    For replicas they are the statements of the majority.
    """
    if place is not None:
        at_place = task.slots[place].result if place < len(task.slots) else None
        statements = [] if at_place is None else [at_place]
    elif is_replicated(task.order):
        statements = [result for _, result in agreed_results(task)]
        if not statements and any(slot.result is not None for slot in task.slots):
            reason = (
                "no agreed result: the replicas differ, or have not all revealed. --place N shows one replica's output"
            )
            raise RunBlobError(reason, code="no_agreement")
    else:
        statements = [slot.result for slot in task.slots if slot.result is not None][:1]
    if not statements:
        raise RunBlobError(no_result(task), code="no_result")
    return statements


async def fetch_outputs(
    blob_client: BlobClient, keypair: Keypair, task: Task, providers: dict[bytes, Provider], place: int | None = None
) -> bytes:
    """Return the archive of /out, a tar. Raise RunBlobError if it is missing, or differs from its statement.

    Agreeing replicas have each sealed the same archive, so the first served one is enough.
    """
    problems = []
    for stated in stated_outputs(task, place):
        try:
            return await _fetched_outputs(blob_client, keypair, task, providers, stated)
        except RunBlobError as error:
            problems.append(error)
    raise problems[0]


async def _fetched_outputs(
    blob_client: BlobClient, keypair: Keypair, task: Task, providers: dict[bytes, Provider], stated: TaskResult
) -> bytes:
    if NOTHING in (stated.root, stated.blob):
        raise RunBlobError(
            f"the program left no outputs that its provider could store; it ended with exit code {stated.metric}. "
            "`ogpu logs` shows its last lines",
            code="no_outputs",
        )
    left = await _opened_outputs(blob_client, keypair, task, providers, stated, "the outputs")
    # The seal proves only who sealed the archive for whom. The hash on the chain is what the customer paid for.
    if hashlib.blake2b(left.outputs, digest_size=32).digest() != stated.root:
        raise RunBlobError("the outputs differ from the hash that their provider stated", code="wrong_blob")
    return left.outputs


def places_with_lines(task: Task, place: int | None = None) -> list[int]:
    """Return the places with an ended program whose last lines were kept, or `place` alone."""
    asked = range(len(task.slots)) if place is None else [place] * (place < len(task.slots))
    results = ((each, task.slots[each].result) for each in asked)
    return [each for each, result in results if result is not None and result.blob != NOTHING]


async def fetch_lines(
    blob_client: BlobClient, keypair: Keypair, task: Task, providers: dict[bytes, Provider], place: int
) -> ProgramLeft:
    """Return the last lines of the program at a place, as its provider claims.

    Raise RunBlobError if they are missing.
    """
    result = task.slots[place].result
    assert result is not None, "the place is one of `places_with_lines`"
    return await _opened_outputs(blob_client, keypair, task, providers, result, f"the lines of place {place}")


async def _opened_outputs(
    blob_client: BlobClient,
    keypair: Keypair,
    task: Task,
    providers: dict[bytes, Provider],
    stated: TaskResult,
    subject: str,
) -> ProgramLeft:
    _, content = await opened_blob(blob_client, keypair, task, stated.blob, providers, subject)
    try:
        return decode_left(content)
    except DecodeError as error:
        raise RunBlobError(
            f"the provider sealed something else than {subject} ({error})", code="unreadable_blob"
        ) from None


def names_in(archive: bytes) -> list[str]:
    """Return the first files of an archive. Raise RunBlobError if it is invalid.

    The bytes come from a provider, so no general archive reader touches them. A compressed megabyte could expand to
    gigabytes, and a long or nested header could take hours or exhaust the stack.
    """
    try:
        return list(islice(_file_names(archive), NAMES_SHOWN))
    except tarfile.TarError as error:
        raise RunBlobError(f"the outputs are not a valid archive: {error}", code="invalid_archive") from None


def _file_names(archive: bytes) -> Iterator[str]:
    """Yield the names of plain files, by ustar headers and pax records."""
    offset, long_name = 0, ""
    while offset < len(archive):
        header = archive[offset : offset + tarfile.BLOCKSIZE]
        if not any(header):
            return
        entry = tarfile.TarInfo.frombuf(header, "utf-8", "replace")
        content_start, is_record = offset + tarfile.BLOCKSIZE, entry.type == tarfile.XHDTYPE
        if entry.size < 0 or (is_record and entry.size > RECORD_BYTES_MAX):
            raise tarfile.HeaderError("a header is too long")
        if entry.isfile():
            yield long_name or entry.name
        long_name = _path_in(archive[content_start : content_start + entry.size]) if is_record else ""
        offset = content_start + -(-entry.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE


def _path_in(records: bytes) -> str:
    """Return the name that a pax header gives to the next entry, or an empty text."""
    _, _, rest = records.partition(b" path=")
    return rest.partition(b"\n")[0].decode(errors="replace")


DEFAULT_FOLDER = Path("~/.ogpu/checkpoints")


@dataclass(frozen=True, slots=True)
class CheckpointKeeper:
    """Keeps the checkpoints of one customer's tasks in a folder, with one file for each task."""

    client: ChainClient
    blobs: BlobClient
    key: Keypair
    folder: Path

    async def take(self, task_id: bytes, task: Task, block_hash: bytes) -> Call:
        """Fetch and store the newest checkpoint that all providers stated, and return the confirming call.

        Raise RunBlobError, with the reason, if that fails.
        """
        number, milestone = unheld(task), task.slots[0].milestone if task.slots else None
        if number is None or milestone is None:
            reason = "no milestone can be confirmed: all providers must report it first, and each is confirmed once"
            raise RunBlobError(reason, code="no_milestone")
        providers = await market_reads.providers(self.client, block_hash)
        checkpoint = await fetch_checkpoint(self.blobs, self.key, task, milestone, providers)
        # The signature comes last: it lets the provider be paid, so copies must be out of its reach before.
        self._write(task_id, checkpoint.blob)
        await self._spread(task, checkpoint.blob, providers)
        return TrainingMarket.confirm_checkpoint(task=task_id, number=number, root=milestone.root)

    async def hand_on(self, task_id: bytes, task: Task, block_hash: bytes) -> None:
        """Store the newest checkpoint again for a successor. Raise RunBlobError, with the reason, if that fails."""
        held = task.checkpoint
        if held is None:
            return
        try:
            blob = self._path(task_id).read_bytes()
        except OSError:
            # Another holder has the checkpoint, or this customer on another machine.
            return
        if address_of(blob) == held.milestone.blob:
            await self._spread(task, blob, await market_reads.providers(self.client, block_hash))

    def forget(self, task_id: bytes) -> None:
        """Drop the checkpoint of an ended task."""
        with contextlib.suppress(OSError):
            self._path(task_id).unlink(missing_ok=True)

    def _path(self, task_id: bytes) -> Path:
        return self.folder.expanduser() / f"{task_id.hex()}.blob"

    def _write(self, task_id: bytes, blob: bytes) -> None:
        assert len(blob) <= BLOB_BYTES_MAX, "the client reads no longer blob"
        try:
            make_folder(self.folder.expanduser())
            replace(self._path(task_id), blob)
        except OSError as error:
            reason = f"the checkpoint cannot be kept in {self.folder}: {error}. Name another folder"
            raise RunBlobError(reason, code="unwritable_folder") from None

    async def _spread(self, task: Task, blob: bytes, providers: dict[bytes, Provider]) -> None:
        # A copy at a provider of the task would be lost with that provider.
        slot_providers = {slot.provider for slot in task.slots}
        other_providers = {stash: provider for stash, provider in providers.items() if stash not in slot_providers}
        stores = endpoints_of(other_providers) or endpoints_of(providers)
        try:
            await self.blobs.put(blob, stores_for(address_of(blob), stores), COPIES)
        except BlobError as error:
            raise RunBlobError(
                f"no other store takes the checkpoint: {error}. Try again later", code="not_stored"
            ) from error
