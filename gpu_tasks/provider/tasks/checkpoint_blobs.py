"""Runs in the blob stores: sealed by the provider that computed them, fetched by providers that continue or check them.

Invariants:

* A run is sealed to its customer, to possible checkers and to all readers of the task's input. So a provider that is
  awarded the rest can continue.
* A fetched run is the one that the chain names, or an error.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from gpu_tasks.data.blob_client import COPIES, BlobError, stores_for
from gpu_tasks.data.market_reads import endpoints_of, keys_at
from gpu_tasks.data.run_states import (
    RunState,
    WrongRunStateError,
    begins_as_stated,
    encode_run_state,
    goes_on_from,
    read_run_state,
)
from gpu_tasks.data.sealing import READERS_MAX, SealError, is_usable, opened_with, seal
from gpu_tasks.market.training.tasks import Milestone, Slot, Task
from gpu_tasks.provider.chain.port import NetworkPort
from gpu_tasks.provider.duties.parts import Parts


async def seal_run(
    parts: Parts[NetworkPort], task: Task, reply_key: bytes, state_digests: tuple[bytes, ...], state: bytes
) -> bytes:
    """Store a run up to a milestone, and return its address. Raise ChainError if the readers are unknown."""
    reader_keys = await _reader_keys(parts, task, reply_key)
    # Sealed to all who may have to continue or check it: the provider may be gone by then.
    return parts.store.put(seal(encode_run_state(state_digests, state), reader_keys), is_own=True)


async def spread(parts: Parts[NetworkPort], address: bytes) -> None:
    """Copy a blob of its own store to other stores, as far as they accept it, in case this machine fails."""
    run_blob, own_stash = parts.store.get(address), parts.identity.stash
    other_providers = {
        stash: provider for stash, provider in (await parts.chain.providers()).items() if stash != own_stash
    }
    if run_blob is not None and other_providers:
        with contextlib.suppress(BlobError):
            await parts.blobs.put(run_blob, stores_for(address, endpoints_of(other_providers)), copies=COPIES)


async def fetch_run(
    parts: Parts[NetworkPort],
    task: Task,
    milestone: Milestone,
    blob_keepers: Iterable[bytes],
    *,
    is_to_keep: bool = False,
) -> RunState:
    """Return the run up to a milestone. Raise BlobError if it is unavailable or invalid.

    With `is_to_keep`, for a provider that will sign to hold it, the run must continue from the checkpoint that counts,
    and is stored as the provider's own.
    """
    run_blob = await _fetch_blob(parts, milestone.blob, blob_keepers)
    try:
        run_state = read_run_state(parts.identity.seal_key.open(run_blob), task.order, milestone.number, milestone.root)
    except (SealError, WrongRunStateError) as error:
        raise BlobError(
            f"the checkpoint of milestone {milestone.number} is not usable: {error}", code="invalid_checkpoint"
        ) from None
    if is_to_keep:
        # A provider signs only for a run that continues the accepted one. Otherwise it could inherit a forged
        # beginning.
        if task.checkpoint is not None and not goes_on_from(run_state.digests, task.order, task.checkpoint.milestone):
            counted_milestone = task.checkpoint.milestone.number
            raise BlobError(
                f"milestone {milestone.number} does not continue from the counted milestone {counted_milestone}",
                code="other_run",
            )
        parts.store.put(run_blob, is_own=True)
    return run_state


async def is_sound(parts: Parts[NetworkPort], task: Task, slot: Slot, content_key: bytes, reply_key: bytes) -> bool:
    """Return True if a slot's result is the stated run, continues from the checkpoint, and opens for its customer.

    `content_key` is the blob's, by its provider. Raise BlobError if the blob is unavailable, or SealError if the key
    does not open it. All readers with the key find the same.
    """
    assert slot.result is not None, "a result exists"
    opened_blob = opened_with(content_key, await _fetch_blob(parts, slot.result.blob, [slot.provider]))
    try:
        run_state = read_run_state(opened_blob.content, task.order, task.order.milestones, slot.result.root)
    except WrongRunStateError:
        return False
    return begins_as_stated(run_state.digests, task) and not opened_blob.left_out([reply_key])


async def _fetch_blob(parts: Parts[NetworkPort], address: bytes, blob_keepers: Iterable[bytes]) -> bytes:
    """Return a blob from its own store, its makers or others. Raise BlobError if it is unavailable."""
    fetched_blob = parts.store.get(address)
    if fetched_blob is None:
        providers_by_stash = await parts.chain.providers()
        keeper_stores = endpoints_of(
            {
                blob_keeper: providers_by_stash[blob_keeper]
                for blob_keeper in blob_keepers
                if blob_keeper in providers_by_stash
            }
        )
        # After the makers, since only they are known to have it.
        other_stores = stores_for(address, endpoints_of(providers_by_stash))
        fetched_blob = await parts.blobs.get(address, list(dict.fromkeys((*keeper_stores, *other_stores))))
    return fetched_blob


async def _reader_keys(parts: Parts[NetworkPort], task: Task, reply_key: bytes) -> list[bytes]:
    """Return the readers' keys: customer, this provider, standby, then checkers, then all readers of the input."""
    providers_by_stash, sealed_since = await parts.chain.providers(), task.order.sealed_at
    standby_stashes = [task.standby.provider] if task.standby is not None else []
    standby_keys = [providers_by_stash[stash].seal_key for stash in standby_stashes if stash in providers_by_stash]
    checker_keys = keys_at(await parts.chain.checking_readers(), sealed_since)
    other_keys = [provider.seal_key for provider in providers_by_stash.values() if provider.key_since <= sealed_since]
    wanted_keys = (reply_key, parts.identity.seal_key.public, *standby_keys, *checker_keys, *other_keys)
    # Ordered by need, because a blob has room for a limited number of readers.
    return [reader_key for reader_key in dict.fromkeys(wanted_keys) if is_usable(reader_key)][:READERS_MAX]
