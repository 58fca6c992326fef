"""Runs in the blob stores: sealed by the provider that computed them, fetched by providers that continue or check them.

Invariants:

* A run is sealed to its customer, to possible judges and to all readers of the task's input. So a provider that is
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
from gpu_tasks.data.sealing import READERS_MAX, SealError, is_usable, readers_of, seal
from gpu_tasks.market.training.tasks import Milestone, Slot, Task
from gpu_tasks.provider.chain.port import NetworkPort
from gpu_tasks.provider.duties.parts import Parts


async def seal_run(
    parts: Parts[NetworkPort], task: Task, reply_key: bytes, digests: tuple[bytes, ...], state: bytes
) -> bytes:
    """Store a run up to a milestone, and return its address. Raise ChainError if the readers are unknown."""
    readers = await _readers(parts, task, reply_key)
    return parts.store.put(seal(encode_run_state(digests, state), readers), is_own=True)


async def spread(parts: Parts[NetworkPort], address: bytes) -> None:
    """Copy a blob of its own store to other stores, as far as they accept it, in case this machine fails."""
    blob, own = parts.store.get(address), parts.identity.stash
    others = {stash: known for stash, known in (await parts.chain.providers()).items() if stash != own}
    if blob is not None and others:
        with contextlib.suppress(BlobError):
            await parts.blobs.put(blob, stores_for(address, endpoints_of(others)), copies=COPIES)


async def fetch_run(
    parts: Parts[NetworkPort], task: Task, milestone: Milestone, keepers: Iterable[bytes], *, is_kept: bool = False
) -> RunState:
    """Return the run up to a milestone. Raise BlobError if it is unavailable or invalid.

    With `is_kept`, for a provider that will sign to hold it, the run must continue from the checkpoint that counts, and
    is stored as the provider's own.
    """
    blob = await _fetch(parts, milestone.blob, keepers)
    try:
        found = read_run_state(parts.identity.seal_key.open(blob), task.order, milestone.number, milestone.root)
    except (SealError, WrongRunStateError) as error:
        raise BlobError(
            f"the checkpoint of milestone {milestone.number} is not usable: {error}", code="invalid_checkpoint"
        ) from None
    if is_kept:
        # A provider signs only for a run that continues the accepted one. Otherwise it could inherit a forged
        # beginning.
        if task.checkpoint is not None and not goes_on_from(found.digests, task.order, task.checkpoint.milestone):
            counts = task.checkpoint.milestone.number
            raise BlobError(
                f"milestone {milestone.number} does not continue from the counted milestone {counts}", code="other_run"
            )
        parts.store.put(blob, is_own=True)
    return found


async def is_sound(parts: Parts[NetworkPort], task: Task, slot: Slot, reply_key: bytes) -> bool:
    """Return True if a slot's result is the stated run, continues from the checkpoint, and opens for its customer.

    Raise BlobError if it is unavailable. If this judge cannot open it, the provider left out a reader, unless the blob
    has no room for more.
    """
    assert slot.result is not None, "a result exists"
    blob = await _fetch(parts, slot.result.blob, [slot.provider])
    try:
        opened = parts.identity.seal_key.opened(blob)
    except SealError:
        return readers_of(blob) >= READERS_MAX
    try:
        run = read_run_state(opened.content, task.order, task.order.milestones, slot.result.root)
    except WrongRunStateError:
        return False
    return begins_as_stated(run.digests, task) and not opened.left_out([reply_key])


async def _fetch(parts: Parts[NetworkPort], address: bytes, keepers: Iterable[bytes]) -> bytes:
    """Return a blob from its own store, its makers or others. Raise BlobError if it is unavailable."""
    blob = parts.store.get(address)
    if blob is None:
        known = await parts.chain.providers()
        near = endpoints_of({keeper: known[keeper] for keeper in keepers if keeper in known})
        others = stores_for(address, endpoints_of(known))
        blob = await parts.blobs.get(address, list(dict.fromkeys((*near, *others))))
    return blob


async def _readers(parts: Parts[NetworkPort], task: Task, reply_key: bytes) -> list[bytes]:
    """Return the readers' keys: customer, this provider, standby, then judges, then all readers of the input."""
    known, since = await parts.chain.providers(), task.order.sealed_at
    standby = [task.standby.provider] if task.standby is not None else []
    near = [known[stash].seal_key for stash in standby if stash in known]
    judges = keys_at(await parts.chain.judging_readers(), since)
    others = [each.seal_key for each in known.values() if each.key_since <= since]
    wanted = (reply_key, parts.identity.seal_key.public, *near, *judges, *others)
    # Ordered by need, because a blob has room for a limited number of readers.
    return [key for key in dict.fromkeys(wanted) if is_usable(key)][:READERS_MAX]
