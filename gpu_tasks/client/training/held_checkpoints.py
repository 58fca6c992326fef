"""Checkpoints that the customer holds: fetched, checked, kept on its disk and with stores that are not the provider's.

A milestone counts, and is paid for if its provider dies, only when its customer has signed that it holds the
checkpoint; who takes over begins there. Always: nothing is signed for a blob that was not opened, checked, written down
and stored where the provider's end does not reach; older checkpoints of the task go when a newer one is held.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from gpu_tasks.client.training.run_blobs import RunBlobError, fetch_checkpoint
from gpu_tasks.client.training.stages import unheld
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import COPIES, BlobClient, BlobError, stores_for
from gpu_tasks.data.market_reads import endpoints_of
from gpu_tasks.data.sealing import BLOB_BYTES_MAX, address_of
from gpu_tasks.market.devices.records import Provider
from gpu_tasks.market.training.tasks import Task
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.frame.call import Call
from wallet.client import ChainClient
from wallet.keypair import Keypair
from wallet.private_file import make_folder, replace

DEFAULT_FOLDER = Path("~/.ogpu/checkpoints")


@dataclass(frozen=True, slots=True)
class CheckpointKeeper:
    """Keeps the checkpoints of one customer's tasks in a folder: one file for each task that has any."""

    client: ChainClient
    blobs: BlobClient
    key: Keypair
    folder: Path

    async def take(self, task_id: bytes, task: Task, at: bytes) -> Call:
        """Have the newest checkpoint that all have stated; the call that says so. RunBlobError says why not."""
        number, milestone = unheld(task), task.slots[0].milestone if task.slots else None
        if number is None or milestone is None:
            raise RunBlobError("no milestone waits to be held: all have to state it first, and each is held once")
        providers = await market_reads.providers(self.client, at)
        found = await fetch_checkpoint(self.blobs, self.key, task, milestone, providers)
        self._write(task_id, found.blob)
        await self._spread(task, found.blob, providers)
        return TrainingMarket.hold_checkpoint(task=task_id, number=number, root=milestone.root)

    async def hand_on(self, task_id: bytes, task: Task, at: bytes) -> None:
        """Store the newest checkpoint once more: somebody else is to go on from it. RunBlobError says why not."""
        held = task.checkpoint
        if held is None:
            return
        try:
            blob = self._path(task_id).read_bytes()
        except OSError:
            return  # somebody else holds it, or this customer on another machine
        if address_of(blob) == held.milestone.blob:
            await self._spread(task, blob, await market_reads.providers(self.client, at))

    def forget(self, task_id: bytes) -> None:
        """The task has ended."""
        with contextlib.suppress(OSError):
            self._path(task_id).unlink(missing_ok=True)

    def _path(self, task_id: bytes) -> Path:
        return self.folder.expanduser() / f"{task_id.hex()}.blob"

    def _write(self, task_id: bytes, blob: bytes) -> None:
        assert len(blob) <= BLOB_BYTES_MAX, "no longer answer is read"
        try:
            make_folder(self.folder.expanduser())
            replace(self._path(task_id), blob)
        except OSError as error:
            why = f"the checkpoint cannot be kept in {self.folder}: {error}; name another folder"
            raise RunBlobError(why) from None

    async def _spread(self, task: Task, blob: bytes, providers: dict[bytes, Provider]) -> None:
        own = {slot.provider for slot in task.slots}
        others = {stash: provider for stash, provider in providers.items() if stash not in own}
        stores = endpoints_of(others) or endpoints_of(providers)
        try:
            await self.blobs.put(blob, stores_for(address_of(blob), stores), COPIES)
        except BlobError as error:
            raise RunBlobError(f"no other store takes the checkpoint: {error}; try again later") from error
