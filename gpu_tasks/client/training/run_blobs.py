"""Checkpoints and results: fetched from whoever has them, opened with the customer's key, and checked.

Always: a blob counts only if it is the one that was stated: its address, then the state's hash, then the root of all
hashes up to there; who serves it does not matter. What does not, says in what it is wrong.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from gpu_tasks.data.blob_client import BlobClient, BlobError, stores_for
from gpu_tasks.data.market_reads import endpoint_of, endpoints_of
from gpu_tasks.data.run_states import RunState, WrongRunStateError, goes_on_from, read_run_state
from gpu_tasks.data.sealing import SealError, SealKey
from gpu_tasks.data.unit_input import commitment_of, decode_input
from gpu_tasks.market.devices.records import Provider
from gpu_tasks.market.training.orders import runs_program
from gpu_tasks.market.training.tasks import Milestone, Task, TaskResult, TaskState
from runtime.encoding.codec import DecodeError
from wallet.errors import WalletError
from wallet.keypair import Keypair

StatedRun = tuple[bytes, int, bytes]
"""Address of a blob, and milestone and root that it is stated to hold."""


class RunBlobError(WalletError):
    """A checkpoint or a result cannot be had, or is not what was stated; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class FetchedRun:
    """A blob with what is in it."""

    blob: bytes
    run: RunState


async def fetch_checkpoint(
    blobs: BlobClient, key: Keypair, task: Task, milestone: Milestone, providers: dict[bytes, Provider]
) -> FetchedRun:
    """The checkpoint of a milestone; RunBlobError."""
    what = f"the checkpoint of milestone {milestone.number}"
    stated = milestone.blob, milestone.number, milestone.root
    found = await _fetched(blobs, key, task, stated, providers, what)
    _check_with_checkpoint(task, found.run, what)
    return found


async def fetch_result(blobs: BlobClient, key: Keypair, task: Task, providers: dict[bytes, Provider]) -> FetchedRun:
    """The result of a task, of the first slot whose blob is what was stated; RunBlobError.

    Of one that ended without: the newest checkpoint that counts, which its customer may have paid for.
    """
    newest = last_stated(task)
    if newest is None:
        raise RunBlobError(no_result(task))
    if isinstance(newest, Milestone):
        return await fetch_checkpoint(blobs, key, task, newest, providers)

    async def checked(result: StatedRun) -> FetchedRun:
        found = await _fetched(blobs, key, task, result, providers, "the result")
        _check_with_checkpoint(task, found.run, "the result")
        return found

    return await _first_usable(_results(task), checked)


async def stated_digests(
    blobs: BlobClient, key: Keypair, task: Task, providers: dict[bytes, Provider]
) -> Sequence[bytes]:
    """The hashes of all states of a run, as a result states them, whatever it goes on from; RunBlobError."""

    async def fetched(result: StatedRun) -> FetchedRun:
        return await _fetched(blobs, key, task, result, providers, "the result")

    if not _results(task):
        raise RunBlobError(no_result(task))
    return (await _first_usable(_results(task), fetched)).run.digests


def _results(task: Task) -> list[StatedRun]:
    """What its providers state, each once: address, milestone and root."""
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
    raise RunBlobError("; ".join(refusals))


async def fetch_input(blobs: BlobClient, key: Keypair, task: Task, providers: dict[bytes, Provider]) -> bytes:
    """The request that a task computes; RunBlobError."""
    address = task.order.input_blob
    try:
        content = SealKey.of(key).open(await blobs.get(address, _stores(task, address, providers)))
        if commitment_of(content) != task.order.input_root:
            raise RunBlobError("the input is another than was submitted")
        return decode_input(content).request
    except BlobError as error:
        raise RunBlobError(f"the input cannot be had now: {error}; try again later") from error
    except (SealError, DecodeError) as error:
        raise RunBlobError(f"the input cannot be opened: {error}; is --key the customer's?") from error


def last_stated(task: Task) -> TaskResult | Milestone | None:
    """The result of a task; of one that ended without it the newest milestone that counts; None where neither is."""
    held = task.checkpoint if task.state is TaskState.ENDED else None
    return next((slot.result for slot in task.slots if slot.result), None if held is None else held.milestone)


def no_result(task: Task) -> str:
    """Why there is no result, in a sentence."""
    if task.state is TaskState.ENDED:
        return "the task ended without a result: `ogpu describe` says how, `ogpu submit` asks for it again"
    return f"the task is {task.state.name.lower()}: there is no result yet; follow it with `ogpu watch`"


async def _fetched(
    blobs: BlobClient,
    key: Keypair,
    task: Task,
    stated: StatedRun,
    providers: dict[bytes, Provider],
    what: str,
) -> FetchedRun:
    address, number, root = stated
    blob, content = await opened_blob(blobs, key, task, address, providers, what)
    try:
        return FetchedRun(blob, read_run_state(content, task.order, number, root))
    except WrongRunStateError as error:
        raise RunBlobError(f"{what} is not what was stated: {error}") from error


async def opened_blob(
    blobs: BlobClient, key: Keypair, task: Task, address: bytes, providers: dict[bytes, Provider], what: str
) -> tuple[bytes, bytes]:
    """A blob of a task, and what is sealed in it; RunBlobError."""
    try:
        blob = await blobs.get(address, _stores(task, address, providers))
    except BlobError as error:
        raise RunBlobError(f"{what} cannot be had now: {error}; try again later") from error
    try:
        return blob, SealKey.of(key).open(blob)
    except SealError as error:
        kept = "; is --key the customer's? If so, it was kept from it"
        judged = ": `ogpu dispute` a result, and judges refute what its customer cannot open"
        then = kept if runs_program(task.order) else kept + judged
        raise RunBlobError(f"{what} cannot be opened: {error}{then}") from error


def _check_with_checkpoint(task: Task, run: RunState, what: str) -> None:
    """Whatever comes later goes on from the newest checkpoint that counts: its hashes begin with those of that."""
    held = task.checkpoint
    if held is None or goes_on_from(run.digests, task.order, held.milestone):
        return
    raise RunBlobError(
        f"{what} does not go on from milestone {held.milestone.number}, which counts: `ogpu dispute` the result"
    )


def _stores(task: Task, address: bytes, providers: dict[bytes, Provider]) -> Sequence[str]:
    """Who made it first, then who keeps such a blob."""
    of_slots = (endpoint_of(providers[slot.provider]) for slot in task.slots if slot.provider in providers)
    makers = [endpoint for endpoint in of_slots if endpoint is not None]
    return list(dict.fromkeys([*makers, *stores_for(address, endpoints_of(providers))]))
