"""From a task file to the order that is submitted: its request sealed to all who may run or judge it, and stored.

Always: as for a unit, an input is stored before its task is submitted; judges come first among the readers, for an
input that one of them cannot read counts as bad; the customer can open it too, so that nothing has to be kept but its
key.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpu_tasks.client.image_files import ArchiveFile
from gpu_tasks.client.posting import PostError
from gpu_tasks.client.posting_kind import PostingKind, TaskPosting
from gpu_tasks.client.training.image_upload import Uploader
from gpu_tasks.data import market_reads
from gpu_tasks.data.blob_client import COPIES, BlobClient, stores_for
from gpu_tasks.data.market_reads import endpoints_of, keys_at
from gpu_tasks.data.sealing import READERS_MAX, SealKey, address_of, seal
from gpu_tasks.data.unit_input import commitment_of, encode_input
from gpu_tasks.market.api import DeviceStatus, InputReader
from gpu_tasks.market.devices.records import DeviceClass, Provider
from gpu_tasks.market.training.orders import TaskOrder
from gpu_tasks.market.training.rules import TaskRules
from gpu_tasks.tasks.container_order import PreparedContainer
from gpu_tasks.tasks.order import StoredInput
from gpu_tasks.tasks.task_kinds import AskedTask
from wallet.client import ChainClient
from wallet.keypair import Keypair

SALT_BYTES = 32
NOT_STORED = StoredInput(bytes(32), bytes(32), 0)
"""In an order that is only looked at: as long as one that is sent."""


@dataclass(frozen=True, slots=True)
class TaskDraft:
    """A task that was read and prepared, and what the chain makes of it."""

    asked: AskedTask
    rules: TaskRules
    slot_ms: int

    def order(self, stored: StoredInput = NOT_STORED) -> TaskOrder:
        """What is submitted; TaskFileError where this chain would refuse it."""
        return self.asked.order(stored, self.rules, self.slot_ms)


@dataclass(frozen=True, slots=True)
class ImageUpload:
    """The archive of a task's image, and where it is written down what of it is stored."""

    image: ArchiveFile
    folder: Path
    say: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class TaskSealer:
    """Seals and stores the input of one task. Implements `InputSealer`."""

    client: ChainClient
    blobs: BlobClient
    key: Keypair
    draft: TaskDraft
    image: ImageUpload | None = None

    @property
    def kind(self) -> PostingKind:
        """A task."""
        return TaskPosting()

    async def terms(self, requests: Sequence[bytes], tell: Callable[[], None]) -> Sequence[TaskOrder]:
        """Seal the request to all who may judge or bid, and to the customer; store it; the order.

        BlobError if it could not be stored, PostError if there is nobody to seal it to.
        """
        client, orders = self.client, []
        final = await client.finalized()
        sealed_at = await client.height(final)
        providers = await market_reads.providers(client, final)
        judges = await market_reads.judging_readers(client, final)
        bidders = bidders_of(await market_reads.devices(client, final), providers, self.draft.asked.classes)
        keys = list(dict.fromkeys(keys_at([*judges, *bidders], sealed_at)))
        if not keys:
            raise PostError("nobody is registered who could run or judge the task: see `ogpu providers`")
        own = SealKey.of(self.key).public
        readers, endpoints, draft = [own, *keys[: READERS_MAX - 1]], endpoints_of(providers), self.draft
        if self.image is not None and requests:
            draft = await self._with_image(self.image, readers, endpoints)
            requests = [draft.asked.request for _ in requests]
        for request in requests:
            content = encode_input(os.urandom(SALT_BYTES), own, request)
            blob = seal(content, readers)
            address = address_of(blob)
            await self.blobs.put(blob, stores_for(address, endpoints), COPIES)
            tell()
            orders.append(draft.order(StoredInput(commitment_of(content), address, sealed_at)))
        return orders

    async def _with_image(self, upload: ImageUpload, readers: Sequence[bytes], endpoints: Sequence[str]) -> TaskDraft:
        """The draft with where the parts of its image lie, once they do; BlobError."""
        asked, identity = self.draft.asked, (self.client.genesis_hash, self.key.account)
        assert isinstance(asked, PreparedContainer), "no other task has an image"
        uploader = Uploader(self.blobs, readers, endpoints, upload.say)
        try:
            parts = await uploader.uploaded(upload.image, upload.folder, identity)
        except OSError as error:
            raise PostError(f"what of the image is stored cannot be written down: {error}") from None
        return replace(self.draft, asked=asked.with_parts(upload.image.size, parts))


def bidders_of(
    devices: Iterable[DeviceStatus], providers: dict[bytes, Provider], classes: Iterable[DeviceClass]
) -> list[InputReader]:
    """The owners of devices that suit, by ascending account: whoever of them is busy now may be free in a minute."""
    suiting = set(classes)
    owners = {status.device.owner for status in devices if status.device.kind in suiting}
    return [
        InputReader(owner, providers[owner].seal_key, providers[owner].key_since)
        for owner in sorted(owners)
        if owner in providers
    ]
